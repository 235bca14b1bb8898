"""The one router: from a verdict to the way it takes."""

from __future__ import annotations

from typing import Any

from little_loops.fsm.schema import CURRENT, ERROR, TIMEOUT, FSMLoop, StateConfig, Way, ways
from little_loops.fsm.state import LoopState


def find_way(loop: FSMLoop, run: LoopState, verdict: str) -> Way | None:
    """The one router: the state's own way, else the loop's handler for errors and timeouts."""
    state = loop.states[run.current_state]
    way = ways(state).get(verdict)
    if way is not None and way.target == CURRENT and _retries_used_up(state, run):
        way = ways(_without_current(state)).get(verdict)
    if way is not None:
        return way
    handlers = {ERROR: loop.on_error, TIMEOUT: loop.on_timeout}
    handler = handlers.get(verdict)
    # An error in the handler itself ends the run; otherwise it would go round for ever.
    if handler is None or handler == run.current_state:
        return None
    return Way(handler, f"on_{verdict}")


def _retries_used_up(state: StateConfig, run: LoopState) -> bool:
    allowed = state.retry.max if state.retry is not None else None
    return allowed is not None and run.retries + 1 >= allowed


def _without_current(state: StateConfig) -> StateConfig:
    plain: dict[str, Any] = {name: None for name, to in state._asdict().items() if to == CURRENT}
    words = {word: to for word, to in state.on_words.items() if to != CURRENT}
    route = {word: to for word, to in state.route.items() if to != CURRENT}
    return state._replace(**plain, on_words=words, route=route)
