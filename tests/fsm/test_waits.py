"""How long a run waits, by two clocks of which one may be set."""

from __future__ import annotations

from typing import Any

import pytest

from little_loops.fsm.happenings import Moment
from little_loops.fsm.schema import HostOptions
from little_loops.fsm.state import LoopState, Result, WaitFor
from little_loops.fsm.waits import host_wait, left_ms, spacing_ms

NOW = Moment(1_000_000, 50_000)
DAY_MS = 86_400_000


def run(**fields: Any) -> LoopState:
    now = "2026-01-15T10:30:00.000Z"
    return LoopState("r", "l", "a", now, now, **fields)


@pytest.mark.parametrize(
    ("wait", "left"),
    [
        pytest.param(WaitFor("retry", until_ran_ms=53_000), 3000, id="by running time"),
        pytest.param(WaitFor("host", until_wall_ms=1_003_000), 3000, id="by the wall clock"),
        pytest.param(WaitFor("host", 53_000, 1_003_000), 3000, id="by both"),
        pytest.param(
            WaitFor("host", 53_000, 1_003_000 + DAY_MS), 3000, id="the wall clock was set back"
        ),
        pytest.param(
            WaitFor("host", 53_000, 1_003_000 - DAY_MS, least_ran_ms=51_000),
            1000,
            id="it was set forward: not before the least",
        ),
        pytest.param(WaitFor("host", 53_000, 1_000_000, least_ran_ms=49_000), 0, id="just over"),
        pytest.param(WaitFor("host"), 0, id="a wait without an end"),
    ],
)
def test_what_is_left_of_a_wait(wait, left):
    assert left_ms(wait, NOW) == left


@pytest.mark.parametrize(
    ("waits", "reset_ms", "expected_ms"),
    [
        pytest.param(0, None, 10_000, id="no reset named"),
        pytest.param(3, None, 80_000, id="no reset named, again and again"),
        pytest.param(0, 90_000, 90_000, id="until the reset"),
        pytest.param(0, 0, 1000, id="the reset is now"),
        pytest.param(0, -DAY_MS, 1000, id="it has passed"),
        pytest.param(1, 0, 2000, id="it has passed again"),
        pytest.param(5, 0, 32_000, id="and again and again"),
        pytest.param(99, 0, 600_000, id="ten minutes at most"),
    ],
)
def test_a_wait_for_a_host(waits, reset_ms, expected_ms):
    reset = None if reset_ms is None else NOW.wall_ms + reset_ms
    wait = host_wait(run(host_waits=waits), HostOptions(), Result(2, 1, retry_at_ms=reset), NOW)
    assert (wait.wait_ms, wait.too_long) == (expected_ms, False)


@pytest.mark.parametrize(
    ("waited_ms", "max_wait", "too_long"),
    [
        pytest.param(0, 1.0, False, id="just so long"),
        pytest.param(1, 1.0, True, id="with what it waited before"),
        pytest.param(0, 0, True, id="no wait at all"),
        pytest.param(6 * 3_600_000 - 999, None, True, id="six hours"),
    ],
)
def test_never_longer_than_max_wait(waited_ms, max_wait, too_long):
    now = Result(2, 1, retry_at_ms=NOW.wall_ms)
    wait = host_wait(run(host_waited_ms=waited_ms), HostOptions(max_wait=max_wait), now, NOW)
    assert wait.too_long is too_long


@pytest.mark.parametrize(
    ("fields", "took_ms", "expected_ms"),
    [
        pytest.param({}, 5, 0, id="the first handoff"),
        pytest.param({"continuations": 1}, 10_000, 0, id="a turn that took its time"),
        pytest.param({"continuations": 1}, 9_999, 1000, id="a quick one"),
        pytest.param({"continuations": 4, "handoff_waits": 3}, 5, 8000, id="the fourth in a row"),
        pytest.param({"continuations": 9, "handoff_waits": 8}, 5, 60_000, id="a minute at most"),
    ],
)
def test_between_handoffs(fields, took_ms, expected_ms):
    assert spacing_ms(run(**fields), took_ms) == expected_ms
