"""The lines about worktrees and merging, without their indent.

Not here: why a branch could not be merged (`fsm.train`, `engine.merge_trains`).
"""

from __future__ import annotations

from collections.abc import Sequence

from little_loops.fsm.events import (
    BranchBase,
    BranchLeftOut,
    BranchMerged,
    MergeChecked,
    ResolveStart,
    TrainLanded,
    TrainStart,
    WorkCommitted,
    WorktreeEvent,
    WorktreeReady,
    WorktreesCleared,
)
from little_loops.fsm.state import LeftOut
from little_loops.fsm.train import left_out_text, why_not_merged
from little_loops.light_typing import assert_never

SHORT = 12
MOST_KEPT = 3


def worktree_lines(event: WorktreeEvent, bad: str) -> list[str]:
    """Return the lines for an event; `bad` is the sign of a failure."""
    match event:
        case WorktreeReady():
            return [f"worktree: {event.path}", f"branch: {event.branch}"]
        case WorkCommitted():
            return [_committed(event)]
        case TrainStart():
            return _again(event)
        case BranchMerged() | MergeChecked() | BranchBase():
            return _merged(event)
        case ResolveStart():
            return [
                f"{event.branch} cannot be merged: {why_not_merged(_out(event))}; running {event.child}"
            ]
        case BranchLeftOut():
            return [f"{bad} {left_out_text(_out(event))}"]
        case TrainLanded():
            return _landed(event, bad)
        case WorktreesCleared():
            return _kept(event.kept)
        case _:
            assert_never(event)


def _kept(paths: Sequence[str]) -> list[str]:
    """Return a line for each worktree that is kept, or one for many: what was merged and what was
    not should stay on the screen."""
    if len(paths) <= MOST_KEPT:
        return [f"kept: {path}" for path in paths]
    return [f"kept: {len(paths)} worktrees, listed by `ll-loop worktrees`"]


def _out(event: ResolveStart | BranchLeftOut) -> LeftOut:
    return LeftOut(event.branch, event.files, event.reason, event.resolve)


def _merged(event: BranchMerged | MergeChecked | BranchBase) -> list[str]:
    """Return the line about a branch that fits; one about what follows says that another does not."""
    match event:
        case MergeChecked(passed=True):
            return [f"merged {event.branch}, and the check passed"]
        case BranchMerged(to_check=False) if event.commit is not None:
            return [f"merged {event.branch}"]
        case _:
            return []


def _committed(event: WorkCommitted) -> str:
    if event.commit is None:
        return "nothing to commit: the run changed no files"
    files = f"{event.files} file{'' if event.files == 1 else 's'}"
    return f"committed: {files} on {event.branch}"


def _again(event: TrainStart) -> list[str]:
    """Return the line about merging again; the first time needs none."""
    if not event.again:
        return []
    return [f"`{event.onto}` is at {event.head[:SHORT]} now: merging again on top of that"]


def _landed(event: TrainLanded, bad: str) -> list[str]:
    """Return the lines about the branch that was moved, or left alone."""
    if not event.reason:
        return [f"`{event.onto}` is now at {event.commit[:SHORT]}"]
    branch = "your branch" if event.onto is None else f"`{event.onto}`"
    return [f"{bad} {branch} was left alone: {event.reason}", f"to finish it: {event.command}"]
