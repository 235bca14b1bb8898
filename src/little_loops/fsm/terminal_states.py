"""How a run ends in a terminal state, or starts a new cycle there."""

from __future__ import annotations

from little_loops.fsm import endings
from little_loops.fsm.commands import EndLeftovers
from little_loops.fsm.events import Cycle, RunWarning, TransitionTaken
from little_loops.fsm.record_events import end_of_step
from little_loops.fsm.schema import FAILURE_TRANSITIONS, PASS, outcome_of
from little_loops.fsm.state import Judgement
from little_loops.fsm.turn import Turn
from little_loops.fsm.verdicts import judge_action
from little_loops.fsm.waits import to_ms

MAINTAIN = "on_maintain"
LEAST_INTERVAL_MS = 1000
"""Also applies to a loop that was not validated."""


def warn_of_failure(turn: Turn) -> None:
    """Record a warning if the action of a terminal state did not pass; it no longer changes the
    outcome."""
    judged = judge_action(turn.state, turn.run, turn.loop.idle_timeout)
    if isinstance(judged, Judgement) and judged.verdict != PASS:
        message = f"the action of `{turn.run.current_state}` failed: {judged.reason}"
        turn.note(RunWarning(message, turn.run.current_state))


def end_in_terminal(turn: Turn) -> EndLeftovers | None:
    """Return the ending, or None if a `maintain` loop starts its next cycle, which is then
    recorded."""
    end_of_step(turn)
    run, loop, state = turn.run, turn.loop, turn.state
    if run.timed_out_in is not None:
        return EndLeftovers(endings.LOOP_TIMEOUT)
    outcome = outcome_of(run.current_state, state, run.entered_by)
    if outcome == "review":
        return EndLeftovers(endings.REVIEW._replace(message=_last_output(turn)))
    if outcome == "failure":
        message = _last_output(turn) or _entry_reason(run.entered_by)
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


def _entry_reason(entered_by: str | None) -> str:
    """Return the failure transition that led to a state whose name does not indicate failure."""
    return f"entered by `{entered_by}`" if entered_by in FAILURE_TRANSITIONS else ""


def _last_output(turn: Turn) -> str:
    """Return the last line that the terminal state's action printed; empty if there is none."""
    if turn.state.action is None or turn.run.prev_state != turn.run.current_state:
        return ""
    text = turn.result.output or turn.result.tail or ""
    return text.rstrip().rpartition("\n")[2].strip()
