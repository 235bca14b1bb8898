"""Plain lines for CI: signs of life, and GitHub's log groups and job summary.

CI systems consider a job dead if it prints nothing for a while. So an action that stays silent is
reported regularly. On GitHub, each iteration is folded, and the job summary gets a table of the
run.

Not here: the lines themselves (`reporting.lines`), terminals (`live`).
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from little_loops.fsm.events import (
    ActionComplete,
    ActionInterrupted,
    ActionStart,
    Cycle,
    Entry,
    Event,
    FinalEvent,
    Iteration,
    Resume,
    StateEnter,
)
from little_loops.fsm.state import Children, Result
from little_loops.fsm.values import duration_text
from little_loops.light_typing import BinaryIO
from little_loops.records import NamedTuple
from little_loops.reporting.lines import INDENT, PlainLines, last_line, signal_name
from little_loops.reporting.masking import Masker
from little_loops.reporting.observers import Observer
from little_loops.reporting.reporter import ACTION_ENDS, Reporter
from little_loops.system.plain_files import open_nonblocking

HEARTBEAT = "LL_HEARTBEAT"
HEARTBEAT_S = 60.0
SUMMARY = "GITHUB_STEP_SUMMARY"
MOST_ROWS = 200

Write = Callable[[str], object]


def heartbeat_s(environ: Mapping[str, str]) -> float | None:
    """Return the seconds of silence before a sign of life: `LL_HEARTBEAT`, 60 by default.

    An invalid value counts as unset; None, for never, if it is not positive and finite.
    """
    try:
        seconds = float(environ.get(HEARTBEAT, HEARTBEAT_S))
    except ValueError:
        return HEARTBEAT_S
    return seconds if 0 < seconds < float("inf") else None


class SteadyScreen(Observer):
    """Writes a run's plain lines, and a line from time to time while an action is silent."""

    def __init__(
        self,
        write: Write,
        teller: PlainLines,
        masker: Masker,
        *,
        output: bool,
        every_s: float | None,
        warn: Write | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Write lines with `write`, and warnings with `warn` if given.

        `output` and `warn` are those of `Reporter`. A silent action is reported every `every_s`
        seconds, or never if that is None.
        """
        self._reporter = Reporter(self._write_lines, teller, masker, output=output, warn=warn)
        self._write = write
        self._more = "..." if teller.signs["to"] == "->" else "…"
        self._every_s = every_s
        self._now = now
        self._state = ""
        self._began = self._last = now()

    def learn(self, environ: Mapping[str, str]) -> None:
        self._reporter.learn(environ)

    def record(self, entry: Entry) -> None:
        self.records((entry,))

    def records(self, entries: Sequence[Entry]) -> None:
        """Write the lines of the events, and remember which action is running."""
        self._reporter.records(entries)
        for entry in entries:
            event = entry.event
            if isinstance(event, ActionStart):
                self._state = event.state
                self._began = self._last = self._now()
            elif isinstance(event, ACTION_ENDS):
                self._state = ""

    def printed(self, stream: str, chunk: bytes) -> None:
        self._reporter.printed(stream, chunk)

    def below(self, child: str, text: str) -> None:
        self._reporter.below(child, text)

    def continues(self, children: Children) -> None:
        self._reporter.continues(children)

    def changed(self, paths: Sequence[str]) -> None:
        self._reporter.changed(paths)

    def tick(self) -> float | None:
        """Report a silent action if that is due. Return the seconds until the next report."""
        if self._every_s is None or not self._state:
            return None
        now = self._now()
        if now - self._last >= self._every_s:
            took = duration_text(round((now - self._began) * 1000))
            self._write_lines(f"{INDENT}{self._more} still running {self._state} ({took})\n")
        return max(self._last + self._every_s - now, 0.0)

    def _write_lines(self, text: str) -> None:
        self._write(text)
        self._last = self._now()


class GitHubGroups(Observer):
    """Folds each iteration in GitHub's log view; the end stays unfolded."""

    def __init__(self, write: Write, screen: Observer, max_iterations: int) -> None:
        """Write the start and end of groups with `write`; pass events and output on to `screen`."""
        self._write = write
        self._screen = screen
        self._max_iterations = max_iterations
        self._iteration = 1
        self._cycle = 1
        self._is_open = False

    def record(self, entry: Entry) -> None:
        """Open or close a group if the event starts or ends an iteration, and pass it on."""
        event = entry.event
        self._iteration = iteration_of(event, self._iteration)
        if isinstance(event, Cycle):
            self._cycle = event.cycle
        if isinstance(event, Iteration | Cycle | FinalEvent):
            self._close()
        elif isinstance(event, StateEnter | ActionStart) and not self._is_open:
            self._open()
        self._screen.record(entry)

    def printed(self, stream: str, chunk: bytes) -> None:
        self._screen.printed(stream, chunk)

    def below(self, child: str, text: str) -> None:
        self._screen.below(child, text)

    def below_used(self, child: str, cost_usd: float) -> None:
        self._screen.below_used(child, cost_usd)

    def doing(self, text: str) -> None:
        self._screen.doing(text)

    def learn(self, environ: Mapping[str, str]) -> None:
        self._screen.learn(environ)

    def continues(self, children: Children) -> None:
        self._screen.continues(children)

    def changed(self, paths: Sequence[str]) -> None:
        self._screen.changed(paths)

    def used(self, tokens: int, cost_usd: float | None) -> None:
        self._screen.used(tokens, cost_usd)

    def tick(self) -> float | None:
        return self._screen.tick()

    def _open(self) -> None:
        cycle = f"cycle {self._cycle}, " if self._cycle > 1 else ""
        self._write(f"::group::{cycle}iteration {self._iteration} of {self._max_iterations}\n")
        self._is_open = True

    def _close(self) -> None:
        if self._is_open:
            self._write("::endgroup::\n")
            self._is_open = False


def iteration_of(event: Event, before: int) -> int:
    """Return the iteration that an event belongs to; for most events, that of the event before."""
    return event.iteration if isinstance(event, StateEnter | Iteration | Resume) else before


def without_commands(write: Write) -> Write:
    """Wrap a writer so that no text is a GitHub command.

    Our lines never begin with `::`, but GitHub executes `##[` anywhere in a line.
    """

    def safely(text: str) -> None:
        write(text.replace("##[", "## ["))

    return safely


class SummaryRow(NamedTuple):
    iteration: int
    state: str
    result: str
    took: str


class StepSummary(Observer):
    """Writes a table of the run to the job summary on GitHub."""

    def __init__(self, loop: str, path: str) -> None:
        """Collect the actions of a run of `loop`; the table is appended to the file at `path`."""
        self._loop = loop
        self._path = path
        self._iteration = 1
        self._rows: deque[SummaryRow] = deque(maxlen=MOST_ROWS)
        self._count = 0

    def record(self, entry: Entry) -> None:
        """Add a row for each action, and append the table to the file at the end of the run.

        A failure to write is ignored.
        """
        event = entry.event
        self._iteration = iteration_of(event, self._iteration)
        match event:
            case ActionComplete():
                self._add(event.state, _result(event.result), event.result.duration_ms)
            case ActionInterrupted():
                took_ms = 0 if event.result is None else event.result.duration_ms
                self._add(event.state, "interrupted", took_ms)
            case _ if isinstance(event, FinalEvent):
                # A summary that cannot be written must not affect the screen.
                with suppress(OSError), self._opened() as stream:
                    stream.write(self.page(event).encode())
            case _:
                pass

    def _add(self, state: str, result: str, took_ms: int) -> None:
        self._rows.append(SummaryRow(self._iteration, state, result, duration_text(took_ms)))
        self._count += 1

    def _opened(self) -> BinaryIO:
        return open(open_nonblocking(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab")

    def page(self, last: FinalEvent) -> str:
        """Return the summary as Markdown."""
        lines = [f"### {_markdown(self._loop)}", "", _markdown(last_line(last)), ""]
        if left_out := self._count - len(self._rows):
            lines += [f"The last {len(self._rows)} actions; {left_out} earlier ones left out.", ""]
        lines += ["| iteration | state | result | time |", "|---:|---|---|---:|"]
        lines += [
            f"| {row.iteration} | {_markdown(row.state)} | {row.result} | {row.took} |"
            for row in self._rows
        ]
        return "\n".join(lines) + "\n\n"


def _result(result: Result) -> str:
    """Return how an action ended, for the table."""
    if result.cut_by != "none":
        return "timed out"
    if result.failure:
        return "could not start"
    if result.agent:
        return result.verdict or result.agent
    died = result.signal
    return f"killed by {signal_name(died)}" if died else f"exit {result.exit_code}"


def _markdown(text: str) -> str:
    """Escape a text for Markdown."""
    return "".join(f"\\{char}" if char in "\\`*_{}[]<>()#|~!" else char for char in text)


def on_github(environ: Mapping[str, str]) -> bool:
    return environ.get("GITHUB_ACTIONS") == "true"


def step_summary(loop: str, environ: Mapping[str, str]) -> list[Observer]:
    path = environ.get(SUMMARY, "")
    return [StepSummary(loop, path)] if on_github(environ) and os.path.isabs(path) else []
