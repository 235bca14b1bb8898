"""Where a handoff comes to rest, and where it goes on alone."""

from __future__ import annotations

from typing import Any

import pytest

from little_loops.fsm.commands import EndLeftovers, RunAction, RunAgent, Wait
from little_loops.fsm.happenings import ActionEnded, Resumed
from little_loops.fsm.machine import advance
from little_loops.fsm.schema import FSMLoop, HostOptions, StateConfig
from little_loops.fsm.state import SignalLine, WaitFor
from little_loops.fsm.timestamps import Moment
from tests.fsm.scripted import START_MS, Crash, Says, ScriptedWorld, begin, cut, go_on

HANDOFF = SignalLine("handoff", "3 left")
AGENT: dict[str, Any] = {"line": HANDOFF, "agent": "success", "tokens": 500, "cost_usd": 2.0}
CUT: dict[str, Any] = {"agent": "error", "cut_by": "action"}


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
            "agents have used $2 of $1.5",
            id="more than the cost",
        ),
        pytest.param(
            {"max_cost_usd": 2.0}, "max_cost", "agents have used $2 of $2", id="all of it"
        ),
        pytest.param(
            {"max_tokens": 500}, "max_tokens", "agents have used 500 of 500 tokens", id="tokens"
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


def test_no_agent_starts_beyond_its_limit_when_time_is_up_too():
    timed = loop(on_handoff="continue", timeout=1.0, max_cost_usd=1.5)
    world = ScriptedWorld(timed, [Crash])
    with pytest.raises(Crash):
        begin(world)
    assert world.saved is not None
    ended = ActionEnded(Moment(START_MS + 1000, 1000), Says(0, **AGENT).result, HANDOFF)
    command = advance(timed, world.saved, ended).command
    assert isinstance(command, EndLeftovers)
    assert command.ending.reason == "max_cost"


@pytest.mark.parametrize(
    ("fields", "handoffs", "expected"),
    [
        pytest.param(
            {"on_handoff": "terminate"},
            1,
            "context handoff, and `on_handoff` is `terminate`",
            id="terminate",
        ),
        pytest.param({"on_handoff": "pause"}, 1, "", id="pause"),
        pytest.param({"on_handoff": "spawn"}, 1, "a fresh session continues the run", id="spawn"),
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


# ── sessions ───────────────────────────────────────────────────────────────────────────────────

QUICK = Says(0, line=HANDOFF, agent="success", takes_ms=100)
DONE = Says(0, agent="success")


def spawning(**fields: Any) -> ScriptedWorld:
    """A run whose first session handed off, and whose second did so again at once."""
    world = ScriptedWorld(loop(on_handoff="spawn", **fields), [QUICK])
    assert begin(world)[1].spawn
    return world


def starts(world: ScriptedWorld) -> int:
    return len([each for each in world.log if each["event"] == "action_start"])


def test_the_wait_before_a_session_is_over_once():
    world = spawning()
    run, ending = go_on(world, [QUICK])
    assert ending.spawn
    assert [each for each in world.commands if isinstance(each, Wait)]
    assert (run.wait, run.spawns) == (None, False)
    world.commands.clear()
    assert go_on(world, [DONE])[1].status == "completed"
    assert not [each for each in world.commands if isinstance(each, Wait)]


def test_a_run_of_an_earlier_version_that_kept_its_wait_runs_its_action():
    world = spawning()
    run, _ = go_on(world, [QUICK])
    kept = run._replace(wait=WaitFor("handoff", until_ran_ms=run.ran_ms))
    step = advance(world.loop, kept, Resumed(world.now()))
    assert isinstance(step.command, RunAgent)


@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "stopped"])
def test_who_resumes_in_the_wait_is_the_session(is_killed):
    """It waits for the rest of the time, then runs the action; it starts no other session."""
    world = spawning()
    if is_killed:
        world.crashes_in_wait = True
        with pytest.raises(Crash):
            go_on(world, [QUICK])
        world.crashes_in_wait = False
    else:
        world.stops_in_wait = 15
        assert go_on(world, [QUICK])[1].status == "interrupted"
        world.stops_in_wait = None
    _, ending = go_on(world, [DONE])
    assert (ending.status, ending.spawn) == ("completed", False)
    assert isinstance(world.commands[-3], Wait)


def test_a_handoff_that_was_cut_before_it_was_counted_is_counted_then():
    world = spawning()
    last = [n for n, each in enumerate(world.log) if each["event"] == "action_complete"][-1]
    cut(world, last + 1)
    run, ending = go_on(world, [DONE])
    assert (ending.status, ending.spawn, run.continuations) == ("completed", False, 0)
    assert [each["event"] for each in world.log].count("handoff_detected") == 1


def test_sessions_and_usage_limits_do_not_start_each_other_from_zero():
    limited = Says(2, agent="wait", takes_ms=100, retry_at_ms=START_MS)
    world = ScriptedWorld(loop(on_handoff="continue", max_continuations=2), [QUICK, limited] * 9)
    _, ending = begin(world)
    assert ending.message == "more than 2 handoffs in a row in `port`"
    assert starts(world) == 5
    waits = [each["wait_ms"] for each in world.log if each["event"] == "host_wait"]
    assert waits == [1000, 2000]


def test_the_notes_of_a_session_outlive_a_usage_limit():
    limited = Says(2, agent="wait", retry_at_ms=START_MS)
    world = ScriptedWorld(loop(on_handoff="continue"), [QUICK, limited, DONE])
    assert begin(world)[1].status == "completed"
    acted = [each for each in world.commands if isinstance(each, RunAgent)]
    assert [each.job.continuation for each in acted] == [None, "3 left", "3 left"]


def test_a_session_that_there_is_no_money_for_is_not_started():
    spent = Says(0, line=HANDOFF, agent="success", cost_usd=0.8)
    world = ScriptedWorld(loop(on_handoff="spawn", max_cost_usd=1.0), [spent])
    _, ending = begin(world)
    assert (ending.reason, ending.spawn, ending.message) == (
        "max_cost",
        False,
        "$0.2 of $1 is left, but a session may use $0.25",
    )


@pytest.mark.parametrize(
    ("fields", "used", "spawns"),
    [
        pytest.param({"max_cost_usd": 1.0}, 0.7, True, id="enough is left"),
        pytest.param({"max_cost_usd": 1.0}, 0.75, False, id="all of the rest would be needed"),
        pytest.param(
            {"max_cost_usd": 1.0, "host": HostOptions("codex")}, 0.9, True, id="no price is known"
        ),
        pytest.param({}, 900.0, True, id="no limit"),
    ],
)
def test_what_a_session_needs(fields, used, spawns):
    spent = Says(0, line=HANDOFF, agent="success", cost_usd=used)
    world = ScriptedWorld(loop(on_handoff="spawn", **fields), [spent])
    assert begin(world)[1].spawn is spawns
    detected = next(each for each in world.log if each["event"] == "handoff_detected")
    assert detected.get("spawn", False) is spawns


def test_a_session_is_on_the_account_before_it_starts():
    spent = Says(0, line=HANDOFF, agent="success", cost_usd=0.5)
    world = ScriptedWorld(loop(on_handoff="spawn"), [spent])
    begin(world)
    costs = [each for each in world.log if each["event"] == "cost"]
    assert [(each["cost_usd"], each.get("estimated")) for each in costs] == [
        (0.5, None),
        (0.25, True),
    ]


def test_to_continue_in_this_process_no_session_has_to_be_paid_for():
    spent = Says(0, line=HANDOFF, agent="success", cost_usd=0.9)
    world = ScriptedWorld(loop(on_handoff="continue", max_cost_usd=1.0), [spent, DONE])
    assert begin(world)[1].status == "completed"


def test_an_agent_that_hands_off_in_its_last_second_was_cut():
    """A signal line is obeyed only if the action ended by itself; the state is over."""
    world = ScriptedWorld(loop(on_handoff="continue"), [QUICK, Says(0, line=HANDOFF, **CUT)])
    run, ending = begin(world)
    assert (ending.reason, run.continuations) == ("timeout", 0)
