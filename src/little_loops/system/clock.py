"""Tell the time: wall-clock time for people, monotonic time for the run.

Durations and limits use running time: the sum of the periods in which a process carried the run. So
neither a clock that is set back, nor a pause or a resume, can make it negative or wrong. It does
not include time in which the machine sleeps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from little_loops.fsm.timestamps import Moment

Milliseconds = Callable[[], int]


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class RunClock:
    """The time of one run: what it ran before this process, plus the time since."""

    def __init__(
        self,
        before_ms: int = 0,
        *,
        wall: Milliseconds = wall_ms,
        steady: Milliseconds = monotonic_ms,
    ) -> None:
        """Start the clock of a run that has run for `before_ms` in earlier processes."""
        self._before_ms = max(before_ms, 0)
        self._wall = wall
        self._steady = steady
        self._began_ms = steady()
        self._suspended: Milliseconds = lambda: 0
        self._queued_ms = 0

    def leave_out(self, suspended: Milliseconds) -> None:
        """Exclude the milliseconds that `suspended` counts, in which Ctrl-Z suspended the run."""
        self._suspended = suspended

    @contextmanager
    def queueing(self) -> Iterator[None]:
        """Exclude the time in which the run waits for other runs."""
        began_ms, suspended_ms = self._steady(), self._suspended()
        try:
            yield
        finally:
            self._queued_ms += self._steady() - began_ms - (self._suspended() - suspended_ms)

    def ran_ms(self) -> int:
        """Return how long the run has run, in all processes, without suspension and time in the
        queue."""
        since_ms = self._steady() - self._began_ms - self._suspended() - self._queued_ms
        return self._before_ms + max(since_ms, 0)

    def now(self) -> Moment:
        return Moment(self._wall(), self.ran_ms())
