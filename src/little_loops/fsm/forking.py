"""Decide where a fork begins: the events of a run up to the end of a step, and the state they give.

Not here: the files of a fork (`trees.forks`), making one (`engine.forking`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import takewhile

from little_loops.fsm.endings import not_resumable
from little_loops.fsm.events import Entry, FinalEvent, StateEnter
from little_loops.fsm.evolve import first_state, replay
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import LoopState
from little_loops.light_typing import Any

FINISHED = ("moving", "judged")
"""The phases in which the step itself has ended."""


def events_until(entries: Iterable[Entry], step: int) -> list[Entry]:
    """Return the events of a run up to the end of a step, without the end of the run."""

    def is_before_next(entry: Entry) -> bool:
        return not isinstance(entry.event, StateEnter) or entry.event.step <= step

    found = list(takewhile(is_before_next, entries))
    return found[:-1] if found and isinstance(found[-1].event, FinalEvent) else found


def renamed(entries: Iterable[Entry], run: str) -> list[Entry]:
    """Return the events as those of another run."""
    return [entry._replace(run=run) for entry in entries]


def state_after(entries: list[Entry], context: Mapping[str, Any]) -> LoopState:
    """Return the state of a run after these events; `context` is what it was started with."""
    return replay(first_state(entries[0], context), entries)


def cannot_fork(loop: FSMLoop, run: LoopState, step: int) -> str | None:
    """Return why a run in this state cannot continue with this definition, after its step; None if
    it can."""
    if run.phase == "ended" or loop_ends_in(loop, run):
        return f"the run ended in step {step}, in state `{run.current_state}`"
    if run.phase not in FINISHED:
        return f"step {step} has not ended"
    running = run._replace(status="running", reason=None)
    return not_resumable(loop, running)


def loop_ends_in(loop: FSMLoop, run: LoopState) -> bool:
    """Return whether the current state is a terminal one that the run does not leave."""
    state = loop.states.get(run.current_state)
    return state is not None and state.terminal and run.phase != "moving"
