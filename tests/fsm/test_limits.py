"""Which limit forbids an action, and how much of each is left."""

from __future__ import annotations

from typing import Any

import pytest

from little_loops.fsm.limits import (
    cost_left_usd,
    exceeded,
    iterations_allowed,
    time_left_ms,
    wait_for,
)
from little_loops.fsm.schema import FSMLoop, StateConfig
from little_loops.fsm.state import Limits, LoopState, Spending, WaitFor
from little_loops.fsm.timestamps import Moment

RUN = LoopState(
    "r", "l", "ask", "", "", costs={"ask": Spending(60, 0.25, 2), "fix": Spending(40, 0.25, 1)}
)
NOW = Moment(0, 5000)


def loop(**fields: Any) -> FSMLoop:
    states = {
        "ask": StateConfig("/ask"),
        "test": StateConfig("pytest"),
        "odd": StateConfig("${oops"),
        "lost": StateConfig("${context.nothing}"),
    }
    return FSMLoop("l", initial="ask", states=states, **fields)


@pytest.mark.parametrize(
    ("fields", "state", "expected"),
    [
        pytest.param({}, "ask", None, id="no limit"),
        pytest.param({"timeout": 5.001}, "ask", None, id="a millisecond left"),
        pytest.param({"timeout": 5}, "test", ("loop_timeout", ""), id="no time left"),
        pytest.param({"timeout": 1}, "test", ("loop_timeout", ""), id="long over"),
        pytest.param({"max_cost_usd": 0.51}, "ask", None, id="a cent left"),
        pytest.param(
            {"max_cost_usd": 0.5},
            "ask",
            ("max_cost", "agents have used $0.5 of $0.5"),
            id="no money left",
        ),
        pytest.param({"max_cost_usd": 0.5}, "test", None, id="a command costs nothing"),
        pytest.param({"max_cost_usd": 0.5}, "odd", None, id="no template"),
        pytest.param({"max_cost_usd": 0.5}, "lost", None, id="no such value"),
        pytest.param({"max_tokens": 101}, "ask", None, id="a token left"),
        pytest.param(
            {"max_tokens": 100},
            "ask",
            ("max_tokens", "agents have used 100 of 100 tokens"),
            id="no tokens left",
        ),
        pytest.param({"max_tokens": 100}, "test", None, id="a command uses no tokens"),
    ],
)
def test_the_first_limit_that_is_reached(fields, state, expected):
    ending = exceeded(loop(**fields), RUN, NOW, state)
    assert (ending and (ending.reason, ending.message)) == expected


@pytest.mark.parametrize(
    ("timeout", "given", "left_ms"),
    [(None, None, None), (60, None, 55_000), (60, 30, 25_000), (None, 30, 25_000), (2, None, 0)],
)
def test_the_time_that_is_left(timeout, given, left_ms):
    run = RUN._replace(limits=Limits(timeout=given))
    assert time_left_ms(loop(timeout=timeout), run, NOW) == left_ms


def test_the_money_that_is_left():
    assert cost_left_usd(loop(), RUN) is None
    assert cost_left_usd(loop(max_cost_usd=2.0), RUN) == 1.5


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(Limits(max_cost_usd=0.6), ("max_tokens", "of 90 tokens"), id="more money"),
        pytest.param(
            Limits(max_cost_usd=0.6, max_tokens=101), None, id="more money and more tokens"
        ),
        pytest.param(Limits(max_cost_usd=0.1), ("max_cost", "of $0.1"), id="less money"),
        pytest.param(Limits(max_tokens=101), ("max_cost", "of $0.4"), id="more tokens"),
    ],
)
def test_what_agents_may_use_can_be_given_for_a_run(given, expected):
    ending = exceeded(loop(max_cost_usd=0.4, max_tokens=90), RUN._replace(limits=given), NOW, "ask")
    found = ending and (ending.reason, ending.message)
    assert found == expected or (found and found[1].endswith(expected[1]))


def test_a_limit_of_the_run_goes_before_that_of_the_loop():
    assert iterations_allowed(loop(max_iterations=7), RUN) == 7
    assert iterations_allowed(loop(max_iterations=7), RUN._replace(limits=Limits(2))) == 2


@pytest.mark.parametrize(("timeout", "deadline_ms"), [(None, None), (60, 60_000)])
def test_a_wait_ends_with_the_loops_time(timeout, deadline_ms):
    wait = WaitFor("backoff", until_ran_ms=99)
    command = wait_for(loop(timeout=timeout), RUN._replace(wait=wait), NOW)
    assert (command.wait, command.deadline_ms) == (wait, deadline_ms)
