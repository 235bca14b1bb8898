"""How a run can end: the manual's table of endings, and which of them can be resumed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from little_loops.errors import FAILED, LIMIT, OK, PAUSED, SIGNALLED
from little_loops.fsm.commands import Ending
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import LoopState

COMPLETED = Ending("completed", "terminal", "loop_complete", OK)
FAILURE_STATE = Ending("failed", "terminal", "loop_error", FAILED)
STOPPED = Ending("stopped", "stop_signal", "loop_complete", OK)
REVIEW = Ending("needs_review", "review", "loop_paused", PAUSED)
HANDED_OFF = Ending("awaiting_continuation", "handoff", "handoff", PAUSED)
TERMINATED = Ending("failed", "handoff", "loop_error", FAILED)
LOOP_TIMEOUT = Ending("failed", "loop_timeout", "loop_timeout", LIMIT)


def failed(reason: str, message: str) -> Ending:
    """An error, an action's timeout, no transition, an agent's auth or billing error."""
    return Ending("failed", reason, "loop_error", FAILED, message)


def limit(reason: str, message: str) -> Ending:
    """Iterations, cost or tokens used up."""
    return Ending("failed", reason, "loop_error", LIMIT, message)


def interrupted(signal: int) -> Ending:
    return Ending("interrupted", "signal", "loop_interrupted", SIGNALLED + signal)


REDO = ("error", "timeout", "no_transition", "auth", "billing")
"""Failures after which a resume runs the state that failed once more."""


def not_resumable(loop: FSMLoop, run: LoopState) -> str | None:
    """Why there is nothing to resume, or None if the run can go on."""
    match run.status, run.reason:
        case "completed", _:
            return f"it completed in state `{run.current_state}`"
        case "failed", "terminal":
            return f"it ended in the failure state `{run.current_state}`"
        case "failed", "handoff":
            return "its handoff ended it (`on_handoff: terminate`)"
        case "stopped", _:
            return "an action asked it to stop"
        case _:
            pass
    headed = run.move.target if run.move is not None else run.current_state
    for name in (run.current_state, headed, run.timed_out_in or headed):
        if name not in loop.states:
            return f"its state `{name}` is not in the definition"
    return None


def last_words(run: LoopState, ending: Ending, ran_ms: int) -> dict[str, Any]:
    """The fields of the event a run ends with."""
    told: dict[str, Any] = {
        "status": ending.status,
        "reason": ending.reason,
        "final_state": run.current_state,
        "iterations": run.iteration,
        "duration_ms": ran_ms,
    }
    match ending.event:
        case "loop_error":
            told.update(state=run.current_state, error=ending.message or ending.reason)
        case "loop_timeout":
            told.update(state=run.current_state, elapsed_ms=ran_ms)
        case "loop_interrupted":
            told.update(signal=ending.exit_code - SIGNALLED)
        case _ if ending.message:
            told.update(message=ending.message)
        case _:
            pass
    return told


LIMITS = ("max_iterations", "max_cost", "max_tokens", "loop_timeout")
PAUSES = ("needs_review", "awaiting_continuation")


def exit_code_of_end(record: Mapping[str, Any]) -> int:
    """The exit code that goes with the last event of a run."""
    status, reason = record["status"], record["reason"]
    if status == "interrupted":
        return SIGNALLED + int(record["signal"])
    if status in PAUSES:
        return PAUSED
    if status == "failed":
        return LIMIT if reason in LIMITS else FAILED
    return OK
