"""A run on a terminal: permanent lines, and below them what the action is doing now.

The live part exists only while an action runs. It is removed before anything else is written: at
the end of an action, on Ctrl-Z, and when the run ends in any way. The cursor is never hidden, so
that not even a kill leaves a terminal without one.

Not here: what the lines say (`terminal_lines`), when a terminal gets this (`foreground`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence

from little_loops.fsm.events import (
    ActionComplete,
    ActionInterrupted,
    ActionStart,
    ChildEnd,
    ChildrenPlanned,
    ChildStart,
    Cost,
    Entry,
    Event,
    LoopStart,
    Resume,
)
from little_loops.fsm.joins import ENDED
from little_loops.fsm.state import Children
from little_loops.light_typing import TextIO
from little_loops.records import NamedTuple
from little_loops.reporting.escape import visible
from little_loops.reporting.excerpt import BAR, Excerpt
from little_loops.reporting.held_end import HeldEnd
from little_loops.reporting.lines import INDENT
from little_loops.reporting.masking import Masker
from little_loops.reporting.observers import Observer
from little_loops.reporting.reporter import marked_lines
from little_loops.terminal.branch_table import FOLDED, BranchTable
from little_loops.terminal.folding import folded, wrapped
from little_loops.terminal.last_line import LastOutput
from little_loops.terminal.screen import Screen, StyledText
from little_loops.terminal.tables import cells, cut
from little_loops.terminal.terminal_lines import QUIET, Line, TerminalLines, live_lines

TICK_S = 0.1
REDRAW_S = 0.05
SOON_S = 0.2
"""Actions shorter than this are not shown live."""
WIDEST = 100
"""The right edge for times on a wide terminal, so that they stay close to the text."""
GAP = 2
MARGIN = 3
"""Columns left free at the right: the terminal echoes `^C` there, and it must not wrap."""
LOWEST = 4

Size = tuple[int, int]


class Terminal(NamedTuple):
    """The terminal we write to; its size is read each time, because it may change."""

    screen: Screen
    size: Callable[[], Size]
    is_ours: Callable[[], bool]


def terminal(
    stream: TextIO, *, colour: bool, is_behind: Callable[[], bool] = lambda: False
) -> Terminal:
    """Return the terminal of a stream; while `is_behind` is true, nothing live is drawn on it."""
    fd = stream.fileno()
    return Terminal(
        Screen(stream, colour=colour),
        lambda: _size(fd),
        lambda: not is_behind() and _in_foreground(fd),
    )


def _size(fd: int) -> Size:
    """Return the columns and rows of a terminal; 80 and 24 if they are unknown."""
    try:
        columns, lines = os.get_terminal_size(fd)
    except OSError:
        return 80, 24
    return columns or 80, lines or 24


def _in_foreground(fd: int) -> bool:
    """Return whether we are in the foreground; after Ctrl-Z and `bg`, the shell uses the screen."""
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:  # not our own terminal, so no shell shares it
        return True


class Hints(NamedTuple):
    """The second live line: what the user can do, and where the log is."""

    log: str
    stopping: Callable[[], bool] = lambda: False

    def that_fits(self, room: int, dot: str) -> str:
        """Return the longest hint that fits."""
        if self.stopping():
            return "stopping; ctrl-c again stops immediately"
        hint = "ctrl-c stops and saves"
        more = f"{hint} {dot} log {self.log}"
        return more if cells(more) <= room else hint


class RunningAction(NamedTuple):
    began: float
    prints_text: bool


class Drawn(NamedTuple):
    """The live part as drawn: the terminal's width at that time, and the width of each line."""

    width: int
    line_cells: tuple[int, ...]


