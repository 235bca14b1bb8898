"""Turn a function that answers a question into a route: body, threads, JSON and errors.

Answers are made in a thread, because they read files, and a stream must not wait for that.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping

from anyio.to_thread import run_sync
from starlette.responses import Response
from starlette.routing import Route

from little_loops.errors import LittleLoopsError, StorageError
from little_loops.light_typing import TYPE_CHECKING, Any, TypeVar
from little_loops.system.files import to_json
from little_loops.web.errors import ApiError, LoopNotRecorded, bad_request
from little_loops.web.questions import Answer, Download, Handler, Query
from little_loops.web.security import MAX_BODY, too_large

if TYPE_CHECKING:
    from starlette.requests import Request

    from little_loops.web.site import Site


NOT_FOUND = 404
MORE_TRIES = 4
MOVING_S = 0.02
T = TypeVar("T")


def route(site: Site, path: str, handler: Handler, method: str = "GET") -> Route:
    """Return the route of a function."""

    async def endpoint(request: Request) -> Response:
        try:
            body = {} if method == "GET" else await read_body(request)
            query = Query(request.path_params, request.query_params, body)
            return as_response(await run_sync(answer, handler, site, query))
        except Exception as error:
            return error_response(error)

    return Route(path, endpoint, methods=[method])


def answer(handler: Handler, site: Site, query: Query) -> Answer:
    """Answer a request; what belongs to a run and is not there may be moving."""
    if "run" not in query.path or query.body:
        return handler(site, query)
    return looked_for(lambda: handler(site, query))


def looked_for(ask: Callable[[], T]) -> T:
    """Return what `ask` returns. What is not there is looked for a few times more: the files of a run
    that ends move to the history, perhaps just now."""
    for _ in range(MORE_TRIES):
        try:
            return ask()
        except LoopNotRecorded:
            pass
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
        time.sleep(MOVING_S)
    return ask()


async def read_body(request: Request) -> Mapping[str, Any]:
    """Return the body of a request as a JSON object; empty if there is none. Raises `ApiError`."""
    data = b""
    async for piece in request.stream():
        data += piece
        if len(data) > MAX_BODY:
            raise too_large()
    try:
        body = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        raise bad_request("the body is not valid JSON") from None
    if not isinstance(body, dict):
        raise bad_request("the body must be a JSON object")
    return body


def as_response(answer: Answer) -> Response:
    if isinstance(answer, Download):
        headers = {"Content-Disposition": f'attachment; filename="{answer.name}"'}
        return Response(answer.data, media_type=answer.content_type, headers=headers)
    return json_response(answer)


def json_response(document: Mapping[str, Any], status: int = 200) -> Response:
    return Response(to_json(document), status, media_type="application/json")


def error_response(error: Exception) -> Response:
    """Return the answer for an error: the words of the engine, and for a bug only its kind."""
    match error:
        case ApiError():
            found = error
        case StorageError():
            found = ApiError(500, "storage", error.message, error.help)
        case LittleLoopsError():
            found = ApiError(409, "refused", error.message, error.help)
        case _:
            what = f"this is a bug in ll-loop: {type(error).__name__}"
            found = ApiError(500, "bug", what, "please report it")
    return json_response(found.as_json(), found.status)
