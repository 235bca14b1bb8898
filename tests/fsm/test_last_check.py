"""What the last iteration did is judged: a check runs once more, uncounted, and nothing else does."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest

from little_loops.authoring.load import load
from little_loops.fsm.commands import RunAgent, RunShell
from little_loops.fsm.last_check import path_to_check
from little_loops.fsm.schema import FSMLoop, Transition
from little_loops.fsm.state import Limits, LoopState
from tests.fsm.scripted import Crash, Says, ScriptedWorld, begin, go_on, told

GOAL = "goal: x\ntools: [check, fix]\n"
TWO = """\
paradigm: invariants
constraints:
  - {name: a, check: check a, fix: fix a}
  - {name: b, check: check b, fix: fix b}
"""
CONVERGENCE = "paradigm: convergence\ncheck: count\ntoward: 0\nusing: fix\n"
STEPS = """\
paradigm: imperative
steps: [check, fix, tidy]
until: {type: exit_code}
"""


def loop_of(text: str, **fields: Any) -> FSMLoop:
    name = "" if "paradigm:" in text else "paradigm: goal\n"
    loop = load(f"{name}name: l\nmax_iterations: 1\n{text}", "l.yaml", "l").loop
    assert loop is not None
    return loop._replace(**fields)


def path(world: ScriptedWorld) -> str:
    """The actions that ran, each with the iteration that it is shown with."""
    entered = [each for each in world.log if each["event"] == "state_enter"]
    names = [f"{each['state']} {each['iteration']}" for each in entered]
    return ", ".join(names)


@pytest.mark.parametrize(
    ("text", "says", "expected", "ending"),
    [
        pytest.param(
            *(GOAL, [1, 0, 0], "evaluate 1, fix 1, evaluate 1, done 1", "completed"),
            id="the fix worked",
        ),
        pytest.param(
            *(GOAL, [1, 0, 1], "evaluate 1, fix 1, evaluate 1", "max_iterations"),
            id="it did not",
        ),
        pytest.param(
            *(GOAL, [1, 0, 2], "evaluate 1, fix 1, evaluate 1", "error"),
            id="the check could not judge",
        ),
        pytest.param("goal: x\ntools: [check]\n", [1], "evaluate 1", "max_iterations", id="no fix"),
        pytest.param(
            TWO,
            [1, 0, 0, 0],
            "check_a 1, fix_a 1, check_a 1, check_b 1, all_valid 1",
            "completed",
            id="the next check runs too",
        ),
        pytest.param(
            TWO,
            [1, 0, 0, 1],
            "check_a 1, fix_a 1, check_a 1, check_b 1",
            "max_iterations",
            id="the next check fails",
        ),
        pytest.param(
            *(CONVERGENCE, [Says(0, "3"), 0, Says(0, "0")]),
            *("measure 1, apply 1, measure 1, done 1", "completed"),
            id="the target is reached",
        ),
        pytest.param(
            *(CONVERGENCE, [Says(0, "3"), 0, Says(0, "1")], "measure 1, apply 1, measure 1"),
            *("max_iterations",),
            id="nearer is not there yet",
        ),
        pytest.param(
            STEPS,
            [1, 0, 0, 0],
            "step_0 1, step_1 1, step_2 1, evaluate 1, step_0 1, evaluate 1, done 1",
            "completed",
            id="the judged step, then the judgement",
        ),
        pytest.param(
            STEPS,
            [1, 0, 0, 1],
            "step_0 1, step_1 1, step_2 1, evaluate 1, step_0 1, evaluate 1",
            "max_iterations",
            id="the judgement is still a failure",
        ),
    ],
)
def test_at_the_limit(text, says, expected, ending):
    world = ScriptedWorld(loop_of(text), says)
    run, _ = begin(world)
    assert path(world) == expected
    assert (run.status if run.reason == "terminal" else run.reason) == ending
    assert not world.script


def test_a_resume_continues_where_the_verdict_leads():
    world = ScriptedWorld(loop_of(GOAL), [1, 0, 1])
    begin(world)
    assert go_on(world, [])[1].reason == "max_iterations"
    assert go_on(world, [0, 0], limits=Limits(max_iterations=2))[1].status == "completed"
    assert told(world) == dedent("""\
        evaluate -> fix (on_fail)
        fix -> evaluate (next)
        evaluate -> fix (on_fail)
        loop_error: failed, max_iterations
        resume in evaluate
        loop_error: failed, max_iterations
        resume in evaluate
        iteration 2
        fix -> evaluate (next)
        evaluate -> done (on_pass)
        loop_complete: completed, terminal""")


def test_killed_in_the_last_check_it_runs_again():
    world = ScriptedWorld(loop_of(GOAL), [1, 0, Crash])
    with pytest.raises(Crash):
        begin(world)
    assert go_on(world, [0])[1].status == "completed"


def test_an_agent_may_be_the_check():
    agents = loop_of("goal: x\ntools: [/check, /fix]\n")
    failed, passed = (Says(0, agent="success", verdict=word) for word in ("fail", "pass"))
    world = ScriptedWorld(agents, [failed, passed, passed])
    assert begin(world)[1].status == "completed"
    assert len([each for each in world.commands if isinstance(each, RunAgent)]) == 3


def test_an_agent_is_no_check_where_the_money_is_used_up():
    agents = loop_of("goal: x\ntools: [/check, /fix]\n", max_cost_usd=1.0)
    failed = Says(0, agent="success", verdict="fail", cost_usd=0.3)
    world = ScriptedWorld(agents, [failed, Says(0, agent="success", cost_usd=0.9)])
    assert begin(world)[1].reason == "max_cost"


def test_a_command_is_a_check_though_the_money_is_used_up():
    world = ScriptedWorld(
        loop_of("goal: x\ntools: [check, /fix]\n", max_cost_usd=1.0),
        [1, Says(0, agent="success", cost_usd=2.0), 0],
    )
    assert begin(world)[1].status == "completed"


def hand_written(**check: Any) -> FSMLoop:
    states = {
        "check": {"action": "check", "on_pass": "deploy", "on_fail": "fix", **check},
        "fix": {"action": "fix", "next": "check"},
        "deploy": {"action": "deploy", "next": "done"},
        "done": {"terminal": True, "action": "tell"},
    }
    return FSMLoop.from_dict(
        {"name": "l", "initial": "check", "max_iterations": 1, "states": states}
    )


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        pytest.param({}, "check 1, fix 1", id="no check"),
        pytest.param({"check": True}, "check 1, fix 1, check 1", id="what follows is no check"),
        pytest.param(
            {"check": True, "on_pass": "done"},
            "check 1, fix 1, check 1, done 1",
            id="the end has an action of its own",
        ),
    ],
)
def test_in_a_machine_written_by_hand(check, expected):
    world = ScriptedWorld(hand_written(**check), [1, 0, 0, 0])
    begin(world)
    assert path(world) == expected


@pytest.mark.parametrize(
    "states",
    [
        pytest.param({"kept": {"next": "kept"}}, id="back to itself"),
        pytest.param({"kept": {"next": "round"}}, id="a circle of steps"),
        pytest.param({"kept": {"next": "last"}}, id="to an end"),
        pytest.param({"kept": {"next": "stuck"}}, id="no transition"),
    ],
)
def test_a_result_that_nobody_judges_later(states):
    """It leaves as it would: there is no state that judges it."""
    kept = {"action": "check", "capture_exit": True, "check": True, **states["kept"]}
    machine = {
        "fix": {"action": "fix", "next": "kept"},
        "kept": kept,
        "round": {"action": "x", "next": "fix"},
        "stuck": {"action": "x", "on_fail": "fix"},
        "last": {"terminal": True},
    }
    loop = FSMLoop.from_dict(
        {"name": "l", "initial": "kept", "max_iterations": 1, "states": machine}
    )
    world = ScriptedWorld(loop, [0] * 9)
    begin(world)
    assert all(isinstance(each, RunShell) for each in world.commands[:1])
    assert world.log[-1]["event"] in ("loop_error", "loop_complete")


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        pytest.param("between", "judge", id="past a step to the state that judges"),
        pytest.param("judge", "judge", id="that state itself"),
        pytest.param("stuck", "stuck", id="a step that nothing passes"),
        pytest.param("last", "last", id="an end"),
        pytest.param("ending", "ending", id="a step to an end"),
        pytest.param("kept", "kept", id="itself"),
        pytest.param("back", "back", id="a step back to itself"),
        pytest.param("$current", "$current", id="once more"),
        pytest.param("round", "round", id="a circle of steps"),
        pytest.param("again", "again", id="a step that runs again"),
    ],
)
@pytest.mark.parametrize("is_kept", [True, False], ids=["kept", "not kept"])
def test_where_a_kept_result_is_judged(is_kept, target, expected):
    machine = {
        "kept": {"action": "check", "capture_exit": is_kept, "next": target},
        "between": {"action": "x", "next": "judge"},
        "judge": {"condition": {"type": "exit_code", "source": "kept"}, "on_pass": "last"},
        "stuck": {"action": "x", "on_fail": "kept"},
        "last": {"terminal": True},
        "ending": {"action": "x", "next": "last"},
        "back": {"action": "x", "next": "kept"},
        "round": {"action": "x", "next": "about"},
        "about": {"action": "x", "next": "round"},
        "again": {"action": "x", "on_pass": "$current"},
    }
    loop = FSMLoop.from_dict({"name": "l", "initial": "kept", "states": machine})
    run = LoopState("r", "l", "kept", "", "")
    found = path_to_check(loop, run, Transition(target, "next")).target
    assert found == (expected if is_kept else target)
