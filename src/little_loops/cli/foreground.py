"""Carry a run out in this process: signals, screen, last words, exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from json import dumps
from typing import TYPE_CHECKING, NamedTuple

from little_loops.cli.ci import (
    GitHubGroups,
    SteadyScreen,
    heartbeat_s,
    on_github,
    step_summary,
    without_commands,
)
from little_loops.cli.console import ascii_only, colour_wanted, is_terminal, talk
from little_loops.cli.hints import next_command
from little_loops.errors import SIGNALLED
from little_loops.fsm.commands import Ending
from little_loops.fsm.run_world import Surroundings
from little_loops.fsm.runs import Ran
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import LoopState
from little_loops.fsm.values import written_env
from little_loops.world.lines import Teller
from little_loops.world.locks import WaitStopped
from little_loops.world.onlookers import Onlooker, Onlookers, Record
from little_loops.world.project import find_project
from little_loops.world.reporter import Reporter
from little_loops.world.secrets import Masker
from little_loops.world.stops import StopFlag, listen
from little_loops.world.storage import RunFiles

if TYPE_CHECKING:
    from little_loops.cli.live import LiveScreen

CODEX_SETTINGS = ("CODEX_HOME", "CODEX_API_KEY")
"""What a user sets for Codex; anything else of that kind is set by it, for what it runs."""
LAST_WORDS = (
    *("loop_complete", "loop_error", "loop_timeout"),
    *("loop_paused", "loop_interrupted", "handoff"),
)


class Show(NamedTuple):
    """How much of a run the user wants to see."""

    json: bool = False
    quiet: int = 0
    verbose: int = 0
    color: str | None = None


def carry_out(
    loop: FSMLoop, name: str, show: Show, begin: Callable[[Surroundings], Ran], *, limit: int
) -> int:
    stop = ForegroundStop()
    restore = listen(stop)
    try:
        with screen_for(loop, name, show, limit, stop) as screen:
            around = Surroundings(
                os.environ, owns_process=True, stop=stop, onlookers=[screen], say=_say_waiting(show)
            )
            ran = begin(around)
    except WaitStopped as stopped:
        stopped.exit_code = SIGNALLED + (stop.signal or 0)
        raise
    finally:
        restore()
        stop.close()
    if not show.quiet and not show.json:
        hint = next_step(name, ran.run, ran.ending)
        if hint:
            with suppress(OSError):  # a closed terminal, which the run has outlived
                talk(f"next: {hint}")
    return ran.ending.exit_code


def _say_waiting(show: Show) -> Callable[[str], None]:
    def say(line: str) -> None:
        if show.json or show.quiet:
            return
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    return say


class ForegroundStop(StopFlag):
    """Has a live screen say that a stop was asked for, and stand aside for Ctrl-Z."""

    def __init__(self) -> None:
        super().__init__()
        self.screen: LiveScreen | None = None

    def drain(self) -> None:
        super().drain()
        if self.count:
            self._tell(lambda screen: screen.tick())

    def suspend(self) -> float:
        self._tell(lambda screen: screen.stand_aside())
        seconds = super().suspend()
        self._tell(lambda screen: screen.stood_still(seconds))
        return seconds

    def _tell(self, tell: Callable[[LiveScreen], object]) -> None:
        if self.screen is not None:
            try:
                tell(self.screen)
            except Exception:  # a screen can never hinder a stop
                self.screen = None


@contextmanager
def screen_for(
    loop: FSMLoop, name: str, show: Show, limit: int, stop: ForegroundStop
) -> Iterator[Onlooker]:
    """Whoever tells the user about the run; when this is left, the terminal is in order."""
    summary = step_summary(loop.name, os.environ)
    if show.json or show.quiet or not live_wanted(os.environ):
        yield Onlookers([_plain_screen(loop, show, limit), *summary])
        return
    stop.screen = screen = _live_screen(loop, name, show, limit, stop)
    try:
        yield screen
    finally:
        stop.screen = None
        with suppress(OSError):  # the terminal is gone
            screen.close()


def live_wanted(environ: Mapping[str, str]) -> bool:
    """A person watches: a terminal, and neither a CI system nor an agent around us."""
    by_agent = environ.get("CLAUDECODE") or any(
        name.startswith("CODEX_") and name not in CODEX_SETTINGS for name in environ
    )
    return is_terminal(sys.stdout) and not environ.get("CI") and not by_agent


def _plain_screen(loop: FSMLoop, show: Show, limit: int) -> Onlooker:
    if show.json:
        return JsonScreen()
    if show.quiet > 1:
        return Onlooker()
    teller = Teller(loop.name, limit, ascii_only=ascii_only(sys.stdout))
    masker = Masker({**os.environ, **written_env(loop)})
    if show.quiet:
        return LastLine(_write, teller, masker, output=False)
    is_watched = sys.stdout.isatty() and not os.environ.get("CI")
    every_s = None if is_watched else heartbeat_s(os.environ)
    grouped = on_github(os.environ)
    write = without_commands(_write) if grouped else _write
    screen = SteadyScreen(write, teller, masker, output=show.verbose > 0, every_s=every_s)
    return GitHubGroups(_write, screen, limit) if grouped else screen


def _live_screen(loop: FSMLoop, name: str, show: Show, limit: int, stop: StopFlag) -> LiveScreen:
    from little_loops.cli.live import Hints, LiveScreen, terminal  # rich
    from little_loops.cli.terminal_lines import TerminalTeller  # only on a terminal

    log = os.path.relpath(RunFiles(find_project(os.getcwd()), name).log)
    return LiveScreen(
        terminal(sys.stdout, colour=colour_wanted(sys.stdout, show.color)),
        TerminalTeller(loop, limit, ascii_only=ascii_only(sys.stdout)),
        Masker({**os.environ, **written_env(loop)}),
        Hints(log, lambda: stop.count > 0),
        verbose=show.verbose > 0,
    )


def _write(text: str) -> None:
    encoding = sys.stdout.encoding or "ascii"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
    sys.stdout.flush()


class JsonScreen(Onlooker):
    """The events as they are written to the log, one a line."""

    def record(self, record: Record) -> None:
        sys.stdout.write(dumps(record) + "\n")
        sys.stdout.flush()


class LastLine(Reporter):
    """`-q`: nothing but how it ended."""

    def record(self, record: Record) -> None:
        if record["event"] in LAST_WORDS:
            super().record(record)


def next_step(name: str, run: LoopState, ending: Ending) -> str | None:
    if ending.spawn:
        return f"ll-loop status {name}"
    return next_command(name, run.status, run.reason, iteration=run.iteration, ran_ms=run.ran_ms)
