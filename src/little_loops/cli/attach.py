"""`ll-loop attach`: watch a run that goes on elsewhere, as if it ran here.

The events come from its log of events and what its actions print from the log for people; both are
told to the same screens a run in the foreground has.  Ctrl-C only ends the watching.  When the run
ends, this ends with the run's own exit code; of one that has ended already it shows just that.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from time import sleep

from little_loops.cli.foreground import JsonScreen, LastLine, live_wanted
from little_loops.cli.logs import write
from little_loops.cli.parsing import Args, Parser, add_output_options
from little_loops.cli.watching import Watch
from little_loops.definitions.run_names import run_named
from little_loops.errors import OK, StorageError
from little_loops.fsm.schema import FSMLoop
from little_loops.reporting.lines import Teller
from little_loops.reporting.masking import Masker
from little_loops.reporting.observers import Onlooker
from little_loops.reporting.reporter import Reporter
from little_loops.runs.follow import (
    POLL_S,
    open_events,
    open_log,
    over_when,
    until_it_runs,
)
from little_loops.runs.inspect import (
    Seen,
    exit_code_of,
    is_crashed,
    last_told,
    newest_seen,
    no_such_run,
)
from little_loops.runs.project import find_project
from little_loops.runs.storage import load
from little_loops.terminal.console import ascii_only, colour_wanted, print_json, say, talk
from little_loops.terminal.durations import now_ms
from little_loops.terminal.summaries import last_words, next_step, since
from little_loops.terminal.tables import cells

EXAMPLES = (
    ("ll-loop attach fix-types", "watch it; Ctrl-C detaches, the run goes on"),
    ("ll-loop attach fix-types -v", "with all that its actions print"),
)
DEFAULT_ITERATIONS = 50
EVENTS_READ = 1 << 18


def parser() -> Parser:
    it = Parser("attach", "Watch a running loop live, and exit as it does.", EXAMPLES)
    it.add_argument("loop", help="a loop's name, or NAME@ID")
    add_output_options(it)
    return it


def main(argv: Sequence[str]) -> int:
    args = parser().parse_args(argv)
    root = find_project(os.getcwd())
    name = run_named(args.loop, root)
    one = newest_seen(root, name)
    if one is None:
        raise no_such_run(name)
    try:
        if one.status == "queued" and not args.quiet:
            talk(f"{name} waits for its turn")
        one = until_it_runs(root, name, one)
        if one.status != "running":
            return _has_ended(args, one)
        if not _watch(args, root, one):
            return _detached(args, name)
    except KeyboardInterrupt:
        return _detached(args, name)
    one = newest_seen(root, name) or one
    if is_crashed(one) and not args.json and args.quiet < 2:
        say(last_words(one, None))
    return _ends(args, one)


def _watch(args: Args, root: str, one: Seen) -> bool:
    """Watch the run to its end; false if the user has seen enough."""
    is_over = over_when(root, one)
    with ExitStack() as stack:
        seen_enough = stack.enter_context(_ctrl_c())
        _, log = open_log(root, one)
        stack.enter_context(log)
        one, events = open_events(root, one, EVENTS_READ)
        stack.enter_context(events)
        screen, runs_since = _screen(args, one, stack)
        watch = Watch(events, log, screen)
        watch.begin()
        runs_since(watch.under_way_s(now_ms()))
        while not seen_enough():
            over = is_over()
            watch.catch_up()
            if over:
                return True
            screen.tick()
            sleep(POLL_S)
    return False


@contextmanager
def _ctrl_c() -> Iterator[Callable[[], bool]]:
    """Tells whether Ctrl-C was pressed.  An exception could come while the screen is drawn."""
    presses: list[int] = []
    try:
        before = signal.signal(signal.SIGINT, lambda signum, _: presses.append(signum))
    except ValueError:  # not the main thread, which is the one that gets signals
        yield lambda: False
        return
    try:
        yield lambda: bool(presses)
    finally:
        signal.signal(signal.SIGINT, before)


# ── screens ────────────────────────────────────────────────────────────────────────────────────


def _screen(args: Args, one: Seen, stack: ExitStack) -> tuple[Onlooker, Callable[[float], None]]:
    """Whoever shows the run, and a way to tell it how long its action has been running."""
    machine, facts = _machine(one), one.facts
    given = facts.max_iterations if facts else None
    limit = given or (machine.max_iterations if machine else DEFAULT_ITERATIONS)
    if machine is None or args.json or args.quiet or not live_wanted(os.environ):
        return _plain_screen(args, one.loop, limit), lambda _: None
    from little_loops.terminal.live import Hints, LiveScreen, terminal  # only a terminal
    from little_loops.terminal.terminal_lines import TerminalTeller  # only on a terminal

    class Watching(Hints):
        def that_fits(self, room: int, dot: str) -> str:
            more = f"ctrl-c detaches, the run goes on {dot} log {self.log}"
            return more if cells(more) <= room else "ctrl-c detaches"

    screen = LiveScreen(
        terminal(sys.stdout, colour=colour_wanted(sys.stdout, args.color)),
        TerminalTeller(
            machine, limit, ascii_only=ascii_only(sys.stdout), detailed=args.verbose > 1
        ),
        Masker({}),  # both logs are masked
        Watching(os.path.relpath(one.files.log)),
        verbose=args.verbose > 0,
    )
    stack.callback(screen.close)
    return screen, lambda seconds: screen.stood_still(-seconds)


def _plain_screen(args: Args, loop: str, limit: int) -> Onlooker:
    if args.json:
        return JsonScreen(write)
    if args.quiet > 1:
        return Onlooker()
    teller = Teller(loop, limit, ascii_only=ascii_only(sys.stdout), detailed=args.verbose > 1)
    kind = LastLine if args.quiet else Reporter
    return kind(write, teller, Masker({}), output=args.verbose > 0, warn=sys.stderr.write)


def _machine(one: Seen) -> FSMLoop | None:
    try:
        loaded = load(one.files)
        return FSMLoop.from_dict(((loaded and loaded.run_json) or {})["loop"])
    except (StorageError, KeyError, TypeError, ValueError, AttributeError):
        return None


# ── last words ─────────────────────────────────────────────────────────────────────────────────


def _detached(args: Args, name: str) -> int:
    if not args.quiet:
        talk(f"detached; {name} goes on")
        if not args.json:
            talk(f"next: ll-loop attach {name}   or   ll-loop stop {name}")
    return OK


def _has_ended(args: Args, one: Seen) -> int:
    if not args.quiet:
        talk(f"{one.name} is not running ({since(one, now_ms())})")
    last = last_told(one.files, 1)
    if args.json and last:
        print_json(last[0])
    elif not args.json and args.quiet < 2:
        say(last_words(one, last[0] if last else None))
    return _ends(args, one)


def _ends(args: Args, one: Seen) -> int:
    if not args.quiet and not args.json and (hint := next_step(one)):
        talk(f"next: {hint}")
    return exit_code_of(one)
