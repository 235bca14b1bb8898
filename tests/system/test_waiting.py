"""A wait ends by running time, by the wall clock or by a stop, whatever somebody does to the clock."""

from __future__ import annotations

from typing import Any, cast

import pytest

from little_loops.fsm.commands import Wait
from little_loops.fsm.state import WaitFor
from little_loops.system.clock import RunClock
from little_loops.system.stops import StopFlag
from little_loops.system.waiting import RECHECK_S, wait_until

NOW_MS = 1_768_473_000_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


class Sleeper:
    """Stands for a stop flag: sleeping moves both clocks, and now and then somebody sets the wall."""

    def __init__(self, jump_ms: int = 0, stop_after: int | None = None) -> None:
        self.wall_ms, self.steady_ms = NOW_MS, 0
        self.slept: list[float] = []
        self._jump_ms = jump_ms
        self._stop_after = stop_after

    def wait(self, seconds: float) -> bool:
        self.slept.append(seconds)
        self.steady_ms += round(seconds * 1000)
        self.wall_ms += round(seconds * 1000)
        if len(self.slept) == 1:
            self.wall_ms += self._jump_ms
        return len(self.slept) == self._stop_after


def waited(wait: WaitFor, sleeper: Sleeper, deadline_ms: int | None = None) -> tuple[bool, int]:
    """Whether a stop ended it, and how much running time it took."""
    clock = RunClock(wall=lambda: sleeper.wall_ms, steady=lambda: sleeper.steady_ms)
    stopped = wait_until(Wait(wait, deadline_ms), clock, cast(StopFlag, cast(Any, sleeper)))
    return stopped, sleeper.steady_ms


@pytest.mark.parametrize(
    ("jump_ms", "took_ms"),
    [
        pytest.param(0, HOUR_MS, id="nobody touches the clock"),
        pytest.param(-DAY_MS, HOUR_MS, id="set back by a day"),
        pytest.param(2 * HOUR_MS, round(RECHECK_S * 1000), id="set beyond its end"),
    ],
)
def test_a_usage_limit_is_waited_for_no_longer_than_announced(jump_ms, took_ms):
    limit = WaitFor("host", HOUR_MS, NOW_MS + HOUR_MS)
    assert waited(limit, Sleeper(jump_ms)) == (False, took_ms)


def test_a_wait_by_running_time_is_slept_through_at_once():
    sleeper = Sleeper()
    assert waited(WaitFor("backoff", HOUR_MS), sleeper) == (False, HOUR_MS)
    assert sleeper.slept == [HOUR_MS / 1000]


def test_a_wait_ends_with_the_time_of_its_run():
    assert waited(WaitFor("backoff", HOUR_MS), Sleeper(), deadline_ms=5000) == (False, 5000)


def test_a_stop_ends_a_wait():
    limit = WaitFor("host", HOUR_MS, NOW_MS + HOUR_MS)
    assert waited(limit, Sleeper(stop_after=2)) == (True, 2 * round(RECHECK_S * 1000))
