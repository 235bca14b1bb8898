from __future__ import annotations

import json
from typing import get_args

import pytest

from little_loops.fsm import endings
from little_loops.fsm.endings import exit_code_of_end, final_event, not_resumable
from little_loops.fsm.events import Entry, LoopInterrupted, LoopStart, RunWarning, StateEnter
from little_loops.fsm.evolve import evolve, first_state, replay
from little_loops.fsm.plain import WrongShape
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import (
    UNFINISHED,
    FileRef,
    Judgement,
    Limits,
    LoopState,
    Metric,
    Move,
    Result,
    RunSummary,
    SignalLine,
    Spending,
    Status,
    WaitFor,
)
from little_loops.fsm.timestamps import timestamp, wall_ms_of
from little_loops.fsm.values import Captured, duration_text, written_env

RUN = LoopState(
    run="r",
    loop="l",
    current_state="a",
    started_at="x",
    updated_at="y",
    scope=("src",),
    move=Move("b", "next", True),
    wait=WaitFor("host", until_wall_ms=5, why="limit"),
    judgement=Judgement("stall", "no", Metric(4.0, 1)),
    signal_line=SignalLine("handoff", "more"),
    captured={"a": Result(0, 1, None, output_file=FileRef("a.out", 9, "ab", True))},
    metrics={"a": Metric(4.0)},
    costs={"a": Spending(1, 0.5, 2)},
    limits=Limits(max_iterations=3),
)


def test_a_run_goes_through_json_unchanged():
    assert LoopState.from_dict(json.loads(json.dumps(RUN.to_dict()))) == RUN


@pytest.mark.parametrize(
    ("result", "written"),
    [
        pytest.param(
            Result(None, 0),
            {"exit_code": None, "duration_ms": 0, "output": "", "stderr": ""},
            id="the fields of the design are always there",
        ),
        pytest.param(
            RUN.captured["a"],
            {
                "exit_code": 0,
                "duration_ms": 1,
                "output": None,
                "stderr": "",
                "output_file": {
                    "path": "a.out",
                    "size": 9,
                    "sha256": "ab",
                    "truncated": True,
                },
            },
            id="the others only where they say something",
        ),
    ],
)
def test_a_result_is_written_without_what_says_nothing(result, written):
    assert RUN._replace(captured={"a": result}).to_dict()["captured"] == {"a": written}


def test_a_run_is_unfinished_until_it_completed_failed_or_was_stopped():
    ended = {"completed", "failed", "stopped"}
    assert tuple(status for status in get_args(Status) if status not in ended) == UNFINISHED


@pytest.mark.parametrize("version", [0, 2, None, "1"])
def test_another_format_is_refused(version):
    with pytest.raises(ValueError, match="format"):
        LoopState.from_dict({**RUN.to_dict(), "format": version})


SHORT_FORM = {
    "current_state": "fix",
    "iteration": 3,
    "scope": ["src/", "tests/"],
    "context": {},
    "captured": {"error_count": 4},
    "started_at": "2024-01-15T10:30:00Z",
    "updated_at": "2024-01-15T10:32:15Z",
}


@pytest.mark.parametrize(
    ("captured", "results"),
    [
        ({"error_count": 4}, {"error_count": Result(None, 0, "4")}),
        ({"note": "fixed"}, {"note": Result(None, 0, "fixed")}),
        ({"n": {"exit_code": 0, "duration_ms": 9}}, {"n": Result(0, 9)}),
        ({}, {}),
    ],
    ids=["a number", "a string", "a result", "nothing"],
)
def test_the_designs_own_state_is_read(captured, results):
    run = LoopState.from_dict({**SHORT_FORM, "captured": captured})
    assert (run.current_state, run.iteration, run.scope) == ("fix", 3, ("src/", "tests/"))
    assert (run.status, run.phase, run.captured) == ("running", "entered", results)


@pytest.mark.parametrize("field", [name for name in SHORT_FORM if name.endswith(("state", "at"))])
def test_a_state_without_what_it_needs_is_refused(field):
    with pytest.raises(WrongShape, match=f"`{field}` is missing"):
        LoopState.from_dict({name: item for name, item in SHORT_FORM.items() if name != field})


