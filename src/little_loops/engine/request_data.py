"""A request for a run as JSON data, for the process that carries it out."""

from __future__ import annotations

from little_loops.engine.lifecycle import RunRequest
from little_loops.fsm.state import Limits
from little_loops.light_typing import Any


def request_to(request: RunRequest) -> dict[str, Any]:
    return {**request._asdict(), "limits": request.limits._asdict()}


def request_from(data: dict[str, Any]) -> RunRequest:
    """Return the request that `request_to` converted to JSON data."""
    scope = data["scope"]
    return RunRequest(
        **{
            **data,
            "started_in": tuple(data["started_in"]),
            "limits": Limits(**data["limits"]),
            "scope": None if scope is None else tuple(scope),
        }
    )
