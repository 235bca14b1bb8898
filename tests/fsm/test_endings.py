"""How a run can end, and what follows from it."""

from __future__ import annotations

from textwrap import dedent

import pytest

from little_loops.fsm import endings
from little_loops.fsm.commands import Ending
from little_loops.fsm.endings import exit_code_of_end, final_event, interrupted, not_resumable
from little_loops.fsm.events import (
    Handoff,
    LoopComplete,
    LoopError,
    LoopInterrupted,
    LoopPaused,
    LoopTimeout,
)
from little_loops.fsm.schema import FSMLoop, StateConfig
from little_loops.fsm.state import LoopState, Move

LOOP = FSMLoop("l", "a", {"a": StateConfig("x"), "b": StateConfig("y")}, on_handoff="spawn")
RUN = LoopState("r", "l", "a", "", "", iteration=3, continuation_prompt="2 left")
HERE = ("a", 3, 9)


@pytest.mark.parametrize(
    ("ending", "expected"),
    [
        pytest.param(
            endings.COMPLETED, LoopComplete("completed", "terminal", *HERE), id="completed"
        ),
        pytest.param(
            endings.failed("error", "no disk"),
            LoopError("failed", "error", *HERE, "a", "no disk"),
            id="an error",
        ),
        pytest.param(
            endings.FAILURE_STATE,
            LoopError("failed", "terminal", *HERE, "a", "terminal"),
            id="a failure without a word",
        ),
        pytest.param(
            endings.LOOP_TIMEOUT,
            LoopTimeout("failed", "loop_timeout", *HERE, "a", 9),
            id="out of time",
        ),
        pytest.param(
            endings.REVIEW._replace(message="look"),
            LoopPaused("needs_review", "review", *HERE, "look"),
            id="a review",
        ),
        pytest.param(
            interrupted(15), LoopInterrupted("interrupted", "signal", *HERE, 15), id="a signal"
        ),
        pytest.param(
            endings.HANDED_OFF,
            Handoff("awaiting_continuation", "handoff", *HERE, "", "spawn", "2 left"),
            id="a handoff",
        ),
    ],
)
def test_the_last_event(ending: Ending, expected):
    assert final_event(LOOP, RUN, ending, 9) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"move": Move("b", "next")}, "b", id="the one it was headed for"),
        pytest.param({"timed_out_in": "b"}, "b", id="the one that was cut"),
    ],
)
def test_the_state_that_a_limit_kept_it_from(fields, expected):
    run = RUN._replace(**fields)
    for ending in (endings.LOOP_TIMEOUT, endings.failed("max_iterations", "x")):
        event = final_event(LOOP, run, ending, 9)
        assert isinstance(event, LoopTimeout | LoopError)
        assert event.next_state == expected


@pytest.mark.parametrize(
    ("status", "reason", "signal", "code"),
    [
        pytest.param("completed", "terminal", 15, 0, id="completed, whatever was sent"),
        pytest.param("failed", "max_cost", 0, 3, id="a limit"),
        pytest.param("interrupted", "signal", 2, 130, id="Ctrl-C"),
        pytest.param("interrupted", "signal", 15, 143, id="terminated"),
        pytest.param("failed", "unreadable (newer version)", 0, 1, id="not known"),
        pytest.param("running", None, 0, 1, id="no end"),
    ],
)
def test_the_exit_code(status, reason, signal, code):
    assert exit_code_of_end(status, reason, signal) == code


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, None, id="it runs"),
        pytest.param({"status": "failed", "reason": "error"}, None, id="it failed"),
        pytest.param(
            {"status": "completed", "reason": "terminal"},
            "it completed in state `a`",
            id="it completed",
        ),
        pytest.param(
            {"status": "failed", "reason": "terminal"},
            "it ended in the failure state `a`",
            id="a failure state",
        ),
        pytest.param(
            {"status": "failed", "reason": "handoff"},
            "it ended at a handoff (`on_handoff: terminate`)",
            id="a handoff that ends",
        ),
        pytest.param(
            {"status": "stopped", "reason": "stop_signal"}, "an action told it to stop", id="stop"
        ),
        pytest.param(
            {"current_state": "gone"}, "its state `gone` is not in the definition", id="here"
        ),
        pytest.param(
            {"move": Move("gone", "next")},
            "its state `gone` is not in the definition",
            id="headed for",
        ),
        pytest.param(
            {"timed_out_in": "gone"}, "its state `gone` is not in the definition", id="cut in"
        ),
    ],
)
def test_what_cannot_be_resumed(fields, expected):
    assert not_resumable(LOOP, RUN._replace(**fields)) == expected


def test_the_table():
    rows = [
        f"{row.status}, {row.reason}: {row.title}; {row.event}, exit {row.exit_code}; "
        f"resume: {row.resume}{'; final' if row.is_final else ''}"
        for row in endings.ENDINGS.values()
    ]
    assert "\n".join(rows) == dedent("""\
        completed, terminal: success state; loop_complete, exit 0; resume: nothing; final
        failed, terminal: failure state; loop_error, exit 1; resume: nothing; final
        failed, error: error; loop_error, exit 1; resume: same state
        failed, timeout: an action's timeout; loop_error, exit 1; resume: same state
        failed, no_transition: no transition; loop_error, exit 1; resume: same state
        failed, auth: agent login failed; loop_error, exit 1; resume: same state
        failed, billing: agent billing problem; loop_error, exit 1; resume: same state
        failed, tampered: protected paths changed; loop_error, exit 1; resume: same state
        failed, out_of_scope: changes outside the scope; loop_error, exit 1; resume: same state
        failed, conflict: branches cannot be merged; loop_error, exit 1; resume: same state
        failed, flaky: a flaky check; loop_error, exit 1; resume: same state
        failed, stale_evidence: final tree not checked; loop_error, exit 1; resume: same state
        failed, storage: snapshot storage damaged; loop_error, exit 1; resume: same state
        failed, hook: before_run hook failed; loop_error, exit 1; resume: where it stopped
        failed, consent: a worker without consent; loop_error, exit 1; resume: where it stopped
        failed, rejected: rejected; loop_error, exit 1; resume: same state
        failed, stalled: stalled; loop_error, exit 3; resume: higher limit
        failed, max_iterations: iterations; loop_error, exit 3; resume: higher limit
        failed, max_cost: cost; loop_error, exit 3; resume: higher limit
        failed, max_tokens: tokens; loop_error, exit 3; resume: higher limit
        failed, loop_timeout: the loop's timeout; loop_timeout, exit 3; resume: higher limit
        stopped, stop_signal: LOOP_STOP from an action; loop_complete, exit 6; resume: nothing; final
        awaiting_continuation, handoff: handoff: pause, spawn; handoff, exit 4; resume: same state
        failed, handoff: handoff: terminate; loop_error, exit 1; resume: nothing
        needs_review, review: review; loop_paused, exit 4; resume: next state; final
        needs_review, budget: budget; loop_paused, exit 4; resume: same state
        interrupted, signal: Ctrl-C; loop_interrupted, exit 128; resume: on_interrupt""")


def test_the_failures_after_which_the_same_state_runs_once_more():
    assert (
        *("error", "timeout", "no_transition", "auth", "billing"),
        *("tampered", "out_of_scope", "conflict", "flaky", "stale_evidence", "storage"),
        "rejected",
    ) == endings.REDO