def test_captured_values_that_are_none():
    with pytest.raises(WrongShape, match="`captured` cannot be 4"):
        LoopState.from_dict({**SHORT_FORM, "captured": 4})


def test_a_list_of_runs_wants_a_format():
    with pytest.raises(WrongShape, match="`format` is missing"):
        RunSummary.from_dict(SHORT_FORM)


def test_the_designs_keys_are_there():
    keys = {"current_state", "iteration", "scope", "context", "captured", "started_at"}
    assert RUN.to_dict().keys() >= keys | {"updated_at", "status", "continuation_prompt"}


@pytest.mark.parametrize(
    ("ms", "stamp"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (-5, "1970-01-01T00:00:00.000Z"),
        (10**18, "9999-12-31T23:59:59.999Z"),
    ],
    ids=["the beginning", "a clock before it", "a clock beyond the calendar"],
)
def test_no_clock_ends_a_run(ms, stamp):
    assert timestamp(ms) == stamp
    assert timestamp(wall_ms_of(stamp)) == stamp


def test_replay_adds_events_up():
    start = Entry(LoopStart("l", "a", (".",)), 0, 0, "r", 1)
    enter = Entry(StateEnter("a", 1, 1, "next"), 1, 1, "r", 2)
    run = replay(first_state(start, {"k": 1}), [start, enter])
    assert (run.seq, run.phase, run.context) == (2, "entered", {"k": 1})


def test_a_run_begins_with_its_start():
    with pytest.raises(WrongShape, match="the first event is not `loop_start`"):
        first_state(Entry(RunWarning("m"), 0, 0), {})


def test_an_event_without_an_effect_only_counts():
    run = evolve(RUN, Entry(RunWarning("m"), 1_768_473_000_000, 9))
    assert run == RUN._replace(seq=1, ran_ms=9, updated_at="2026-01-15T10:30:00.000Z")


LOOP = FSMLoop.from_dict({"name": "l", "initial": "a", "states": {"a": {"terminal": True}}})


@pytest.mark.parametrize(
    ("status", "reason", "state", "why"),
    [
        ("completed", "terminal", "a", "it completed in state `a`"),
        ("failed", "terminal", "a", "it ended in the failure state `a`"),
        ("failed", "handoff", "a", "it ended at a handoff (`on_handoff: terminate`)"),
        ("stopped", "stop_signal", "a", "an action told it to stop"),
        ("failed", "error", "z", "its state `z` is not in the definition"),
        ("failed", "error", "a", None),
        ("interrupted", "signal", "a", None),
        ("awaiting_continuation", "handoff", "a", None),
    ],
)
def test_what_can_be_resumed(status, reason, state, why):
    run = RUN._replace(status=status, reason=reason, current_state=state, move=None)
    assert not_resumable(LOOP, run) == why


@pytest.mark.parametrize(
    "headed",
    [
        {"move": Move("z", "next")},
        {"timed_out_in": "z"},
        {"move": Move("z", "next"), "timed_out_in": "a"},
        {"current_state": "z", "move": Move("a", "next")},
    ],
    ids=str,
)
def test_a_run_headed_for_a_state_that_is_gone_cannot_be_resumed(headed):
    run = RUN._replace(status="interrupted", reason="signal", move=None)._replace(**headed)
    assert not_resumable(LOOP, run) == "its state `z` is not in the definition"


@pytest.mark.parametrize(
    "ending",
    [
        endings.COMPLETED,
        endings.FAILURE_STATE,
        endings.STOPPED,
        endings.REVIEW,
        endings.HANDED_OFF,
        endings.TERMINATED,
        endings.LOOP_TIMEOUT,
        endings.failed("error", "why"),
        endings.failed("max_cost", "why"),
        endings.interrupted(2),
    ],
    ids=lambda ending: f"{ending.status}-{ending.reason}",
)
def test_the_last_event_tells_the_exit_code(ending):
    event = final_event(LOOP, RUN, ending, 1)
    signal = event.signal if isinstance(event, LoopInterrupted) else 0
    assert exit_code_of_end(event.status, event.reason, signal) == ending.exit_code


