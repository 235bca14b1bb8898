"""What the events of worktrees and of merging change in a run."""

from __future__ import annotations

from little_loops.fsm.branching import FAILED
from little_loops.fsm.events import (
    BranchBase,
    BranchLeftOut,
    BranchMerged,
    ChildEnd,
    MergeChecked,
    ResolveStart,
    TrainLanded,
    TrainStart,
    WorkCommitted,
    WorktreeEvent,
    WorktreeReady,
    WorktreesCleared,
)
from little_loops.fsm.joins import UNDECIDED
from little_loops.fsm.state import Landing, LeftOut, LoopState, Train, Workspace
from little_loops.fsm.train import branch_of
from little_loops.light_typing import assert_never


def evolve_worktrees(run: LoopState, event: WorktreeEvent) -> LoopState:
    """Return the run after an event of its worktree, or of branches that are merged."""
    match event:
        case WorktreeReady():
            space = Workspace(event.path, event.branch, event.base, event.onto)
            return run._replace(workspace=space)
        case WorkCommitted():
            return run._replace(workspace=_committed(run.workspace, event))
        case BranchBase():
            return run._replace(train=Train(event.base, event.onto))
        case TrainStart():
            return run._replace(train=_started(run.train, event))
        case WorktreesCleared(own=True):
            own = run.workspace
            return run._replace(workspace=own and own._replace(is_cleared=True))
        case _:
            train = run.train
            return run if train is None else run._replace(train=_moved(train, event))


def _committed(space: Workspace | None, event: WorkCommitted) -> Workspace | None:
    if space is None:
        return None
    return space._replace(commit=event.commit, is_committed=True)


def _started(before: Train | None, event: TrainStart) -> Train:
    """Return a train that begins at a commit; what was resolved before need not be again."""
    train = Train(event.base, event.onto, event.head, event.head)
    if before is None:
        return train
    return train._replace(restarts=before.restarts + event.again, tries=before.tries)


def _moved(
    train: Train,
    event: BranchMerged
    | MergeChecked
    | ResolveStart
    | BranchLeftOut
    | TrainLanded
    | WorktreesCleared,
) -> Train:
    """Return the train after an event of one of its branches."""
    match event:
        case BranchMerged(commit=None):
            failing = LeftOut(event.branch, event.files, event.reason)
            return train._replace(failing=failing)
        case BranchMerged() if event.to_check:
            return train._replace(trial=event.branch, trial_commit=event.commit or "")
        case BranchMerged():
            return _passed(train, event.branch, event.commit or train.tip)
        case MergeChecked(passed=True):
            passed = _passed(_without(train, event.branch), event.branch, event.commit)
            return passed._replace(checked=event.commit)
        case MergeChecked():
            failing = LeftOut(event.branch, (), event.reason)
            train = _without(train, event.branch)
            return train._replace(trial=None, trial_commit="", failing=failing)
        case ResolveStart():
            tries = {**train.tries, event.branch: train.tries.get(event.branch, 0) + 1}
            return train._replace(resolving=event.child, tries=tries)
        case BranchLeftOut():
            out = LeftOut(event.branch, event.files, event.reason, event.resolve)
            return train._replace(failing=None, left_out=(*train.left_out, out))
        case TrainLanded():
            return train._replace(landing=Landing(event.commit, event.reason, event.command))
        case WorktreesCleared():
            return train._replace(is_cleared=True)
        case _:
            assert_never(event)


def _passed(train: Train, branch: str, commit: str) -> Train:
    return train._replace(
        tip=commit, merged=(*train.merged, branch), trial=None, trial_commit="", failing=None
    )


def _without(train: Train, branch: str) -> Train:
    """Return the train before a branch was merged that has changed nothing, if this is one."""
    return train._replace(merged=tuple(name for name in train.merged if name != branch))


def after_resolver(train: Train, event: ChildEnd) -> Train:
    """Return the train after the end of the run that was to resolve a branch. If that passed, the
    branch is merged again."""
    if event.stage in UNDECIDED:
        return train
    failing = train.failing or LeftOut(branch_of(event.child))
    train = train._replace(resolving=None, failing=None)
    if event.stage == "pass":
        return train
    return train._replace(failing=failing._replace(resolve=_how_ended(event)))


def _how_ended(event: ChildEnd) -> str:
    """Return how a run has ended: what it says about it itself, or else in which state."""
    if event.reason != "terminal" or event.message not in ("", event.reason):
        return event.message or event.reason
    return "it failed" if event.final_state == FAILED else f"it ended in `{event.final_state}`"
