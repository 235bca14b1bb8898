"""How a run can end: the manual's table of endings.

A row has everything that follows from an ending: the event, the exit code and what a resume does. A
new ending is a new row.
"""

from __future__ import annotations

from collections.abc import Mapping

from little_loops.errors import FAILED, LIMIT, OK, PAUSED, SIGNALLED, STOPPED_BY_ACTION
from little_loops.fsm.commands import Ending
from little_loops.fsm.events import (
    FinalEvent,
    FinalKind,
    Handoff,
    LoopComplete,
    LoopError,
    LoopInterrupted,
    LoopPaused,
    LoopTimeout,
)
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import Halt, LoopState, Status
from little_loops.light_typing import Final, Literal, assert_never
from little_loops.records import NamedTuple

Resume = Literal[
    "nothing", "same state", "where it stopped", "higher limit", "next state", "on_interrupt"
]


class EndingKind(NamedTuple):
    """One row: how runs of this kind end, and what `resume` does with them."""

    title: str
    status: Status
    reason: str
    event: FinalKind
    exit_code: int
    resume: Resume
    is_final: bool = False
    """The run's last state has finished, so there is nothing to continue."""


_ROWS: Final = (
    EndingKind("success state", "completed", "terminal", "loop_complete", OK, "nothing", True),
    EndingKind("failure state", "failed", "terminal", "loop_error", FAILED, "nothing", True),
    EndingKind("error", "failed", "error", "loop_error", FAILED, "same state"),
    EndingKind("an action's timeout", "failed", "timeout", "loop_error", FAILED, "same state"),
    EndingKind("no transition", "failed", "no_transition", "loop_error", FAILED, "same state"),
    EndingKind("agent login failed", "failed", "auth", "loop_error", FAILED, "same state"),
    EndingKind("agent billing problem", "failed", "billing", "loop_error", FAILED, "same state"),
    EndingKind("protected paths changed", "failed", "tampered", "loop_error", FAILED, "same state"),
    EndingKind(
        "changes outside the scope", "failed", "out_of_scope", "loop_error", FAILED, "same state"
    ),
    EndingKind(
        "branches cannot be merged", "failed", "conflict", "loop_error", FAILED, "same state"
    ),
    EndingKind("a flaky check", "failed", "flaky", "loop_error", FAILED, "same state"),
    EndingKind(
        "final tree not checked", "failed", "stale_evidence", "loop_error", FAILED, "same state"
    ),
    EndingKind("snapshot storage damaged", "failed", "storage", "loop_error", FAILED, "same state"),
    EndingKind(
        "before_run hook failed", "failed", "hook", "loop_error", FAILED, "where it stopped"
    ),
    EndingKind(
        "a worker without consent", "failed", "consent", "loop_error", FAILED, "where it stopped"
    ),
    EndingKind("rejected", "failed", "rejected", "loop_error", FAILED, "same state"),
    EndingKind("stalled", "failed", "stalled", "loop_error", LIMIT, "higher limit"),
    EndingKind("iterations", "failed", "max_iterations", "loop_error", LIMIT, "higher limit"),
    EndingKind("cost", "failed", "max_cost", "loop_error", LIMIT, "higher limit"),
    EndingKind("tokens", "failed", "max_tokens", "loop_error", LIMIT, "higher limit"),
    EndingKind(
        "the loop's timeout", "failed", "loop_timeout", "loop_timeout", LIMIT, "higher limit"
    ),
    EndingKind(
        "LOOP_STOP from an action",
        "stopped",
        "stop_signal",
        "loop_complete",
        STOPPED_BY_ACTION,
        "nothing",
        True,
    ),
    EndingKind(
        "handoff: pause, spawn", "awaiting_continuation", "handoff", "handoff", PAUSED, "same state"
    ),
    EndingKind("handoff: terminate", "failed", "handoff", "loop_error", FAILED, "nothing"),
    EndingKind("review", "needs_review", "review", "loop_paused", PAUSED, "next state", True),
    EndingKind("budget", "needs_review", "budget", "loop_paused", PAUSED, "same state"),
    EndingKind("Ctrl-C", "interrupted", "signal", "loop_interrupted", SIGNALLED, "on_interrupt"),
)
ENDINGS: Final[Mapping[tuple[str, str], EndingKind]] = {
    (row.status, row.reason): row for row in _ROWS
}
REDO: Final = tuple(
    row.reason for row in _ROWS if row.status == "failed" and row.resume == "same state"
)
"""Failures after which `resume` runs the failed state again."""


def _ending(status: str, reason: str, message: str = "") -> Ending:
    row = ENDINGS[status, reason]
    return Ending(row.status, row.reason, row.event, row.exit_code, message)


COMPLETED = _ending("completed", "terminal")
FAILURE_STATE = _ending("failed", "terminal")
STOPPED = _ending("stopped", "stop_signal")
REVIEW = _ending("needs_review", "review")
BUDGET = _ending("needs_review", "budget")
HANDED_OFF = _ending("awaiting_continuation", "handoff")
TERMINATED = _ending("failed", "handoff")
LOOP_TIMEOUT = _ending("failed", "loop_timeout")