def test_an_ending_of_a_newer_version_counts_as_a_failure():
    assert exit_code_of_end("failed", "eaten_by_bears", 0) == 1


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0.0s"),
        (9_949, "9.9s"),
        (42_000, "42s"),
        (154_000, "2m 34s"),
        (3_900_000, "1h 05m"),
        (200_000_000, "55h 33m"),
    ],
)
def test_durations_for_people(ms, text):
    assert duration_text(ms) == text


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("status", "flying"), ("phase", "flying"), ("iteration", "three"), ("iteration", True)),
        *(("ran_ms", 1.5), ("scope", [1]), ("context", []), ("step", None), ("error", 5)),
        *(("move", {"target": 3, "reason": "next"}), ("limits", {"timeout": "long"})),
        *(("wait", {"kind": "nap"}), ("judgement", {"verdict": "x", "reason": 1, "metric": None})),
        *(
            ("captured", {"a": {"exit_code": "0", "duration_ms": 1}}),
            ("metrics", {"a": {"best": "x"}}),
        ),
        *(("seq", "9"), ("visited", [None]), ("costs", {"a": {"tokens": "many"}})),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(field, value):
    with pytest.raises(WrongShape, match=f"`{field}.*` cannot be"):
        LoopState.from_dict({**RUN.to_dict(), field: value})


@pytest.mark.parametrize(
    "edited",
    [
        {"phase": "moving", "move": None},
        {"phase": "judged", "judgement": None},
        {"phase": "judging", "captured": {}},
    ],
    ids=lambda edited: edited["phase"],
)
def test_a_phase_without_what_it_is_about_is_refused(edited):
    with pytest.raises(ValueError, match="is missing"):
        LoopState.from_dict({**RUN.to_dict(), **edited})


def test_a_state_before_without_a_result_is_refused():
    with pytest.raises(
        ValueError, match=r"the result of the previous state \(`nobody`\) is missing"
    ):
        LoopState.from_dict({**RUN.to_dict(), "prev_state": "nobody"})


def test_what_a_definition_puts_into_environments():
    loop = FSMLoop.from_dict(
        {
            "name": "l",
            "initial": "a",
            "env": {"A": "1", "B": "2"},
            "states": {"a": {"action": "x", "env": {"B": "3"}}},
        }
    )
    assert written_env(loop) == {"A": "1", "B": "3"}


@pytest.mark.parametrize(
    "edit",
    [
        {"status": "finished"},
        {"iteration": "three"},
        {"phase": "moving", "move": None},
        {"phase": "judging", "current_state": "elsewhere"},
        {"phase": "judged", "judgement": None},
        {"costs": {"a": {"tokens": "many"}}},
    ],
    ids=",".join,
)
def test_a_state_edited_into_nonsense_is_refused(edit):
    with pytest.raises(WrongShape):
        LoopState.from_dict({**RUN.to_dict(), **edit})


def test_lists_of_an_agent_go_through_unchanged():
    run = RUN._replace(captured={"a": Result(0, 1, structured=[1, {"b": [2]}])})
    assert LoopState.from_dict(json.loads(json.dumps(run.to_dict()))) == run


def test_results_are_counted_without_being_taken_apart():
    assert len(Captured({"a": Result(0, 1), "b": Result(1, 1)})) == 2


def test_a_summary_has_the_fields_of_the_run():
    data = json.loads(json.dumps(RUN.to_dict()))
    summary = RunSummary.from_dict(data)
    assert summary._asdict() == {name: getattr(RUN, name) for name in RunSummary._fields}
    assert (summary.cost_usd, summary.tokens) == (0.5, 1)


@pytest.mark.parametrize(
    "edit", [{"format": 2}, {"status": "flying"}, {"costs": {"a": {"tokens": "many"}}}], ids=str
)
def test_a_summary_of_nonsense_is_refused(edit):
    with pytest.raises(WrongShape):
        RunSummary.from_dict({**RUN.to_dict(), **edit})
