"""Wait as a command requires: by running time or wall-clock time, interruptible, until a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable

from little_loops.fsm.commands import Wait
from little_loops.fsm.waits import left_ms
from little_loops.system.clock import RunClock
from little_loops.system.stops import StopFlag

RECHECK_S = 60.0
"""The wall clock may be changed in the meantime, so it is read again."""


def wait_until(
    command: Wait,
    clock: RunClock,
    stop: StopFlag | None = None,
    tick: Callable[[], float | None] = lambda: None,
) -> bool:
    """Wait as the command says, until its deadline at most. Return True if a stop cut the wait
    short.

    `tick` is called meanwhile, and returns the seconds until its next call; None for no more.
    """
    while (left_ms := _left_ms(command, clock)) > 0:
        left_s = left_ms / 1000
        if command.wait.until_wall_ms is not None:
            left_s = min(left_s, RECHECK_S)
        if (pause_s := tick()) is not None:
            left_s = min(left_s, pause_s)
        if stop is None:
            time.sleep(left_s)
        elif stop.wait(left_s):
            return True
    return False


def _left_ms(command: Wait, clock: RunClock) -> int:
    """Return the remaining milliseconds of the wait, limited by the command's deadline."""
    now = clock.now()
    left = left_ms(command.wait, now)
    return left if command.deadline_ms is None else min(left, command.deadline_ms - now.ran_ms)
