"""Snapshots of real repositories: what counts, what differs, what is never touched."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import time
from pathlib import Path

import pytest

from little_loops.errors import StoreError
from little_loops.system.stops import StopFlag
from little_loops.trees.content import Bounds, Intake, Unstored
from little_loops.trees.model import Changed, PathChange
from little_loops.trees.rules import Rules
from little_loops.trees.store import TreeStore
from tests.project import until
from tests.trees.projects import Tree, fingerprint


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    made = Tree(tmp_path)
    made.write_all({"src/a.py": "a = 1\n", "tests/test_a.py": "assert 1\n"})
    made.write(".gitignore", "*.log\n/build/\n")
    made.commit()
    return made


class CountingStop(StopFlag):
    """Counts how often somebody asks whether to stop."""

    asked = 0

    @property
    def count(self) -> int:
        self.asked += 1
        return 0

    @count.setter
    def count(self, value: int) -> None:
        pass


def times_asked(tree: Tree) -> int:
    stop = CountingStop()
    try:
        store = tree.store()
        rules = tree.rules(store)
        store.git = store.git._replace(stop=stop)
        store.snapshot(rules)
        return stop.asked
    finally:
        stop.close()


def test_what_is_written_through_a_mapping_shows_if_changed_files_are_read_again(tree):
    """Only the first write to a mapped page changes the times of the file."""
    store = tree.store()
    rules = tree.rules(store)
    begun_ns = time.time_ns() - 2_000_000_000
    path = tree.write("src/a.py", "right")
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[:] = b"right"
        before = store.snapshot(rules)
        until(lambda: store.snapshot(rules) and _is_settled(store, "src/a.py"), "remembered")
        mapped[:] = b"wrong"
        after = store.snapshot(rules, None, begun_ns)
    assert store.changed(before.project, after.project).paths == ("src/a.py",)


def _is_settled(store: TreeStore, path: str) -> bool:
    """Whether the file will be taken for unchanged if its times are the same."""
    (walk,) = store._walks.values()
    return dict(walk.files())[path][0] >= 0


def test_a_stop_is_noticed_between_files_and_within_a_large_one(tmp_path):
    few, many, large = (Tree(tmp_path / name) for name in ("few", "many", "large"))
    for tree, count in ((few, 1), (many, 50), (large, 1)):
        for number in range(count):
            tree.write(f"d/{number}", str(number) * 10)
    large.write("d/0", os.urandom(8 << 20))
    asked = times_asked(few)
    assert times_asked(many) >= asked + 49
    assert times_asked(large) >= asked + 8


def test_an_unchanged_tree_has_the_same_ids_also_for_another_process(tree):
    store = tree.store()
    rules = tree.rules(store, ["tests/"])
    first = store.snapshot(rules)
    store.save_times(rules)
    assert store.snapshot(rules) == first
    again = Rules.from_json(json.loads(json.dumps(rules.to_json())))
    assert tree.store(create=False).snapshot(again) == first


def test_the_tree_of_a_clean_checkout_is_the_tree_of_its_commit(tree):
    store = tree.store()
    found = store.snapshot(tree.rules(store))
    assert found.project == tree.git("rev-parse", "HEAD^{tree}").strip()


def test_the_tree_is_what_lies_within_the_scope(tree):
    store = tree.store()
    rules = tree.rules(store, scope=["src", "tests/test_a.py"])
    before = store.snapshot(rules)
    tree.write("docs/new.md", "text")
    after = store.snapshot(rules)
    assert tree.paths(store, after.tree) == ["src/a.py", "tests/test_a.py"]
    assert after.tree == before.tree
    assert after.project != before.project


def test_what_was_changed_comes_before_what_is_new(tree):
    """A check leaves files behind; they must not hide what an agent has changed."""
    store = tree.store()
    rules = tree.rules(store)
    before = store.snapshot(rules)
    tree.write(".coverage", "data\n")
    tree.write("src/a.py", "a = 2\n")
    after = store.snapshot(rules)
    assert store.changed(before.project, after.project).paths == ("src/a.py", ".coverage")


def test_changes_between_two_snapshots(tree):
    store = tree.store()
    rules = tree.rules(store, ["tests/"], scope=["src"])
    before = store.snapshot(rules)
    tree.write("src/a.py", "a = 2\nb = 3\n")
    tree.write("docs/new.md", "text\n")
    tree.write("other/x.md", "text\n")
    (tree.root / "tests/test_a.py").unlink()
    after = store.snapshot(rules, before.guard)
    assert store.changed(before.project, after.project, rules.scope) == Changed(
        1, ("src/a.py",), 2, 1
    )
    assert store.changed(before.project, before.project) == Changed()
    assert store.outside(before.project, after.project, rules.scope, [["other"]]) == (
        "docs/new.md",
        "tests/test_a.py",
    )
    assert store.guard_changes(before.guard, after.guard) == (
        PathChange("tests/test_a.py", "deleted"),
    )


def test_a_store_that_is_gone_is_not_taken_for_an_empty_one(tree):
    store = tree.store()
    rules = tree.rules(store)
    store.snapshot(rules)
    shutil.rmtree(store.files.path)
    with pytest.raises(StoreError, match="is missing from the tree store"):
        store.snapshot(rules)
    with pytest.raises(StoreError, match="is gone"):
        tree.store(create=False)
    with pytest.raises(StoreError, match="not the one this run started with"):
        tree.store().snapshot(rules)


def test_the_store_needs_nothing_of_the_repository(tree):
    """Not even what is committed: the user's `git gc` would take it away."""
    store = tree.store()
    rules = tree.rules(store, ["tests/"])
    first = store.snapshot(rules)
    tree.write("tests/test_a.py", "assert 0\n")
    tree.git("rm", "-q", "--cached", "src/a.py")
    tree.git("commit", "-q", "--amend", "-m", "without it")
    tree.git("reflog", "expire", "--expire=now", "--all")
    tree.git("gc", "-q", "--prune=now")
    shutil.rmtree(tree.top / ".git/objects")
    assert not (Path(store.files.git_dir) / "objects/info/alternates").exists()
    stored = tree.store(create=False).read(first.project, "src/a.py")
    assert stored is not None
    assert stored.data == (tree.root / "src/a.py").read_bytes()
    assert store.restore(rules, first.guard).paths == ("tests/test_a.py",)


