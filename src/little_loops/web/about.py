"""What the page needs to know about the server."""

from __future__ import annotations

import os
from collections.abc import Mapping

from little_loops import __version__
from little_loops.light_typing import TYPE_CHECKING, Any
from little_loops.web.abilities import can_create
from little_loops.web.questions import Query, Question

if TYPE_CHECKING:
    from little_loops.web.site import Site


def questions() -> list[Question]:
    return [Question("/api/server", about)]


def about(site: Site, _: Query) -> Mapping[str, Any]:
    return {
        "schema": 1,
        "version": __version__,
        "read_only": site.policy.read_only,
        "edit": site.policy.edit,
        "live": site.live,
        "projects": [
            {"key": each.key, "name": os.path.basename(each.root), "path": each.root}
            for each in site.projects
        ],
        "can": [can_create(site.policy)],
    }
