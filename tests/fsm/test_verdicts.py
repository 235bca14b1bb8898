"""What the end of an action means, row by row; and what leaves as a `Judge`."""

from __future__ import annotations

from typing import Any

import pytest

from little_loops.engine.drive import new_run
from little_loops.errors import DefinitionError, Place, Problem
from little_loops.fsm.actions import action_of, type_of
from little_loops.fsm.commands import Judge
from little_loops.fsm.next_action import action_due
from little_loops.fsm.schema import (
    All,
    AnyOf,
    ExitCode,
    FSMLoop,
    Not,
    OutputContains,
    OutputNumeric,
    StateConfig,
    VerdictWords,
)
from little_loops.fsm.state import FileRef, Judgement, LoopState, Metric, Result
from little_loops.fsm.timestamps import Moment
from little_loops.fsm.verdicts import asks_verdict, judge_action, judge_source, with_source
from little_loops.templates.render import Unresolved

FORK: dict[str, Any] = {"on_pass": "p", "on_fail": "f"}


def run_with(result: Result, **more: Any) -> LoopState:
    return LoopState("r", "l", "a", "", "", captured={"a": result, **more})


def verdict(state: StateConfig, result: Result) -> str:
    judged = judge_action(state, run_with(result))
    return "asks" if isinstance(judged, Judge) else judged.verdict


OK = Result(0, 1, "7")
WORDS = VerdictWords(("yes", "no"))


@pytest.mark.parametrize(
    ("own_s", "loops_s", "reason"),
    [
        pytest.param(600, None, "silent for 10m", id="of the state"),
        pytest.param(90, 600, "silent for 90s", id="of the state before the loop's"),
        pytest.param(None, 7200, "silent for 2h", id="of the loop"),
    ],
)
def test_an_action_that_was_silent_for_too_long_has_timed_out(own_s, loops_s, reason):
    state = StateConfig("x", idle_timeout=own_s)
    judged = judge_action(state, run_with(OK._replace(cut_by="silence")), loops_s)
    assert judged == Judgement("timeout", reason)


@pytest.mark.parametrize(
    ("state", "result", "expected"),
    [
        (StateConfig("x"), OK, "pass"),
        (StateConfig("x"), OK._replace(exit_code=1), "fail"),
        (StateConfig("x"), OK._replace(exit_code=2), "error"),
        (StateConfig("x"), OK._replace(exit_code=None, signal=9), "error"),
        (StateConfig("x"), OK._replace(cut_by="action"), "timeout"),
        (StateConfig("x"), OK._replace(failure="no shell"), "error"),
        (StateConfig("x", condition=OutputNumeric(7)), OK, "pass"),
        (StateConfig("x", condition=OutputNumeric(7)), OK._replace(exit_code=3), "pass"),
        (StateConfig("x", condition=OutputNumeric(7)), OK._replace(exit_code=127), "error"),
        (StateConfig("x", condition=ExitCode(127)), OK._replace(exit_code=127), "pass"),
        (StateConfig("x", condition=OutputNumeric("${context.n}")), OK, "asks"),
        (StateConfig("x", condition=OutputContains("a.c")), OK, "asks"),
        (StateConfig("x", condition=OutputContains("7")), OK, "pass"),
        (StateConfig("x", condition=All((ExitCode(), OutputNumeric(7)))), OK, "pass"),
        (StateConfig("x", condition=All((ExitCode(source="b"),))), OK, "asks"),
        (StateConfig("x", condition=Not(OutputNumeric(7))), OK, "fail"),
        (StateConfig("x", condition=Not(OutputContains("^7$"))), OK, "asks"),
        (StateConfig("x", condition=OutputNumeric(7, source="${captured.a.output}")), OK, "asks"),
        (StateConfig("x", condition=OutputNumeric(7, source="a")), OK, "pass"),
        (
            StateConfig("x", condition=OutputNumeric(7)),
            Result(0, 1, None, output_file=FileRef("f", 9, "h")),
            "asks",
        ),
        (StateConfig("x", capture_exit=True, next="n"), OK._replace(exit_code=9), "pass"),
        (StateConfig("x", condition=Not(OutputNumeric("${context.n}"))), OK, "asks"),
        (StateConfig("x", condition=Not(ExitCode(source="b"))), OK, "asks"),
        (StateConfig("x", condition=AnyOf((OutputNumeric("${context.n}"),))), OK, "asks"),
        (StateConfig("x", condition=All((ExitCode(), OutputNumeric("${context.n}")))), OK, "asks"),
    ],
)
def test_a_command(state, result, expected):
    assert verdict(state, result) == expected


