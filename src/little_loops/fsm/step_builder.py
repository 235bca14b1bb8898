"""One call of `advance`: the run and the events so far."""

from __future__ import annotations

from little_loops.fsm.events import Entry, Event
from little_loops.fsm.evolve import apply, stamped
from little_loops.fsm.schema import FSMLoop, StateConfig
from little_loops.fsm.state import LoopState, Note, Result
from little_loops.fsm.timestamps import Moment
from little_loops.light_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from little_loops.fsm.happenings import Admitted


class StepBuilder:
    """Collects events; each is applied to the run at once, so that later decisions see it.

    The time and the number of events in `run` are those before this step until it is `finished`.
    """

    __slots__ = ("admitted", "at", "events", "loop", "notes", "run", "seq")

    def __init__(
        self, loop: FSMLoop, run: LoopState, at: Moment, notes: tuple[Note, ...] = ()
    ) -> None:
        """Begin without events; `notes` were sent by people, and `fsm.notes` has yet to record
        them."""
        self.loop = loop
        self.run = run
        self.seq = run.seq
        self.at = at
        self.notes = notes
        self.events: list[Entry] = []
        self.admitted: Admitted | None = None

    def note(self, event: Event) -> None:
        """Append an event, and apply it to the run."""
        (wall_ms, ran_ms), run = self.at, self.run
        self.seq += 1
        entry = Entry(event, wall_ms, ran_ms, run.run, self.seq)
        self.run = apply(run, entry, self.seq)
        self.events.append(entry)

    def finished(self) -> LoopState:
        """Return the run after all events of this step."""
        return stamped(self.run, *self.at, self.seq) if self.events else self.run

    @property
    def state(self) -> StateConfig:
        return self.loop.states[self.run.current_state]

    @property
    def result(self) -> Result:
        return self.run.captured[self.run.current_state]
