"""Carry out a run in this process: signals, screen, final messages, exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from errno import EIO, EPIPE

from little_loops.engine.lifecycle import RunOutcome
from little_loops.engine.local_world import Services
from little_loops.errors import SIGNALLED, WaitStopped
from little_loops.fsm.codec import to_record
from little_loops.fsm.commands import Ending
from little_loops.fsm.events import ActionStart, Entry, FinalEvent, KeepBest, Restored, Tree
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import LoopState
from little_loops.fsm.values import written_env
from little_loops.light_typing import TYPE_CHECKING, TextIO, cast
from little_loops.records import NamedTuple
from little_loops.reporting.escape import visible
from little_loops.reporting.lines import PlainLines, machinery_of
from little_loops.reporting.masking import Masker
from little_loops.reporting.observers import Observer, Observers
from little_loops.reporting.reporter import Reporter
from little_loops.runs.layout import RunFiles
from little_loops.runs.project import find_project
from little_loops.system.files import to_json
from little_loops.system.stops import StopFlag, listen
from little_loops.terminal.ci import (
    GitHubGroups,
    SteadyScreen,
    Write,
    heartbeat_s,
    on_github,
    step_summary,
    without_commands,
)
from little_loops.terminal.console import ascii_only, colour_wanted, columns_of, is_terminal
from little_loops.terminal.next_step import next_command
from little_loops.terminal.outlet import Outlet

if TYPE_CHECKING:
    from little_loops.terminal.live import LiveScreen

CODEX_SETTINGS = ("CODEX_HOME", "CODEX_API_KEY")
"""Variables that users set for Codex; it sets other CODEX_* variables for its commands."""


class Show(NamedTuple):
    """How much of a run the user wants to see."""

    json: bool = False
    quiet: int = 0
    verbose: int = 0
    color: str | None = None


class Outlets(NamedTuple):
    """Where the output goes: stdout for lines, stderr for warnings."""

    out: Outlet
    err: Outlet


def carry_out(
    loop: FSMLoop, name: str, show: Show, begin: Callable[[Services], RunOutcome], *, limit: int
) -> int:
    """Run `begin` with signals and a screen set up, and return the run's exit code.

    `limit` is the maximum number of iterations, which is only shown. At the end, the next command
    is suggested. A stop while the run waits for its turn raises `WaitStopped` with the signal's
    exit code.
    """
    stop = ForegroundStop()
    restore = listen(stop)
    to = Outlets(Outlet(sys.stdout), Outlet(sys.stderr))
    writers = LineWriters(_line_to(to.out, show), _line_to(to.err, show))
    hint = None
    try:
        with screen_for(loop, name, show, limit, stop, to) as screen:
            services = Services(os.environ, stop, [screen], *writers, owns_process=True)
            ran = begin(services)
        hint = next_step(name, ran.run, ran.ending)
    except WaitStopped as stopped:
        stopped.exit_code = SIGNALLED + (stop.signal or 0)
        raise
    finally:
        to.out.finish(stop)
        if (why := _not_shown(to.out)) and show.quiet < 2:
            to.err.write(f"warning: {why}; `ll-loop logs {name}` shows everything\n")
        if hint:
            writers.warn(f"next: {hint}")
        to.err.finish(stop)
        restore()
        stop.close()
    return ran.ending.exit_code


def _not_shown(out: Outlet) -> str | None:
    """Return why output is missing; None if nothing is, or if the reader is gone."""
    if out.lost:
        return f"{out.lost:,} bytes were not shown"
    if out.refused is None or out.refused.errno in (EPIPE, EIO):
        return None
    return f"could not write all output: {(out.refused.strerror or str(out.refused)).lower()}"


class LineWriters(NamedTuple):
    """Functions to print a line that is not an event."""

    say: Callable[[str], None]
    warn: Callable[[str], None]


def _line_to(outlet: Outlet, show: Show) -> Callable[[str], None]:
    """Return a function that prints a line to an outlet, unless output is quiet or JSON."""

    def say(line: str) -> None:
        if not show.json and not show.quiet:
            text = visible(line, newlines=False)
            columns = columns_of(cast(TextIO, outlet))
            if columns is not None and len(text) > columns:
                from little_loops.terminal.folding import (
                    folded,
                )  # only where a line may be too long

                text = folded(text, columns)
            if colour_wanted(cast(TextIO, outlet), show.color):
                from little_loops.terminal.paint import problems  # only where colour is wanted

                text = problems(text)
            outlet.write(text + "\n")

    return say


class ForegroundStop(StopFlag):
    """A stop flag that updates the live screen, and hides it during Ctrl-Z."""

    def __init__(self) -> None:
        super().__init__()
        self.screen: LiveScreen | None = None

    def drain(self) -> None:
        super().drain()
        if self.count:
            self._update_screen(lambda screen: screen.tick())

    def suspend(self) -> float:
        """Hide the live part while suspended. Return the seconds, which its clock leaves out."""
        self._update_screen(lambda screen: screen.hide())
        seconds = super().suspend()
        self._update_screen(lambda screen: screen.suspended(seconds))
        return seconds

    def _update_screen(self, update: Callable[[LiveScreen], object]) -> None:
        """Call a function with the live screen, if there is one; drop the screen if that raises."""
        if self.screen is not None:
            try:
                update(self.screen)
            except Exception:  # a broken screen must not prevent a stop
                self.screen = None


@contextmanager
def screen_for(
    loop: FSMLoop, name: str, show: Show, limit: int, stop: ForegroundStop, to: Outlets
) -> Iterator[Observer]:
    """Yield the observer that shows the run; restore the terminal at the end."""
    summary = step_summary(loop.name, os.environ)
    if show.json or show.quiet or not live_wanted(os.environ):
        screen = _plain_screen(loop, name, show, limit, to)
        yield Observers([screen, *summary]) if summary else screen
        return
    stop.screen = live = _live_screen(loop, name, show, limit, stop, to.out)
    try:
        yield live
    finally:
        stop.screen = None
        with suppress(OSError):  # the terminal is gone
            live.close()


def live_wanted(environ: Mapping[str, str]) -> bool:
    """Return whether a person is watching: a terminal, and neither CI nor an agent around us."""
    by_agent = environ.get("CLAUDECODE") or any(
        name.startswith("CODEX_") and name not in CODEX_SETTINGS for name in environ
    )
    return is_terminal(sys.stdout) and not environ.get("CI") and not by_agent


def _plain_screen(loop: FSMLoop, name: str, show: Show, limit: int, to: Outlets) -> Observer:
    """Return a screen for JSON, quiet or plain output."""
    if show.json:
        return JsonScreen(to.out.write)
    if show.quiet > 1:
        return Observer()
    teller = PlainLines(
        loop.name,
        limit,
        ascii_only=ascii_only(sys.stdout),
        commands=show.verbose > 0,
        detailed=show.verbose > 1,
        machinery=machinery_of(loop),
        name=name,
    )
    masker = Masker({**os.environ, **written_env(loop)})
    if show.quiet:
        return LastLine(to.out.write, teller, masker, output=False)
    is_watched = sys.stdout.isatty() and not os.environ.get("CI")
    every_s = None if is_watched else heartbeat_s(os.environ)
    grouped = on_github(os.environ)
    safely: Callable[[Write], Write] = without_commands if grouped else lambda write: write
    screen = SteadyScreen(
        safely(to.out.write),
        teller,
        masker,
        output=show.verbose > 0,
        every_s=every_s,
        warn=safely(to.err.write),
    )
    return GitHubGroups(to.out.write, screen, limit) if grouped else screen


def _live_screen(
    loop: FSMLoop, name: str, show: Show, limit: int, stop: StopFlag, out: Outlet
) -> LiveScreen:
    """Return the screen for a terminal."""
    from little_loops.terminal.live import Hints, LiveScreen, terminal  # only a terminal
    from little_loops.terminal.terminal_lines import TerminalLines  # only on a terminal

    log = os.path.relpath(RunFiles(find_project(os.getcwd()), name).log)
    return LiveScreen(
        terminal(
            cast(TextIO, out),
            colour=colour_wanted(sys.stdout, show.color),
            is_behind=lambda: out.is_behind,
        ),
        TerminalLines(
            loop,
            limit,
            ascii_only=ascii_only(sys.stdout),
            commands=show.verbose > 0,
            detailed=show.verbose > 1,
            name=name,
        ),
        Masker({**os.environ, **written_env(loop)}),
        Hints(log, lambda: stop.count > 0),
        verbose=show.verbose > 0,
    )


class JsonScreen(Observer):
    """Prints events exactly as they are written to the log."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write

    def record(self, entry: Entry) -> None:
        self.records((entry,))

    def records(self, entries: Sequence[Entry]) -> None:
        self._write("".join(to_json(to_record(entry)).decode() + "\n" for entry in entries))


class LastLine(Reporter):
    """For `-q`: prints only how the run ended."""

    def below(self, child: str, text: str) -> None:
        """Ignore the lines of runs that this one has started."""

    def records(self, entries: Sequence[Entry]) -> None:
        # The last lines say which change was kept, and whether there is one that was not measured.
        for entry in entries:
            if isinstance(entry.event, ActionStart | KeepBest | Restored):
                self._teller.lines(entry.event)
        # A tree has no line of its own, but the last lines name it.
        super().records([entry for entry in entries if isinstance(entry.event, FinalEvent | Tree)])


def next_step(name: str, run: LoopState, ending: Ending) -> str | None:
    """Return the command that the user most likely needs next; None if there is none."""
    if ending.spawn:
        return f"ll-loop status {name}"
    return next_command(name, run.status, run.reason, iteration=run.iteration, ran_ms=run.ran_ms)
