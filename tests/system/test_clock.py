"""Running time: the sum of segments, whatever the clocks do."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from little_loops.fsm.timestamps import Moment
from little_loops.system.clock import RunClock, monotonic_ms, wall_ms


def test_running_time_goes_on_where_the_last_process_left_it():
    ticks = iter([5_000, 5_000, 5_250])
    clock = RunClock(900, wall=lambda: 7, steady=lambda: next(ticks))
    assert [clock.now(), clock.now()] == [Moment(7, 900), Moment(7, 1_150)]


def test_suspended_time_is_no_running_time():
    ticks = iter([5_000, 5_250, 9_250])
    pauses = iter([0, 3_900])
    clock = RunClock(900, wall=lambda: 7, steady=lambda: next(ticks))
    clock.leave_out(lambda: next(pauses))
    assert [clock.ran_ms(), clock.ran_ms()] == [1_150, 1_250]


def test_waiting_for_other_runs_is_no_running_time():
    ticks = iter([5_000, 5_250, 9_250, 9_350])
    clock = RunClock(900, wall=lambda: 7, steady=lambda: next(ticks))
    with clock.queueing():
        pass
    assert clock.ran_ms() == 900 + 350


def test_a_pause_while_it_waits_counts_once():
    ticks = iter([0, 1_000, 9_000, 9_500])
    pauses = iter([0, 3_000, 3_000])
    clock = RunClock(0, wall=lambda: 7, steady=lambda: next(ticks))
    clock.leave_out(lambda: next(pauses))
    with clock.queueing():
        pass
    assert clock.ran_ms() == 1_500


@given(st.integers(), st.lists(st.integers(), min_size=2))
def test_running_time_is_never_less_than_before(before_ms, ticks):
    readings = iter(ticks)
    clock = RunClock(before_ms, steady=lambda: next(readings))
    assert all(clock.ran_ms() >= max(before_ms, 0) for _ in ticks[1:])


def test_the_clocks_are_those_of_the_system():
    first, second = monotonic_ms(), monotonic_ms()
    assert first <= second
    assert abs(wall_ms() - time.time() * 1000) < 60_000
