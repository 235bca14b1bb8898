"""Tell the time: by the wall for people, by a clock that only goes forward for the run.

Durations and limits use running time: the sum of the segments in which a process carried the run,
so a clock that is set back, a pause or a resume cannot make one negative or wrong.  A machine that
sleeps stands still here too.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from little_loops.fsm.timestamps import Moment

Milliseconds = Callable[[], int]


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class RunClock:
    """The time of one run: what it ran before this process, and since."""

    def __init__(
        self,
        before_ms: int = 0,
        *,
        wall: Milliseconds = wall_ms,
        steady: Milliseconds = monotonic_ms,
    ) -> None:
        self._before_ms = max(before_ms, 0)
        self._wall = wall
        self._steady = steady
        self._began_ms = steady()
        self._made_no_progress: Milliseconds = lambda: 0

    def leave_out(self, stood_still: Milliseconds) -> None:
        """What that counts, Ctrl-Z, is no running time."""
        self._made_no_progress = stood_still

    def ran_ms(self) -> int:
        since_ms = self._steady() - self._began_ms - self._made_no_progress()
        return self._before_ms + max(since_ms, 0)

    def now(self) -> Moment:
        return Moment(self._wall(), self.ran_ms())
