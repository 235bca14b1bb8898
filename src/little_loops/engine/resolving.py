"""Let a run resolve a branch that cannot be merged: with git, in the worktree of that branch.

The run begins with both sides merged, conflict markers included, and its result is a commit on top
of both. So the branch is merged cleanly afterwards, unless the check fails again.

Each function can be repeated: what a killed call has done is found in the repository.

Not here: when one is started, and how often (`fsm.train`), what it runs (`child_run`).
"""

from __future__ import annotations

import os

from little_loops.engine.local_world import LocalWorld
from little_loops.engine.worktree_runs import Resolution, WorktreePlace, place_of_branch
from little_loops.errors import StoreError
from little_loops.fsm.path_text import listed_paths
from little_loops.fsm.schema import WORKING_TREE, worktree_of
from little_loops.fsm.state import LeftOut, LoopState
from little_loops.fsm.train import branch_of, resolver_of
from little_loops.trees import merging, worktrees
from little_loops.trees.git import Git
from little_loops.trees.index_locks import unlock_index

MARKERS = (b"<<<<<<< ", b">>>>>>> ")


def place_to_resolve(world: LocalWorld, run: LoopState) -> WorktreePlace:
    """Return the worktree of the branch that `run` resolves, and what it is to be merged onto."""
    train, children = run.train, run.children
    assert train is not None, "branches are being merged"
    assert children is not None, "they belong to a state"
    name = branch_of(train.resolving or "")
    place = place_of_branch(world, children, name)
    assert place is not None, "a branch that was merged has a worktree"
    worktree = worktree_of(world.loop.states[children.state])
    assert worktree is not None, "only a state with worktrees resolves conflicts"
    base = train.base if worktree.from_ == WORKING_TREE else None
    files = (train.failing or LeftOut(name)).files
    merges = Resolution(train.tip, files, base)
    before = place_of_branch(world, children, resolver_of(name, train.tries.get(name, 1) - 1))
    is_begun = before is not None and before.merges is not None and before.merges.tip == train.tip
    return place._replace(merges=merges._replace(is_begun=is_begun))


def lay_out(git: Git, place: WorktreePlace, commit: str) -> None:
    """Write the files of both sides, merged, into the worktree of a branch, which is at `commit`."""
    merges = place.merges
    assert merges is not None, "the run resolves a branch"
    if merges.is_begun:
        return
    unlock_index(git, place.path)  # the worktree is not created again: it has what `setup` made
    worktrees.add(git, place.origin, place.path, place.branch, commit)
    worktrees.read_commit(git, place.path, commit)
    tree = merging.tree_with_conflicts(git, place.path, merges.base, merges.tip, commit)
    words = [*worktrees.WHOLE, *worktrees.REPLACE_FILES, tree]
    worktrees.run_git(git, place.path, words, "check out the merged files")


def parents_of(git: Git, place: WorktreePlace) -> tuple[str, ...] | None:
    """Return the parents of the commit with the result; None if the branch has that already. Raises
    `StoreError` if a file still has conflict markers."""
    merges = place.merges
    assert merges is not None, "the run resolves a branch"
    if left := tuple(path for path in merges.files if _has_markers(os.path.join(place.path, path))):
        raise StoreError(f"conflict markers are left in {listed_paths(left, len(left))}")
    head = worktrees.commit_of(git, place.path, worktrees.HEADS + place.branch)
    if head is None or merging.contains(git, place.path, head, merges.tip):
        return None
    return (merges.tip,) if merges.base is not None else (head, merges.tip)


def _has_markers(path: str) -> bool:
    """Return whether a file has a line with which git marks a conflict."""
    if os.path.islink(path) or not os.path.isfile(path):
        return False
    # A pipe in the place of a file must not hold the run up.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        return any(line.startswith(MARKERS) for line in file)
