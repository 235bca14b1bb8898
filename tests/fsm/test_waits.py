"""How long a run waits, row by row."""

from __future__ import annotations

import pytest

from little_loops.fsm.schema import FSMLoop, HostOptions, Retry, StateConfig
from little_loops.fsm.state import LoopState, Result, WaitFor
from little_loops.fsm.timestamps import Moment
from little_loops.fsm.waits import host_wait, left_ms, retry_wait_ms, spacing_ms, to_ms

RUN = LoopState("r", "l", "a", "", "")
NOW = Moment(wall_ms=1_000_000, ran_ms=50_000)
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@pytest.mark.parametrize(
    ("continuations", "took_ms", "waits", "expected_ms"),
    [
        pytest.param(0, 0, 0, 0, id="the first handoff"),
        pytest.param(1, 0, 0, 1000, id="at once"),
        pytest.param(2, 1000, 3, 8000, id="each time longer"),
        pytest.param(1, 9_999, 0, 1000, id="just within ten seconds"),
        pytest.param(1, 10_000, 0, 0, id="after ten seconds"),
        pytest.param(1, 1, 5, 32_000, id="the last step below the longest"),
        pytest.param(1, 1, 6, 60_000, id="the longest"),
        pytest.param(1, 1, 10**9, 60_000, id="very many"),
    ],
)
def test_handoffs_are_spaced_out(continuations, took_ms, waits, expected_ms):
    run = RUN._replace(continuations=continuations, handoff_waits=waits)
    assert spacing_ms(run, took_ms) == expected_ms


@pytest.mark.parametrize(
    ("waits", "expected_ms"),
    [(0, 10_000), (1, 20_000), (5, 320_000), (6, 600_000), (10**9, 600_000)],
)
def test_waiting_for_a_service_takes_longer_each_time(waits, expected_ms):
    wait = host_wait(RUN._replace(host_waits=waits), HostOptions(), Result(1, 1), NOW)
    assert wait.wait_ms == expected_ms


@pytest.mark.parametrize(
    ("retry_at_ms", "expected_ms"),
    [
        pytest.param(1_500_000, 500_000, id="as the host says"),
        pytest.param(900_000, 1000, id="a reset in the past"),
    ],
)
def test_a_host_may_name_the_end_of_the_wait(retry_at_ms, expected_ms):
    wait = host_wait(RUN, HostOptions(), Result(1, 1, retry_at_ms=retry_at_ms), NOW)
    assert wait.wait_ms == expected_ms


@pytest.mark.parametrize(
    ("waits", "expected_ms"), [(0, 1000), (1, 2000), (5, 32_000), (10, 600_000), (99, 600_000)]
)
def test_a_reset_that_passes_again_and_again_is_waited_for_longer_each_time(waits, expected_ms):
    now = Result(1, 1, retry_at_ms=NOW.wall_ms)
    wait = host_wait(RUN._replace(host_waits=waits), HostOptions(), now, NOW)
    assert (wait.wait_ms, wait.least_ms) == (expected_ms, expected_ms)


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
    "wait", [WaitFor("backoff", until_ran_ms=0), WaitFor("host", until_wall_ms=1)]
)
def test_nothing_is_left_of_a_wait_that_was_over_when_the_run_began(wait):
    assert left_ms(wait, Moment(wall_ms=1_000_000, ran_ms=0)) == 0


@pytest.mark.parametrize(
    ("max_wait", "waited_ms", "wait_ms", "too_long"),
    [
        pytest.param(None, 0, 6 * HOUR_MS, False, id="six hours"),
        pytest.param(None, 0, 6 * HOUR_MS + 1, True, id="more than six hours"),
        pytest.param(60, 0, 60_000, False, id="the loop's own limit"),
        pytest.param(60, 0, 60_001, True, id="more than that"),
        pytest.param(60, 30_000, 30_000, False, id="together with the waits before"),
        pytest.param(60, 30_000, 30_001, True, id="too long together"),
        pytest.param(1, 0, 0, False, id="a second at least"),
        pytest.param(0, 0, 0, True, id="none allowed"),
    ],
)
def test_no_wait_is_longer_than_allowed(max_wait, waited_ms, wait_ms, too_long):
    run = RUN._replace(host_waited_ms=waited_ms)
    result = Result(1, 1, retry_at_ms=NOW.wall_ms + wait_ms)
    assert host_wait(run, HostOptions(max_wait=max_wait), result, NOW).too_long is too_long


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (Result(1, 1, reason="usage limit", kind="rate_limited"), "usage limit"),
        (Result(1, 1, kind="overloaded"), "overloaded"),
        (Result(1, 1), "the agent's service is busy"),
    ],
    ids=["reason", "kind", "neither"],
)
def test_a_wait_has_a_reason(result, reason):
    assert host_wait(RUN, HostOptions(), result, NOW).reason == reason


@pytest.mark.parametrize(
    ("backoff", "retry", "retries", "expected_ms"),
    [
        pytest.param(None, None, 0, 1000, id="one second"),
        pytest.param(None, None, 3, 8000, id="doubled each time"),
        pytest.param(3.0, None, 1, 6000, id="the loop's backoff"),
        pytest.param(3.0, Retry(backoff=0.5), 1, 1000, id="the state's own"),
        pytest.param(3.0, Retry(backoff=0), 1, 0, id="none"),
        pytest.param(None, Retry(factor=3), 2, 9000, id="a factor"),
        pytest.param(None, Retry(max_backoff=7), 9, 7000, id="a longest"),
        pytest.param(None, Retry(max_backoff=7), 10**6, 7000, id="beyond all numbers"),
        pytest.param(None, None, 6, 60_000, id="at most a minute"),
    ],
)
def test_retries(backoff, retry, retries, expected_ms):
    state = StateConfig("x", retry=retry)
    loop = FSMLoop("l", initial="a", states={"a": state}, backoff=backoff)
    assert retry_wait_ms(loop, state, retries) == expected_ms


@pytest.mark.parametrize(("seconds", "ms"), [(None, 0), (0, 0), (1.5, 1500), (0.0004, 0)])
def test_milliseconds(seconds, ms):
    assert to_ms(seconds) == ms
