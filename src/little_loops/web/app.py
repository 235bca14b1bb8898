"""The application: the checks before every route, the page itself, and the routes of the API."""

from __future__ import annotations

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from little_loops.light_typing import TYPE_CHECKING, Any
from little_loops.web.endpoints import error_response
from little_loops.web.errors import ApiError
from little_loops.web.routes import api_routes
from little_loops.web.security import API, HEADERS, Asked, refusal
from little_loops.web.static_files import Assets

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from little_loops.web.site import Site

CODES = {404: "unknown_route", 405: "wrong_method"}


def application(site: Site, assets: Assets, on_authenticated: Callable[[], None]) -> ASGIApp:
    """Return the application of a server. `on_authenticated` is called for each request with a valid
    token."""
    pages = [
        Route("/", lambda _: assets.page(), methods=["GET"]),
        Route("/assets/{name}", _asset(assets), methods=["GET"]),
    ]
    inner = Starlette(
        routes=[*pages, *api_routes(site)], exception_handlers={HTTPException: _http_error}
    )
    inner.router.redirect_slashes = False
    return Gatekeeper(inner, site, on_authenticated)


def _asset(assets: Assets) -> Callable[[Request], Response]:
    def serve(request: Request) -> Response:
        found = assets.file(request.path_params["name"], request.headers.get("if-none-match"))
        return found or PlainTextResponse("not found\n", 404)

    return serve


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "it is registered for this kind"
    code = CODES.get(error.status_code, "bad_request")
    return error_response(ApiError(error.status_code, code, error.detail.lower()))


class Gatekeeper:
    """Refuses what is not allowed before any route sees it, and adds headers to every answer."""

    def __init__(self, inner: ASGIApp, site: Site, on_authenticated: Callable[[], None]) -> None:
        self._inner = inner
        self._site = site
        self._on_authenticated = on_authenticated

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # nothing else is configured
        send = _with_headers(send, is_api=scope["path"].startswith(API))
        found = refusal(self._site.policy, _asked(scope))
        if found is not None:
            await error_response(found)(scope, receive, send)
            return
        if scope["path"].startswith(API):
            self._on_authenticated()
        await self._inner(scope, receive, send)


def _asked(scope: Scope) -> Asked:
    headers = Headers(scope=scope)
    names = ("host", "origin", "authorization", "content-type", "content-length")
    # Of several headers of one name, a browser and a server might choose different ones.
    given = {name: ",".join(headers.getlist(name)) for name in names if name in headers}
    return Asked(scope["method"], scope["path"], given)


def _with_headers(send: Send, *, is_api: bool) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=_mutable(message))
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault(
                "Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"
            )
            if is_api:
                headers["Cache-Control"] = "no-store"
        await send(message)

    return sending


def _mutable(message: Message) -> dict[str, Any]:
    message.setdefault("headers", [])
    return message  # type: ignore[return-value]
