"""Where a handoff comes to rest, and where it goes on alone."""

from __future__ import annotations

from typing import Any

import pytest

from little_loops.fsm.commands import RunAction, RunAgent, Wait
from little_loops.fsm.happenings import ActionEnded, Moment
from little_loops.fsm.machine import advance
from little_loops.fsm.schema import FSMLoop, StateConfig
from little_loops.fsm.state import SignalLine
from tests.fsm.scripted import START_MS, Crash, Says, ScriptedWorld, begin, go_on

HANDOFF = SignalLine("handoff", "3 left")
AGENT: dict[str, Any] = {"line": HANDOFF, "agent": "success", "tokens": 500, "cost_usd": 2.0}


def loop(**fields: Any) -> FSMLoop:
    states = {
        "port": StateConfig(action="/port", next="done"),
        "done": StateConfig(terminal=True),
    }
    return FSMLoop("port", initial="port", states=states, **fields)


@pytest.mark.parametrize("on_handoff", ["continue", "spawn"])
@pytest.mark.parametrize(
    ("limit", "reason", "message"),
    [
        pytest.param(
            {"max_cost_usd": 1.5},
            "max_cost",
            "the agents have used $2 of $1.5",
            id="more than the cost",
        ),
        pytest.param(
            {"max_cost_usd": 2.0}, "max_cost", "the agents have used $2 of $2", id="all of it"
        ),
        pytest.param(
            {"max_tokens": 500}, "max_tokens", "the agents have used 500 of 500 tokens", id="tokens"
        ),
    ],
)
def test_no_fresh_session_beyond_a_limit(on_handoff, limit, reason, message):
    world = ScriptedWorld(loop(on_handoff=on_handoff, **limit), [Says(0, **AGENT)])
    run, ending = begin(world)
    assert (ending.status, ending.reason, ending.message) == ("failed", reason, message)
    assert (ending.exit_code, ending.spawn) == (3, False)
    assert run.continuation_prompt == "3 left"


def test_a_pause_is_a_pause_whatever_was_used():
    world = ScriptedWorld(loop(max_cost_usd=1.0), [Says(0, **AGENT)])
    assert begin(world)[1].reason == "handoff"


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, id="a pause"),
        pytest.param({"on_handoff": "continue", "max_continuations": 1}, id="one too many"),
    ],
)
def test_who_resumes_a_run_at_rest_is_not_kept_waiting(fields):
    """Spacing is for sessions that nobody starts; a person has waited already."""
    handed_off = Says(0, line=HANDOFF, agent="success", takes_ms=100)
    world = ScriptedWorld(loop(**fields), [handed_off, handed_off])
    begin(world)
    if not fields:
        go_on(world, [handed_off])
    assert "wait_ms" not in [each for each in world.log if each["event"] == "handoff_detected"][-1]
    assert go_on(world, [Says(0, agent="success")])[1].exit_code == 0
    assert not any(isinstance(each, Wait) for each in world.commands)


def test_within_the_limit_the_budget_is_what_is_left():
    script = [Says(0, **AGENT), Says(0, agent="success", cost_usd=0.5)]
    world = ScriptedWorld(loop(on_handoff="continue", max_cost_usd=3.0), script)
    assert begin(world)[1].exit_code == 0
    acted = [each for each in world.commands if isinstance(each, RunAgent)]
    assert [each.cost_left_usd for each in acted] == [3.0, 1.0]


def test_time_that_is_up_is_left_to_the_next_deadline():
    """The loop's `on_timeout` state is to run, so this is no limit to end at."""
    timed = loop(on_handoff="continue", timeout=1.0)
    world = ScriptedWorld(timed, [Crash])
    with pytest.raises(Crash):
        begin(world)
    assert world.saved is not None
    ended = ActionEnded(Moment(START_MS + 1000, 1000), Says(0, **AGENT).result, HANDOFF)
    command = advance(timed, world.saved, ended).command
    assert isinstance(command, RunAction)
    assert (command.job.deadline_ms, command.job.deadline_of) == (0, "loop")


@pytest.mark.parametrize(
    ("fields", "handoffs", "expected"),
    [
        pytest.param({"on_handoff": "terminate"}, 1, "the action handed off", id="terminate"),
        pytest.param({"on_handoff": "pause"}, 1, "", id="pause"),
        pytest.param({"on_handoff": "spawn"}, 1, "a fresh session goes on with it", id="spawn"),
        pytest.param(
            {"on_handoff": "continue", "max_continuations": 1},
            2,
            "more than 1 handoff in a row in `port`",
            id="one too many",
        ),
        pytest.param(
            {"on_handoff": "continue", "max_continuations": 2},
            3,
            "more than 2 handoffs in a row in `port`",
            id="two too many",
        ),
    ],
)
def test_the_end_gives_the_reason(fields, handoffs, expected):
    handed_off = Says(0, line=HANDOFF, agent="success")
    assert begin(ScriptedWorld(loop(**fields), [handed_off] * handoffs))[1].message == expected
