"""What became of the branches that a run has merged, from the events of its log."""

from __future__ import annotations

from collections.abc import Iterable

from little_loops.fsm.events import (
    BranchBase,
    BranchLeftOut,
    BranchMerged,
    ChildEnd,
    Entry,
    Event,
    MergeChecked,
    TrainLanded,
    TrainStart,
    WorktreesCleared,
)
from little_loops.fsm.state import LeftOut, Stage
from little_loops.records import NamedTuple

FAILED: tuple[Stage, ...] = ("fail", "error", "timeout")
"""Stages of branches that have nothing to merge because they did not pass."""


class MergeSummary(NamedTuple):
    """The branches of a state, or, without `state`, the run's own: those that were merged, and those
    that were left out, also because they failed.

    `onto` is the branch that they were merged into; with `reason` it was left alone, and `command`
    moves it. `kept` are the worktrees that are still there.
    """

    state: str | None = None
    onto: str | None = None
    merged: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    reason: str = ""
    command: str = ""
    kept: tuple[str, ...] = ()


def merges_of(entries: Iterable[Entry]) -> list[MergeSummary]:
    """Return what each state has merged when it ran last, and then the run itself."""
    found: dict[str | None, MergeSummary] = {}
    failed: dict[str, LeftOut] = {}
    state: str | None = None
    for entry in entries:
        match entry.event:
            case BranchBase():
                state = entry.event.state
                found[state] = MergeSummary(state)
                failed.clear()
            case ChildEnd(child=child) as end if state in found and found[state].onto is None:
                failed.pop(child, None)
                if end.stage in FAILED:
                    failed[child] = LeftOut(child, reason=_why_failed(end))
            case TrainStart(onto=onto):
                found[state] = MergeSummary(state, onto or "HEAD", (), tuple(failed.values()))
            case WorktreesCleared(own=own, kept=kept):
                state = None if own else state
                found[state] = found.get(state, MergeSummary(state))._replace(kept=kept)
                state = None
                failed.clear()
            case event:
                before = found.get(state, MergeSummary(state))
                if (after := _after(before, event)) is not before:
                    found[state] = after
    return [merge for merge in found.values() if merge.onto is not None or merge.left_out]


def _why_failed(end: ChildEnd) -> str:
    """Return why there is nothing to merge from a branch that has not passed."""
    why = end.message or end.reason.replace("_", " ")
    return "it failed" if end.reason == "terminal" else f"it failed: {why}"


def _after(merge: MergeSummary, event: Event) -> MergeSummary:
    """Return what is merged after an event; unchanged for an event of something else."""
    match event:
        case BranchMerged(commit=str(), to_check=False) | MergeChecked(passed=True):
            return merge._replace(merged=(*merge.merged, event.branch))
        case BranchLeftOut():
            out = LeftOut(event.branch, event.files, event.reason, event.resolve)
            return merge._replace(left_out=(*merge.left_out, out))
        case TrainLanded():
            return merge._replace(reason=event.reason, command=event.command)
        case _:
            return merge