@pytest.mark.parametrize(
    ("state", "result", "expected"),
    [
        (StateConfig("/x", **FORK), {"agent": "success", "verdict": "fail"}, "fail"),
        (StateConfig("/x", **FORK), {"agent": "success"}, "error"),
        (StateConfig("/x", **FORK), {"agent": "fail"}, "fail"),
        (StateConfig("/x", **FORK), {"agent": "error"}, "error"),
        (StateConfig("/x", next="n"), {"agent": "success"}, "pass"),
        (StateConfig("/x", next="n"), {"agent": "fail"}, "error"),
        (StateConfig("/x", next="n", capture_exit=True), {"agent": "fail"}, "fail"),
        (StateConfig("/x", next="n", capture_exit=True), {"agent": "success"}, "pass"),
        (StateConfig("/x", condition=OutputNumeric(7), **FORK), {"agent": "success"}, "pass"),
        (StateConfig("/x", condition=OutputNumeric(7), next="n"), {"agent": "fail"}, "fail"),
        (StateConfig("/x", condition=OutputNumeric(8), **FORK), {"agent": "success"}, "fail"),
        (StateConfig("/x", condition=WORDS), {"agent": "success", "verdict": "no"}, "no"),
    ],
)
def test_an_agent(state, result, expected):
    assert verdict(state, OK._replace(**result)) == expected


@pytest.mark.parametrize(
    ("state", "result", "reason"),
    [
        (StateConfig("x", timeout=2.5), OK._replace(cut_by="action"), "timed out after 2.5 s"),
        (StateConfig("x"), OK._replace(failure="no shell"), "no shell"),
        (StateConfig("x", capture_exit=True), OK._replace(exit_code=9), "exit 9, judged later"),
        (StateConfig("x"), Result(None, 1, None), "there is no exit code; the output is empty"),
        (StateConfig("/x", **FORK), OK._replace(agent="error", reason="why"), "why"),
        (StateConfig("/x", **FORK), OK._replace(agent="error"), ""),
        (StateConfig("/x", **FORK), OK._replace(agent="success", verdict="pass"), ""),
    ],
)
def test_the_reason_of_a_verdict(state, result, reason):
    judged = judge_action(state, run_with(result))
    assert isinstance(judged, Judgement)
    assert judged.reason == reason


@pytest.mark.parametrize(
    ("condition", "of"),
    [
        pytest.param(OutputContains("a.c"), "a", id="its own output"),
        pytest.param(OutputContains("a.c", source="b"), "b", id="that of another state"),
        pytest.param(OutputContains("a.c", source="${captured.b.output}"), None, id="a template"),
    ],
)
def test_what_leaves_as_a_judge(condition, of):
    memory = Metric(4.0)
    run = run_with(OK, b=OK)._replace(metrics={"a": memory, "b": Metric(1.0)})
    assert judge_action(StateConfig("x", condition=condition), run) == Judge(condition, of, memory)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (OutputNumeric(7, source="b"), Judgement("pass", "7 is 7", value=7)),
        (All((ExitCode(source="b"),)), Judge(All((ExitCode(source="b"),)), None)),
    ],
    ids=["the output of a state", "sources of its own"],
)
def test_a_decision_state(condition, expected):
    assert judge_source(StateConfig(condition=condition), run_with(OK, b=OK)) == expected


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (StateConfig("/x", **FORK), ("pass", "fail")),
        (StateConfig("/x", next="n"), None),
        (StateConfig("/x", next="n", on_fail="f"), ("pass", "fail")),
        (StateConfig("/x", on_pass="p"), ("pass", "fail")),
        (StateConfig("/x", on_fail="f"), ("pass", "fail")),
        (StateConfig("/x", next="n", capture_exit=True), ("pass", "fail")),
        (StateConfig("/x", condition=VerdictWords(("yes", "no"))), ("yes", "no")),
        (StateConfig("/x", condition=ExitCode(), **FORK), None),
        (StateConfig("/x", terminal=True), None),
    ],
)
def test_what_an_agent_is_asked(state, words):
    assert asks_verdict(state) == words


