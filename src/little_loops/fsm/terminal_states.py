"""How a run ends in a terminal state, or starts a new cycle there."""

from __future__ import annotations

from little_loops.fsm import endings
from little_loops.fsm.commands import EndLeftovers
from little_loops.fsm.events import Cycle, RunWarning, TransitionTaken
from little_loops.fsm.record_events import end_of_step
from little_loops.fsm.schema import FAILURE_TRANSITIONS, PASS, outcome_of
from little_loops.fsm.state import Judgement
from little_loops.fsm.step_builder import StepBuilder
from little_loops.fsm.verdicts import judge_action
from little_loops.fsm.waits import to_ms

MAINTAIN = "on_maintain"
LEAST_INTERVAL_MS = 1000
"""The shortest wait between cycles, also in a loop that was not validated."""


def warn_of_failure(builder: StepBuilder) -> None:
    """Record a warning if the action of a terminal state did not pass; it no longer changes the
    outcome."""
    judged = judge_action(builder.state, builder.run, builder.loop.idle_timeout)
    if isinstance(judged, Judgement) and judged.verdict != PASS:
        here = builder.run.current_state
        builder.note(RunWarning(f"{failed_action(here)}{judged.reason}", here))


def failed_action(state: str) -> str:
    """Return how the warning about a failed action of a terminal state begins."""
    return f"the action of `{state}` failed: "


def end_in_terminal(builder: StepBuilder) -> EndLeftovers | None:
    """Return the ending, or None if a `maintain` loop starts its next cycle, which is then
    recorded."""
    end_of_step(builder)
    run, loop, state = builder.run, builder.loop, builder.state
    if run.timed_out_in is not None:
        return EndLeftovers(endings.LOOP_TIMEOUT)
    outcome = outcome_of(run.current_state, state, run.entered_by)
    if outcome == "review":
        return EndLeftovers(endings.REVIEW._replace(message=_last_output(builder)))
    if outcome == "failure":
        message = _last_output(builder) or _entry_reason(run.entered_by)
        return EndLeftovers(endings.FAILURE_STATE._replace(message=message))
    if not loop.maintain:
        return EndLeftovers(endings.COMPLETED)
    target = state.on_maintain or loop.initial
    builder.note(TransitionTaken(run.current_state, target, MAINTAIN))
    note_cycle(builder)
    return None


def note_cycle(builder: StepBuilder) -> None:
    wait_ms = max(to_ms(builder.loop.maintain_interval), LEAST_INTERVAL_MS)
    builder.note(Cycle(builder.run.cycle + 1, wait_ms))


def _entry_reason(entered_by: str | None) -> str:
    """Return the failure transition that led to a state whose name does not indicate failure."""
    return f"entered by `{entered_by}`" if entered_by in FAILURE_TRANSITIONS else ""


def _last_output(builder: StepBuilder) -> str:
    """Return the last line that the terminal state's action printed; empty if there is none."""
    if builder.state.action is None or builder.run.prev_state != builder.run.current_state:
        return ""
    text = builder.result.output or builder.result.tail or ""
    return text.rstrip().rpartition("\n")[2].strip()
