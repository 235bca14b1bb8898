"""Which snapshot shows the files as a step left them."""

from __future__ import annotations

import pytest

from little_loops.fsm.step_trees import (
    LatestTree,
    has_step,
    latest_tree,
    project_before,
    trees_after,
)
from tests.entries import entries_like, entry

STEPS = """\
    loop_start
    state_enter 1
    tree a
    action_start
    action_complete
    tree b
    transition
    state_enter 2
    action_start
    action_complete
    transition
    state_enter 3
    tree c
    action_start
    action_complete
    tree d
    restored
    tree e
    action_start clean
    action_complete
    transition
    state_enter 4
    state_enter 5
    action_start
    action_complete
    state_enter 6
    action_start
    action_complete
"""


@pytest.mark.parametrize(
    ("step", "tree"),
    [
        pytest.param(1, "b", id="the snapshot after its action"),
        pytest.param(2, "c", id="the one before the next action"),
        pytest.param(3, "e", id="the last one, after files were restored"),
        pytest.param(4, "e", id="nothing ran in it"),
        pytest.param(5, None, id="none before the next action"),
        pytest.param(6, None, id="none at the end"),
        pytest.param(9, None, id="no such step"),
    ],
)
def test_the_tree_after_a_step(step, tree):
    found = trees_after(entries_like(STEPS)).get(step)
    assert (found and found.project) == tree


def test_the_first_and_the_latest_tree_of_a_run():
    entries = entries_like(STEPS)
    assert project_before(entries) == "a"
    latest = latest_tree(entries)
    assert latest.tree is not None
    assert (latest.tree.project, latest.is_current) == ("e", False)
    assert latest_tree(entries[:21]).is_current
    assert project_before(entries[:2]) is None
    forked = entry("forked", parent="r", parent_name="fix", project="before")
    assert project_before([*entries, forked]) == "before"
    assert latest_tree(()) == LatestTree(None, False)
    assert [step for step in range(9) if has_step(entries, step)] == [1, 2, 3, 4, 5, 6]