@pytest.mark.parametrize(
    ("action", "context", "kind"),
    [
        ("mypy", {}, "shell"),
        ("/usr/bin/make", {}, "shell"),
        ("/ll:check_code types", {}, "slash"),
        ("  /fix", {}, "slash"),
        ("${context.do}", {"do": "/fix it"}, "slash"),
        ("${captured.x.output}", {}, "shell"),
    ],
)
def test_what_kind_of_action_a_text_is(action, context, kind):
    assert type_of(action_of(StateConfig(action), context)) == kind


def test_a_declared_kind_is_taken_at_its_word():
    assert type_of(action_of(StateConfig("/fix", action_type="prompt"), {})) == "prompt"


def due(**fields: Any):
    state = fields.pop("state", {})
    loop = FSMLoop.from_dict(
        {"name": "l", "initial": "a", "states": {"a": {"action": "x", **state}}, **fields}
    )
    run = new_run(loop, "r", Moment(0, 0))._replace(current_state="a", phase="entered")
    return action_due(loop, run, Moment(0, 1000)).command


def test_the_earlier_deadline_counts():
    assert due().job.deadline_ms is None
    job = due(timeout=5).job
    assert (job.deadline_ms, job.deadline_of) == (4000, "loop")
    both = due(timeout=5, state={"timeout": 2}).job
    assert (both.deadline_ms, both.deadline_of) == (2000, "action")


def test_a_states_context_shadows_the_loops_and_keeps_its_types():
    command = due(
        context={"a": "1", "b": "2"},
        env={"E": "${context.b}"},
        state={"action": "${context.a}", "context": {"a": "9", "n": 3}},
    )
    assert (command.script, command.job.env) == ("9", {"E": "2"})
    assert command.job.context == {"a": "9", "n": 3}


def test_what_is_not_there_is_found_before_the_action():
    with pytest.raises(Unresolved):
        due(state={"env": {"E": "${captured.x.output}"}})
    job = due(state={"env": {"E": "${captured.x.output:-none}"}}).job
    assert job.env["E"].endswith(":-none}")


def test_a_definition_error_counts_its_errors():
    place = Place("f", 1, 1, 1, "x")
    one = Problem("LL1", "first", place)
    assert str(DefinitionError([one])) == "first"
    assert (
        str(DefinitionError([one, one, one._replace(severity="warning")])) == "first (and 1 more)"
    )
    assert str(DefinitionError([])) == "invalid definition"


@pytest.mark.parametrize(
    ("state", "verdict", "reason"),
    [
        pytest.param(
            StateConfig(condition=OutputNumeric(0.0, source="step_0")),
            "error",
            "why (the condition reads `step_0`; set `source` to judge another result)",
            id="an error of a decision state",
        ),
        pytest.param(
            StateConfig(condition=OutputNumeric(0.0, source="step_0")), "fail", "why", id="a fail"
        ),
        pytest.param(
            StateConfig(action="true", condition=OutputNumeric(0.0)), "error", "why", id="an action"
        ),
        pytest.param(StateConfig(), "error", "why", id="no condition"),
    ],
)
def test_an_error_names_the_result_that_was_read(state, verdict, reason):
    assert with_source(state, Judgement(verdict, "why")).reason == reason
