"""Detect that an action is silent: it prints nothing, and its processes use hardly any CPU.

The CPU time is read ten times within the allowed time, and otherwise never; an action without an
`idle_timeout` is not monitored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from little_loops.records import NamedTuple

LOOKS = 10
SHARE = 0.01
"""As a share of one CPU; a process that waits for a hung connection uses less."""


class CpuSample(NamedTuple):
    at: float
    cpu_s: float


class Silence:
    """Decides whether an action has been silent for `idle_s`; `cpu_s` returns its total CPU time."""

    def __init__(self, idle_s: float, cpu_s: Callable[[], float], began: float) -> None:
        """Begin at `began`, on the monotonic clock; `look_at` is when `is_too_long` is due next."""
        self._idle_s = idle_s
        self._cpu_s = cpu_s
        self._samples: deque[CpuSample] = deque()
        self.look_at = began + idle_s / LOOKS

    def restart(self) -> None:
        """Start again, because something was printed or the action was suspended."""
        self._samples.clear()

    def is_too_long(self, now: float) -> bool:
        """Return whether the silence has lasted `idle_s`; take a CPU sample if one is due. False
        before that."""
        if now < self.look_at:
            return False
        self.look_at = now + self._idle_s / LOOKS
        latest = CpuSample(now, self._cpu_s())
        self._samples.append(latest)
        while len(self._samples) > 1 and self._samples[1].at <= now - self._idle_s:
            self._samples.popleft()
        first = self._samples[0]
        # The CPU time drops when a process ends; then it has done something, too.
        used_s = abs(latest.cpu_s - first.cpu_s)
        return now - first.at >= self._idle_s and used_s < SHARE * (now - first.at)
