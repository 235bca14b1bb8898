"""A run on a terminal: lines that stay, and below them what the action is doing right now.

The live part is there only while an action runs.  It is gone, and the terminal in order, before
anything else is written: at the end of an action, on Ctrl-Z, when the run ends however it may.  The
cursor is never hidden, so that not even a kill leaves a terminal without one.

Not here: what the lines say (`terminal_lines`), when a terminal gets this (`foreground`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO

from little_loops.fsm.events import ActionComplete, ActionInterrupted, ActionStart, Entry
from little_loops.records import NamedTuple
from little_loops.reporting.escape import visible
from little_loops.reporting.excerpt import BAR, Excerpt
from little_loops.reporting.held_end import HeldEnd
from little_loops.reporting.lines import INDENT
from little_loops.reporting.masking import Masker
from little_loops.reporting.observers import Observer
from little_loops.terminal.folding import folded, wrapped
from little_loops.terminal.last_line import LastOutput
from little_loops.terminal.screen import Screen, Span
from little_loops.terminal.tables import cells, cut
from little_loops.terminal.terminal_lines import QUIET, Line, TerminalLines, live_lines

TICK_S = 0.1
REDRAW_S = 0.05
SOON_S = 0.2
"""An action that is over by then needs no live part."""
WIDEST = 100
"""Where the times stand on a wide terminal: further away the eye would lose the row."""
GAP = 2
MARGIN = 3
"""Columns left free at the right: the terminal echoes `^C` there, and it must not wrap."""
LOWEST = 4

Size = tuple[int, int]


class Terminal(NamedTuple):
    """The terminal we write to; its size is asked for each time, people change it."""

    screen: Screen
    size: Callable[[], Size]
    is_ours: Callable[[], bool]


def terminal(
    stream: TextIO, *, colour: bool, is_behind: Callable[[], bool] = lambda: False
) -> Terminal:
    """`is_behind`: nobody reads it just now, so there is no use in moving anything on it."""
    fd = stream.fileno()
    return Terminal(
        Screen(stream, colour=colour),
        lambda: _size(fd),
        lambda: not is_behind() and _in_foreground(fd),
    )


def _size(fd: int) -> Size:
    try:
        columns, lines = os.get_terminal_size(fd)
    except OSError:
        return 80, 24
    return columns or 80, lines or 24


def _in_foreground(fd: int) -> bool:
    """After Ctrl-Z and `bg` the bottom of the screen is the shell's."""
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:  # not our own terminal, so no shell shares it
        return True


class Hints(NamedTuple):
    """The second live line: what one can do, and where to look."""

    log: str
    stopping: Callable[[], bool] = lambda: False

    def that_fits(self, room: int, dot: str) -> str:
        if self.stopping():
            return "stopping; ctrl-c again stops immediately"
        hint = "ctrl-c stops and saves"
        more = f"{hint} {dot} log {self.log}"
        return more if cells(more) <= room else hint


class Running(NamedTuple):
    began: float
    prints_text: bool


class Drawn(NamedTuple):
    """The live part as it was drawn: the terminal's width then, and the width of each line."""

    width: int
    line_cells: tuple[int, ...]


