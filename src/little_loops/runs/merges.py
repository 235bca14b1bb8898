"""What became of the branches that a run has merged, from the events of its log."""

from __future__ import annotations

from collections.abc import Iterable

from little_loops.fsm.events import (
    BranchBase,
    BranchLeftOut,
    BranchMerged,
    Entry,
    Event,
    MergeChecked,
    TrainLanded,
    TrainStart,
    WorktreesCleared,
)
from little_loops.fsm.state import LeftOut
from little_loops.records import NamedTuple


class MergeSummary(NamedTuple):
    """The branches of a state, or, without `state`, the run's own: those that were merged, and those
    that were left out.

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
    state: str | None = None
    for entry in entries:
        match entry.event:
            case BranchBase():
                state = entry.event.state
                found[state] = MergeSummary(state)
            case WorktreesCleared(own=own, kept=kept):
                state = None if own else state
                found[state] = found.get(state, MergeSummary(state))._replace(kept=kept)
                state = None
            case event:
                before = found.get(state, MergeSummary(state))
                if (after := _after(before, event)) is not before:
                    found[state] = after
    return [merge for merge in found.values() if merge.onto is not None or merge.left_out]


def _after(merge: MergeSummary, event: Event) -> MergeSummary:
    """Return what is merged after an event; unchanged for an event of something else."""
    match event:
        case TrainStart():
            return MergeSummary(merge.state, event.onto or "HEAD")
        case BranchMerged(commit=str(), to_check=False) | MergeChecked(passed=True):
            return merge._replace(merged=(*merge.merged, event.branch))
        case BranchLeftOut():
            out = LeftOut(event.branch, event.files, event.reason, event.resolve)
            return merge._replace(left_out=(*merge.left_out, out))
        case TrainLanded():
            return merge._replace(reason=event.reason, command=event.command)
        case _:
            return merge
