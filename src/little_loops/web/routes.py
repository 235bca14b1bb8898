"""All routes of the API in one table; `web/src/api.ts` has their types."""

from __future__ import annotations

from starlette.routing import Route

from little_loops.light_typing import TYPE_CHECKING
from little_loops.web import (
    about,
    actions,
    charts,
    editing,
    loops,
    outputs,
    run_list,
    run_page,
    steps,
    stream,
)
from little_loops.web.endpoints import route

if TYPE_CHECKING:
    from little_loops.web.site import Site


def api_routes(site: Site) -> list[Route]:
    """Return the routes, joined from the tables of the modules that answer them."""
    tables = (about, loops, run_list, run_page, steps, outputs, charts, actions, editing)
    asked = [each for table in tables for each in table.questions()]
    return [*(route(site, *each) for each in asked), *stream.routes(site)]
