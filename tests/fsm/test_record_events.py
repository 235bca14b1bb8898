"""What a resume writes down before it does anything."""

from __future__ import annotations

from typing import Any

import pytest

from little_loops.fsm.events import Resume
from little_loops.fsm.happenings import Resumed
from little_loops.fsm.machine import advance
from little_loops.fsm.schema import FSMLoop, StateConfig
from little_loops.fsm.state import Limits, LoopState, Result, WaitFor
from little_loops.fsm.timestamps import Moment
from tests.fsm.scripted import Says, ScriptedWorld, begin, cut, go_on

LOOP = FSMLoop(
    "l",
    initial="fix",
    states={"fix": StateConfig(action="/fix", next="done"), "done": StateConfig(terminal=True)},
    timeout=10,
)
RUN = LoopState("r", "l", "fix", "", "", phase="entered", step=1)
NOW = Moment(1_000_000, 5_000)
CUT = {"fix": Result(None, 5, cut_by="loop", agent="error")}


def resume(run: LoopState, **resumed: Any) -> Resume:
    event = advance(LOOP, run, Resumed(NOW, **resumed)).events[0].event
    assert isinstance(event, Resume)
    return event


@pytest.mark.parametrize(
    ("fields", "resumed", "expected"),
    [
        pytest.param({}, {}, (None, 0), id="none"),
        pytest.param({"wait": WaitFor("retry", 5_002)}, {}, ("retry", 2), id="some is left"),
        pytest.param({"wait": WaitFor("retry", 5_001)}, {}, ("retry", 1), id="the last of it"),
        pytest.param({"wait": WaitFor("retry", 5_000)}, {}, (None, 0), id="just over"),
        pytest.param({"wait": WaitFor("retry", 4_000)}, {}, (None, 0), id="long over"),
        pytest.param(
            {"wait": WaitFor("retry", 6_000)}, {"from_state": "done"}, (None, 0), id="elsewhere"
        ),
        pytest.param(
            {"wait": WaitFor("handoff", 6_000), "status": "awaiting_continuation"},
            {},
            (None, 0),
            id="at rest, as an earlier version left it",
        ),
    ],
)
def test_what_is_left_to_wait(fields, resumed, expected):
    event = resume(RUN._replace(**fields), **resumed)
    assert (event.wait, event.wait_ms) == expected


@pytest.mark.parametrize(
    ("fields", "resumed", "again"),
    [
        pytest.param({}, {}, False, id="it was running"),
        pytest.param({"status": "failed", "reason": "error"}, {}, True, id="it failed"),
        pytest.param({"status": "failed", "reason": "max_cost"}, {}, False, id="a limit"),
        pytest.param(
            {"status": "failed", "reason": "error"}, {"from_state": "done"}, False, id="elsewhere"
        ),
        pytest.param(
            {"status": "failed", "reason": "error", "timed_out_in": "fix"},
            {},
            False,
            id="in the state for the loop's time",
        ),
        pytest.param(
            {"status": "failed", "reason": "error"},
            {"limits": Limits(timeout=5)},
            False,
            id="no time is left",
        ),
        pytest.param({"phase": "judging", "captured": CUT}, {}, True, id="cut by the loop's time"),
        pytest.param({"phase": "entered", "captured": CUT}, {}, False, id="cut once, not now"),
    ],
)
def test_whether_the_state_that_failed_runs_once_more(fields, resumed, again):
    assert resume(RUN._replace(**fields), **resumed).again is again


def test_a_turn_whose_report_was_cut_off_the_log_is_paid_for_by_it():
    """Its result is in the log, so nothing has to be estimated."""
    said = Says(0, agent="success", tokens=70, cost_usd=0.5, turns=2)
    world = ScriptedWorld(LOOP, [said])
    begin(world)
    cut(world, [each["event"] for each in world.log].index("action_complete") + 1)
    go_on(world, [], lost=Result(None, 0, tokens=9, cut_by="stop", agent="error"))
    (cost,) = (each for each in world.log if each["event"] == "cost")
    assert (cost["tokens"], cost["cost_usd"], cost["turns"]) == (70, 0.5, 2)
    assert "estimated" not in cost
