"""Stores stay small: packed, pruned, and their size is known."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from little_loops.errors import StoreError
from little_loops.trees.copies import CleanCopy, refuse_twins
from little_loops.trees.rules import Rules
from little_loops.trees.shadows import NotClean
from little_loops.trees.store import TreeStore
from little_loops.trees.upkeep import disk_use, remove_copies
from tests.trees.projects import Tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    made = Tree(tmp_path)
    made.write("a.txt", "a")
    made.write(".gitignore", ".env\n")
    made.write(".env", "ignored")
    made.commit()
    return made


def take(tree: Tree, store: TreeStore, run: str, data: bytes) -> tuple[Rules, str]:
    rules = store.rules(run, ["."], ["a.txt"])
    tree.write("big.bin", data)
    return rules, store.snapshot(rules).project


def size(store: TreeStore) -> int:
    return sum(one.stat().st_size for one in Path(store.files.packs).iterdir())


def test_packing_keeps_everything_that_was_recorded(tree):
    store = tree.store()
    found = [take(tree, store, f"run{n}", b"%d" % n * 1000) for n in range(5)]
    store.pack()
    assert len(list(Path(store.files.packs).glob("*.pack"))) == 1
    for number, (rules, project) in enumerate(found):
        stored = store.read(project, "big.bin")
        assert stored is not None
        assert stored.data == b"%d" % number * 1000
        assert store.read_guarded(store.snapshot(rules).guard, "a.txt") is not None
    tree.git(f"--git-dir={store.files.git_dir}", "fsck", "--strict", "--full")


def test_a_long_run_packs_as_it_goes(tree):
    store = tree.store()
    rules = tree.rules(store)
    ids = []
    for number in range(60):
        tree.write("a.txt", f"{number}")
        ids.append(store.snapshot(rules).project)
    assert len(list(Path(store.files.packs).glob("*.pack"))) < 20
    assert len(set(ids)) == 60
    assert store.changed(ids[0], ids[59]).paths == ("a.txt",)


def test_the_oldest_runs_are_forgotten_first_and_no_more_than_needed(tree):
    store = tree.store()
    found = {f"run{n}": take(tree, store, f"run{n}", os.urandom(100_000)) for n in range(5)}
    for number, run in enumerate(found):
        os.utime(store.files.place("runs", run), (number, number))
    assert store.prune(10_000_000, list) == ()
    assert store.prune(400_000, lambda: ["run0"]) == ("run1", "run2")
    assert size(store) < 400_000 * 0.8
    for run, (_, project) in found.items():
        if run in ("run1", "run2"):
            with pytest.raises(StoreError):
                store.read(project, "big.bin")
        else:
            assert store.read(project, "big.bin") is not None
    # A run that goes on finds everything it needs.
    rules, project = found["run0"]
    assert store.snapshot(rules).project == found["run4"][1]
    assert store.changed(project, found["run4"][1]).paths == ("big.bin",)
    assert store.prune(0, list) == ("run3", "run4", "run0")
    assert size(store) == 0


def test_the_disk_that_is_used_is_known(tree):
    store = tree.store()
    assert disk_use(store.files)[1:] == (0,)
    rules, project = take(tree, store, "run", os.urandom(100_000))
    copy = CleanCopy(store, rules, str(tree.state))
    with copy.held():
        copy.lay_out(project, store.snapshot(rules).guard)
        remove_copies(store.files)  # it is in use
    used = disk_use(store.files)
    assert used.store > 100_000
    assert used.copies > 100_000
    remove_copies(store.files)
    assert disk_use(store.files).copies == 0
    with copy.held():
        assert os.listdir(copy.path) == []
        copy.lay_out(project, store.snapshot(rules).guard)
        assert (Path(copy.path) / "big.bin").stat().st_size == 100_000


def test_names_that_differ_only_in_case_are_refused_where_case_is_ignored(tmp_path):
    (tmp_path / "lock").write_text("")
    refuse_twins(["A/x", "a/x"], str(tmp_path))
    os.link(tmp_path / "lock", tmp_path / "LOCK")  # as such a file system answers
    refuse_twins(["A/x", "b/x"], str(tmp_path))
    with pytest.raises(NotClean) as caught:
        refuse_twins(["A/x", "a/x"], str(tmp_path))
    assert (
        caught.value.message
        == f"`A/x` and `a/x` differ only in case, but `{tmp_path}` ignores case"
    )


@pytest.mark.soak
def test_thirty_thousand_files_have_the_id_that_git_gives_them(tmp_path):
    tree = Tree(tmp_path)
    for number in range(30_000):
        tree.write(f"d{number % 40}/e{number // 40 % 20}/f{number}.txt", f"{number}\n")
    tree.commit()
    store = tree.store()
    rules = tree.rules(store, ["d0/"])
    found = store.snapshot(rules)
    assert found.project == tree.git("rev-parse", "HEAD^{tree}").strip()
    assert store.snapshot(rules, found.guard) == found
    tree.write("d3/e3/f123.txt", "changed")
    assert store.changed(found.project, store.snapshot(rules).project).files == 1


def test_a_directory_that_is_nested_too_deeply_is_left_out_and_named(tree):
    here = os.getcwd()
    os.chdir(tree.root)
    try:
        for _ in range(300):
            os.mkdir("d")
            os.chdir("d")
        Path("x.txt").write_text("deep")
    finally:
        os.chdir(here)
    store = tree.store()
    rules = store.rules("run", ["."], ["d/"])
    found = store.snapshot(rules)
    assert len(found.left_out) == 1
    assert found.left_out[0].endswith("nested too deeply")
    assert store.restore(rules, found.guard).paths == ()
