"""`ll-loop worktrees`: list the git worktrees of runs, and remove those that nobody needs."""

from __future__ import annotations

import os
from collections.abc import Sequence

from little_loops.cli.options import OutputArgs, flag
from little_loops.engine.kept_worktrees import KeptWorktree, kept_worktrees, prune
from little_loops.errors import OK
from little_loops.reporting.escape import visible
from little_loops.runs.project import find_project
from little_loops.terminal.console import print_json, say

EXAMPLES = (
    ("ll-loop worktrees", "list worktrees"),
    ("ll-loop worktrees --prune", "remove worktrees of finished runs"),
)


class WorktreesArgs(
    OutputArgs,
    verb="worktrees",
    summary="List the git worktrees that this project's runs use or have left behind.",
    examples=EXAMPLES,
):
    prune: bool = flag("remove the worktrees of finished runs, if all their files are committed")


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop worktrees`: list the worktrees of runs, or with `--prune` remove those that no run
    needs, and whose files are all committed. Return 0."""
    args = WorktreesArgs.read(argv)
    root = find_project(os.getcwd())
    if args.prune:
        removed, kept = prune(root, os.environ)
    else:
        removed, kept = [], kept_worktrees(root, os.environ)
    if args.json:
        gone = {"removed": [each.path for each in removed]} if args.prune else {}
        print_json({"schema": 1, **gone, "worktrees": [each._asdict() for each in kept]})
    elif args.quiet < 2:
        say("\n".join(_lines(removed, kept)))
    return OK


def _lines(removed: Sequence[KeptWorktree], kept: Sequence[KeptWorktree]) -> list[str]:
    """Return a line about each worktree that was removed, and three about each that is there."""
    gone = [f"removed {visible(each.path, newlines=False)}" for each in removed]
    left = [line for each in kept for line in _described(each)]
    return [*gone, *left] or ["no worktrees"]


def _described(each: KeptWorktree) -> list[str]:
    """Return what is known about a worktree."""
    name = each.run or "unknown run"
    if each.unsaved:
        files = f"{each.unsaved} file{'' if each.unsaved == 1 else 's'}"
        state = f"{files} not committed"
    else:
        state = "all files are committed"
    needed = ", and the run has not finished" if each.is_needed else ""
    return [
        f"{visible(name, newlines=False)}: {state}{needed}",
        f"  {visible(each.path, newlines=False)}",
        f"  branch {visible(each.branch or '(none)', newlines=False)}",
    ]
