"""Format times for people: how long ago, how long, and when in local time."""

from __future__ import annotations

import time

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def ago(then_ms: int, now: int) -> str:
    """Return how long ago a time was: `4s ago`, `3m ago`, `2h ago`, `5d ago`."""
    return f"{rough(now - then_ms)} ago"


def rough(ms: int) -> str:
    """Return a duration in its largest unit; 0 if the clock was set back."""
    ms = max(ms, 0)
    if ms < MINUTE_MS:
        return f"{ms // 1000}s"
    if ms < HOUR_MS:
        return f"{ms // MINUTE_MS}m"
    if ms < 2 * DAY_MS:
        return f"{ms // HOUR_MS}h"
    return f"{ms // DAY_MS}d"


def compact(ms: int) -> str:
    """Return a duration without spaces, for a column: `2m34s`."""
    from little_loops.fsm.values import duration_text  # brings the schema, which few pages need

    return duration_text(ms).replace(" ", "")


def minute(then_ms: int, *, utc: bool = False) -> str:
    """Return date, hour and minute in local time, or in UTC."""
    at = time.gmtime(then_ms / 1000) if utc else time.localtime(then_ms / 1000)
    return time.strftime("%Y-%m-%d %H:%M", at)


def zone(*, utc: bool = False) -> str:
    """Return the name of the local time zone: `CET`, `+03`."""
    return "UTC" if utc else time.strftime("%Z", time.localtime())


def moment(then_ms: int) -> str:
    """Return date and time in local time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(then_ms / 1000))


def clock_time(then_ms: int) -> str:
    """Return the time of day in local time."""
    return time.strftime("%H:%M:%S", time.localtime(then_ms / 1000))
