"""Select a part of a run's log: the actions of one state, what is new, or only the output.

The lines are generated from events and outputs, in the same words as the log.

Not here: where these come from (`runs.playback`), when to print (`logs`).
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable

from little_loops.fsm.actions import action_of_event, is_agents
from little_loops.fsm.events import (
    ActionComplete,
    ActionInterrupted,
    ActionStart,
    Entry,
    Event,
    FinalEvent,
    LoopStart,
    Resume,
    StateEnter,
)
from little_loops.fsm.schema import DEFAULT_ITERATIONS, FSMLoop
from little_loops.records import NamedTuple
from little_loops.reporting.escape import visible
from little_loops.reporting.held_end import HeldEnd, Mark, WithVerdict
from little_loops.reporting.lines import INDENT, PlainLines
from little_loops.reporting.masking import Masker
from little_loops.reporting.reporter import Reporter
from little_loops.runs.playback import ToolEnded
from little_loops.runs.view import RunView
from little_loops.terminal.durations import clock_time

LONGEST_LINE = 1 << 20

WriteLine = Callable[[str], object]


class RunPart(NamedTuple):
    """The wanted part of a run: from an event, up to one, and of which state."""

    first: int = 1
    last: int | None = None
    state: str | None = None


class Picked(Reporter):
    """Writes the lines of the log for a part of a run."""

    def __init__(
        self,
        view: RunView,
        machine: FSMLoop | None,
        write: WriteLine,
        part: RunPart,
        *,
        timestamps: bool = False,
    ) -> None:
        """Write the lines of a part with `write`, one call per line; `timestamps` adds the time.

        Without a machine, the default limit of iterations is shown.
        """
        limit = machine.max_iterations if machine else DEFAULT_ITERATIONS
        # Secrets in events and outputs are already masked.
        super().__init__(
            self._write_lines,
            PlainLines(view.loop, limit, commands=True, name=view.files.shown_name),
            Masker({}),
            output=True,
        )
        self._limit = limit
        self._write_line = write
        self._part = part
        self._is_inside = part.state is None
        self._is_in_part = False
        self._timestamps = timestamps
        self._at_ms = 0
        self._half = ""

    def record(self, entry: Entry) -> None:
        """Note whether the event is in the part, and handle it."""
        self._at_ms = entry.wall_ms
        self._is_in_part = self._part.first <= entry.seq <= (self._part.last or entry.seq)
        super().record(entry)

    def did(self, item: ToolEnded) -> None:
        """Ignore an agent's tool calls, which have their own list."""

    def _queue_lines(self, shown: WithVerdict) -> None:
        """Queue the lines for an event if it is in the wanted part."""
        event, _ = shown
        self._update_state(event)
        if isinstance(event, LoopStart | Resume) and event.limits.max_iterations:
            self._teller.max_iterations = event.limits.max_iterations
        if self._is_wanted:
            super()._queue_lines(shown)
        else:
            self._teller.lines(*shown)  # it counts iterations

    def _update_state(self, event: Event) -> None:
        """Note whether the wanted state is active: from its action to the next one."""
        if self._part.state is not None and isinstance(event, ActionStart):
            self._is_inside = event.state == self._part.state
        elif self._part.state is not None and isinstance(event, FinalEvent):
            self._is_inside = False

    @property
    def _is_wanted(self) -> bool:
        return self._is_in_part and self._is_inside

    def printed(self, stream: str, chunk: bytes) -> None:
        if self._is_wanted:
            super().printed(stream, chunk)

    def finish(self) -> None:
        """Write what is left of an action that has not ended."""
        self._end_excerpts()
        self._flush()
        self._write_lines("")
        if self._half:
            self._write_line(self._half + "\n")
            self._half = ""

    def _write_lines(self, text: str) -> None:
        """Write complete lines, with the time if wanted; keep an incomplete one."""
        *whole, self._half = (self._half + text).split("\n")
        when = f"{clock_time(self._at_ms)}  " if self._timestamps else ""
        for line in whole:
            self._write_line(f"{when if line else ''}{line}\n")


