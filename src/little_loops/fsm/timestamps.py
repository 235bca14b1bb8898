"""Times of a run: in its files as UTC with milliseconds, `2026-01-15T10:30:00.000Z`."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

from little_loops.records import NamedTuple

LAST_MS = 253_402_300_799_999  # the end of the year 9999


class Moment(NamedTuple):
    """The current time: by the wall clock, and as the total running time of this run in
    milliseconds."""

    wall_ms: int
    ran_ms: int


@lru_cache(maxsize=8)  # cached, because the events of a step share their time
def timestamp(wall_ms: int) -> str:
    # A clock set beyond the calendar must not end a run.
    seconds, ms = divmod(min(max(wall_ms, 0), LAST_MS), 1000)
    return f"{_to_the_second(seconds)}.{ms:03}Z"


@lru_cache(maxsize=8)  # cached, because steps share their second
def _to_the_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:-6]


def wall_ms_of(stamp: str) -> int:
    return round(datetime.fromisoformat(stamp).timestamp() * 1000)
