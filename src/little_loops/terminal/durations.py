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


def moment(then_ms: int) -> str:
    """Date and time in the user's zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(then_ms / 1000))
