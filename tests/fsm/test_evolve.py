"""What each event does to a run, and that it leaves the rest alone."""

from __future__ import annotations

from typing import Any

import pytest

from little_loops.fsm.events import Event
from little_loops.fsm.evolve import evolve, first_state
from little_loops.fsm.state import (
    Judgement,
    Limits,
    LoopState,
    Metric,
    Move,
    Receipt,
    Result,
    SignalLine,
    WaitFor,
)

BUSY = LoopState(
    run="r",
    loop="l",
    current_state="a",
    started_at="2026-01-15T10:30:00.000Z",
    updated_at="2026-01-15T10:30:00.900Z",
    context={"k": 1},
    status="failed",
    reason="error",
    error="exit 2",
    phase="judged",
    move=Move("b", "next", True),
    wait=WaitFor("host", until_wall_ms=5, why="limit"),
    judgement=Judgement("fail", "exit 1"),
    signal_line=SignalLine("handoff", "more"),
    iteration=3,
    cycle=2,
    step=5,
    attempt=2,
    retries=1,
    visited=("a", "b"),
    entered_by="next",
    captured={"b": Result(0, 1)},
    prev_state="b",
    metrics={"b": Metric(1.0)},
    continuation_prompt="3 left",
    continuations=2,
    handed_off_ms=7,
    handoff_waits=4,
    host_waits=2,
    host_waiting_since_ms=500,
    timed_out_in="b",
    session_id="s",
    ran_ms=900,
    limits=Limits(5, 60.0, 3),
    costs={"a": Receipt(10, 0.5, 2), "b": Receipt(1, 0.25, 1)},
    seq=41,
)
ENTER = {"state": "c", "iteration": 4, "step": 6, "reason": "on_fail"}
ENTERED: dict[str, Any] = {
    "phase": "entered",
    "entered_by": "on_fail",
    "iteration": 4,
    "move": None,
    "wait": None,
    "judgement": None,
    "signal_line": None,
}
ENDED: dict[str, Any] = {
    "phase": "judging",
    "prev_state": "a",
    "signal_line": None,
    "judgement": None,
    "continuation_prompt": None,
    "continuations": 0,
    "handoff_waits": 0,
    "host_waits": 0,
    "host_waiting_since_ms": None,
}
HANDED_OFF = {"type": "handoff", "payload": "2 left"}
DONE = {"state": "a", "exit_code": 1, "duration_ms": 8}
RESUMED: dict[str, Any] = {"status": "running", "reason": None, "error": None, "timed_out_in": None}


