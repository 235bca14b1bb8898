"""`ll-loop run`: run a loop, here or in the background, or say what it would do."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from little_loops.cli.consent import can_ask, skip_permissions
from little_loops.cli.foreground import Show, carry_out
from little_loops.cli.options import OutputArgs, flag, operand, positive, seconds, value
from little_loops.definitions.loading import LoopFile, context_overrides, load_loop
from little_loops.engine.lifecycle import Wish, start, unfinished
from little_loops.errors import UsageError
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import UNFINISHED, Limits
from little_loops.runs.project import find_project, run_name
from little_loops.runs.reading import Runs
from little_loops.runs.stored_run import current

EXAMPLES = (
    ("ll-loop run fix-types", "run .loops/fix-types.yaml"),
    ("ll-loop run fix-types --dry-run", "show what it would do"),
    ("ll-loop run fix-types --background", "and come back to the prompt"),
    ("ll-loop run fix-types --queue", "wait for a loop that is in the way"),
)


class RunArgs(
    OutputArgs,
    verb="run",
    summary="Run a loop until it ends, is stopped or needs you.",
    examples=EXAMPLES,
):
    loop: str = operand("a loop's name or file")
    background: bool = flag("run as a process of its own")
    dry_run: bool = flag("run nothing, show what would be")
    queue: bool = flag("wait for loops that are in the way")
    fresh: bool = flag("put an unfinished run away first")
    max_iterations: int | None = value("times around at most", convert=positive, metavar="N")
    no_loop: bool = flag("the same as --max-iterations 1")
    timeout: float | None = value("running time at most: 90s, 2h", convert=seconds, metavar="TIME")
    context: Sequence[str] = value("a context value", metavar="K=V", many=True, default=())
    scope: Sequence[str] | None = value(
        "what it works on, instead of its scope", metavar="PATH", many=True
    )
    id: str | None = value("name the run NAME@ID, beside others of this loop", metavar="ID")
    allow_skip_permissions: bool = flag("let agents act without asking; see `ll-loop trust --help`")


def main(argv: Sequence[str]) -> int:
    args = RunArgs.read(argv)
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


def wish_of(args: RunArgs, root: str, found: LoopFile) -> Wish:
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


def most_iterations(args: RunArgs, loop: FSMLoop) -> int | None:
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
