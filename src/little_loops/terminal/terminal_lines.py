"""How a run reads on a terminal: the plain lines, and what there is room for beside them.

The header, how long each action took, why a condition said what it said, what agents cost, and a
last line that begins with how it ended.

Not here: the plain lines (`reporting.lines`), colours on a screen and what moves (`live`).
"""

from __future__ import annotations

from little_loops.fsm.actions import Agent, Builtin, Shell, action_told
from little_loops.fsm.events import (
    ActionComplete,
    ActionStart,
    ConditionEval,
    Cost,
    Event,
    FinalEvent,
    LoopStart,
    Resume,
    RunWarning,
    message_of,
)
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.values import duration_text
from little_loops.records import NamedTuple
from little_loops.reporting.lines import (
    INDENT,
    Teller,
    one_line,
    signal_of,
    whole_command,
)

GOOD, BAD, TAKE_CARE, QUIET, LOUD = "green", "red", "yellow", "dim", "bold"


class Line(NamedTuple):
    """A line; `right` stands at the right edge, the first `styled` characters have a style."""

    text: str
    right: str = ""
    style: str = ""
    styled: int | None = None


class Signs(NamedTuple):
    good: str = "✓"
    bad: str = "✗"
    take_care: str = "!"
    dot: str = "·"
    cut: str = "…"
    spinner: str = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


ASCII = Signs("ok", "FAIL", "warn", "-", "...", "|/-\\")


class TerminalTeller:
    """Turns events into lines for a terminal."""

    def __init__(
        self, loop: FSMLoop, limit: int, *, ascii_only: bool = False, detailed: bool = False
    ) -> None:
        self._detailed = detailed
        self.signs = ASCII if ascii_only else Signs()
        self._loop = loop
        self._plain = Teller(loop.name, limit, ascii_only=ascii_only)
        self._limit = limit
        self._has_begun = False
        self._resumed = False
        self._cost_usd = 0.0

    def lines(self, event: Event, passed: bool | None = None) -> list[Line]:
        header = [] if self._has_begun else [self._header(event)]
        self._has_begun = True
        return header + self._told(event, passed)

    def prints_text(self, event: ActionStart) -> bool:
        """Whether the action that begins prints for people; most agents print JSON."""
        match action_told(event.action, event.action_type):
            case Agent():
                return self._host(event.state) == "command"
            case Shell() | Builtin():
                return True

    def _host(self, name: str) -> str:
        state = self._loop.states.get(name)
        return self._loop.host.under(state.host if state else None).host

    def _header(self, event: Event) -> Line:
        parts = [self._loop.name, self._loop.paradigm, f"up to {_times(self._limit)}"]
        if isinstance(event, LoopStart) and event.scope:
            parts.append(f"scope {', '.join(event.scope)}")
        return Line(self._joined(parts), style=LOUD, styled=len(self._loop.name))

    def _told(self, event: Event, passed: bool | None) -> list[Line]:
        plain = self._plain.lines(event, passed)
        if isinstance(event, FinalEvent):
            return [Line(""), self._last(event)]
        match event:
            case Resume():
                self._resumed = True
            case ConditionEval():
                return [Line(f"{INDENT}{one_line(event.reason)}", style=QUIET)]
            case Cost():
                return [self._cost(event)]
            case ActionStart():
                where = plain[0].partition(f" {self._plain.signs['to']} ")[0]
                whole = whole_command(event) if self._detailed else []
                below = (Line(line, style=QUIET) for line in whole)
                return [Line(plain[0], style=LOUD, styled=len(where)), *below]
            case ActionComplete():
                return [self._ended(plain[0], event.result.duration_ms)]
            case RunWarning():
                return [Line(line, style=TAKE_CARE, styled=len("warning:")) for line in plain]
            case _:
                pass
        return [Line(line) for line in plain]

    def _ended(self, text: str, took_ms: int) -> Line:
        sign = text.split()[0]
        style = GOOD if sign == self._plain.signs["good"] else BAD
        return Line(text, duration_text(took_ms), style, len(INDENT) + len(sign))

    def _cost(self, event: Cost) -> Line:
        self._cost_usd += event.cost_usd
        turns = event.turns
        used = [f"{turns} turn{'' if turns == 1 else 's'}"] if turns else []
        used += [f"{count_text(event.tokens)} tokens"] if event.tokens else []
        used += [money_text(event.cost_usd)] if event.cost_usd else []
        return Line(f"{INDENT}{self._host(event.state)}: {', '.join(used)}", style=QUIET)

    def _last(self, event: FinalEvent) -> Line:
        end = ending(event)
        parts = [f"{end.word}: {end.text}"]
        if event.reason != "max_iterations":  # which has said how many
            parts.append(_times(event.iterations))
        parts.append(duration_text(event.duration_ms))
        if self._cost_usd:
            since = " since it was resumed" if self._resumed else ""
            parts.append(money_text(self._cost_usd) + since)
        sign = {GOOD: self.signs.good, BAD: self.signs.bad}.get(end.style, self.signs.take_care)
        text = f"{sign} {self._joined(parts)}"
        return Line(text, style=end.style, styled=len(f"{sign} {end.word}"))

    def _joined(self, parts: list[str]) -> str:
        return f" {self.signs.dot} ".join(parts)


class End(NamedTuple):
    word: str
    text: str
    style: str


def ending(event: FinalEvent) -> End:
    """How it ended; "completed" is said of a success state and nothing else."""
    state, text = event.final_state, one_line(message_of(event))
    match event.status, event.reason:
        case "completed", _:
            return End("completed", state, GOOD)
        case "failed", "terminal":
            why = f" ({text})" if text not in ("", "terminal") else ""
            return End("failed", f"ended in state {state}{why}", BAD)
        case "failed", "loop_timeout":
            return End("limit", f"out of time in state {state}", TAKE_CARE)
        case "failed", "max_iterations" | "max_cost" | "max_tokens":
            return End("limit", text, TAKE_CARE)
        case "failed", reason:
            why = f" ({text})" if text else ""
            return End("failed", f"{reason} in state {state}{why}", BAD)
        case "stopped", _:
            return End("stopped", text or f"in state {state}", TAKE_CARE)
        case "interrupted", _:
            return End("interrupted", f"{_by(event)} in state {state}", TAKE_CARE)
        case "awaiting_continuation", _:
            why = f" ({text})" if text else ""
            return End("paused", f"context handoff in state {state}{why}", TAKE_CARE)
        case _:
            return End("needs review", text or state, TAKE_CARE)


def _by(event: FinalEvent) -> str:
    name = signal_of(event)
    return "ctrl-c" if name == "SIGINT" else name


def _times(count: int) -> str:
    return f"{count:,} iteration{'' if count == 1 else 's'}"


def count_text(number: int) -> str:
    """`812`, `41k`, `1.2M`."""
    if number < 1000:
        return str(number)
    return f"{number / 1000:.0f}k" if number < 999_500 else f"{number / 1e6:.1f}M"


def money_text(usd: float) -> str:
    return f"${usd:.2f}" if usd >= 0.005 else "less than $0.01"


def live_lines(signs: Signs, elapsed_s: float, doing: str, hint: str) -> list[str]:
    """What moves while an action runs."""
    frame = signs.spinner[int(elapsed_s * 10) % len(signs.spinner)]
    elapsed = duration_text(int(elapsed_s) * 1000) if elapsed_s >= 10 else f"{int(elapsed_s)}s"
    told = f" {signs.dot} {doing}" if doing else ""
    return [f"{frame:<{len(INDENT)}}{elapsed}{told}", f"{INDENT}{hint}"]
