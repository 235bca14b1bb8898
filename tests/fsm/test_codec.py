"""What is written is read back as it was: every event, every command, every happening."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.fsm import codec
from little_loops.fsm.codec import (
    decode_command,
    decode_event,
    decode_happening,
    encode_command,
    encode_event,
    encode_happening,
    from_record,
    to_record,
)
from little_loops.fsm.commands import Command, Ending, Finish, Job, Judge, PrepareWorktree, Wait
from little_loops.fsm.events import (
    KINDS,
    ActionComplete,
    ActionInterrupted,
    ActionStart,
    ConditionEval,
    Entry,
    Event,
    LoopStart,
    PartialResult,
    RunWarning,
    TransitionTaken,
    UnknownEvent,
)
from little_loops.fsm.happenings import Happening, Started, StopAsked, WaitOver
from little_loops.fsm.plain import WrongShape
from little_loops.fsm.schema import (
    Branches,
    Convergence,
    ExitCode,
    FSMLoop,
    StateConfig,
    Worktree,
)
from little_loops.fsm.state import FileRef, Limits, Result, SignalLine, WaitFor
from little_loops.fsm.timestamps import Moment
from little_loops.system.files import to_json
from tests.fsm.records import NUMBERS, TEXTS, records

RECORDED = sorted(Path(__file__).parent.parent.glob("recorded/v*/*/events.jsonl"))


def through_json(data: dict[str, Any]) -> Any:
    return json.loads(json.dumps(data))


every_kind: list[Any] = list(KINDS.values())
events = st.one_of([records(kind) for kind in every_kind])
entries = st.builds(Entry, events, st.integers(0, 10**13), NUMBERS, TEXTS, NUMBERS)


@given(entries)
def test_every_event_is_read_as_it_was_written(entry):
    assert from_record(through_json(to_record(entry))) == entry


@given(records(Command))
def test_every_command_is_read_as_it_was_written(command):
    assert decode_command(through_json(encode_command(command))) == command


@pytest.mark.parametrize("min_gain", [2, 2.5, "noise"])
def test_a_whole_number_fits_where_a_number_or_a_word_does(min_gain):
    command = Judge(Convergence(5, min_gain=min_gain), "check")
    assert decode_command(through_json(encode_command(command))) == command


@pytest.mark.parametrize(
    "items", [("a", {"b": 1}), {"glob": "src/*.py"}, "${captured.a.output}", None]
)
def test_items_of_each_form_are_told_apart(items):
    job = Job("a", 1, 1, 1, 50, {}, {}, None, 5.0, None, "action")
    states = {"a": StateConfig(branches=Branches(items), action="true")}
    command = PrepareWorktree(
        Worktree(resolve=StateConfig(loop=FSMLoop("fix", "a", states))), job, "sh"
    )
    assert decode_command(through_json(encode_command(command))) == command


@given(records(Happening))
def test_every_happening_is_read_as_it_was_written(happening):
    assert decode_happening(through_json(encode_happening(happening))) == happening


@given(entries)
def test_fields_of_a_newer_version_are_ignored(entry):
    assert from_record({**to_record(entry), "new_in_version_9": [1, {"a": None}]}) == entry


def test_every_kind_of_event_has_its_name():
    assert {*KINDS.values(), UnknownEvent} == set(get_args(Event))


@pytest.mark.parametrize(
    ("event", "record"),
    [
        pytest.param(
            LoopStart("fix", "check", ("src", "tests"), 1, Limits(timeout=5.0)),
            '{"event": "loop_start", "loop": "fix", "initial": "check", "scope": ["src", "tests"], '
            '"format": 1, "limits": {"timeout": 5.0}}',
            id="only the limits that are given",
        ),
        pytest.param(
            ActionStart("mypy src/", "check", 1, "shell"),
            '{"event": "action_start", "action": "mypy src/", "state": "check", "attempt": 1, '
            '"action_type": "shell"}',
            id="nothing that is the default",
        ),
        pytest.param(
            ActionComplete("check", Result(0, 7), capture="types"),
            '{"event": "action_complete", "state": "check", "exit_code": 0, "duration_ms": 7, '
            '"output": "", "stderr": "", "capture": "types"}',
            id="a result among the other fields",
        ),
        pytest.param(
            ActionComplete(
                "check",
                Result(0, 7, None, output_file=FileRef("1.out", 9000, "ab"), tail="end"),
                SignalLine("handoff", "more"),
            ),
            '{"event": "action_complete", "state": "check", "exit_code": 0, "duration_ms": 7, '
            '"output": null, "stderr": "", "output_file": {"path": "1.out", "size": 9000, '
            '"sha256": "ab", "truncated": false}, "tail": "end", '
            '"signal_line": {"type": "handoff", "payload": "more"}}',
            id="a whole reference to a file",
        ),
        pytest.param(
            ActionInterrupted("check", 1, "crash"),
            '{"event": "action_interrupted", "state": "check", "attempt": 1, "cause": "crash"}',
            id="no result",
        ),
        pytest.param(
            ActionInterrupted("check", 1, "stop", result=PartialResult(None, 7, "", "", signal=15)),
            '{"event": "action_interrupted", "state": "check", "attempt": 1, "cause": "stop", '
            '"exit_code": null, "duration_ms": 7, "output": "", "stderr": "", "signal": 15}',
            id="part of a result",
        ),
        pytest.param(
            TransitionTaken("a", "b", "next"),
            '{"event": "transition", "from": "a", "to": "b", "reason": "next"}',
            id="a key that Python keeps to itself",
        ),
        pytest.param(
            UnknownEvent("landing", {"place": "sea"}),
            '{"event": "landing", "place": "sea"}',
            id="a kind unreadable (newer version)",
        ),
    ],
)
def test_how_an_event_is_written(event, record):
    assert json.dumps(encode_event(event)) == record
    assert decode_event(json.loads(record)) == event


def test_an_entry_stands_around_its_event():
    entry = Entry(RunWarning("careful"), 1_768_473_000_123, 7, "r", 4)
    assert json.dumps(to_record(entry)) == (
        '{"event": "warning", "message": "careful", "ts": "2026-01-15T10:30:00.123Z", '
        '"run": "r", "seq": 4, "ran_ms": 7}'
    )


def test_the_entry_is_no_part_of_an_unknown_event():
    entry = Entry(UnknownEvent("landing", {"place": "sea"}), 0, 7, "r", 4)
    assert from_record(to_record(entry)) == entry


def test_an_event_of_an_earlier_version_has_the_defaults_of_what_it_lacks():
    old = {"event": "condition_eval", "type": "exit_code", "result": "pass", "reason": "exit 0"}
    assert decode_event(old) == ConditionEval("exit_code", "pass", "exit 0", state=None)
    entry = from_record({**old, "ts": "1970-01-01T00:00:01.000Z", "ran_ms": 5})
    assert (entry.run, entry.seq) == ("", 0)


@pytest.mark.parametrize("log", RECORDED, ids=lambda path: path.parent.name)
def test_recorded_events_are_written_as_they_were(log):
    """Byte for byte, so that no reader of the log sees a difference."""
    lines = log.read_bytes().splitlines()
    assert [to_json(to_record(from_record(json.loads(line)))) for line in lines] == lines


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ({"event": "warning"}, "`message` is missing"),
        ({"event": "warning", "message": 5}, "`message` cannot be 5"),
        ({"event": "iteration", "iteration": True}, "`iteration` cannot be True"),
        ({"event": "iteration", "iteration": "x" * 99}, f"`iteration` cannot be '{'x' * 59}"),
        (
            {"event": "loop_start", "loop": "l", "initial": "a", "scope": "."},
            "`scope` cannot be '.'",
        ),
        (
            {"event": "loop_start", "loop": "l", "initial": "a", "scope": ["a", 1]},
            "`scope.1` cannot be 1",
        ),
        (
            {"event": "resume", "state": "a", "iteration": 1, "status": "flying"},
            "`status` cannot be 'flying'",
        ),
        (
            {
                "event": "resume",
                "state": "a",
                "iteration": 1,
                "status": "failed",
                "limits": {"timeout": "long"},
            },
            "`limits.timeout` cannot be 'long'",
        ),
        ({"event": "action_complete", "state": "a", "exit_code": 0}, "`duration_ms` is missing"),
        ({"event": 7}, "`event` is missing"),
    ],
    ids=lambda value: value if isinstance(value, str) else value["event"],
)
def test_a_wrong_event_is_refused_in_words(record, why):
    with pytest.raises(WrongShape) as refused:
        decode_event(record)
    assert str(refused.value) == why


@pytest.mark.parametrize(
    ("field", "why"),
    [
        ({"ts": "yesterday"}, "`ts` cannot be 'yesterday'"),
        ({"ts": None}, "`ts` cannot be None"),
        ({"ran_ms": 1.5}, "`ran_ms` cannot be 1.5"),
        ({"seq": "1"}, "`seq` cannot be '1'"),
    ],
    ids=str,
)
def test_a_wrong_entry_is_refused_in_words(field, why):
    record = {**to_record(Entry(RunWarning("m"), 0, 0, "r", 1)), **field}
    with pytest.raises(WrongShape) as refused:
        from_record(record)
    assert str(refused.value) == why


def test_commands_and_happenings_name_their_kind():
    ending = Ending("completed", "terminal", "loop_complete", 0)
    assert encode_command(Finish(ending))["command"] == "finish"
    assert encode_happening(StopAsked(Moment(1, 2), 15)) == {
        "happening": "stop_asked",
        "at": {"wall_ms": 1, "ran_ms": 2},
        "signal": 15,
    }


def test_happenings_with_the_same_fields_are_told_apart():
    at = Moment(1, 2)
    assert len({Started(at), WaitOver(at)}) == 2
    assert encode_happening(Started(at)) != encode_happening(WaitOver(at))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ([], "cannot be []"),
        ({}, "`command` cannot be None"),
        ({"command": "fly"}, "`command` cannot be 'fly'"),
        (
            {"command": "judge", "condition": {"type": "smell"}},
            "`condition.type` cannot be 'smell'",
        ),
        ({"command": "judge", "condition": 5}, "`condition` cannot be 5"),
        ({"command": "run_shell", "job": {"state": "a"}}, "`job.step` is missing"),
        ({"command": "finish", "ending": None}, "`ending` cannot be None"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_command_is_refused_in_words(data, why):
    with pytest.raises(WrongShape) as refused:
        decode_command(data)
    assert str(refused.value) == why


@pytest.mark.parametrize("fail", [None, (), (1, "3-125"), "1-125"])
def test_the_exit_codes_of_a_condition_are_read_as_they_were_written(fail):
    command = Judge(ExitCode(fail=fail), "check")
    assert decode_command(through_json(encode_command(command))) == command


def test_a_command_and_a_happening_are_written_and_read():
    codec._command_reader.cache_clear()  # a law may have filled it, which is not measured
    codec._happening_reader.cache_clear()
    at = Moment(1_768_473_000_000, 9)
    for happening in (Started(at), StopAsked(at, 15)):
        assert decode_happening(encode_happening(happening)) == happening
    wait = Wait(WaitFor("backoff", until_ran_ms=10))
    assert decode_command(encode_command(wait)) == wait
