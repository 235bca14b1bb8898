"""Tell when an action is silent: it prints nothing, and its processes use hardly any CPU.

Its CPU time is looked at ten times within the time it may be silent, and at no other time; an
action without an `idle_timeout` is never looked at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from little_loops.records import NamedTuple

LOOKS = 10
SHARE = 0.01
"""Of one CPU.  What waits for a hung connection uses less, what works uses more."""


class Sample(NamedTuple):
    at: float
    cpu_s: float


class Silence:
    """Whether an action has been silent for so long; `cpu_s` tells what its processes have used."""

    def __init__(self, idle_s: float, cpu_s: Callable[[], float], began: float) -> None:
        self._idle_s = idle_s
        self._cpu_s = cpu_s
        self._samples: deque[Sample] = deque()
        self.look_at = began + idle_s / LOOKS

    def broken(self) -> None:
        """Something was printed, or it could not go on for a while: it starts again."""
        self._samples.clear()

    def is_too_long(self, now: float) -> bool:
        if now < self.look_at:
            return False
        self.look_at = now + self._idle_s / LOOKS
        latest = Sample(now, self._cpu_s())
        self._samples.append(latest)
        while len(self._samples) > 1 and self._samples[1].at <= now - self._idle_s:
            self._samples.popleft()
        first = self._samples[0]
        # A process that ended may have taken its time with it; then it has done something.
        used_s = abs(latest.cpu_s - first.cpu_s)
        return now - first.at >= self._idle_s and used_s < SHARE * (now - first.at)
