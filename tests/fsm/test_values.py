"""What a template can name, and what it is worth."""

from __future__ import annotations

from typing import Any

import pytest

from little_loops.fsm import values
from little_loops.fsm.schema import FSMLoop, HostOptions, StateConfig
from little_loops.fsm.state import Answer, FileRef, LoopState, Result
from little_loops.fsm.values import duration_text, result_values, values_of, written_env
from little_loops.templates.parse import RESULT_FIELDS
from little_loops.templates.render import lookup_in, references

COMMAND = Result(1, 8, "out", "err")
AGENT = Result(
    0, 9, "said", "", agent="success", session_id="s", cost_usd=0.5, turns=3, structured={"n": 1}
)
LOOP = FSMLoop(
    "a-loop",
    initial="a",
    states={"a": StateConfig("x", context={"own": 2, "both": 3}), "b": StateConfig("y")},
)
RUN = LoopState(
    "run-1",
    "a-loop",
    "a",
    "2026-01-15T10:30:00.000Z",
    "",
    context={"both": 1, "given": 4},
    captured={"b": COMMAND},
    iteration=3,
    cycle=2,
    attempt=5,
    ran_ms=154_000,
)
ANSWER = Answer(9, "approved", "approve", "ship it")
FILES = dict.fromkeys(("file", "stderr_file", "log_file"))
OF_COMMAND: dict[str, Any] = {
    "output": "out",
    "stderr": "err",
    "exit_code": 1,
    "duration_ms": 8,
    **FILES,
}


def test_everything_a_template_can_name():
    run = RUN._replace(prev_state="b", continuation_prompt="3 left", answer=ANSWER)
    values = values_of(LOOP, run)
    assert {space: dict(each) for space, each in values.items()} == {
        "context": {"both": 3, "given": 4, "own": 2},
        "given": {"both": 3, "given": 4, "own": 2},
        "captured": {"b": OF_COMMAND},
        "prev": {**OF_COMMAND, "state": "b"},
        "state": {"name": "a", "iteration": 3, "attempt": 5},
        "loop": {
            "name": "a-loop",
            "started_at": "2026-01-15T10:30:00.000Z",
            "elapsed_ms": 154_000,
            "elapsed": "2m 34s",
            "cycle": 2,
            "run_id": "run-1",
            "run_dir": None,
            "continuation": "3 left",
            "answer": "ship it",
        },
    }


def test_at_the_beginning_there_is_no_state_before_and_one_attempt():
    values = values_of(LOOP, RUN._replace(attempt=0))
    assert (values["prev"], values["state"]["attempt"]) == ({}, 1)
    assert values["loop"]["continuation"] == ""


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        pytest.param(COMMAND, OF_COMMAND, id="a command"),
        pytest.param(
            COMMAND._replace(structured=[1]),
            OF_COMMAND | {"structured": [1]},
            id="a command that printed JSON",
        ),
        pytest.param(
            AGENT,
            {"output": "said", "stderr": "", "exit_code": 0, "duration_ms": 9}
            | {"stream_file": None, "structured_file": None}
            | FILES
            | {"structured": {"n": 1}, "session_id": "s", "cost_usd": 0.5, "turns": 3},
            id="an agent",
        ),
        pytest.param(
            COMMAND._replace(agent="error"),
            OF_COMMAND
            | dict.fromkeys(("structured", "session_id", "cost_usd", "turns"))
            | {"stream_file": None, "structured_file": None},
            id="an agent that said nothing",
        ),
    ],
)
def test_the_fields_of_a_result(result, expected):
    assert result_values(result) == expected


@pytest.mark.parametrize("path", [("count",), ("list", "0", "name")], ids=".".join)
def test_whatever_is_named_in_an_answer_that_lies_in_a_file_may_be_there(path):
    """The edge reads the file; before, there is nothing to show and nothing to refuse."""
    kept = AGENT._replace(structured=None, structured_file=FileRef("1.json", 9000, "hash"))
    lookup = lookup_in({"captured": {"ask": result_values(kept)}})
    (reference,) = references(f"${{captured.ask.structured.{'.'.join(path)}}}")
    assert lookup(reference) == {}


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (50, "0.1s"),
        (9_999, "10.0s"),
        (10_000, "10s"),
        (59_499, "59s"),
        (59_500, "1m 00s"),
        (60_000, "1m 00s"),
        (3_599_000, "59m 59s"),
        (3_600_000, "1h 00m"),
    ],
)
def test_durations_at_the_edges(ms, text):
    assert duration_text(ms) == text


def test_what_a_definition_puts_into_environments():
    """All of it may be secret: that of the loop, of its states, and of their hosts."""
    states = {
        "a": StateConfig("x", env={"STATE": "3"}, host=HostOptions(env={"ITS_HOST": "4"})),
        "b": StateConfig("y", host=HostOptions("codex")),
        "c": StateConfig("z"),
    }
    loop = FSMLoop("l", "a", states, env={"LOOP": "1"}, host=HostOptions(env={"HOST": "2"}))
    assert written_env(loop) == {"LOOP": "1", "HOST": "2", "STATE": "3", "ITS_HOST": "4"}
    assert written_env(loop._replace(host=HostOptions())) == {
        "LOOP": "1",
        "STATE": "3",
        "ITS_HOST": "4",
    }


def test_templates_may_name_whatever_a_result_can_have():
    kinds = (values.RESULT_FIELDS, values.AGENT_FIELDS, values.FILE_FIELDS)
    runs = (values.CHILD_FIELDS, values.BRANCH_FIELDS)
    names = {name for fields in (*kinds, *runs) for name in fields}
    assert set(RESULT_FIELDS) == names | {"structured", "merge"}
