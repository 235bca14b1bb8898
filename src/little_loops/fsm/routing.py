"""Find the transition for a verdict, or the ending if there is none."""

from __future__ import annotations

from little_loops.fsm import endings
from little_loops.fsm.commands import Ending
from little_loops.fsm.conditions import NOT_RUN
from little_loops.fsm.schema import (
    CURRENT,
    ERROR,
    PROOF_VERDICTS,
    TIMEOUT,
    FSMLoop,
    StateConfig,
    Transition,
    transition_for,
)
from little_loops.fsm.state import Judgement, LoopState
from little_loops.light_typing import Any


def find_transition(loop: FSMLoop, run: LoopState, verdict: str) -> Transition | None:
    """Return the state's own transition for a verdict, else the loop's handler for errors and
    timeouts; None if there is neither. `$current` does not count once the retries are used up."""
    state = loop.states[run.current_state]
    transition = transition_for(state, verdict)
    if transition is not None and transition.target == CURRENT and _retries_used_up(state, run):
        transition = transition_for(_without_current(state), verdict)
    if transition is not None:
        return transition
    handlers = {ERROR: loop.on_error, TIMEOUT: loop.on_timeout}
    handler = handlers.get(verdict)
    # An error in the handler itself ends the run; otherwise the run would loop forever.
    if handler is None or handler == run.current_state:
        return None
    return Transition(handler, f"on_{verdict}")


def _retries_used_up(state: StateConfig, run: LoopState) -> bool:
    allowed = state.retry.max if state.retry is not None else None
    return allowed is not None and run.retries + 1 >= allowed


def _without_current(state: StateConfig) -> StateConfig:
    """Return the state without its transitions to `$current`."""
    plain: dict[str, Any] = {name: None for name, to in state._asdict().items() if to == CURRENT}
    words = {word: to for word, to in state.on_words.items() if to != CURRENT}
    route = {word: to for word, to in state.route.items() if to != CURRENT}
    return state._replace(**plain, on_words=words, route=route)


def no_transition(loop: FSMLoop, run: LoopState, judgement: Judgement) -> Ending:
    """Return the ending of a run whose verdict has no transition."""
    verdict = judgement.verdict
    if verdict in (ERROR, TIMEOUT, *PROOF_VERDICTS):
        return endings.failed(verdict, _with_last_words(run, judgement.reason) or verdict)
    message = f"no transition for the verdict `{verdict}`"
    if transition_for(loop.states[run.current_state], verdict):  # it led to `$current`
        message += " after the last `retry`"
    return endings.failed("no_transition", f"{message} ({judgement.reason})")


def _with_last_words(run: LoopState, reason: str) -> str:
    """Add the last line of stderr to a reason that is only an exit code."""
    result = run.captured.get(run.current_state)
    if result is None or reason != f"exit {result.exit_code}":
        return reason
    said = (result.stderr or "").rstrip().rpartition("\n")[2].strip()
    said = said or NOT_RUN.get(result.exit_code or 0, "")
    return f"{reason}: {said}" if said else reason