class AgentLines(Picked):
    """Writes what agents ran and changed: each agent action, and each tool call."""

    def _update_state(self, event: Event) -> None:
        """Note whether an action of an agent, in the wanted state, is active."""
        super()._update_state(event)
        if isinstance(event, ActionStart):
            is_agent = is_agents(action_of_event(event.action, event.action_type))
            self._is_inside = is_agent and self._part.state in (None, event.state)
        elif isinstance(event, StateEnter):
            self._is_inside = False
        elif isinstance(event, FinalEvent):
            self._is_inside = self._part.state is None

    def did(self, item: ToolEnded) -> None:
        """Remember the files of a tool call, and write its line if it is in the wanted part."""
        self.changed(item.files)
        if self._is_wanted:
            status = f" ({item.status})" if item.status else ""
            self._write_lines(f"{INDENT}- {visible(item.text, newlines=False)}{status}\n")

    def printed(self, stream: str, chunk: bytes) -> None:
        """Ignore the agent's text, which is in the log."""


class RawLines(Picked):
    """Writes only the output of actions."""

    def __init__(
        self,
        view: RunView,
        machine: FSMLoop | None,
        write: WriteLine,
        part: RunPart,
        *,
        timestamps: bool = False,
    ) -> None:
        """Write the output of a part with `write`; `timestamps` has no effect."""
        super().__init__(view, machine, write, part, timestamps=timestamps)
        self._streams: dict[str, TextLines] = {}

    def record(self, entry: Entry) -> None:
        """Note whether the event is in the part; write the rest of an ended action's output."""
        self._is_in_part = self._part.first <= entry.seq <= (self._part.last or entry.seq)
        if isinstance(entry.event, ActionComplete | ActionInterrupted):
            self.finish()
        self._update_state(entry.event)

    def printed(self, stream: str, chunk: bytes) -> None:
        """Write the complete lines of output in the wanted part, escaped."""
        if self._is_wanted:
            lines = self._streams.setdefault(stream, TextLines())
            for line in lines.feed(chunk):
                self._write_line(f"{visible(line)}\n")

    def finish(self) -> None:
        """Write the last line of each stream, if it has no newline."""
        for lines in self._streams.values():
            for line in lines.finish():
                self._write_line(f"{visible(line)}\n")
        self._streams.clear()


class TextLines:
    """Splits bytes into complete lines; cuts a line that is too long, to limit memory."""

    def __init__(self) -> None:
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._held = ""

    def feed(self, piece: bytes) -> list[str]:
        """Take a piece of output. Return the complete or too long lines, without newlines."""
        *whole, self._held = (self._held + self._decoder.decode(piece)).split("\n")
        if len(self._held) > LONGEST_LINE:
            whole, self._held = [*whole, self._held], ""
        return whole

    def finish(self) -> list[str]:
        held, self._held = self._held + self._decoder.decode(b"", True), ""
        return [held] if held else []


def first_wanted(entries: Iterable[Entry], since_ms: int, *, goes_on: bool) -> int:
    """Return the number of the event that starts the first action since a time.

    An action that was running at that time counts, and so does one that led to an end since then.
    If there is none: the number after the last event. `goes_on`: the run is still running.
    """
    start = running = None
    seq = 0
    for entry in entries:
        seq, is_late = entry.seq, entry.wall_ms >= since_ms
        if isinstance(entry.event, ActionStart):
            start = running = seq
        if is_late and running is not None:
            return running
        if isinstance(entry.event, ActionComplete | ActionInterrupted):
            running = None
        elif isinstance(entry.event, FinalEvent) and is_late and start is not None:
            return start
    return running if goes_on and running is not None else seq + 1


def last_failure(entries: Iterable[Entry]) -> RunPart | None:
    """Return the part with the last action that did not pass, and what followed; None if all did."""
    held, start = HeldEnd(), 1
    found: RunPart | None = None
    for entry in entries:
        if isinstance(entry.event, ActionStart):
            start = entry.seq
        for event, mark in held.feed(entry.event):
            if isinstance(event, ActionComplete) and _has_failed(event, mark):
                found = RunPart(start)
        if found is not None and found.last is None and isinstance(entry.event, StateEnter):
            found = found._replace(last=entry.seq - 1)
        if isinstance(entry.event, FinalEvent) and found is not None and found.last is None:
            found = found._replace(last=entry.seq)
    return found


def _has_failed(end: ActionComplete, mark: Mark | None) -> bool:
    """Return whether an action has failed: by its mark, or else by its exit code."""
    return end.result.exit_code != 0 if mark is None else mark == "bad"
