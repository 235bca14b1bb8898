"""The command for an action: which of two settings counts, and how much time there is."""

from __future__ import annotations

from typing import Any

import pytest

from little_loops.fsm.commands import Job, RunShell
from little_loops.fsm.next_action import HANDLER_TIMEOUT_MS, PlannedAction, action_due
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import LoopState, Result
from little_loops.fsm.timestamps import Moment
from little_loops.templates.render import Unresolved

NOW = Moment(1_000_000, 4_000)


def due(state: dict[str, Any], loop: dict[str, Any] | None = None, **run: Any) -> PlannedAction:
    states = {"a": {"action": "x", "next": "end", **state}, "end": {"terminal": True}}
    fields = {"name": "l", "initial": "a", "states": states, **(loop or {})}
    before = {"step": 3, "attempt": 1, "iteration": 2, "ran_ms": 1_000, **run}
    return action_due(FSMLoop.from_dict(fields), LoopState("r", "l", "a", "", "", **before), NOW)


def job(*words: Any, **run: Any) -> Job:
    return due(*words, **run).command.job


@pytest.mark.parametrize(
    ("field", "name", "unset", "of_loop", "of_state"),
    [
        pytest.param("cwd", "cwd", None, "src", "tests", id="directory"),
        pytest.param("kill_grace", "kill_grace_s", 5.0, 2.0, 0.0, id="grace"),
    ],
)
def test_the_state_comes_before_the_loop(field, name, unset, of_loop, of_state):
    assert getattr(job({}), name) == unset
    assert getattr(job({}, {field: of_loop}), name) == of_loop
    assert getattr(job({field: of_state}, {field: of_loop}), name) == of_state
    assert getattr(job({field: of_state}), name) == of_state


@pytest.mark.parametrize(
    ("state", "loop", "expected"),
    [
        pytest.param({}, {}, "sh", id="neither"),
        pytest.param({}, {"shell": "bash"}, "bash", id="the loop"),
        pytest.param({"shell": "bash"}, {}, "bash", id="the state"),
        pytest.param({"shell": "sh"}, {"shell": "bash"}, "sh", id="both"),
    ],
)
def test_the_shell(state, loop, expected):
    command = due(state, loop).command
    assert isinstance(command, RunShell)
    assert command.shell == expected


def test_where_it_stands_in_the_run():
    found = job({}, {"max_iterations": 7}, continuation_prompt="2 left")
    where = (found.state, found.step, found.attempt, found.iteration, found.iteration_limit)
    assert (*where, found.continuation) == ("a", 3, 2, 2, 7, "2 left")


@pytest.mark.parametrize(
    ("timeout", "of_loop", "run", "expected"),
    [
        pytest.param(None, None, {}, (None, "action"), id="no limit"),
        pytest.param(3, None, {}, (3_000, "action"), id="its own"),
        pytest.param(None, 10, {}, (6_000, "loop"), id="what is left of the loop's"),
        pytest.param(3, 10, {}, (3_000, "action"), id="its own is shorter"),
        pytest.param(9, 10, {}, (6_000, "loop"), id="the loop's is shorter"),
        pytest.param(6, 10, {}, (6_000, "action"), id="both the same"),
        pytest.param(
            3, 4, {"timed_out_in": "end"}, (3_000, "action"), id="the state for the loop's time"
        ),
        pytest.param(
            None, 4, {"timed_out_in": "end"}, (HANDLER_TIMEOUT_MS, "action"), id="without its own"
        ),
    ],
)
def test_how_long_it_may_take(timeout, of_loop, run, expected):
    found = job({"timeout": timeout} if timeout else {}, {"timeout": of_loop}, **run)
    assert (found.deadline_ms, found.deadline_of) == expected


def test_the_authors_values_are_filled_in():
    found = job(
        {"context": {"who": "${context.name}", "n": 3}, "env": {"A": "${context.name}"}},
        {"context": {"name": "you"}, "env": {"A": "1", "B": "2"}},
        context={"name": "me"},
    )
    assert found.context == {"who": "me", "n": 3}
    assert found.env == {"A": "me", "B": "2"}


@pytest.mark.parametrize(
    "state",
    [
        pytest.param({"action": "echo ${captured.no.output}"}, id="the action"),
        pytest.param({"context": {"v": "${captured.no.output}"}}, id="a value"),
        pytest.param({"env": {"V": "${captured.no.output}"}}, id="a variable"),
    ],
)
def test_what_is_not_there_is_told_before_the_action_is_announced(state):
    with pytest.raises(Unresolved):
        due(state)


@pytest.mark.parametrize(
    ("action", "shown"),
    [
        pytest.param("make", "make", id="plain"),
        pytest.param("echo ${captured.b.output}", "echo ${captured.b.output}", id="data stay out"),
        pytest.param("echo ${env.NO_SUCH}", "echo ${env.NO_SUCH}", id="the environment's, not yet"),
        pytest.param("${captured.no.output:-x}", "${captured.no.output:-x}", id="with a fallback"),
        pytest.param("echo ${loop.elapsed}", "echo 4.0s", id="as late as it is now"),
    ],
)
def test_what_people_are_shown(action, shown):
    assert due({"action": action}, captured={"b": Result(0, 1, "done")}).shown == shown
