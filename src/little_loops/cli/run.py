"""`ll-loop run`: run a loop, here or in the background, or say what it would do."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from little_loops.cli.consent import can_ask, skip_permissions
from little_loops.cli.foreground import Show, carry_out
from little_loops.cli.plain_words import plain
from little_loops.definitions.loading import LoopFile, context_overrides, load_loop
from little_loops.engine.lifecycle import Wish, start, unfinished
from little_loops.errors import UsageError
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import UNFINISHED, Limits
from little_loops.records import NamedTuple
from little_loops.runs.project import find_project, run_name
from little_loops.runs.reading import Runs
from little_loops.runs.stored_run import current

if TYPE_CHECKING:
    from little_loops.cli.parsing import Parser

EXAMPLES = (
    ("ll-loop run fix-types", "run .loops/fix-types.yaml"),
    ("ll-loop run fix-types --dry-run", "show what it would do"),
    ("ll-loop run fix-types --background", "and come back to the prompt"),
    ("ll-loop run fix-types --queue", "wait for a loop that is in the way"),
)


class Asked(NamedTuple):
    loop: str
    background: bool = False
    dry_run: bool = False
    queue: bool = False
    fresh: bool = False
    json: bool = False
    max_iterations: int | None = None
    no_loop: bool = False
    timeout: float | None = None
    context: Sequence[str] = ()
    scope: Sequence[str] | None = None
    id: str | None = None
    allow_skip_permissions: bool = False
    quiet: int = 0
    verbose: int = 0
    color: str | None = None


PLAIN = ("--background", "--dry-run", "--queue", "--fresh", "--json")


def parser() -> Parser:
    # `asked` may do without
    from little_loops.cli.parsing import Parser, add_output_options, positive, seconds

    it = Parser("run", "Run a loop until it ends, is stopped or needs you.", EXAMPLES)
    it.add_argument("loop", help="a loop's name or file")
    it.add_argument("--background", action="store_true", help="run as a process of its own")
    it.add_argument("--dry-run", action="store_true", help="run nothing, show what would be")
    it.add_argument("--queue", action="store_true", help="wait for loops that are in the way")
    it.add_argument("--fresh", action="store_true", help="put an unfinished run away first")
    it.add_argument("--max-iterations", type=positive, metavar="N", help="times around at most")
    it.add_argument("--no-loop", action="store_true", help="the same as --max-iterations 1")
    it.add_argument("--timeout", type=seconds, metavar="TIME", help="running time at most: 90s, 2h")
    it.add_argument("--context", action="append", default=[], metavar="K=V", help="a context value")
    it.add_argument(
        "--scope", action="append", metavar="PATH", help="what it works on, instead of its scope"
    )
    it.add_argument("--id", metavar="ID", help="name the run NAME@ID, beside others of this loop")
    it.add_argument(
        "--allow-skip-permissions",
        action="store_true",
        help="let agents act without asking; see `ll-loop trust --help`",
    )
    add_output_options(it)
    return it


def asked(argv: Sequence[str]) -> Asked:
    found = plain(argv, PLAIN, most_names=1)
    if found is None or not found[0]:
        return Asked(**vars(parser().parse_args(argv)))
    (loop,), flags = found
    background, dry_run, queue, fresh, json = (flag in flags for flag in PLAIN)
    return Asked(loop, background, dry_run, queue, fresh, json)


def main(argv: Sequence[str]) -> int:
    args = asked(argv)
    root = find_project(os.getcwd())
    found = load_loop(args.loop, root)
    if args.dry_run:
        from little_loops.cli.dry_run import dry_run  # rarely asked for

        return dry_run(found, args, root)
    wish = wish_of(args, root, found)
    if not wish.fresh and _wants_to_start_anew(wish):
        wish = wish._replace(fresh=True)
    show = Show(args.json, args.quiet, args.verbose, args.color)
    if args.background:
        from little_loops.cli.background_start import start_in_background  # rarely asked for

        return start_in_background("start", found.loop, wish, show)
    limit = wish.limits.max_iterations or found.loop.max_iterations
    return carry_out(
        found.loop, wish.name, show, lambda around: start(found.loop, wish, around), limit=limit
    )


def wish_of(args: Asked, root: str, found: LoopFile) -> Wish:
    context = context_overrides(args.context, found.loop, found.definition.places)
    return Wish(
        root=root,
        name=run_name(found.loop.name, args.id),
        context=context,
        limits=Limits(most_iterations(args, found.loop), args.timeout),
        scope=_scope(args.scope),
        queue=args.queue,
        fresh=args.fresh,
        skip_permissions=skip_permissions(
            found.loop, context, root, allowed=args.allow_skip_permissions
        ),
    )


def _scope(paths: Sequence[str] | None) -> tuple[str, ...] | None:
    for path in paths or ():
        if not path or any(sign in path for sign in "*?["):
            raise UsageError(f"`--scope {path}` is empty or has glob characters")
    return tuple(paths) if paths else None


def most_iterations(args: Asked, loop: FSMLoop) -> int | None:
    """`--max-iterations`, `--no-loop`; a relay also listens to MAX_ITERATIONS."""
    if loop.paradigm != "relay":
        return args.max_iterations or (1 if args.no_loop else None)
    from little_loops.relay.rules import turn_limit  # only relays count turns

    return turn_limit(args.max_iterations, args.no_loop, os.environ)


def _wants_to_start_anew(wish: Wish) -> bool:
    """Where a run of this name is unfinished, a person at a terminal is asked."""
    if not can_ask() or Runs(wish.root).is_alive(wish.name) == "running":
        return False
    before = current(wish.root, wish.name)
    if before is None or before.run.status not in UNFINISHED:
        return False
    from little_loops.terminal.console import talk  # only to ask

    problem = unfinished(wish.name, before.run)
    talk(problem.message)
    sys.stderr.write("Put it into the history and start anew? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
