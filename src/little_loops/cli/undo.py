"""`ll-loop undo`: undo what a run changed in the project's files, or undo that again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from little_loops.cli.options import OutputArgs, flag, operand, positive, value
from little_loops.cli.run_views import view_of
from little_loops.engine.undo_runs import undoing
from little_loops.errors import FAILED, OK, ConflictError, UsageError
from little_loops.fsm.path_text import path_text
from little_loops.fsm.step_trees import has_step, project_before, trees_after
from little_loops.light_typing import TYPE_CHECKING
from little_loops.receipts.run_trees import kept_trees_of
from little_loops.runs import refusals
from little_loops.runs.project import find_project
from little_loops.runs.reading import Runs
from little_loops.runs.view import RunView
from little_loops.terminal.console import print_json, say, talk
from little_loops.trees.commits import NewCommits, new_commits
from little_loops.trees.undoing import Goal, Undone

if TYPE_CHECKING:
    from little_loops.fsm.events import Entry, Tree


class UndoArgs(
    OutputArgs,
    verb="undo",
    summary="Restore your files to how they were before a run, or after one of its steps.\n"
    "Only files in its scope that the run changed are touched. To reverse this, run\n"
    "the same command again.",
    examples=[
        ("ll-loop undo fix-tests --dry-run", "list what would change"),
        ("ll-loop undo fix-tests", "the files as they were before the last run"),
        ("ll-loop undo fix-tests --to 4", "the files as they were after step 4"),
    ],
):
    loop: str = operand("a loop's name, or NAME@ID")
    to: int | None = value(
        "restore the files as they were after this step", convert=positive, metavar="STEP"
    )
    force: bool = flag("also replace files that you have changed since then")
    dry_run: bool = flag("change nothing; list what would change")
    run: str | None = value("start time of an earlier run, from `ll-loop history`", metavar="STAMP")


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop undo`. Return 0, or 1 if some files could not be restored.

    Raises `ConflictError` if a run works in the scope, `UsageError` if a file would be lost.
    """
    args = UndoArgs.read(argv)
    runs = Runs(find_project(os.getcwd()))
    view = view_of(runs, args.loop, args.run)
    _refuse_child(view)
    entries = list(runs.events(view))
    if view.is_alive:
        raise ConflictError(*refusals.running(view.name))
    if view.summary is None:
        raise UsageError(*refusals.unreadable(view.name, view.damage))
    trees = kept_trees_of(view.files, view.summary.run, os.environ)
    goal = _goal(entries, args.to, view.name)
    with undoing(runs.root, view, entries, trees, os.environ) as undo:
        done = undo.carry_out(goal, force=args.force, dry_run=args.dry_run)
        commits = new_commits(trees.store.git, trees.store.project, trees.rules.head)
        _print(args, view.name, done, commits)
        undo.confirm()
    return FAILED if done.failed else OK


def _refuse_child(view: RunView) -> None:
    """Raise `UsageError` for a run that another one has started: what came after it may depend on
    what it changed."""
    if view.path:
        raise UsageError(*refusals.undone_with(view.name, view.root_name))


def _goal(entries: Sequence[Entry], step: int | None, name: str) -> Goal:
    """Return the snapshot to go back to. Raises `UsageError` if there is none."""
    if step is not None:
        return Goal(tree_of_step(entries, step, name).project, step)
    project = project_before(entries)
    if project is None:
        raise UsageError(*refusals.before_snapshots(name))
    return Goal(project)


def tree_of_step(entries: Sequence[Entry], step: int, name: str) -> Tree:
    """Return the snapshot that shows the files as a step left them. Raises `UsageError`."""
    if not has_step(entries, step):
        raise UsageError(f"`{name}` has no step {step}", f"`ll-loop steps {name}` lists its steps")
    tree = trees_after(entries).get(step)
    if tree is None:
        raise UsageError(
            f"no snapshot shows the files as they were after step {step}",
            f"`ll-loop steps {name}` shows which steps have a snapshot",
        )
    return tree


def _print(args: UndoArgs, name: str, done: Undone, commits: NewCommits) -> None:
    """Print what was done, and how to go on."""
    if args.json:
        print_json({"schema": 1, "name": name, **_as_dict(args, done, commits)})
        return
    if args.quiet < 2:
        for line in report(args, done):
            say(line)
    if not args.quiet:
        _hint(args, name, done, commits)


def report(args: UndoArgs, done: Undone) -> Iterator[str]:
    """Yield the lines about what was changed, or would be."""
    count = len(done.changes)
    if not count and not done.failed:
        yield f"nothing to do: what the run changed is {_as_they_were(args, done, 1)}"
        return
    doing = "would restore" if args.dry_run else "restored"
    files = f"{count} file{'' if count == 1 else 's'}"
    yield f"{doing} {files} {_as_they_were(args, done, count)}"
    conflicts = frozenset(done.conflicts)
    for path, change in done.changes.items():
        note = "  (changed since)" if path in conflicts else ""
        yield f"  {change:<9} {path_text(path)}{note}"
    for failure in done.failed:
        yield f"  failed    {path_text(failure)}"


def _as_they_were(args: UndoArgs, done: Undone, count: int) -> str:
    """Return which state `count` files have now."""
    was = "it was" if count == 1 else "they were"
    if done.doing == "redo":
        return f"as {was} before the last `undo`"
    return f"as {was} before the run" if args.to is None else f"as {was} after step {args.to}"


def _hint(args: UndoArgs, name: str, done: Undone, commits: NewCommits) -> None:
    """Print how to go on: with commits that were made since, or back again."""
    if commits.number and done.doing != "redo":
        some = "a commit was" if commits.number == 1 else f"{commits.number} commits were"
        start = commits.start
        how = "git update-ref -d HEAD" if start is None else f"git reset --soft {start}"
        talk(f"note: {some} made since the run started; only files are restored")
        talk(f"next: {how}   (moves the branch back, and leaves the files alone)")
    elif done.changes and not args.dry_run:
        to = "" if args.to is None else f" --to {args.to}"
        talk(f"next: ll-loop undo {name}{to}   (undoes this)")


def _as_dict(args: UndoArgs, done: Undone, commits: NewCommits) -> dict[str, object]:
    """Return what was done as JSON data."""
    return {
        "step": args.to,
        "doing": done.doing,
        "dry_run": args.dry_run,
        "changes": [{"path": path, "change": each} for path, each in done.changes.items()],
        "conflicts": list(done.conflicts),
        "failed": list(done.failed),
        "commits": commits.number,
    }
