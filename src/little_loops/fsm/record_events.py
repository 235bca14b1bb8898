"""Write happenings down as events: what an action left, a cut, a resume, the last words."""

from __future__ import annotations

from typing import Literal

from little_loops.fsm import endings
from little_loops.fsm.events import (
    ActionComplete,
    ActionInterrupted,
    Cost,
    PartialResult,
    Resume,
    RunWarning,
    SignalFound,
)
from little_loops.fsm.happenings import ActionEnded, LeftoversEnded, Resumed
from little_loops.fsm.limits import time_left_ms
from little_loops.fsm.state import LoopState, Result, WaitKind
from little_loops.fsm.turn import Turn


def note_ended(turn: Turn, ended: ActionEnded) -> None:
    here, line = turn.run.current_state, ended.signal_line
    turn.note(ActionComplete(here, ended.result, line, turn.state.capture))
    _note_cost(turn, ended.result)
    for warning in ended.warnings:
        turn.note(RunWarning(warning, here))
    if line is not None:
        turn.note(SignalFound(here, line.type, line.payload))


def _note_cost(turn: Turn, result: Result) -> None:
    run, cost, turns = turn.run, result.cost_usd or 0.0, result.turns or 0
    if result.tokens or cost:
        turn.note(Cost(run.current_state, result.tokens, cost, turns, run.iteration))


def note_cut(turn: Turn, result: Result) -> None:
    """A stop ended the action; how it went is kept for whoever looks."""
    kept = PartialResult._make(getattr(result, name) for name in PartialResult._fields)
    turn.note(_interrupted(turn.run, "stop")._replace(result=kept))
    _note_cost(turn, result)


def note_not_begun(turn: Turn) -> None:
    """Announced, but never begun: `on_interrupt` has no say in it."""
    turn.note(_interrupted(turn.run, "stop")._replace(started=False))


def note_lost(turn: Turn) -> None:
    """Nobody was left to write how the action ended."""
    turn.note(_interrupted(turn.run, "crash"))


def _interrupted(run: LoopState, cause: Literal["stop", "crash"]) -> ActionInterrupted:
    return ActionInterrupted(run.current_state, run.attempt, cause)


def note_resume(turn: Turn, resumed: Resumed) -> None:
    run = turn.run
    wait, wait_ms = (None, 0) if resumed.from_state is not None else _wait_left(turn)
    turn.note(
        Resume(
            run.current_state,
            run.iteration,
            run.status,
            resumed.orphans,
            resumed.limits,
            resumed.context,
            _is_once_more(turn, resumed),
            run.continuation_prompt,
            wait,
            wait_ms,
        )
    )


def _wait_left(turn: Turn) -> tuple[WaitKind | None, int]:
    """What it waits for before it does anything, and how long."""
    wait, at = turn.run.wait, turn.at
    if wait is None:
        return None, 0
    ran_left, wall_left = (
        (wait.until_ran_ms or 0) - at.ran_ms,
        (wait.until_wall_ms or 0) - at.wall_ms,
    )
    left_ms = max(ran_left, wall_left)
    return (wait.kind, left_ms) if left_ms > 0 else (None, 0)


def _is_once_more(turn: Turn, resumed: Resumed) -> bool:
    """The state that failed is what is done next."""
    run = turn.run
    if run.status != "failed" or resumed.from_state is not None:
        return False
    now_limited = run._replace(limits=run.limits.under(resumed.limits))
    has_time = time_left_ms(turn.loop, now_limited, turn.at) != 0
    return has_time and (run.reason in endings.REDO or _cut_by_time(run))


def _cut_by_time(run: LoopState) -> bool:
    """The loop's time ran out during an action, not on the way to one."""
    return run.reason == "loop_timeout" and run.phase == "judging"


def note_end(turn: Turn, ended: LeftoversEnded) -> None:
    if ended.names:
        names = ", ".join(ended.names)
        turn.note(RunWarning(f"ended what the actions had left running: {names}"))
    turn.note(endings.final_event(turn.loop, turn.run, ended.ending, turn.at.ran_ms))
