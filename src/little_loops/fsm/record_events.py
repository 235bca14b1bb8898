"""Record happenings as events: the result of an action, a verdict, an interruption, a resume, the
end."""

from __future__ import annotations

from typing import Literal

from little_loops.fsm import endings
from little_loops.fsm.events import (
    ActionComplete,
    ActionInterrupted,
    ConditionEval,
    Cost,
    PartialResult,
    Report,
    Resume,
    RunWarning,
    SignalFound,
)
from little_loops.fsm.happenings import ActionEnded, LeftoversEnded, Resumed
from little_loops.fsm.limits import time_left_ms
from little_loops.fsm.schema import TYPE_OF, Condition, Transition
from little_loops.fsm.spending import LOST, used
from little_loops.fsm.state import Judgement, LoopState, Receipt, Result, WaitKind
from little_loops.fsm.turn import Turn
from little_loops.fsm.waits import left_ms


def note_ended(turn: Turn, ended: ActionEnded) -> None:
    """Record the end of an action, its cost, its warnings and its signal line."""
    here, line = turn.run.current_state, ended.signal_line
    turn.note(ActionComplete(here, ended.result, line, turn.state.capture))
    note_receipt(turn, used(turn.loop, turn.run, ended.result))
    for warning in ended.warnings:
        turn.note(RunWarning(warning, here))
    if line is not None:
        turn.note(SignalFound(here, line.type, line.payload))


def note_evaluated(turn: Turn, condition: Condition, judgement: Judgement) -> None:
    """Record the verdict of the current state's condition."""
    metric = judgement.metric
    turn.note(
        ConditionEval(
            TYPE_OF[type(condition)],
            judgement.verdict,
            judgement.reason,
            turn.run.current_state,
            turn.run.step,
            best=metric.best if metric else None,
            stalled=metric.stalled if metric else None,
            value=judgement.value,
        )
    )


def note_receipt(turn: Turn, receipt: Receipt | None) -> None:
    """Record what an agent used in the current state; do nothing for None."""
    if receipt is None:
        return
    run, (tokens, cost_usd, turns, guessed) = turn.run, receipt
    turn.note(Cost(run.current_state, tokens, cost_usd, turns, run.iteration, bool(guessed)))


def note_cut(turn: Turn, result: Result) -> None:
    """Record an action that a stop ended, with its partial result and its cost."""
    kept = PartialResult._make(getattr(result, name) for name in PartialResult._fields)
    turn.note(_interrupted(turn.run, "stop")._replace(result=kept))
    note_receipt(turn, used(turn.loop, turn.run, result))


def note_not_begun(turn: Turn) -> None:
    """Record an action that was announced but never started; `on_interrupt` does not apply."""
    turn.note(_interrupted(turn.run, "stop")._replace(started=False))


def note_lost(turn: Turn) -> None:
    """Record an action whose runner was killed before it could record the result."""
    turn.note(_interrupted(turn.run, "crash"))


def note_debt(turn: Turn, resumed: Resumed) -> None:
    """Record the cost of the last turn, if its runner was killed before it could; without a result,
    an estimate."""
    run = turn.run
    if run.owes:
        result = turn.result if run.phase == "judging" else resumed.lost or LOST
        note_receipt(turn, used(turn.loop, run, result))


def _interrupted(run: LoopState, cause: Literal["stop", "crash"]) -> ActionInterrupted:
    return ActionInterrupted(run.current_state, run.attempt, cause)


def note_resume(turn: Turn, resumed: Resumed, target: Transition | None) -> None:
    """Record a resume, with the wait that is left and whether it repeats a failed state. `target`
    is where it continues, or None for where the run stopped."""
    run = turn.run
    wait, wait_ms = (None, 0) if target is not None else _wait_left(turn)
    turn.note(
        Resume(
            run.current_state,
            run.iteration,
            run.status,
            resumed.orphans,
            resumed.limits,
            resumed.context,
            target is None and _repeats_failed_state(turn, resumed),
            run.continuation_prompt,
            wait,
            wait_ms,
            None if target is None else target.target,
            resumed.metered,
            resumed.over_budget,
        )
    )


def _wait_left(turn: Turn) -> tuple[WaitKind | None, int]:
    """Return what the run waits for before it continues, and how long; `(None, 0)` if it need not
    wait."""
    wait = turn.run.wait
    if wait is None or turn.run.status == "awaiting_continuation":
        return None, 0
    wait_ms = left_ms(wait, turn.at)
    return (wait.kind, wait_ms) if wait_ms > 0 else (None, 0)


def _repeats_failed_state(turn: Turn, resumed: Resumed) -> bool:
    """Return whether the resume runs the failed or timed-out state again; only if there is time
    left."""
    run = turn.run
    if run.timed_out_in is not None:
        return False
    now_limited = run._replace(limits=run.limits.under(resumed.limits))
    has_time = time_left_ms(turn.loop, now_limited, turn.at) != 0
    failed = run.status == "failed" and run.reason in endings.REDO
    return has_time and (failed or _cut_by_time(run))


def _cut_by_time(run: LoopState) -> bool:
    """Return whether the loop's timeout interrupted an action."""
    return run.phase == "judging" and run.captured[run.current_state].cut_by == "loop"


def note_leftovers(turn: Turn, ended: LeftoversEnded) -> None:
    if ended.names:
        names = ", ".join(ended.names)
        turn.note(RunWarning(f"ended processes that the actions had left running: {names}"))


def end_of_step(turn: Turn) -> None:
    """Record as delivered the notes that the step's agent received."""
    if turn.run.notes:
        from little_loops.fsm.notes import deliver  # few runs get notes

        deliver(turn)


def note_end(turn: Turn, ended: LeftoversEnded) -> None:
    """Record the final event, and before it undelivered notes, warnings and the report."""
    if turn.run.notes:
        from little_loops.fsm.notes import name_undelivered  # few runs get notes

        name_undelivered(turn)
    for warning in ended.warnings:
        turn.note(RunWarning(warning))
    if ended.report:
        turn.note(Report(ended.report))
    turn.note(endings.final_event(turn.loop, turn.run, ended.ending, turn.at.ran_ms))
