"""`ll-loop attach`: watch a run in another process as if it ran here.

Its events and its actions' output go to the same screens as those of a run in the foreground.
Ctrl-C only ends the watching. When the run ends, this command exits with the run's exit code; for a
run that has already ended, it prints how.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from time import sleep

from little_loops.cli.crashes import report_crashes
from little_loops.cli.foreground import JsonScreen, LastLine, live_wanted
from little_loops.cli.logs import write
from little_loops.cli.options import WatchArgs, operand
from little_loops.definitions.run_names import run_named
from little_loops.errors import OK
from little_loops.fsm.codec import to_record
from little_loops.fsm.schema import DEFAULT_ITERATIONS, FSMLoop
from little_loops.reporting.lines import PlainLines, machinery_of
from little_loops.reporting.masking import Masker
from little_loops.reporting.observers import Observer
from little_loops.reporting.reporter import Reporter
from little_loops.runs.follow import (
    POLL_S,
    RECENT_BYTES,
    Following,
    follow,
    over_when,
    until_it_runs,
)
from little_loops.runs.playback import show
from little_loops.runs.project import find_project
from little_loops.runs.reading import Runs
from little_loops.runs.view import RunDetail, RunView, exit_code_of, no_such_run
from little_loops.terminal.console import ascii_only, colour_wanted, print_json, say, talk
from little_loops.terminal.durations import now_ms
from little_loops.terminal.summaries import final_line, next_step, since
from little_loops.terminal.tables import cells

EXAMPLES = (
    ("ll-loop attach fix-types", "watch it; Ctrl-C detaches, and the run continues"),
    ("ll-loop attach fix-types -v", "also show what its actions print"),
)


class AttachArgs(
    WatchArgs,
    verb="attach",
    summary="Watch a running loop live, and exit with its exit code.",
    examples=EXAMPLES,
):
    loop: str = operand("a loop's name, or NAME@ID")


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop attach`. Return the run's exit code, or 0 if the user detached."""
    args = AttachArgs.read(argv)
    runs = Runs(find_project(os.getcwd()))
    name = run_named(args.loop, runs.root)
    view = runs.view(name)
    if view is None:
        raise no_such_run(name)
    try:
        if view.status == "queued" and not args.quiet:
            talk(f"{name} is queued")
        view = until_it_runs(runs, view)
        if view.status != "running":
            return _has_ended(args, runs, name)
        if not _watch(args, runs, view):
            return _detached(args, name)
    except KeyboardInterrupt:
        return _detached(args, name)
    ended = runs.ended(name) or RunDetail(view)
    report_crashes(runs, [ended.view])
    if ended.view.is_crashed and not args.json and args.quiet < 2:
        say(final_line(ended.view, None))
    return _print_next_step(args, ended)


def _watch(args: AttachArgs, runs: Runs, view: RunView) -> bool:
    """Show the run until it ends; return False if the user pressed Ctrl-C before."""
    is_over = over_when(runs, view)
    with ExitStack() as stack:
        is_interrupted = stack.enter_context(_ctrl_c())
        following = stack.enter_context(follow(runs, view, RECENT_BYTES))
        screen, runs_since = _screen(args, view, following.machine, stack)
        show(following.begin(), screen)
        runs_since(_elapsed_s(following))
        while not is_interrupted():
            over = is_over()
            show(following.news(), screen)
            if over:
                show(following.news(), screen)  # output that a crash left without an event
                return True
            screen.tick()
            sleep(POLL_S)
    return False


def _elapsed_s(following: Following) -> float:
    """Return how long the current action has been running."""
    began_ms = following.began_ms
    return 0.0 if began_ms is None else max(now_ms() - began_ms, 0) / 1000