@pytest.mark.parametrize(
    ("kind", "fields", "changes"),
    [
        pytest.param(
            "state_enter",
            ENTER,
            ENTERED
            | {"current_state": "c", "step": 6, "attempt": 0, "retries": 0}
            | {"visited": ("a", "b", "c")},
            id="another state",
        ),
        pytest.param(
            "state_enter",
            ENTER | {"state": "a", "step": 5},
            ENTERED | {"retries": 2},
            id="the same state again",
        ),
        pytest.param(
            "action_start",
            {"attempt": 3, "session_id": "t"},
            {"phase": "running", "attempt": 3, "session_id": "t", "wait": None},
            id="an agent starts",
        ),
        pytest.param(
            "action_start",
            {"attempt": 3},
            {"phase": "running", "attempt": 3, "session_id": None, "wait": None},
            id="a command starts",
        ),
        pytest.param(
            "action_complete",
            DONE,
            ENDED | {"captured": {"b": Result(0, 1), "a": Result(1, 8)}},
            id="an action ends",
        ),
        pytest.param(
            "action_complete",
            DONE | {"capture": "kept"},
            ENDED | {"captured": {"b": Result(0, 1), "a": Result(1, 8), "kept": Result(1, 8)}},
            id="its result has a name",
        ),
        pytest.param(
            "action_complete",
            DONE | {"signal_line": HANDED_OFF},
            ENDED
            | {"captured": {"b": Result(0, 1), "a": Result(1, 8)}}
            | {"signal_line": SignalLine("handoff", "2 left"), "continuation_prompt": "3 left"}
            | {"continuations": 2, "handoff_waits": 4},
            id="it hands off",
        ),
        pytest.param(
            "action_complete",
            DONE | {"signal_line": {"type": "error", "payload": "x"}},
            ENDED
            | {"captured": {"b": Result(0, 1), "a": Result(1, 8)}}
            | {"signal_line": SignalLine("error", "x")},
            id="it reports an error",
        ),
        pytest.param(
            "action_complete",
            DONE | {"agent": "wait"},
            ENDED
            | {"captured": {"b": Result(0, 1), "a": Result(1, 8, agent="wait")}}
            | {"host_waits": 2, "host_waiting_since_ms": 500},
            id="its service is busy",
        ),
        pytest.param("action_interrupted", {}, {"phase": "interrupted"}, id="cut short"),
        pytest.param("action_interrupted", {"started": True}, {"phase": "interrupted"}, id="begun"),
        pytest.param("action_interrupted", {"started": False}, {"phase": "entered"}, id="unbegun"),
        pytest.param(
            "condition_eval",
            {"result": "pass", "reason": "exit 0"},
            {"phase": "judged", "judgement": Judgement("pass", "exit 0")},
            id="judged",
        ),
        pytest.param(
            "condition_eval",
            {"result": "stall", "reason": "no", "best": 4.0, "stalled": 2},
            {"phase": "judged", "judgement": Judgement("stall", "no")}
            | {"metrics": {"b": Metric(1.0), "a": Metric(4.0, 2)}},
            id="measured",
        ),
        pytest.param(
            "transition",
            {"to": "c", "reason": "on_fail"},
            {"phase": "moving", "move": Move("c", "on_fail", False), "wait": None},
            id="to another state",
        ),
        pytest.param(
            "transition",
            {"to": "a", "reason": "on_fail", "retry": True, "loop_timeout": "c"},
            {"phase": "moving", "move": Move("a", "on_fail", True), "wait": None}
            | {"timed_out_in": "c"},
            id="once more, out of time",
        ),
        pytest.param(
            "iteration", {"iteration": 4}, {"iteration": 4, "visited": (), "wait": None}, id="round"
        ),
        pytest.param(
            "iteration",
            {"iteration": 4, "wait_ms": 50},
            {"iteration": 4, "visited": (), "wait": WaitFor("backoff", until_ran_ms=1050)},
            id="round after a pause",
        ),
        pytest.param(
            "cycle",
            {"cycle": 3, "wait_ms": 50},
            {"cycle": 3, "iteration": 1, "visited": (), "metrics": {}}
            | {"wait": WaitFor("maintain", until_ran_ms=1050)},
            id="cycle",
        ),
        pytest.param(
            "retry_wait", {"wait_ms": 50}, {"wait": WaitFor("retry", until_ran_ms=1050)}, id="retry"
        ),
        pytest.param(
            "host_wait",
            {"until_wall_ms": 77, "reason": "usage limit"},
            {"phase": "entered", "host_waits": 3}
            | {"wait": WaitFor("host", until_wall_ms=77, why="usage limit")},
            id="one more wait for a host",
        ),
        pytest.param(
            "handoff_detected",
            {"continuation": "2 left"},
            {"phase": "entered", "continuation_prompt": "2 left", "continuations": 3}
            | {"handed_off_ms": 1_768_473_001_000, "handoff_waits": 0}
            | {"wait": None, "signal_line": None},
            id="handoff",
        ),
        pytest.param(
            "handoff_detected",
            {"continuation": "2 left", "wait_ms": 50},
            {"phase": "entered", "continuation_prompt": "2 left", "continuations": 3}
            | {"handed_off_ms": 1_768_473_001_000, "handoff_waits": 5}
            | {"wait": WaitFor("handoff", until_ran_ms=1050), "signal_line": None},
            id="handoff, spaced out",
        ),
        pytest.param(
            "cost",
            {"state": "a", "tokens": 5, "cost_usd": 0.25, "turns": 3},
            {"costs": {"a": Receipt(15, 0.75, 5), "b": Receipt(1, 0.25, 1)}},
            id="more cost",
        ),
        pytest.param("resume", {}, RESUMED, id="resume"),
        pytest.param(
            "resume",
            {"limits": {"timeout": 90.0, "max_iterations": None}, "context": {"n": 2}},
            RESUMED | {"limits": Limits(5, 90.0, 3), "context": {"k": 1, "n": 2}},
            id="resume with other settings",
        ),
        pytest.param(
            "resume",
            {"limits": {"max_continuations": 9}},
            RESUMED | {"limits": Limits(5, 60.0, 9), "continuations": 0},
            id="resume with more continuations",
        ),
        pytest.param(
            "resume",
            {"again": True},
            RESUMED | {"phase": "entered", "judgement": None, "signal_line": None, "wait": None},
            id="resume of a failed state",
        ),
        pytest.param("unknown", {}, {}, id="an event without an effect"),
    ],
)
def test_what_an_event_changes(kind, fields, changes):
    before = BUSY._replace(phase="ended")
    run = evolve(before, Event(kind, fields, 1_768_473_001_000, 1000))
    counted = {"updated_at": "2026-01-15T10:30:01.000Z", "ran_ms": 1000, "seq": 42}
    assert run._asdict() == before._replace(**counted)._replace(**changes)._asdict()


@pytest.mark.parametrize(
    ("kind", "reason", "told", "error", "phase"),
    [
        ("loop_complete", "terminal", {}, None, "ended"),
        ("loop_complete", "stop_signal", {"message": "enough"}, "enough", "ended"),
        ("loop_paused", "review", {"message": ""}, None, "ended"),
        ("loop_error", "error", {"error": "exit 2", "message": "no"}, "exit 2", "judged"),
        ("loop_timeout", "loop_timeout", {}, None, "judged"),
        ("loop_interrupted", "signal", {}, None, "judged"),
        ("handoff", "handoff", {}, None, "judged"),
    ],
)
def test_how_a_run_ends(kind, reason, told, error, phase):
    run = evolve(BUSY, Event(kind, {"status": "stopped", "reason": reason, **told}, 0, 0))
    assert (run.status, run.reason, run.error, run.phase) == ("stopped", reason, error, phase)


def test_the_first_wait_for_a_host_begins_now():
    waiting = Event("host_wait", {"until_wall_ms": 77, "reason": "busy"}, 0, 1000)
    run = evolve(BUSY._replace(host_waiting_since_ms=None), waiting)
    assert run.host_waiting_since_ms == 1000


def test_the_first_cost_of_a_state():
    spent = Event("cost", {"state": "c", "tokens": 5, "cost_usd": 0.25, "turns": 3}, 0, 0)
    assert evolve(BUSY, spent).costs["c"] == Receipt(5, 0.25, 3)


def test_a_run_begins():
    fields = {"loop": "l", "initial": "a", "scope": ["src"], "limits": {"timeout": 5.0}}
    start = Event("loop_start", fields, 1_768_473_000_000, 0)
    assert first_state("r", start, {"k": 1}) == LoopState(
        run="r",
        loop="l",
        current_state="a",
        started_at="2026-01-15T10:30:00.000Z",
        updated_at="2026-01-15T10:30:00.000Z",
        scope=("src",),
        context={"k": 1},
        move=Move("a", "initial"),
        limits=Limits(timeout=5.0),
    )
