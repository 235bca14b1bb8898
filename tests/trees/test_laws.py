"""What holds for any tree and any tampering."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from little_loops.trees.copies import CleanCopy
from tests.simulation.command import in_memory
from tests.trees.drawn import DIRS, NODES, Dir, Node, clear, content, plant
from tests.trees.projects import Tree, fingerprint

LAW = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture
def places() -> Iterator[Iterator[Path]]:
    """As many empty directories as examples need."""
    with in_memory() as home:

        def make() -> Iterator[Path]:
            while True:
                place = Path(tempfile.mkdtemp(dir=home))
                yield place
                clear(place)

        yield make()


def repository(places: Iterator[Path]) -> Tree:
    return Tree(next(places))


@LAW
@given(before=DIRS, after=DIRS)
def test_two_snapshots_have_the_same_id_if_and_only_if_the_content_is_the_same(
    places, before, after
):
    tree = repository(places)
    plant(tree.root / "d", before)
    store = tree.store()
    rules = tree.rules(store)
    first = store.snapshot(rules)
    plant(tree.root / "d", after)
    second = store.snapshot(rules)
    assert (first.project == second.project) is (content(before) == content(after))
    # Another process that knows nothing finds the same.
    assert tree.store().snapshot(rules).project == second.project


@LAW
@given(before=DIRS, after=NODES | st.none(), outer=st.booleans())
def test_restoring_is_exact_for_any_tree_and_any_tampering(places, before, after, outer):
    tree = repository(places)
    (tree.place / "outside").mkdir()
    (tree.place / "outside/file").write_text("outside")
    tree.write("src/a.py", "a")
    (tree.root / "sub").mkdir()
    plant(tree.root / "sub/tests", before)
    store = tree.store()
    rules = tree.rules(store, ["tests/"])
    start = store.snapshot(rules)
    wanted = fingerprint(tree.root, skip=[".git"])
    repository_before = fingerprint(tree.root / ".git")
    tampered: Node | None = Dir({"tests": after}, 0o755) if after and not outer else after
    plant(tree.root / "sub", tampered)
    restored = store.restore(rules, start.guard)
    assert restored.failed == ()
    found = fingerprint(tree.root, skip=[".git"])
    assert _protected(found) == _protected(wanted)
    assert store.restore(rules, start.guard).paths == ()
    assert store.snapshot(rules, start.guard).guard == start.guard
    assert (tree.place / "outside/file").read_text() == "outside"
    assert fingerprint(tree.root / ".git") == repository_before
    # What was replaced can be had again.
    for one in store.guard_changes(start.guard, restored.kept):
        if one.kind != "deleted":
            assert one.path in store.guard(restored.kept).paths


def _protected(found: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    return {path: one for path, one in found.items() if path.startswith("sub/tests")}


@LAW
@given(before=DIRS, after=DIRS)
def test_putting_back_is_exact_for_what_a_snapshot_holds(places, before, after):
    tree = repository(places)
    plant(tree.root / "d", before)
    store = tree.store()
    rules = tree.rules(store, scope=["src"])
    first = store.snapshot(rules)
    wanted = _files(fingerprint(tree.root, skip=[".git"]))
    plant(tree.root / "d", after)
    second = store.snapshot(rules)
    paths = store.outside(first.project, second.project, ["src"])
    done = store.put_back(rules, first.project, paths, str(tree.place / "patch"))
    assert done.failed == ()
    assert store.snapshot(rules).project == first.project
    found = _files(fingerprint(tree.root, skip=[".git"]))
    changed = set(done.paths)
    assert {p: o for p, o in found.items() if p in changed} == {
        p: o for p, o in wanted.items() if p in changed
    }


@LAW
@given(before=DIRS, after=DIRS)
def test_a_change_in_the_scope_is_put_back_exactly(places, before, after):
    tree = repository(places)
    plant(tree.root / "d", before)
    store = tree.store()
    rules = tree.rules(store)
    first = store.snapshot(rules)
    plant(tree.root / "d", after)
    second = store.snapshot(rules)
    paths = store.inside(first.project, second.project, ["d"])
    done = store.put_back(rules, first.project, paths)
    assert (set(done.paths), done.failed) == (set(paths), ())
    assert store.snapshot(rules).project == first.project


def _files(found: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    return {path: one for path, one in found.items() if not one[0].startswith("d")}


@LAW
@given(first=DIRS, second=DIRS)
def test_a_copy_laid_out_over_another_is_the_snapshot(places, first, second):
    tree = repository(places)
    plant(tree.root / "d", first)
    store = tree.store()
    rules = tree.rules(store)
    copy = CleanCopy(store, rules, str(tree.state))
    for node in (first, second):
        plant(tree.root / "d", node)
        now = store.snapshot(rules)
        with copy.held():
            root = Path(copy.lay_out(now.project, now.guard))
        found = _files(fingerprint(root, skip=[".git"]))
        assert found == _files(fingerprint(tree.root, skip=[".git"]))
    shutil.rmtree(copy.path)