@contextmanager
def _ctrl_c() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether Ctrl-C was pressed during the block.

    There is no `KeyboardInterrupt` meanwhile: it could come while the screen is being drawn.
    """
    presses: list[int] = []
    try:
        before = signal.signal(signal.SIGINT, lambda signum, _: presses.append(signum))
    except ValueError:  # not the main thread, which gets the signals
        yield lambda: False
        return
    try:
        yield lambda: bool(presses)
    finally:
        signal.signal(signal.SIGINT, before)


# ── screens ────────────────────────────────────────────────────────────────────────────────────


def _screen(
    args: AttachArgs, view: RunView, machine: FSMLoop | None, stack: ExitStack
) -> tuple[Observer, Callable[[float], None]]:
    """Return the screen for the run, and a function that takes how long its action has been
    running."""
    given = view.summary.limits.max_iterations if view.summary else None
    limit = given or (machine.max_iterations if machine else DEFAULT_ITERATIONS)
    if machine is None or args.json or args.quiet or not live_wanted(os.environ):
        return _plain_screen(args, view, machine, limit), lambda _: None
    from little_loops.terminal.live import Hints, LiveScreen, terminal  # only a terminal
    from little_loops.terminal.terminal_lines import TerminalLines  # only on a terminal

    class Watching(Hints):
        def that_fits(self, room: int, dot: str) -> str:
            more = f"ctrl-c detaches; the run continues {dot} log {self.log}"
            return more if cells(more) <= room else "ctrl-c detaches"

    screen = LiveScreen(
        terminal(sys.stdout, colour=colour_wanted(sys.stdout, args.color)),
        TerminalLines(
            machine,
            limit,
            ascii_only=ascii_only(sys.stdout),
            commands=args.verbose > 0,
            detailed=args.verbose > 1,
            name=view.files.shown_name,
        ),
        Masker({}),  # secrets in events and outputs are already masked
        Watching(os.path.relpath(view.files.log)),
        verbose=args.verbose > 0,
    )
    stack.callback(screen.close)
    return screen, lambda seconds: screen.suspended(-seconds)


def _plain_screen(args: AttachArgs, view: RunView, machine: FSMLoop | None, limit: int) -> Observer:
    """Return a screen for JSON, quiet or plain output."""
    if args.json:
        return JsonScreen(write)
    if args.quiet > 1:
        return Observer()
    teller = PlainLines(
        view.loop,
        limit,
        ascii_only=ascii_only(sys.stdout),
        commands=args.verbose > 0,
        detailed=args.verbose > 1,
        machinery=machinery_of(machine) if machine else (),
        name=view.files.shown_name,
    )
    kind = LastLine if args.quiet else Reporter
    return kind(write, teller, Masker({}), output=args.verbose > 0, warn=sys.stderr.write)


# ── endings ─────────────────────────────────────────────────────────────────────────────────


def _detached(args: AttachArgs, name: str) -> int:
    """Report that the run continues, and return the exit code."""
    if not args.quiet:
        talk(f"detached; {name} keeps running")
        if not args.json:
            talk(f"next: ll-loop attach {name}   or   ll-loop stop {name}")
    return OK


def _has_ended(args: AttachArgs, runs: Runs, name: str) -> int:
    """Print how a run ended that is not running any more, and return its exit code.

    Raises `UsageError` if its files are gone.
    """
    ended = runs.ended(name)
    if ended is None:
        raise no_such_run(name)
    view, last = ended.view, ended.entries[-1] if ended.entries else None
    report_crashes(runs, [view])
    if not args.quiet:
        talk(f"{view.name} is not running: {since(view, now_ms())}")
    if args.json and last is not None:
        print_json(to_record(last))
    elif not args.json and args.quiet < 2:
        say(final_line(view, last))
    return _print_next_step(args, ended)


def _print_next_step(args: AttachArgs, ended: RunDetail) -> int:
    """Suggest the next command, and return the run's exit code."""
    if not args.quiet and not args.json and (hint := next_step(ended.view)):
        talk(f"next: {hint}")
    return exit_code_of(ended.view, ended.entries[-1] if ended.entries else None)
