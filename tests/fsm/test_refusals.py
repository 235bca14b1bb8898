"""Runs that nobody can carry out any further: the run fails, and nothing of it has run."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest

from little_loops.fsm.happenings import CannotContinue
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.timestamps import Moment
from tests.fsm.scripted import ScriptedWorld, begin, go_on, told

WHY = "worker `a-1` does not let agents skip permission prompts: `claude: /fix`"
REFUSED = CannotContinue(Moment(0, 0), "consent", WHY)
BROKEN = CannotContinue(Moment(0, 0), "error", "`setup` of the workspace failed on `a-1`: exit 7")


def world(states: dict[str, Any], *script: Any, **fields: Any) -> ScriptedWorld:
    first = next(iter(states))
    loop = {"name": "fix", "initial": first, "states": {**states, "done": {"terminal": True}}}
    return ScriptedWorld(FSMLoop.from_dict({**loop, **fields}), script)


def ending(run: ScriptedWorld) -> tuple[str, str | None, str]:
    state, last = run.saved, run.log[-1]
    assert state is not None
    return state.status, state.reason, last["error"]


@pytest.mark.parametrize("why", [REFUSED, BROKEN])
def test_the_run_fails_without_a_handler_and_a_resume_runs_the_action(why: CannotContinue) -> None:
    run = world({"work": {"action": "make", "on_error": "work", "next": "done"}}, why)
    begin(run)
    assert ending(run) == ("failed", why.reason, why.problem)
    go_on(run, [0])
    assert run.saved is not None
    assert run.saved.status == "completed"
    assert [each["started"] for each in run.log if each["event"] == "action_interrupted"] == [False]


def test_an_action_that_has_ended_before_is_not_repeated() -> None:
    states = {"one": {"action": "a", "next": "two"}, "two": {"action": "b", "next": "done"}}
    run = world(states, 0, REFUSED)
    begin(run)
    assert ending(run) == ("failed", "consent", WHY)
    go_on(run, [0])
    assert told(run) == dedent("""\
        one -> two (next)
        two interrupted by stop, never begun
        loop_error: failed, consent
        resume in two
        two -> done (next)
        loop_complete: completed, terminal""")


def test_children_are_stopped_with_it() -> None:
    child = {
        "name": "c",
        "initial": "a",
        "states": {"a": {"action": "x", "next": "b"}, "b": {"terminal": True}},
    }
    run = world({"inner": {"loop": child, "next": "done"}}, REFUSED)
    begin(run)
    assert ending(run) == ("failed", "consent", WHY)
    halted = [each for each in run.log if each["event"] == "children_stop"]
    assert [(each["status"], each["reason"]) for each in halted] == [("failed", "consent")]
