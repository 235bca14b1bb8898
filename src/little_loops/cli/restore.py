"""`ll-loop restore`: restore a file from a run."""

from __future__ import annotations

import os
from collections.abc import Sequence

from little_loops.cli.options import OutputArgs, operand, positive, value
from little_loops.cli.run_views import story_of, view_of
from little_loops.errors import OK, ConflictError, UsageError
from little_loops.receipts.file_versions import put_back, version_at
from little_loops.receipts.run_trees import trees_of
from little_loops.runs import refusals
from little_loops.runs.project import find_project
from little_loops.runs.reading import Runs
from little_loops.terminal.console import print_json, say


class RestoreArgs(
    OutputArgs,
    verb="restore",
    summary="Restore a file to how it was when a run started, after one of the run's steps,\n"
    "or in any of the run's snapshots.\n"
    "The current version is first stored in the run's snapshots.",
    examples=[
        ("ll-loop restore fix-tests tests/test_a.py", "from before the run"),
        ("ll-loop restore fix-tests tests/test_a.py --step 4", "as of step 4"),
        (
            "ll-loop restore fix-tests tests/test_a.py --tree 29fad7",
            "as the run printed it",
        ),
    ],
):
    loop: str = operand("a loop's name, or NAME@ID")
    path: str = operand("a file in the project")
    step: int | None = value("as it was after this step", convert=positive, metavar="N")
    tree: str | None = value("as it is in this snapshot", metavar="ID")
    run: str | None = value("start time of an earlier run, from `ll-loop history`", metavar="STAMP")


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop restore`: store the current version, restore the file, and return 0.

    Raises `ConflictError` if the run is alive, `UsageError` if the file is outside the project.
    """
    args = RestoreArgs.read(argv)
    if args.step is not None and args.tree is not None:
        raise UsageError("`--step` and `--tree` cannot be used together", "use one of them")
    runs = Runs(find_project(os.getcwd()))
    view = view_of(runs, args.loop, args.run)
    if view.is_alive:
        raise ConflictError(*refusals.running(view.name))
    path = _inside(args.path, runs.root)
    story, trees = story_of(runs, view), trees_of(view.files, os.environ)
    file = version_at(story, trees, path, args.step, args.tree)
    kept = put_back(trees, file)
    if args.json:
        print_json({"schema": 1, "path": path, "bytes": len(file.data), "kept": kept})
    elif not args.quiet:
        say(f"restored {path} as it was {_time_of(args)}")
    return OK


def _time_of(args: RestoreArgs) -> str:
    """Return when the file was as it is now."""
    if args.tree is not None:
        return f"in tree {args.tree}"
    return "when the run started" if args.step is None else f"after step {args.step}"


def _inside(argument: str, root: str) -> str:
    """Return the path relative to the project, without following links.

    Raises `UsageError` if it is outside.
    """
    place = os.path.normpath(os.path.join(os.path.realpath(os.getcwd()), argument))
    path = os.path.relpath(place, os.path.realpath(root))
    if path == "." or path.startswith(".."):
        raise UsageError(f"`{argument}` is not a file in this project")
    return path
