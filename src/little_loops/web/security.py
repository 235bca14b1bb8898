"""Who may ask the server, and what: checked before any route.

The token travels in a header that a browser adds to no request on its own, so another page cannot
use it. The names under which this server may be addressed exclude DNS rebinding: a page of another
host keeps that host's name, wherever it resolves to. See docs/adr/0025-the-page.md.

Not here: what a route answers (`routes`).
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping

from little_loops.records import NamedTuple
from little_loops.web.errors import ApiError

API = "/api/"
OUR_NAMES = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?", re.IGNORECASE)
READING = ("GET", "HEAD")
EDITED = re.compile(r"/api/loops(/[^/]+/(source|preview|convert))?")
"""Routes that change loop files, or preview a change."""
MAX_BODY = 4 << 20

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Policy(NamedTuple):
    """What this server allows, and the token that it asks for."""

    token: str
    read_only: bool = False
    edit: bool = False


class Asked(NamedTuple):
    """What is known of a request before its body is read. Header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]


def content_policy(nonce: str) -> str:
    """Return the Content-Security-Policy of the page."""
    return "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "connect-src 'self'",
            f"style-src 'self' 'nonce-{nonce}'",
            "img-src 'self' data:",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def refusal(policy: Policy, asked: Asked) -> ApiError | None:
    """Return why a request is refused; None if it may be answered."""
    return (
        _wrong_host(asked.headers)
        or _wrong_origin(asked.headers)
        or (_not_allowed(policy, asked) if _is_api(asked.path) else None)
    )


def _is_api(path: str) -> bool:
    return path.startswith(API) or path == API.rstrip("/")


def _wrong_host(headers: Mapping[str, str]) -> ApiError | None:
    host = headers.get("host", "")
    if OUR_NAMES.fullmatch(host):
        return None
    return ApiError(
        421,
        "wrong_host",
        "this server answers only to `localhost`, `127.0.0.1` and `[::1]`",
        "open the URL that `ll-loop web` has printed",
    )


def _wrong_origin(headers: Mapping[str, str]) -> ApiError | None:
    origin = headers.get("origin")
    if origin is None or origin.lower() == f"http://{headers.get('host', '').lower()}":
        return None
    return ApiError(403, "wrong_origin", "requests from other sites are not allowed")


def _not_allowed(policy: Policy, asked: Asked) -> ApiError | None:
    """Return why a request to the API is refused: its token, what it changes, its form."""
    if not _has_token(policy.token, asked.headers.get("authorization", "")):
        return ApiError(
            401,
            "no_token",
            "this request has no valid token",
            "open the URL that `ll-loop web` has printed",
        )
    if asked.method in READING:
        return None
    if policy.read_only:
        return ApiError(403, "read_only", "the server was started with `--read-only`")
    if not policy.edit and EDITED.fullmatch(asked.path):
        return ApiError(
            403, "not_editable", "loop files cannot be changed here", "start `ll-loop web --edit`"
        )
    return _wrong_form(asked.headers)


def _has_token(token: str, authorization: str) -> bool:
    scheme, _, given = authorization.partition(" ")
    is_same = hmac.compare_digest(given.strip().encode("utf-8", "replace"), token.encode())
    return scheme.lower() == "bearer" and is_same


def _wrong_form(headers: Mapping[str, str]) -> ApiError | None:
    """Return why the body of a request is refused before it is read."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        return ApiError(415, "not_json", "the body must be JSON: `application/json`")
    length = headers.get("content-length", "0")
    if not length.isascii() or not length.isdecimal():
        return ApiError(400, "bad_request", "the body's length is not a number")
    if len(length) > 12 or int(length) > MAX_BODY:
        return too_large()
    return None


def too_large() -> ApiError:
    return ApiError(413, "too_large", f"the body is larger than {MAX_BODY} bytes")