def test_the_users_repository_is_not_touched(tree):
    tree.git("config", "core.fsmonitor", "true")
    before = fingerprint(tree.top / ".git")
    store = tree.store()
    rules = tree.rules(store, ["tests/"])
    first = store.snapshot(rules)
    tree.write("tests/test_a.py", "assert 0\n")
    second = store.snapshot(rules, first.guard)
    store.restore(rules, first.guard)
    store.committed(rules, first.guard)
    store.changed(first.project, second.project)
    store.pack()
    assert fingerprint(tree.top / ".git") == before
    assert os.stat(store.files.path).st_mode & 0o777 == 0o700


def test_a_commit_of_the_reference_is_no_change_whatever_its_id_is(tmp_path):
    """An id that begins or ends with a zero is one like any other."""
    tree = Tree(tmp_path)
    tree.write("tests/a.py", "start")
    tree.commit()
    store = tree.store()
    for number in range(40):
        tree.write("tests/a.py", f"{number}")
        rules = store.rules(f"run-{number}", ["."], ["tests/"])
        tree.write("tests/a.py", f"next {number}")
        reference = store.snapshot(rules).guard
        tree.commit(f"{number}")
        assert store.committed(rules, reference) == ()


def test_what_changed_in_the_scope_beside_a_file_that_was_too_large(tmp_path):
    tree = Tree(tmp_path, bounds=Bounds(file_bytes=100))
    tree.write_all({"src/a.py": "a = 1\n", "data/large": "x" * 200, "data/small": "y\n"})
    store = tree.store()
    rules = tree.rules(store)
    before = store.snapshot(rules).project
    tree.write("src/a.py", "a = 2\n")
    (tree.root / "data/large").unlink()
    (tree.root / "data/small").unlink()
    after = store.snapshot(rules).project
    assert store.changed(before, after, ("src",)) == Changed(1, ("src/a.py",), 1, 1)


def test_content_that_is_too_large_and_known_is_not_hashed_twice(tree):
    """Both hashes of a file take the same time, and one of them is enough to know it again."""
    descriptor = os.open(tree.write("large", "x" * 200), os.O_RDONLY)
    known: dict[bytes, Unstored] = {}
    store = tree.store()
    with store._writing() as opened:
        intake = Intake(opened.writer, known, Bounds(file_bytes=100), store.git)
        first = intake._read(descriptor)
        assert known == {first.id: Unstored.of(b"x" * 200)}
        known[first.id] = marked = Unstored(200, "already known")
        assert (intake._read(descriptor).id, known) == (first.id, {first.id: marked})
        known[first.id] = Unstored(200, "", is_left_out=True)
        assert (intake._read(descriptor).id, known) == (
            first.id,
            {first.id: Unstored.of(b"x" * 200)},
        )
        tree.write("large", "y" * 200)
        other = intake._read(descriptor)
    os.close(descriptor)
    assert known[other.id] == Unstored.of(b"y" * 200)
