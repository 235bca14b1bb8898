"""Wait as a command asks: by running time or by the wall, interruptible, no longer than allowed."""

from __future__ import annotations

import time

from little_loops.fsm.commands import Wait
from little_loops.world.clock import RunClock
from little_loops.world.stops import StopFlag

LOOK_EACH_MS = 60_000
"""The wall clock may be set while we wait for it, so it is looked at again."""


def wait_until(command: Wait, clock: RunClock, stop: StopFlag | None = None) -> bool:
    """True when the wait was cut short by a stop."""
    while (left_ms := _left_ms(command, clock)) > 0:
        if command.wait.until_wall_ms is not None:
            left_ms = min(left_ms, LOOK_EACH_MS)
        if stop is None:
            time.sleep(left_ms / 1000)
        elif stop.wait(left_ms / 1000):
            return True
    return False


def _left_ms(command: Wait, clock: RunClock) -> int:
    now, wait = clock.now(), command.wait
    if wait.until_wall_ms is not None:
        left = wait.until_wall_ms - now.wall_ms
    else:
        left = (wait.until_ran_ms or 0) - now.ran_ms
    return left if command.deadline_ms is None else min(left, command.deadline_ms - now.ran_ms)