class LiveScreen(Observer):
    def __init__(
        self,
        terminal: Terminal,
        teller: TerminalLines,
        masker: Masker,
        hints: Hints,
        *,
        verbose: bool = False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._terminal = terminal
        self._teller = teller
        self._masker = masker
        self._hints = hints
        self._verbose = verbose
        self._now = now
        self._held = HeldEnd()
        self._running: Running | None = None
        self._drawn: Drawn | None = None
        self._drawn_at = 0.0
        self._output = LastOutput(masker)
        self._doing = ""
        self._used = ""
        self._excerpts: dict[str, Excerpt] = {}
        self._unfinished: dict[str, str] = {}

    # What it is told.

    def record(self, entry: Entry) -> None:
        event = entry.event
        if isinstance(event, ActionComplete | ActionInterrupted):
            self._end()
        for shown in self._held.feed(event):
            for line in self._teller.lines(*shown):
                self._print(line)
        if isinstance(event, ActionStart):
            self._begin(prints_text=self._teller.prints_text(event))
            self._doing = self._teller.unnamed(event)

    def learn(self, environ: Mapping[str, str]) -> None:
        self._masker.learn(environ)

    def printed(self, stream: str, chunk: bytes) -> None:
        # A stream for programs is nothing to show; what such an agent does comes as `doing`.
        if self._running is None or not self._running.prints_text:
            return
        self._output.feed(stream, chunk)
        if self._verbose:
            if stream not in self._excerpts:
                self._excerpts[stream] = Excerpt(self._masker)
            self._print_output(stream, self._excerpts[stream].feed(chunk))
        self._draw_if_due()

    def doing(self, text: str) -> None:
        self._doing = visible(" ".join(self._masker.mask(text).split()), newlines=False)
        if self._verbose:
            self._print(Line(BAR + self._doing))
        self._draw_if_due()

    def changed(self, paths: Sequence[str]) -> None:
        self._teller.changed(map(self._masker.mask, paths))

    def used(self, tokens: int, cost_usd: float | None) -> None:
        cost = "" if cost_usd is None else f" · ${cost_usd:.2f}"
        self._used = f"{_thousands(tokens)} tokens{cost}"
        self._draw_if_due()

    def tick(self) -> float | None:
        if self._running is None:
            return None
        self._draw()
        return TICK_S

    def _now_doing(self) -> str:
        doing = self._doing or self._output.line()
        return " · ".join(part for part in (self._used, doing) if part)

    def stand_aside(self) -> None:
        """The terminal is somebody else's until the next tick."""
        drawn, self._drawn = self._drawn, None
        if drawn is None:
            return
        width, wrapped = self._width(), 0
        if width < drawn.width:
            wrapped = sum((taken - 1) // width for taken in drawn.line_cells if taken)
        self._terminal.screen.erase(wrapped)

    def suspended(self, seconds: float) -> None:
        """The action did too, so its time does not count."""
        if self._running is not None:
            self._running = self._running._replace(began=self._running.began + seconds)

    def close(self) -> None:
        self._running = None
        self.stand_aside()

    # The life of an action.

    def _begin(self, *, prints_text: bool) -> None:
        self._running = Running(self._now(), prints_text)
        self._output = LastOutput(self._masker)
        self._doing = ""
        self._used = ""

    def _end(self) -> None:
        for stream, excerpt in self._excerpts.items():
            self._print_output(stream, excerpt.finish())
        self._excerpts.clear()
        self.close()

    # Lines that stay.

    def _print_output(self, stream: str, text: str) -> None:
        """Whole lines only: the live part begins at the left edge."""
        text = self._unfinished.pop(stream, "") + text
        whole, _, self._unfinished[stream] = text.rpartition("\n")
        if whole:
            width = self._width()
            lines = self._writable(whole).split("\n")
            self._terminal.screen.print(Span("\n".join(wrapped(line, width) for line in lines)))

    def _print(self, line: Line) -> None:
        width = self._width()
        edge = min(width, WIDEST)
        # The time has a column of its own, so what it belongs to is broken before it.
        room = edge - GAP - cells(line.right) if line.right else width
        text = folded(self._writable(line.text), room)
        styled = len(text) if line.styled is None else line.styled
        spans = [Span(text[:styled], line.style), Span(text[styled:])]
        if line.right:
            spans.append(Span(_beside(text, line.right, edge)))
            spans.append(Span(line.right, QUIET))
        self._terminal.screen.print(*spans)

    def _writable(self, text: str) -> str:
        """Nothing that drives a terminal, nothing its encoding lacks."""
        encoding = self._terminal.screen.encoding
        shown = visible(text).replace("\t", " ")
        return shown.encode(encoding, "backslashreplace").decode(encoding)

    # The live part.

    def _draw_if_due(self) -> None:
        if self._now() - self._drawn_at >= REDRAW_S:
            self._draw()

    def _draw(self) -> None:
        now, running = self._now(), self._running
        if running is None or now - running.began < SOON_S:
            return
        width = self._width()
        if self._drawn is not None and width < self._drawn.width:
            self.stand_aside()
        if not self._terminal.is_ours():
            self.stand_aside()
            return
        self._drawn_at = now
        lines = self._live_lines(now - running.began, width)
        self._terminal.screen.draw(lines, QUIET)
        self._drawn = Drawn(width, tuple(cells(line) for line in lines))

    def _live_lines(self, elapsed_s: float, width: int) -> list[str]:
        signs, room = self._teller.signs, max(width - MARGIN, 1)
        hint = self._hints.that_fits(room - len(INDENT), signs.dot)
        lines = live_lines(signs, elapsed_s, self._now_doing(), hint)
        _, height = self._terminal.size()
        shown = lines if height >= LOWEST else lines[:1]
        return [cut(self._writable(line), room, signs.cut) for line in shown]

    def _width(self) -> int:
        return self._terminal.size()[0]


def _beside(text: str, right: str, width: int) -> str:
    """The blanks between a text and what stands at the right edge, or below if there is no room."""
    room = width - cells(text.rpartition("\n")[2]) - cells(right)
    return " " * room if room >= GAP else "\n" + " " * max(width - cells(right), 0)


def _thousands(count: int) -> str:
    return str(count) if count < 1000 else f"{count // 1000}k"
