"""The lines of a run on a terminal: the plain lines in colour, a header, and times.

Not here: the plain lines (`reporting.lines`), colours on a screen and live lines (`live`).
"""

from __future__ import annotations

from collections.abc import Iterable

from little_loops.fsm.actions import Agent, Builtin, Loop, Shell, action_of_event
from little_loops.fsm.events import (
    ActionComplete,
    ActionStart,
    ConditionEval,
    Cost,
    Event,
    FinalEvent,
    LoopStart,
    RunWarning,
    TransitionTaken,
)
from little_loops.fsm.limit_kinds import BY_REASON
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import Children
from little_loops.fsm.turn_hosts import hosts_of
from little_loops.fsm.values import duration_text
from little_loops.records import NamedTuple
from little_loops.reporting.action_line import shown_action
from little_loops.reporting.amounts import times_text
from little_loops.reporting.held_end import Mark
from little_loops.reporting.lines import INDENT, PlainLines, machinery_of

GOOD, BAD, TAKE_CARE, QUIET, LOUD = "green", "red", "yellow", "dim", "bold"


class Line(NamedTuple):
    """A line; `right` is at the right edge, and the first `styled` characters have a style."""

    text: str
    right: str = ""
    style: str = ""
    styled: int | None = None


class LineSymbols(NamedTuple):
    good: str = "✓"
    bad: str = "✗"
    dot: str = "·"
    cut: str = "…"
    spinner: str = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


ASCII = LineSymbols("ok", "FAIL", "-", "...", "|/-\\")


class TerminalLines:
    """Converts events to lines for a terminal."""

    def __init__(
        self,
        loop: FSMLoop,
        limit: int,
        *,
        ascii_only: bool = False,
        commands: bool = False,
        detailed: bool = False,
        name: str | None = None,
    ) -> None:
        """Set up for a run with at most `limit` iterations; for the others see `PlainLines`."""
        self.signs = ASCII if ascii_only else LineSymbols()
        self._loop = loop
        self._plain = PlainLines(
            loop.name,
            limit,
            ascii_only=ascii_only,
            commands=commands,
            detailed=detailed,
            machinery=machinery_of(loop),
            name=name,
        )
        self._limit = limit
        self._has_started = False

    def continues(self, children: Children) -> None:
        self._plain.continues(children)

    def changed(self, paths: Iterable[str]) -> None:
        self._plain.changed(paths)

    def lines(self, event: Event, mark: Mark | None = None) -> list[Line]:
        """Return the lines for an event; before the first one, also the header."""
        header = [] if self._has_started else [self._header(event)]
        self._has_started = True
        return header + self._styled(event, self._plain.lines(event, mark))

    def unnamed(self, event: ActionStart) -> str:
        """Return the running action if no permanent line names it, else an empty string."""
        return shown_action(event) if self._plain.is_machinery(event.state) else ""

    @property
    def max_cost_usd(self) -> float | None:
        return self._loop.max_cost_usd

    def prints_text(self, event: ActionStart) -> bool:
        """Return whether the action prints text for people; most agents print JSON."""
        match action_of_event(event.action, event.action_type):
            case Agent():
                state = self._loop.states.get(event.state)
                hosts = hosts_of(self._loop, state)
                return hosts[min(self._plain.fallback, len(hosts) - 1)].host == "command"
            case Shell() | Builtin() | Loop():
                return True

    def _header(self, event: Event) -> Line:
        """Return the first line: the loop, its paradigm, the limit, and the scope if known."""
        parts = [self._loop.name, self._loop.paradigm, f"up to {times_text(self._limit)}"]
        if isinstance(event, LoopStart) and event.scope:
            parts.append(f"scope {', '.join(event.scope)}")
        text = f" {self.signs.dot} ".join(parts)
        return Line(text, style=LOUD, styled=len(self._loop.name))

    def _styled(self, event: Event, plain: list[str]) -> list[Line]:
        """Return the plain lines of an event with their styles."""
        match event:
            case ActionStart() | ConditionEval() if plain and plain[0].startswith("["):
                where = plain[0].partition(f" {self._plain.signs['to']} ")[0]
                below = (Line(line, style=QUIET) for line in plain[1:])
                return [Line(plain[0], style=LOUD, styled=len(where)), *below]
            case ConditionEval() | Cost() | TransitionTaken():
                return [Line(line, style=QUIET) for line in plain]
            case ActionComplete():
                *before, ended = plain
                shown = [Line(line) for line in before]
                return [*shown, self._ended(ended, event.result.duration_ms)]
            case RunWarning():
                return [Line(line, style=TAKE_CARE, styled=len("warning:")) for line in plain]
            case _ if isinstance(event, FinalEvent):
                return [Line(plain[0]), _last(event, plain[1]), *map(Line, plain[2:])]
            case _:
                return [Line(line) for line in plain]

    def _ended(self, text: str, took_ms: int) -> Line:
        """Return the line about the end of an action: its sign in colour, its time at the right."""
        sign = text.split()[0]
        styles = {self._plain.signs["good"]: GOOD, self._plain.signs["bad"]: BAD}
        took = "" if self._plain.detailed else duration_text(took_ms)  # there the text has it
        return Line(text, took, styles.get(sign, QUIET), len(INDENT) + len(sign))


def _last(event: FinalEvent, text: str) -> Line:
    """Return the last line with its first words (`Loop completed`) in the colour of the ending."""
    named = text.partition(":")[0].partition(" in state ")[0]
    return Line(text, style=ending_style(event.status, event.reason), styled=len(named))


def ending_style(status: str, reason: str) -> str:
    """Return the style for a status and reason."""
    match status, reason:
        case "completed", _:
            return GOOD
        case "failed", limit if limit in BY_REASON:
            return TAKE_CARE
        case "failed", _:
            return BAD
        case _:
            return TAKE_CARE


def live_lines(signs: LineSymbols, elapsed_s: float, doing: str, hint: str) -> list[str]:
    """Return the two live lines while an action runs."""
    frame = signs.spinner[int(elapsed_s * 10) % len(signs.spinner)]
    elapsed = duration_text(int(elapsed_s) * 1000) if elapsed_s >= 10 else f"{int(elapsed_s)}s"
    detail = f" {signs.dot} {doing}" if doing else ""
    return [f"{frame:<{len(INDENT)}}{elapsed}{detail}", f"{INDENT}{hint}"]
