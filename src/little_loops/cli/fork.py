"""`ll-loop fork`: continue a run from one of its steps in another way, in a worktree of its own."""

from __future__ import annotations

import os
from collections.abc import Sequence

from little_loops.cli.options import (
    WatchArgs,
    dollars,
    flag,
    operand,
    positive,
    seconds,
    value,
)
from little_loops.cli.run_views import view_of
from little_loops.cli.undo import tree_of_step
from little_loops.definitions.loading import context_overrides, load_variant, with_host
from little_loops.engine.forking import ForkRequest, MadeFork, make_fork
from little_loops.errors import OK, UsageError
from little_loops.light_typing import TYPE_CHECKING, Any
from little_loops.receipts.run_trees import kept_trees_of
from little_loops.reporting.escape import visible
from little_loops.runs import refusals
from little_loops.runs.project import find_project
from little_loops.runs.reading import Runs
from little_loops.runs.stored_run import StoredRun, read_stored
from little_loops.terminal.console import print_json, say, talk

if TYPE_CHECKING:
    from little_loops.fsm.schema import FSMLoop
    from little_loops.runs.view import RunView


class ForkArgs(
    WatchArgs,
    verb="fork",
    summary="Start a new run from any step of an existing run, in a new git worktree.\n"
    "The existing run and your files are not changed.",
    examples=[
        ("ll-loop fork fix-tests --at 4", "start again after step 4"),
        ("ll-loop fork fix-tests --at 4 --with try.yaml", "with another definition"),
        ("ll-loop fork fix-tests --at 4 --here", "in the project itself"),
        ("ll-loop fork fix-tests --at 4 --no-start", "only create the run"),
    ],
):
    loop: str = operand("a loop's name, or NAME@ID")
    at: int | None = value("start after this step", convert=positive, metavar="STEP")
    with_file: str | None = value("use this loop file", "--with", metavar="FILE")
    context: Sequence[str] = value("set a context value", metavar="K=V", many=True, default=())
    here: bool = flag("change the files in the project, instead of adding a worktree")
    no_links: bool = flag("leave out what git ignores, such as `.venv`")
    no_start: bool = flag("create the run, but do not start it")
    id: str | None = value("name the run NAME@ID; default: stepN", metavar="ID")
    background: bool = flag("run in the background")
    queue: bool = flag("wait for conflicting runs to finish")
    max_iterations: int | None = value(
        "maximum number of iterations, from the start of the first run",
        convert=positive,
        metavar="N",
    )
    timeout: float | None = value(
        "maximum running time, from the start of the first run", convert=seconds, metavar="TIME"
    )
    max_cost: float | None = value(
        "maximum cost of its agents in US dollars, from the start of the first run",
        convert=dollars,
        metavar="USD",
    )
    allow_skip_permissions: bool = flag(
        "let agents skip permission prompts; see `ll-loop trust --help`"
    )
    run: str | None = value("start time of an earlier run, from `ll-loop history`", metavar="STAMP")


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop fork`: make the new run, and start it. Return its exit code.

    Raises `UsageError` if the step does not exist or its files are not stored.
    """
    args = ForkArgs.read(argv)
    runs = Runs(find_project(os.getcwd()))
    view = view_of(runs, args.loop, args.run)
    step = _step(args, view)
    parent = _parent(view)
    trees = kept_trees_of(view.files, parent.run.run, os.environ)
    entries = list(runs.events(view))
    loop, file, changed = _definition(args, runs.root, parent)
    request = ForkRequest(
        root=runs.root,
        name=view.name,
        parent=parent,
        entries=entries,
        step=step,
        tree=tree_of_step(entries, step, view.name),
        loop=loop,
        context={**changed, **context_overrides(args.context, loop)},
        file=file,
        here=args.here,
        links=not args.no_links,
        id=args.id,
    )
    if not args.no_start:
        args.allow_skip_permissions = _has_consent(args, request)
    made = make_fork(request, trees, os.environ)
    if args.no_start:
        return _print(args, made)
    if not args.json and not args.quiet:
        say(_lines(made))
    return _start(args, made.name, parent)


def _step(args: ForkArgs, view: RunView) -> int:
    """Return the step to fork after. Raises `UsageError` if none is given."""
    if args.at is None:
        raise UsageError(
            "`fork` needs the step that the new run starts after: `--at STEP`",
            f"`ll-loop steps {view.name}` lists the steps",
        )
    return args.at


def _parent(view: RunView) -> StoredRun:
    """Read the run to fork. Raises `UsageError` if nothing of it was recorded."""
    found = None if view.status == "queued" else read_stored(view.files)
    if found is None:
        raise UsageError(*refusals.not_started(view.name))
    return found


def _definition(
    args: ForkArgs, root: str, parent: StoredRun
) -> tuple[FSMLoop, str | None, dict[str, Any]]:
    """Return the definition of the fork, its file if that is another one, and the context values
    that it changes."""
    if args.with_file is None:
        return parent.loop, None, {}
    evidence = parent.run.trees is None or parent.run.trees.off is None
    found = load_variant(args.with_file, root, evidence=evidence)
    found = with_host(found, parent.start.get("host", {}), root)
    loop = found.loop._replace(name=parent.loop.name)
    given = {
        name: item
        for name, item in parent.run.context.items()
        if parent.loop.context.get(name) != item
    }
    return loop, os.path.realpath(found.path), {**loop.context, **given}


def _has_consent(args: ForkArgs, request: ForkRequest) -> bool:
    """Ask for consent before anything is made. Raises `UsageError` without it."""
    from little_loops.cli.consent import skip_permissions  # only if it starts

    return skip_permissions(
        request.loop,
        {**request.parent.run.context, **request.context},
        request.root,
        allowed=args.allow_skip_permissions,
        has_file="until" not in request.parent.start,
    )


def _lines(made: MadeFork) -> str:
    """Return the lines about a new fork."""
    if made.branch is None:
        return f"forked as {made.name}, in the project"
    place = visible(made.place, newlines=False)
    return f"forked as {made.name}, on branch {made.branch}\nworktree: {place}"


def _print(args: ForkArgs, made: MadeFork) -> int:
    """Print where a fork is that is not started, and return 0."""
    if args.json:
        print_json({"schema": 1, **made._asdict()})
    elif args.quiet < 2:
        say(_lines(made))
    if not args.json and not args.quiet:
        talk(f"next: ll-loop resume {made.name}")
    return OK


def _start(args: ForkArgs, name: str, parent: StoredRun) -> int:
    """Start the fork, here or in the background, as `resume` does. Return the exit code."""
    from little_loops.cli.resume import ResumeArgs, continue_run  # only if it starts

    same = {word: getattr(args, word) for word in ResumeArgs.table if hasattr(args, word)}
    definition = None if "until" in parent.start else "original"
    return continue_run(
        ResumeArgs(**{**same, "loop": name, "context": (), "definition": definition})
    )
