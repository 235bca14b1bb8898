"""Show what a run changed step by step, and restore a file as it was after a step.

Steps are numbered as in `status` and the log; trees are recorded before and after agents' turns and
checks.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from little_loops.errors import UsageError
from little_loops.fsm.events import Tree
from little_loops.receipts.run_trees import TreesAndRules
from little_loops.receipts.story import Story
from little_loops.records import NamedTuple
from little_loops.trees.model import StoredFile
from little_loops.trees.placing import OpenDirectory

SHORTEST_ID = 4


class Span(NamedTuple):
    """The trees before and after one or several steps."""

    first: int
    last: int
    state: str
    host: str | None
    before: Tree
    after: Tree


def spans(story: Story) -> Iterator[Span]:
    """Yield a span for each recorded step, from the first tree before it to the tree it left.

    Steps without a tree before or after them are left out.
    """
    turns = {turn["step"]: turn["host"] for turn in story.turns}
    for step in dict.fromkeys(tree.step for tree in story.trees):
        before = [tree for tree in story.trees if tree.step == step and tree.when == "before"]
        left = tree_left_by(story, step)
        if before and left is not None:
            yield Span(step, step, left.state, turns.get(step), before[0], left)


def tree_left_by(story: Story, step: int) -> Tree | None:
    """Return the tree that the last attempt of a step left, before anything was restored; None if
    none was recorded."""
    after = [tree for tree in story.trees if tree.step == step and tree.when == "after"]
    return next((tree for tree in after if tree.attempt == after[-1].attempt), None)


def span_of(story: Story, first: int, last: int) -> Span:
    """Return the span from before step `first` to after step `last`.

    Raises `UsageError` if no tree was recorded for these steps.
    """
    within = [span for span in spans(story) if first <= span.first <= last]
    if not within:
        wanted = str(first) if first == last else f"{first}..{last}"
        raise UsageError(f"no snapshot was recorded for step {wanted}", _steps_of(story))
    start, end = within[0], within[-1]
    if start == end:
        return start
    settled = [tree for tree in story.trees if tree.step == end.last and tree.when == "after"]
    return Span(first, last, end.state, end.host, start.before, settled[-1])


def _steps_of(story: Story) -> str:
    """Return a hint that lists the steps with recorded trees."""
    known = ", ".join(str(span.first) for span in spans(story))
    return f"snapshots were recorded for steps {known}" if known else "the run recorded none"


# ── restoring a file ────────────────────────────────────────────────────────────────────────


def version_of(trees: TreesAndRules, path: str, tree: Tree) -> StoredFile | None:
    """Return a file as a snapshot has it, protected or not; None if it did not exist.

    Raises `StoreError` if it was too large to store.
    """
    store = trees.store
    return store.read_guarded(tree.guard, path) or store.read(tree.project, path)


def version_at(
    story: Story, trees: TreesAndRules, path: str, step: int | None, tree: str | None = None
) -> StoredFile:
    """Return a file as a step left it or as a snapshot contains it, or without these as it was when
    the run started.

    Raises `UsageError` if there is no such snapshot, or no such file in it.
    """
    if tree is not None:
        return _version_in(story, trees, path, tree)
    wanted = next(iter(story.trees), None) if step is None else tree_left_by(story, step)
    if wanted is None:
        raise UsageError(f"no snapshot was recorded after step {step}", _steps_of(story))
    found = version_of(trees, path, wanted)
    if found is None:
        when = "when the run started" if step is None else f"after step {step}"
        raise UsageError(f"`{path}` did not exist {when}", _where_it_was(story, trees, path))
    return found


def _version_in(story: Story, trees: TreesAndRules, path: str, id: str) -> StoredFile:
    """Return a file as the snapshot with this id contains it; the beginning of the id is enough."""
    # Snapshots of the same files may differ in protected ones outside the scope: their id first.
    ids = [(each, (each.guard, each.id, each.project)) for each in story.trees]
    found = [each for n in range(3) for each, names in ids if names[n].startswith(id)]
    kept = [one["kept"] for one in story.restored if one.get("kept", "").startswith(id)]
    if not (found or kept) or len(id) < SHORTEST_ID:
        raise UsageError(f"the run has no snapshot `{id}`", _steps_of(story))
    if found:
        file = version_of(trees, path, found[0])
    else:
        file = trees.store.read_guarded(kept[0], path)
    if file is None:
        hint = _where_it_was(story, trees, path)
        raise UsageError(f"`{path}` did not exist in tree {id}", hint)
    return file


def _where_it_was(story: Story, trees: TreesAndRules, path: str) -> str:
    """Return a hint that lists the steps after which the file existed."""
    steps = [
        str(tree.step)
        for tree in story.trees
        if tree.when == "after" and version_of(trees, path, tree) is not None
    ]
    listed = ", ".join(dict.fromkeys(steps))
    return (
        f"it existed after steps {listed}: use `--step N`" if steps else "no snapshot contains it"
    )


def put_back(trees: TreesAndRules, file: StoredFile) -> str:
    """Write a stored file to its place in the project, over what is there. Return the id of a
    snapshot that contains what was there before.

    Raises `UsageError` if the current file is not part of that snapshot and would be lost.
    """
    store, rules = trees
    taken = store.snapshot(rules)
    place = os.path.join(store.project, file.path)
    is_kept = (
        store.read_guarded(taken.guard, file.path) or store.read(taken.project, file.path)
    ) is not None
    if os.path.lexists(place) and not is_kept:
        raise UsageError(
            f"`{file.path}` is not in the snapshot that was just taken, so it would be lost",
            "move it away first",
        )
    with OpenDirectory(store.project) as ground:
        if file.kind == "link":
            ground.link(file.path, os.fsdecode(file.data))
        else:
            ground.write(file.path, file.data, stat.S_IFREG | file.mode)
    return taken.project