def ending(status: str, reason: str, message: str) -> Ending:
    """Return the ending with this status and reason."""
    return _ending(status, reason, message)


def failed(reason: str, message: str) -> Ending:
    """Return the ending of a failed run: an error, a timeout, no transition, a limit, or an agent's
    login or billing."""
    return _ending("failed", reason, message)


def interrupted(signal: int) -> Ending:
    ending = _ending("interrupted", "signal")
    return ending._replace(exit_code=ending.exit_code + signal)


def of_halt(why: Halt) -> Ending:
    """Return the ending that a halt stands for."""
    if why.signal is not None:
        return interrupted(why.signal)
    return _ending(why.status, why.reason, why.message)


def is_final(status: str, reason: str) -> bool:
    """Return whether the run's last state is finished, so that a crash before archiving changes
    nothing; False for an ending that this version does not know."""
    row = ENDINGS.get((status, reason))
    return row is not None and row.is_final


def is_gate(status: str, reason: str | None) -> bool:
    """Return whether a run that ended like this waits for a person to approve or reject."""
    return (status, reason) == (REVIEW.status, REVIEW.reason)


NOTHING_TO_RESUME: Final = {
    ("completed", "terminal"): "it completed in state `{state}`",
    ("failed", "terminal"): "it ended in the failure state `{state}`",
    ("failed", "handoff"): "it ended at a handoff (`on_handoff: terminate`)",
    ("stopped", "stop_signal"): "an action told it to stop",
}


def not_resumable(loop: FSMLoop, run: LoopState) -> str | None:
    """Return why the run cannot be resumed: it has ended for good, or the definition lacks a state
    that it needs. None if it can be resumed."""
    why = NOTHING_TO_RESUME.get((run.status, run.reason or ""))
    if why is not None:
        return why.format(state=run.current_state)
    headed = run.move.target if run.move is not None else run.current_state
    for name in (run.current_state, headed, run.timed_out_in or headed, run.resume_to or headed):
        if name not in loop.states:
            return f"its state `{name}` is not in the definition"
    return None


def final_event(loop: FSMLoop, run: LoopState, ending: Ending, ran_ms: int) -> FinalEvent:
    """Return the last event of a run, with the total cost of its agents."""
    event = _final_event(loop, run, ending, ran_ms)
    spent_usd = sum(spent.cost_usd for spent in run.costs.values())
    return event._replace(cost_usd=round(spent_usd, 6))


def _final_event(loop: FSMLoop, run: LoopState, ending: Ending, ran_ms: int) -> FinalEvent:
    """Return the event for this kind of ending, without the cost."""
    here, message = run.current_state, ending.message
    common = (ending.status, ending.reason, here, run.iteration, ran_ms)
    match ending.event:
        case "loop_complete":
            shown = evidence_of(loop, run, ending)
            return LoopComplete(
                *common,
                message,
                shown,
                nothing_done=_nothing_done(loop, run),
                to_review=() if run.trees is None else run.trees.tampered,
            )
        case "loop_error":
            return LoopError(*common, here, message or ending.reason, _next_state(run))
        case "loop_timeout":
            return LoopTimeout(*common, here, ran_ms, _next_state(run))
        case "loop_paused":
            return LoopPaused(*common, message)
        case "loop_interrupted":
            return LoopInterrupted(*common, ending.exit_code - SIGNALLED)
        case "handoff":
            return Handoff(*common, message, loop.on_handoff, run.continuation_prompt)
        case _:
            assert_never(ending.event)


def _nothing_done(loop: FSMLoop, run: LoopState) -> bool:
    """Return whether the goal was met before any action other than a check had run."""
    return (
        loop.paradigm == "goal"
        and run.status == "running"
        and all(state.check for name, state in loop.states.items() if name in run.captured)
    )


def evidence_of(loop: FSMLoop, run: LoopState, ending: Ending) -> str | None:
    """Return the evidence of a completed run: `verified`, `stale`, `merged` (with other commits, and
    not checked since), `failed` (no check passed), `unchecked` (there is no shell check), or why it
    is off. None if the run did not complete, or never had evidence."""
    # Most users of this table do not need the rules of evidence.
    from little_loops.fsm.evidence import (
        has_shell_pass,
        is_stale,
        merged_with_others,
        no_check_passed,
    )

    trees = run.trees
    if trees is None or ending.status != "completed":
        return None
    if trees.off is not None:
        return trees.off
    if is_stale(loop, run, trees):
        return "stale"
    if merged_with_others(loop, run):
        return "merged"
    if no_check_passed(loop, run, trees):
        return "failed"
    return "verified" if has_shell_pass(loop, run, trees) else "unchecked"


def _next_state(run: LoopState) -> str | None:
    """Return the state that a limit prevented or interrupted."""
    return run.move.target if run.move is not None else run.timed_out_in


def exit_code_of_end(status: str, reason: str | None, signal: int) -> int:
    """Return the exit code for an ending; FAILED for one that this version does not know. `signal`
    is added to that of an interrupted run."""
    row = ENDINGS.get((status, reason or ""))
    if row is None:
        return FAILED
    return row.exit_code + signal if row.status == "interrupted" else row.exit_code
