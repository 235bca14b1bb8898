"""Which files an undo changes, and which of them are someone else's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.fsm.reversal import Reversal, Version, change_of, plan_reversal

NAMES = ["a", "b", "a/x", "a/x/y", "b/z"]


def files(text: str) -> dict[str, Version]:
    """Files from `path=content` words."""
    pairs = (word.partition("=") for word in text.split())
    return {path: Version("file", 0o100644, content) for path, _, content in pairs}


@pytest.mark.parametrize(
    ("left", "now", "target", "changes", "conflicts"),
    [
        pytest.param("a=2", "a=2", "a=1", "a", "", id="changed"),
        pytest.param("a=2", "a=2", "", "a", "", id="added"),
        pytest.param("", "", "a=1", "a", "", id="deleted"),
        pytest.param("a=2", "a=1", "a=1", "", "", id="already as it was"),
        pytest.param("a=2", "a=3", "a=1", "a", "a", id="changed since"),
        pytest.param("a=2", "", "a=1", "a", "a", id="deleted since"),
        pytest.param("", "a=3", "a=1", "a", "a", id="made again since"),
        pytest.param("a=1", "a=3", "a=1", "", "", id="the run did not change it"),
        pytest.param("", "a=3", "", "", "", id="the run never saw it"),
        pytest.param("a/x=2", "a/x=2", "a=1", "a a/x", "", id="a directory became a file"),
        pytest.param("a=2", "a=2", "a/x=1", "a a/x", "", id="a file became a directory"),
        pytest.param(
            "a/x=2", "a/x=2 a/u=3", "a=1", "a a/u a/x", "a/u", id="a file of someone else is below"
        ),
        pytest.param("", "a=3", "a/x/y=1", "a a/x/y", "a", id="a file of someone else is above"),
    ],
)
def test_what_is_changed(left, now, target, changes, conflicts):
    found = plan_reversal(files(left), files(now), files(target))
    assert found == Reversal(tuple(changes.split()), tuple(conflicts.split()))


def test_what_may_be_the_runs_is_a_conflict():
    found = plan_reversal(files("a=1"), files("a=2 b=1"), files("a=1"), is_unsure=True)
    assert found == Reversal(("a", "b"), ("a", "b"))


def test_a_mode_counts():
    plain, program = Version("file", 0o100644, "1"), Version("file", 0o100755, "1")
    found = plan_reversal({"a": program}, {"a": program}, {"a": plain})
    assert found == Reversal(("a",))


@pytest.mark.parametrize(
    ("path", "change"), [("a", "changed"), ("b", "removed"), ("c", "restored")]
)
def test_what_happens_to_a_path(path, change):
    assert change_of(path, files("a=1 b=1"), files("a=2 c=1")) == change


TREES = st.dictionaries(st.sampled_from(NAMES), st.sampled_from("123")).map(
    lambda found: {
        path: Version("file", 0o100644, content)
        for path, content in found.items()
        if not any(path.startswith(f"{other}/") for other in found)
    }
)


@given(left=TREES, now=TREES, target=TREES, unsure=st.booleans())
def test_afterwards_all_that_was_ours_is_as_wanted_and_the_rest_as_it_was(
    left, now, target, unsure
):
    plan = plan_reversal(left, now, target, is_unsure=unsure)
    after = {path: one for path, one in now.items() if path not in plan.changes}
    after |= {path: target[path] for path in plan.changes if path in target}
    for path in left.keys() | target.keys():
        if left.get(path) != target.get(path):
            assert after.get(path) == target.get(path)
    for path in now.keys() - set(plan.changes):
        assert after[path] == now[path]
    assert set(plan.conflicts) <= set(plan.changes)
    # No file is where another one needs a directory.
    assert not [p for p in after if p in plan.changes for q in after if q.startswith(f"{p}/")]


@given(left=TREES, target=TREES)
def test_without_other_changes_there_is_no_conflict(left, target):
    assert plan_reversal(left, left, target).conflicts == ()
