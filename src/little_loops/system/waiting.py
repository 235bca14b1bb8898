"""Wait as a command asks: by running time or by the wall, interruptible, no longer than allowed."""

from __future__ import annotations

import time
from collections.abc import Callable

from little_loops.fsm.commands import Wait
from little_loops.fsm.waits import left_ms
from little_loops.system.clock import RunClock
from little_loops.system.stops import StopFlag

LOOK_EACH_S = 60.0
"""The wall clock may be set while we wait for it, so it is looked at again."""


def wait_until(
    command: Wait,
    clock: RunClock,
    stop: StopFlag | None = None,
    tick: Callable[[], float | None] = lambda: None,
) -> bool:
    """True when the wait was cut short by a stop; `tick` says when it wants to be called again."""
    while (left_ms := _left_ms(command, clock)) > 0:
        left_s = left_ms / 1000
        if command.wait.until_wall_ms is not None:
            left_s = min(left_s, LOOK_EACH_S)
        if (pause_s := tick()) is not None:
            left_s = min(left_s, pause_s)
        if stop is None:
            time.sleep(left_s)
        elif stop.wait(left_s):
            return True
    return False


def _left_ms(command: Wait, clock: RunClock) -> int:
    now = clock.now()
    left = left_ms(command.wait, now)
    return left if command.deadline_ms is None else min(left, command.deadline_ms - now.ran_ms)
