"""Times for people: how long ago, how long, and when by their own clock."""

from __future__ import annotations

import time

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def ago(then_ms: int, now: int) -> str:
    """`4s ago`, `3m ago`, `2h ago`, `5d ago`."""
    return f"{rough(now - then_ms)} ago"


def rough(ms: int) -> str:
    """A length of time in its largest unit.  A clock that was set back makes it 0, not less."""
    ms = max(ms, 0)
    if ms < MINUTE_MS:
        return f"{ms // 1000}s"
    if ms < HOUR_MS:
        return f"{ms // MINUTE_MS}m"
    if ms < 2 * DAY_MS:
        return f"{ms // HOUR_MS}h"
    return f"{ms // DAY_MS}d"


def compact(ms: int) -> str:
    """`2m34s`: for a column."""
    from little_loops.fsm.values import duration_text  # brings the schema, which few pages need

    return duration_text(ms).replace(" ", "")


def minute(then_ms: int, *, utc: bool = False) -> str:
    """Date, hour and minute in the user's zone, or in UTC."""
    at = time.gmtime(then_ms / 1000) if utc else time.localtime(then_ms / 1000)
    return time.strftime("%Y-%m-%d %H:%M", at)


def zone(*, utc: bool = False) -> str:
    """The name of the user's zone: `CET`, `+03`."""
    return "UTC" if utc else time.strftime("%Z", time.localtime())


def moment(then_ms: int) -> str:
    """Date and time in the user's zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(then_ms / 1000))


def clock_time(then_ms: int) -> str:
    """The time of day in the user's zone."""
    return time.strftime("%H:%M:%S", time.localtime(then_ms / 1000))
