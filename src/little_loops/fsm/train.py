"""The merge train: which branch is merged next, and what becomes of one that cannot be merged.

Branches are merged one after the other, in their order. After each, the check runs on the merged
tree. A branch that is in conflict, or turns the check red, may be resolved, and is left out
otherwise. Then the user's branch moves once, to a commit whose check has passed.

Not here: recording any of it (`worktree_steps`), git (`engine.merge_trains`).
"""

from __future__ import annotations

from collections.abc import Sequence

from little_loops.fsm.path_text import listed_paths
from little_loops.fsm.schema import Worktree
from little_loops.fsm.state import LeftOut, MergeResult, Train
from little_loops.light_typing import Final
from little_loops.records import NamedTuple

MOST_RESTARTS: Final = 3
"""How often the merges are repeated because the user's branch has moved: at most four attempts in total."""
MOVED: Final = "the branch moves faster than its check runs"


class Start(NamedTuple):
    """Find out what the branches are merged on top of."""


class Merge(NamedTuple):
    branch: str


class Check(NamedTuple):
    branch: str
    commit: str


class Resolve(NamedTuple):
    """Start a run that is to resolve a branch, or continue it if there is no `failing` branch."""

    child: str
    failing: LeftOut | None = None


class LeaveOut(NamedTuple):
    out: LeftOut


class Land(NamedTuple):
    pass


Stop = Start | Merge | Check | Resolve | LeaveOut | Land


def next_stop(worktree: Worktree, branches: Sequence[str], train: Train) -> Stop | None:
    """Return what to do next to merge these branches; None if nothing is left to do."""
    if worktree.merge == "none" or not branches or train.landing is not None:
        return None
    if not train.head:
        return Start()
    if train.resolving is not None:
        return Resolve(train.resolving)
    if train.failing is not None:
        return _after_failure(worktree, train, train.failing)
    if train.trial is not None:
        return Check(train.trial, train.trial_commit)
    gone = {out.name for out in train.left_out}
    for name in branches:
        if name not in train.merged and name not in gone:
            return Merge(name)
    if train.tip != train.head:
        return Land()
    return _check_of_unchanged(worktree, train)


def _check_of_unchanged(worktree: Worktree, train: Train) -> Check | None:
    """Return the check of the commit that the branches were merged on top of, if none of them has
    changed anything: without it, an agent that does nothing would pass."""
    is_known = train.checked == train.tip or bool(train.left_out)
    if worktree.check is None or is_known or not train.merged:
        return None
    return Check(train.merged[-1], train.tip)


def _after_failure(worktree: Worktree, train: Train, failing: LeftOut) -> Resolve | LeaveOut:
    """Return the next try to resolve a branch, if there is one; else it is left out."""
    tried = train.tries.get(failing.name, 0)
    if worktree.resolve is None or tried >= worktree.tries:
        return LeaveOut(failing)
    return Resolve(resolver_of(failing.name, tried + 1), failing)


RESOLVE: Final = ".resolve-"


def resolver_of(branch: str, number: int) -> str:
    """Return the name of a run that tries to resolve a branch."""
    return f"{branch}{RESOLVE}{number}"


def branch_of(resolver: str) -> str:
    return resolver.rpartition(RESOLVE)[0]


def result_of(train: Train) -> MergeResult:
    """Return what became of the branches, for the result of their state."""
    commit = train.tip or train.head or train.base
    command = "" if train.landing is None else train.landing.command
    return MergeResult(commit, train.merged, train.left_out, command)


def why_incomplete(train: Train) -> str:
    """Return why not all branches are in the user's branch; empty if they are."""
    reasons = [left_out_text(out) for out in train.left_out]
    landing = train.landing
    if landing is not None and landing.reason:
        reasons.append(f"{landing.reason}; `{landing.command}` finishes it")
    return "; ".join(reasons)


def left_out_text(out: LeftOut) -> str:
    """Return which branch was left out, and why."""
    return f"`{out.name}` is not merged: {why_not_merged(out)}"


def why_not_merged(out: LeftOut) -> str:
    """Return why a branch cannot be merged, and why the last try to resolve it failed."""
    where = f" ({listed_paths(out.files, len(out.files))})" if out.files else ""
    tried = f"; `resolve` did not fix it: {out.resolve}" if out.resolve else ""
    return f"{out.reason}{where}{tried}"
