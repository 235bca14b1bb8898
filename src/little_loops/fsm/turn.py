"""One call of `advance`, while it is being made: the run so far and the events so far."""

from __future__ import annotations

from typing import Any

from little_loops.fsm.events import RawEvent
from little_loops.fsm.evolve import evolve
from little_loops.fsm.happenings import Moment
from little_loops.fsm.schema import FSMLoop, StateConfig
from little_loops.fsm.state import LoopState, Result


class Turn:
    """Collects events; each changes the run at once, so that later decisions see it."""

    __slots__ = ("at", "events", "loop", "run")

    def __init__(self, loop: FSMLoop, run: LoopState, at: Moment) -> None:
        self.loop = loop
        self.run = run
        self.at = at
        self.events: list[RawEvent] = []

    def note(self, kind: str, /, **fields: Any) -> None:
        event = RawEvent(kind, fields, self.at.wall_ms, self.at.ran_ms)
        self.run = evolve(self.run, event)
        self.events.append(event)

    @property
    def state(self) -> StateConfig:
        return self.loop.states[self.run.current_state]

    @property
    def result(self) -> Result:
        return self.run.captured[self.run.current_state]
