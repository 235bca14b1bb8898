"""How a run ends in a terminal state, or begins a new cycle there."""

from __future__ import annotations

from little_loops.fsm import endings
from little_loops.fsm.commands import EndLeftovers
from little_loops.fsm.events import Cycle, RunWarning, TransitionTaken
from little_loops.fsm.schema import FAILURE_TRANSITIONS, PASS, outcome_of
from little_loops.fsm.state import Judgement
from little_loops.fsm.turn import Turn
from little_loops.fsm.verdicts import judge_action
from little_loops.fsm.waits import to_ms

MAINTAIN = "on_maintain"
LEAST_INTERVAL_MS = 1000
"""Also of a loop that no reader has checked."""


def warn_of_failure(turn: Turn) -> None:
    """A terminal state's action changes nothing any more; that it failed is worth a word."""
    judged = judge_action(turn.state, turn.run, turn.loop.idle_timeout)
    if isinstance(judged, Judgement) and judged.verdict != PASS:
        message = f"the action of `{turn.run.current_state}` failed: {judged.reason}"
        turn.note(RunWarning(message, turn.run.current_state))


def end_in_terminal(turn: Turn) -> EndLeftovers | None:
    """The ending; None where a `maintain` loop goes on to its next cycle."""
    run, loop, state = turn.run, turn.loop, turn.state
    if run.timed_out_in is not None:
        return EndLeftovers(endings.LOOP_TIMEOUT)
    outcome = outcome_of(run.current_state, state, run.entered_by)
    if outcome == "review":
        return EndLeftovers(endings.REVIEW._replace(message=_last_said(turn)))
    if outcome == "failure":
        message = _last_said(turn) or _way_in(run.entered_by)
        return EndLeftovers(endings.FAILURE_STATE._replace(message=message))
    if not loop.maintain:
        return EndLeftovers(endings.COMPLETED)
    target = state.on_maintain or loop.initial
    turn.note(TransitionTaken(run.current_state, target, MAINTAIN))
    note_cycle(turn)
    return None


def note_cycle(turn: Turn) -> None:
    wait_ms = max(to_ms(turn.loop.maintain_interval), LEAST_INTERVAL_MS)
    turn.note(Cycle(turn.run.cycle + 1, wait_ms))


def _way_in(entered_by: str | None) -> str:
    """What makes a failure of a state whose name does not say so."""
    return f"entered by `{entered_by}`" if entered_by in FAILURE_TRANSITIONS else ""


def _last_said(turn: Turn) -> str:
    """What the action of the last state had to say about it."""
    if turn.state.action is None or turn.run.prev_state != turn.run.current_state:
        return ""
    text = turn.result.output or turn.result.tail or ""
    return text.rstrip().rpartition("\n")[2].strip()
