"""The table of endings, and what the last event of a run says."""

from __future__ import annotations

import pytest

from little_loops.fsm import endings
from little_loops.fsm.commands import Ending
from little_loops.fsm.endings import exit_code_of_end, last_words
from little_loops.fsm.state import LoopState

RUN = LoopState("r", "l", "check", "", "", iteration=3)


@pytest.mark.parametrize(
    ("ending", "told"),
    [
        pytest.param(endings.COMPLETED, {}, id="completed"),
        pytest.param(
            endings.FAILURE_STATE,
            {"state": "check", "error": "terminal"},
            id="a failure state",
        ),
        pytest.param(
            endings.failed("error", "why"), {"state": "check", "error": "why"}, id="error"
        ),
        pytest.param(
            endings.limit("max_cost", "$2"), {"state": "check", "error": "$2"}, id="limit"
        ),
        pytest.param(
            endings.LOOP_TIMEOUT, {"state": "check", "elapsed_ms": 7}, id="the loop's time is up"
        ),
        pytest.param(endings.interrupted(2), {"signal": 2}, id="interrupted"),
        pytest.param(endings.STOPPED, {}, id="stopped"),
        pytest.param(endings.STOPPED._replace(message="done"), {"message": "done"}, id="by a word"),
        pytest.param(endings.REVIEW._replace(message="look"), {"message": "look"}, id="review"),
        pytest.param(endings.HANDED_OFF, {}, id="handed off"),
    ],
)
def test_the_last_event(ending, told):
    common = {"status": ending.status, "reason": ending.reason, "final_state": "check"}
    assert last_words(RUN, ending, 7) == common | {"iterations": 3, "duration_ms": 7} | told


@pytest.mark.parametrize(
    ("ending", "status", "reason", "event", "exit_code"),
    [
        (endings.COMPLETED, "completed", "terminal", "loop_complete", 0),
        (endings.FAILURE_STATE, "failed", "terminal", "loop_error", 1),
        (endings.STOPPED, "stopped", "stop_signal", "loop_complete", 0),
        (endings.REVIEW, "needs_review", "review", "loop_paused", 4),
        (endings.HANDED_OFF, "awaiting_continuation", "handoff", "handoff", 4),
        (endings.TERMINATED, "failed", "handoff", "loop_error", 1),
        (endings.LOOP_TIMEOUT, "failed", "loop_timeout", "loop_timeout", 3),
        (endings.failed("no_transition", ""), "failed", "no_transition", "loop_error", 1),
        (endings.limit("max_tokens", ""), "failed", "max_tokens", "loop_error", 3),
        (endings.limit("max_iterations", ""), "failed", "max_iterations", "loop_error", 3),
        (endings.interrupted(15), "interrupted", "signal", "loop_interrupted", 143),
    ],
)
def test_the_table(ending, status, reason, event, exit_code):
    assert ending == Ending(status, reason, event, exit_code, message="", spawn=False)
    assert exit_code_of_end(last_words(RUN, ending, 7)) == exit_code