class LiveScreen(Observer):
    """An observer that prints a run's lines on a terminal, with a live part below them."""

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
        """Print the lines of `teller` to the terminal; with `verbose`, also the output of actions.

        `hints` is the second live line.
        """
        self._terminal = terminal
        self._teller = teller
        self._masker = masker
        self._hints = hints
        self._verbose = verbose
        self._now = now
        self._held = HeldEnd()
        self._running: RunningAction | None = None
        self._drawn: Drawn | None = None
        self._drawn_at = 0.0
        self._output = LastOutput(masker)
        self._doing = ""
        self._used = ""
        self._excerpts: dict[str, Excerpt] = {}
        self._unfinished: dict[str, str] = {}
        self._table: BranchTable | None = None
        self._spent_usd = 0.0
        self._limit_usd = teller.max_cost_usd

    # Events and output.

    def record(self, entry: Entry) -> None:
        """Print the lines for an event; start or end the live part with an action."""
        event = entry.event
        if isinstance(event, ActionComplete | ActionInterrupted):
            self._end()
        for shown in self._held.feed(event):
            lines = self._teller.lines(*shown)
            if not self._is_folded(shown[0]):
                for line in lines:
                    self._print(line)
        self._follow(event)
        if isinstance(event, ActionStart):
            self._begin(prints_text=self._teller.prints_text(event))
            self._doing = self._teller.unnamed(event)

    def _is_folded(self, event: Event) -> bool:
        """Return whether an event is only counted in the table of branches."""
        if self._table is None or self._verbose:
            return False
        match event:
            case ChildEnd(stage=stage):
                return stage in FOLDED
            case Cost(child=child):
                return child is not None
            case _:
                return False

    def _follow(self, event: Event) -> None:
        """Keep the table of branches and the sum of the cost up to date."""
        match event:
            case ChildrenPlanned(several=True):
                self._table = BranchTable(event.state, event.names)
            case ChildStart() if self._table is not None:
                self._table.start(event.child)
            case ChildEnd() if self._table is not None:
                self._table.end(event)
            case Cost():
                self._spent_usd += event.cost_usd
            case LoopStart() | Resume() if event.limits.max_cost_usd is not None:
                self._limit_usd = event.limits.max_cost_usd
            case _:
                pass

    def continues(self, children: Children) -> None:
        """Show the table of branches that a resumed run continues."""
        self._teller.continues(children)
        if children.several:
            self._table = BranchTable(children.state, children.names)
            self._table.ended.update(
                (name, stage)
                for name, stage in zip(children.names, children.stages, strict=True)
                if stage in ENDED
            )
        self._begin(prints_text=False)

    def learn(self, environ: Mapping[str, str]) -> None:
        self._masker.learn(environ)

    def printed(self, stream: str, chunk: bytes) -> None:
        """Take output of an action; with `verbose`, print it."""
        # Output for programs is not displayed; such an agent's activity arrives through `doing`.
        if self._running is None or not self._running.prints_text:
            return
        self._output.feed(stream, chunk)
        if self._verbose:
            if stream not in self._excerpts:
                self._excerpts[stream] = Excerpt(self._masker)
            self._print_output(stream, self._excerpts[stream].feed(chunk))
        self._draw_if_due()

    def below(self, child: str, text: str) -> None:
        """Print the lines of a run that this one has started; those of a branch are in the table."""
        text = self._masker.mask(text)
        if self._table is not None and self._table.add_lines(child, text) and not self._verbose:
            self._draw_if_due()
            return
        for line in marked_lines(child, text, output=self._verbose):
            self._print(Line(line, style=QUIET, styled=len(child) + 2))
        self._draw_if_due()

    def below_used(self, child: str, cost_usd: float) -> None:
        if self._table is not None:
            self._table.used(child, cost_usd)

    def doing(self, text: str) -> None:
        """Take a description of what an agent is doing."""
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
        """Draw the live part. Return the seconds until the next call; None if no action runs."""
        if self._running is None:
            return None
        self._draw()
        return TICK_S

    def _now_doing(self) -> str:
        """Return the text of the live line: usage, and the activity or the last line of output."""
        doing = self._doing or self._output.line()
        return " · ".join(part for part in (self._used, doing) if part)

    def hide(self) -> None:
        """Remove the live part, because something else uses the terminal until the next tick."""
        drawn, self._drawn = self._drawn, None
        if drawn is None:
            return
        width, wrapped = self._width(), 0
        if width < drawn.width:
            wrapped = sum((taken - 1) // width for taken in drawn.line_cells if taken)
        self._terminal.screen.erase(wrapped)

    def suspended(self, seconds: float) -> None:
        """Take the seconds of a suspension, which do not count as running time."""
        if self._running is not None:
            self._running = self._running._replace(began=self._running.began + seconds)

    def close(self) -> None:
        self._running = None
        self.hide()

    # Start and end of an action.

    def _begin(self, *, prints_text: bool) -> None:
        """Note that an action has started, and forget the last one's output, activity and usage."""
        self._running = RunningAction(self._now(), prints_text)
        self._output = LastOutput(self._masker)
        self._doing = ""
        self._used = ""

    def _end(self) -> None:
        """Print the rest of the action's output, and remove the live part."""
        for stream, excerpt in self._excerpts.items():
            self._print_output(stream, excerpt.finish())
        self._excerpts.clear()
        self._table = None
        self.close()

    # Permanent lines.

    def _print_output(self, stream: str, text: str) -> None:
        """Print complete lines of output; the live part must start at the left edge."""
        text = self._unfinished.pop(stream, "") + text
        whole, _, self._unfinished[stream] = text.rpartition("\n")
        if whole:
            width = self._width()
            lines = self._writable(whole).split("\n")
            self._terminal.screen.print(
                StyledText("\n".join(wrapped(line, width) for line in lines))
            )

    def _print(self, line: Line) -> None:
        """Print a permanent line, with its time at the right edge."""
        width = self._width()
        edge = min(width, WIDEST)
        # The time has its own column, so the text is folded before it.
        room = edge - GAP - cells(line.right) if line.right else width
        text = folded(self._writable(line.text), room)
        styled = len(text) if line.styled is None else line.styled
        spans = [StyledText(text[:styled], line.style), StyledText(text[styled:])]
        if line.right:
            spans.append(StyledText(_beside(text, line.right, edge)))
            spans.append(StyledText(line.right, QUIET))
        self._terminal.screen.print(*spans)

    def _writable(self, text: str) -> str:
        """Return the text without control characters, and without those that the encoding lacks."""
        encoding = self._terminal.screen.encoding
        shown = visible(text).replace("\t", " ")
        return shown.encode(encoding, "backslashreplace").decode(encoding)

    # The live part.

    def _draw_if_due(self) -> None:
        if self._now() - self._drawn_at >= REDRAW_S:
            self._draw()

    def _draw(self) -> None:
        """Draw the live part, if an action has run for a moment and the terminal is ours."""
        now, running = self._now(), self._running
        if running is None or now - running.began < SOON_S:
            return
        width = self._width()
        if self._drawn is not None and width < self._drawn.width:
            self.hide()
        if not self._terminal.is_ours():
            self.hide()
            return
        self._drawn_at = now
        lines = self._live_lines(now - running.began, width)
        self._terminal.screen.draw(lines, QUIET)
        self._drawn = Drawn(width, tuple(cells(line) for line in lines))

    def _live_lines(self, elapsed_s: float, width: int) -> list[str]:
        """Return the live lines, cut to the width; only one on a very low terminal."""
        signs, room = self._teller.signs, max(width - MARGIN, 1)
        hint = self._hints.that_fits(room - len(INDENT), signs.dot)
        lines = live_lines(signs, elapsed_s, self._now_doing(), hint)
        _, height = self._terminal.size()
        if self._table is not None:
            table = self._table.lines(height - LOWEST - 2, signs, self._cost_text())
            lines = [*lines[:1], *table, *lines[1:]]
        shown = lines if height >= LOWEST else lines[:1]
        return [cut(self._writable(line), room, signs.cut) for line in shown]

    def _cost_text(self) -> str:
        """Return what the run and its branches have spent, against the limit, if any."""
        running_usd = 0.0 if self._table is None else self._table.running_usd
        spent_usd = self._spent_usd + running_usd
        if self._limit_usd is not None:
            return f"${spent_usd:.2f} of ${self._limit_usd:.2f}"
        return f"${spent_usd:.2f}" if spent_usd else ""

    def _width(self) -> int:
        return self._terminal.size()[0]


def _beside(text: str, right: str, width: int) -> str:
    """Return the spaces before a text at the right edge; a new line if there is no room."""
    room = width - cells(text.rpartition("\n")[2]) - cells(right)
    return " " * room if room >= GAP else "\n" + " " * max(width - cells(right), 0)


def _thousands(count: int) -> str:
    return str(count) if count < 1000 else f"{count // 1000}k"
