"""Pick a part of a run's log: the actions of one state, what is new, or just what was printed.

Told from events and outputs, in the same words in which the log was written.

Not here: where they come from (`runs.playback`), when to print (`logs`).
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable

from little_loops.fsm.events import (
    ActionComplete,
    ActionInterrupted,
    ActionStart,
    Entry,
    Event,
    FinalEvent,
    LoopStart,
    Resume,
)
from little_loops.fsm.schema import FSMLoop
from little_loops.reporting.escape import visible
from little_loops.reporting.held_end import WithVerdict
from little_loops.reporting.lines import Teller
from little_loops.reporting.masking import Masker
from little_loops.reporting.reporter import Reporter
from little_loops.runs.view import RunView

DEFAULT_ITERATIONS = 50
LONGEST_LINE = 1 << 20

WriteLine = Callable[[str], object]


class Picked(Reporter):
    """The lines of the log from an event on, of one state's actions if one is given."""

    def __init__(
        self,
        view: RunView,
        machine: FSMLoop | None,
        write: WriteLine,
        *,
        state: str | None,
        first: int,
    ) -> None:
        limit = machine.max_iterations if machine else DEFAULT_ITERATIONS
        # What comes from events and outputs has its secrets hidden already.
        super().__init__(
            self._lines, Teller(view.loop, limit, commands=True), Masker({}), output=True
        )
        self._limit = limit
        self._write_line = write
        self._state = state
        self._first = first
        self._is_new = False
        self._is_inside = state is None
        self._half = ""

    def record(self, entry: Entry) -> None:
        self._is_new = self._is_new or entry.seq >= self._first
        super().record(entry)

    def _tell(self, shown: WithVerdict) -> None:
        event = shown.event
        self._look(event)
        if isinstance(event, LoopStart | Resume) and event.limits.max_iterations:
            self._teller.max_iterations = event.limits.max_iterations
        if self._is_wanted:
            super()._tell(shown)
        else:
            self._teller.lines(*shown)  # it counts iterations

    def _look(self, event: Event) -> None:
        """An action belongs to its state, up to the next one; how the run ended to none."""
        if self._state is not None and isinstance(event, ActionStart):
            self._is_inside = event.state == self._state
        elif self._state is not None and isinstance(event, FinalEvent):
            self._is_inside = False

    @property
    def _is_wanted(self) -> bool:
        return self._is_new and self._is_inside

    def printed(self, stream: str, chunk: bytes) -> None:
        if self._is_wanted:
            super().printed(stream, chunk)

    def finish(self) -> None:
        """What is left of an action that has not come to its end."""
        self._end_excerpts()
        self._flush()
        self._lines("")
        if self._half:
            self._write_line(self._half + "\n")
            self._half = ""

    def _lines(self, text: str) -> None:
        """Whole lines only: what follows is a filter, or the last so many of them."""
        *whole, self._half = (self._half + text).split("\n")
        for line in whole:
            self._write_line(f"{line}\n")


class RawLines(Picked):
    """What the actions printed, and nothing else."""

    def __init__(
        self,
        view: RunView,
        machine: FSMLoop | None,
        write: WriteLine,
        *,
        state: str | None,
        first: int,
    ) -> None:
        super().__init__(view, machine, write, state=state, first=first)
        self._streams: dict[str, TextLines] = {}

    def record(self, entry: Entry) -> None:
        self._is_new = self._is_new or entry.seq >= self._first
        if isinstance(entry.event, ActionComplete | ActionInterrupted):
            self.finish()
        self._look(entry.event)

    def printed(self, stream: str, chunk: bytes) -> None:
        if self._is_wanted:
            lines = self._streams.setdefault(stream, TextLines())
            for line in lines.feed(chunk):
                self._write_line(f"{visible(line)}\n")

    def finish(self) -> None:
        for lines in self._streams.values():
            for line in lines.finish():
                self._write_line(f"{visible(line)}\n")
        self._streams.clear()


class TextLines:
    """Whole lines out of bytes; one that never ends is cut, so that memory stays bounded."""

    def __init__(self) -> None:
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._held = ""

    def feed(self, piece: bytes) -> list[str]:
        *whole, self._held = (self._held + self._decoder.decode(piece)).split("\n")
        if len(self._held) > LONGEST_LINE:
            whole, self._held = [*whole, self._held], ""
        return whole

    def finish(self) -> list[str]:
        held, self._held = self._held + self._decoder.decode(b"", True), ""
        return [held] if held else []


def first_wanted(entries: Iterable[Entry], since_ms: int, *, goes_on: bool) -> int:
    """The number of the event from which on everything is new: the start of an action.

    An action that was under way at that time is new; so is one that led to an end which is.
    """
    start = under_way = None
    seq = 0
    for entry in entries:
        seq, is_late = entry.seq, entry.wall_ms >= since_ms
        if isinstance(entry.event, ActionStart):
            start = under_way = seq
        if is_late and under_way is not None:
            return under_way
        if isinstance(entry.event, ActionComplete | ActionInterrupted):
            under_way = None
        elif isinstance(entry.event, FinalEvent) and is_late and start is not None:
            return start
    return under_way if goes_on and under_way is not None else seq + 1
