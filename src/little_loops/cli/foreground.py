"""Carry a run out in this process: signals, screen, last words, exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from json import dumps
from typing import NamedTuple

from little_loops.cli.console import ascii_only, talk
from little_loops.fsm.commands import Ending
from little_loops.fsm.limits import iterations_allowed
from little_loops.fsm.persistence import Ran
from little_loops.fsm.run_world import Surroundings
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import LoopState
from little_loops.world.lines import Teller
from little_loops.world.onlookers import Onlooker, Record
from little_loops.world.reporter import Reporter
from little_loops.world.secrets import Masker
from little_loops.world.stops import StopFlag, listen

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
    stop = StopFlag()
    restore = listen(stop)
    screen = screen_for(loop, show, limit)
    around = Surroundings(
        os.environ, owns_process=True, stop=stop, onlookers=[screen], say=_say_waiting(show)
    )
    try:
        ran = begin(around)
    finally:
        restore()
        stop.close()
    if not show.quiet and not show.json:
        hint = next_step(name, ran.run, ran.ending)
        if hint:
            talk(f"next: {hint}")
    return ran.ending.exit_code


def _say_waiting(show: Show) -> Callable[[str], None]:
    def say(line: str) -> None:
        if show.json or show.quiet:
            return
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    return say


def screen_for(loop: FSMLoop, show: Show, limit: int) -> Onlooker:
    if show.json:
        return JsonScreen()
    teller = Teller(loop.name, limit, ascii_only=ascii_only(sys.stdout))
    masker = Masker(os.environ)
    if show.quiet > 1:
        return Onlooker()
    if show.quiet:
        return LastLine(_write, teller, masker, output=False)
    return Reporter(_write, teller, masker, output=show.verbose > 0)


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
    """The one command that is most likely wanted now."""
    match run.status, ending.reason:
        case "failed", "max_iterations":
            return f"ll-loop resume {name} --max-iterations {2 * run.iteration}"
        case "failed", "loop_timeout":
            return f"ll-loop resume {name} --timeout {max(2 * run.ran_ms // 1000, 60)}"
        case "failed", "terminal" | "handoff":
            return f"ll-loop logs {name}"
        case "failed" | "interrupted" | "awaiting_continuation", _:
            return f"ll-loop resume {name}"
        case "needs_review", _:
            return f"look, then ll-loop resume {name}"
        case _:
            return None


def allowed(loop: FSMLoop, run: LoopState) -> int:
    return iterations_allowed(loop, run)
