"""Write happenings down as events: what an action left, a cut, a resume, the last words."""

from __future__ import annotations

from typing import Any

from little_loops.fsm import endings
from little_loops.fsm.happenings import ActionEnded, LeftoversEnded, Resumed
from little_loops.fsm.limits import time_left_ms
from little_loops.fsm.state import LoopState, Result, result_to_dict
from little_loops.fsm.turn import Turn

KEPT_OF_A_CUT = (
    *("exit_code", "duration_ms", "output", "stderr", "output_file", "stderr_file", "signal"),
    *("stream_file", "open_ended", "stderr_open_ended", "order", "order_file"),
)


def note_ended(turn: Turn, ended: ActionEnded) -> None:
    line = ended.signal_line
    turn.note(
        "action_complete",
        state=turn.run.current_state,
        **result_to_dict(ended.result),
        **({"signal_line": line._asdict()} if line else {}),
        **({"capture": turn.state.capture} if turn.state.capture else {}),
    )
    _note_cost(turn, ended.result)
    for warning in ended.warnings:
        turn.note("warning", message=warning, state=turn.run.current_state)
    if line is not None:
        turn.note("signal", state=turn.run.current_state, **line._asdict())


def _note_cost(turn: Turn, result: Result) -> None:
    if result.tokens or result.cost_usd:
        turn.note(
            "cost",
            state=turn.run.current_state,
            tokens=result.tokens,
            cost_usd=result.cost_usd or 0.0,
            turns=result.turns or 0,
            iteration=turn.run.iteration,
        )


def note_cut(turn: Turn, result: Result) -> None:
    """A stop ended the action; how it went is kept for whoever looks."""
    told = {name: item for name, item in result_to_dict(result).items() if name in KEPT_OF_A_CUT}
    turn.note(
        "action_interrupted",
        state=turn.run.current_state,
        attempt=turn.run.attempt,
        cause="stop",
        **told,
    )
    _note_cost(turn, result)


def note_not_begun(turn: Turn) -> None:
    """Announced, but never begun: `on_interrupt` has no say in it."""
    turn.note(
        "action_interrupted",
        state=turn.run.current_state,
        attempt=turn.run.attempt,
        cause="stop",
        started=False,
    )


def note_lost(turn: Turn) -> None:
    """Nobody was left to write how the action ended."""
    run = turn.run
    turn.note("action_interrupted", state=run.current_state, attempt=run.attempt, cause="crash")


def note_resume(turn: Turn, resumed: Resumed) -> None:
    run = turn.run
    limits = {name: item for name, item in resumed.limits._asdict().items() if item is not None}
    turn.note(
        "resume",
        state=run.current_state,
        iteration=run.iteration,
        status=run.status,
        **({"orphans": list(resumed.orphans)} if resumed.orphans else {}),
        **({"limits": limits} if limits else {}),
        **({"context": dict(resumed.context)} if resumed.context else {}),
        **({"again": True} if _is_once_more(turn, resumed, limits) else {}),
        **({"continuation": run.continuation_prompt} if run.continuation_prompt else {}),
        **(_wait_left(turn) if resumed.from_state is None else {}),
    )


def _wait_left(turn: Turn) -> dict[str, object]:
    """What it waits for before it does anything, and how long."""
    wait, at = turn.run.wait, turn.at
    if wait is None:
        return {}
    ran_left, wall_left = (
        (wait.until_ran_ms or 0) - at.ran_ms,
        (wait.until_wall_ms or 0) - at.wall_ms,
    )
    left_ms = max(ran_left, wall_left)
    return {"wait": wait.kind, "wait_ms": left_ms} if left_ms > 0 else {}


def _is_once_more(turn: Turn, resumed: Resumed, limits: dict[str, Any]) -> bool:
    """The state that failed is what is done next."""
    run = turn.run
    if run.status != "failed" or resumed.from_state is not None:
        return False
    now_limited = run._replace(limits=run.limits._replace(**limits))
    has_time = time_left_ms(turn.loop, now_limited, turn.at) != 0
    return has_time and (run.reason in endings.REDO or _cut_by_time(run))


def _cut_by_time(run: LoopState) -> bool:
    """The loop's time ran out during an action, not on the way to one."""
    return run.reason == "loop_timeout" and run.phase == "judging"


def note_end(turn: Turn, ended: LeftoversEnded) -> None:
    if ended.names:
        names = ", ".join(ended.names)
        turn.note("warning", message=f"ended what the actions had left running: {names}")
    turn.note(ended.ending.event, **endings.last_words(turn.run, ended.ending, turn.at.ran_ms))
