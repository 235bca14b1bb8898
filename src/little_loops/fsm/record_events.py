"""Record happenings as events: the result of an action, a verdict, an interruption, a resume, the
end."""

from __future__ import annotations

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
from little_loops.fsm.spending import owed, used
from little_loops.fsm.state import Judgement, LoopState, Result, Spending, WaitKind
from little_loops.fsm.step_builder import StepBuilder
from little_loops.fsm.turn_hosts import gives_way
from little_loops.fsm.waits import left_ms
from little_loops.light_typing import Literal

LEFT_RUNNING = "ended processes that the actions had left running: "


def note_ended(builder: StepBuilder, ended: ActionEnded) -> None:
    """Record the end of an action, its cost, its warnings and its signal line."""
    here, line = builder.run.current_state, ended.signal_line
    gives = gives_way(builder.loop, builder.run, ended.result)
    builder.note(ActionComplete(here, ended.result, line, builder.state.capture, gives))
    note_spending(builder, used(builder.loop, builder.run, ended.result))
    for warning in ended.warnings:
        builder.note(RunWarning(warning, here))
    if line is not None:
        builder.note(SignalFound(here, line.type, line.payload))


def note_evaluated(builder: StepBuilder, condition: Condition, judgement: Judgement) -> None:
    """Record the verdict of the current state's condition."""
    metric = judgement.metric
    builder.note(
        ConditionEval(
            TYPE_OF[type(condition)],
            judgement.verdict,
            judgement.reason,
            builder.run.current_state,
            builder.run.step,
            best=metric.best if metric else None,
            stalled=metric.stalled if metric else None,
            value=judgement.value,
            min_gain=metric.min_gain if metric else None,
        )
    )


def note_spending(builder: StepBuilder, spent: Spending | None) -> None:
    """Record what an agent used in the current state; do nothing for None."""
    if spent is None:
        return
    run, (tokens, cost_usd, turns, guessed) = builder.run, spent
    builder.note(Cost(run.current_state, tokens, cost_usd, turns, run.iteration, bool(guessed)))


def note_cut(builder: StepBuilder, result: Result) -> None:
    """Record an action that a stop ended, with its partial result and its cost."""
    kept = PartialResult._make(getattr(result, name) for name in PartialResult._fields)
    builder.note(_interrupted(builder.run, "stop")._replace(result=kept))
    note_spending(builder, used(builder.loop, builder.run, result))


def note_not_begun(builder: StepBuilder) -> None:
    """Record an action that was announced but never started; `on_interrupt` does not apply."""
    builder.note(_interrupted(builder.run, "stop")._replace(started=False))


def note_lost(builder: StepBuilder) -> None:
    """Record an action whose runner was killed before it could record the result."""
    builder.note(_interrupted(builder.run, "crash"))


def note_debt(builder: StepBuilder, resumed: Resumed) -> None:
    """Record the cost of the last turn, if its runner was killed before it could; without a result,
    an estimate."""
    note_spending(builder, owed(builder.loop, builder.run, resumed.lost))


def _interrupted(run: LoopState, cause: Literal["stop", "crash"]) -> ActionInterrupted:
    return ActionInterrupted(run.current_state, run.attempt, cause)


def note_resume(builder: StepBuilder, resumed: Resumed, target: Transition | None) -> None:
    """Record a resume, with the wait that is left and whether it repeats a failed state. `target`
    is where it continues, or None for where the run stopped."""
    run = builder.run
    wait, wait_ms = (None, 0) if target is not None else _wait_left(builder)
    builder.note(
        Resume(
            run.current_state,
            run.iteration,
            run.status,
            resumed.orphans,
            resumed.limits,
            resumed.context,
            target is None and _repeats_failed_state(builder, resumed),
            run.continuation_prompt,
            wait,
            wait_ms,
            None if target is None else target.target,
            resumed.metered,
            resumed.over_budget,
            resumed.answered,
        )
    )


def _wait_left(builder: StepBuilder) -> tuple[WaitKind | None, int]:
    """Return what the run waits for before it continues, and how long; `(None, 0)` if it need not
    wait."""
    wait = builder.run.wait
    if wait is None or builder.run.status == "awaiting_continuation":
        return None, 0
    wait_ms = left_ms(wait, builder.at)
    return (wait.kind, wait_ms) if wait_ms > 0 else (None, 0)


def _repeats_failed_state(builder: StepBuilder, resumed: Resumed) -> bool:
    """Return whether the resume runs the failed or timed-out state again; only if there is time
    left."""
    run = builder.run
    if run.timed_out_in is not None:
        return False
    now_limited = run._replace(limits=run.limits.under(resumed.limits))
    has_time = time_left_ms(builder.loop, now_limited, builder.at) != 0
    if run.own_children is not None:
        return False  # they continue
    failed = run.status == "failed" and run.reason in endings.REDO
    return has_time and (failed or _cut_by_time(run))


def _cut_by_time(run: LoopState) -> bool:
    """Return whether the loop's timeout interrupted an action."""
    return run.phase == "judging" and run.captured[run.current_state].cut_by == "loop"


def note_leftovers(builder: StepBuilder, ended: LeftoversEnded) -> None:
    if ended.names:
        names = ", ".join(ended.names)
        builder.note(RunWarning(f"{LEFT_RUNNING}{names}"))


def end_of_step(builder: StepBuilder) -> None:
    """Record as delivered the notes that the step's agent received."""
    if builder.run.notes:
        from little_loops.fsm.notes import deliver  # few runs get notes

        deliver(builder)


def note_end(builder: StepBuilder, ended: LeftoversEnded) -> None:
    """Record the final event, and before it undelivered notes, warnings and the report."""
    if builder.run.notes:
        from little_loops.fsm.notes import name_undelivered  # few runs get notes

        name_undelivered(builder)
    for warning in ended.warnings:
        builder.note(RunWarning(warning))
    if ended.report:
        builder.note(Report(ended.report))
    last = endings.final_event(builder.loop, builder.run, ended.ending, builder.at.ran_ms)
    builder.note(last if ended.result is None else last._replace(result=ended.result))
