"""Send one notification over HTTP: a process of its own, so that nothing can hold up a run.

It reads `{"to": …, "text": …}` from its standard input, because arguments are visible to other
users. It exits with 0 if the message was accepted; else it prints why not, without the address,
which may be a secret. A try is repeated only if the message has certainly not arrived.

Not here: which notifications are sent (`fsm.notices`), starting this process (`notifying`).
"""

from __future__ import annotations

import json
import signal
import sys
import time
from base64 import b64encode
from collections.abc import Callable
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    HTTPSConnection,
    RemoteDisconnected,
)
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from little_loops.fsm.notices import channel_of
from little_loops.light_typing import Any

TRIES = 3
WITHIN_S = 10.0
CONNECT_S = 2.5
PAUSE_S = 0.5
TRY_AGAIN = (429, 500, 503)
"""HTTP statuses that mean that a message was not accepted now but may be later."""


class NotSent(Exception):
    """A try failed; `may_repeat` says that the message has certainly not arrived."""

    def __init__(self, problem: str, *, may_repeat: bool = False) -> None:
        super().__init__(problem)
        self.may_repeat = may_repeat


def main() -> int:
    """Send the notification on the standard input. Return the exit code."""
    # Name resolution has no timeout of its own.
    signal.setitimer(signal.ITIMER_REAL, WITHIN_S)
    until = time.monotonic() + WITHIN_S
    given = json.load(sys.stdin)
    request = request_for(given["to"], given["text"])
    for left in reversed(range(TRIES)):
        try:
            post(request, until)
            return 0
        except NotSent as failure:
            if not left or not failure.may_repeat or time.monotonic() + PAUSE_S > until:
                sys.stderr.write(f"{failure}\n")
                return 1
        time.sleep(PAUSE_S)
    return 1


def request_for(to: str, text: str) -> Request:
    """Return the request that sends a text to an address."""
    if channel_of(to) == "ntfy":
        return _ntfy(to, text)
    body = json.dumps({"text": text}).encode()
    return _request(to, body, "application/json")


def _ntfy(to: str, text: str) -> Request:
    """Return the request for an ntfy topic; `?secure=false` means plain HTTP."""
    parts = urlsplit(to)
    scheme = "http" if parts.query == "secure=false" else "https"
    login, _, server = parts.netloc.rpartition("@")
    request = _request(f"{scheme}://{server}{quote(parts.path)}", text.encode(), "text/plain")
    if login:
        user, _, password = login.partition(":")
        pair = f"{unquote(user)}:{unquote(password)}".encode()
        request.add_header("Authorization", f"Basic {b64encode(pair).decode()}")
    return request


def _request(url: str, body: bytes, kind: str) -> Request:
    headers = {"Content-Type": f"{kind}; charset=utf-8", "User-Agent": "ll-loop"}
    return Request(url, body, headers, method="POST")


def post(request: Request, until: float) -> None:
    """Send a request, and wait for its answer until then. Raises `NotSent`."""
    left = max(0.1, min(CONNECT_S, until - time.monotonic()))
    try:
        opener = build_opener(_NoRedirects, _Patient(until))
        opener.open(request, timeout=left).close()
    except HTTPError as error:
        error.close()
        raise NotSent(f"HTTP {error.code}", may_repeat=error.code in TRY_AGAIN) from None
    except URLError as error:  # the connection could not be made, or broke before all was sent
        raise NotSent(_why(error.reason), may_repeat=True) from None
    except TimeoutError:
        raise NotSent(f"no answer within {WITHIN_S:.0f} s") from None
    except OSError as error:
        raise NotSent(f"no answer: {_why(error)}") from None
    except (HTTPException, ValueError):  # their texts may contain the address
        raise NotSent("the response or the address is not valid") from None


def _why(reason: object) -> str:
    """Return why a connection failed, in the words of the system."""
    if isinstance(reason, TimeoutError):
        return "the connection timed out"
    if isinstance(reason, RemoteDisconnected):
        return "the server closed the connection"
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror
    return type(reason).__name__


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirects: a POST would become a GET, and the message would be lost."""

    def redirect_request(self, *_args: Any, **_kwargs: Any) -> None:
        return None


class _Patient(HTTPHandler, HTTPSHandler):
    """Connects quickly or not at all, and then waits for the answer as long as there is time."""

    def __init__(self, until: float) -> None:
        super().__init__()
        self._until = until

    def http_open(self, request: Request) -> HTTPResponse:
        return self.do_open(self._made(HTTPConnection), request)

    def https_open(self, request: Request) -> HTTPResponse:
        return self.do_open(self._made(HTTPSConnection), request)

    def _made(self, kind: type[HTTPConnection]) -> Callable[..., HTTPConnection]:
        def make(host: str, **options: Any) -> HTTPConnection:
            made = kind(host, **options)
            connect = made.connect

            def connect_and_wait() -> None:
                connect()
                made.sock.settimeout(max(0.1, self._until - time.monotonic()))

            made.connect = connect_and_wait  # type: ignore[method-assign]
            return made

        return make


if __name__ == "__main__":
    sys.exit(main())
