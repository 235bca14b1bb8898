"""Protected paths: what counts as a change, and what does not."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from little_loops.trees.model import PathChange, Restoration
from little_loops.trees.walk import CLOCK_NS, NEVER_NS
from tests.project import until
from tests.trees.projects import Tree, fingerprint


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    made = Tree(tmp_path)
    made.write_all(
        {
            "src/a.py": "a = 1\n",
            "tests/test_a.py": "assert 1\n",
            "tests/data/one.json": "{}",
            "shared/data.json": "[]",
            "other/tests/test_b.py": "assert 2\n",
        }
    )
    (made.root / "tests/link").symlink_to("../shared/data.json")
    (made.root / "tests/loop").symlink_to("..")
    (made.root / "tests/empty").mkdir()
    made.write(".gitignore", "*.log\n__pycache__/\n.venv/\n")
    made.commit()
    return made


def edit_and_hide(tree: Tree) -> None:
    path = tree.root / "tests/test_a.py"
    times = path.stat()
    path.write_text("assert 0\n")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    tree.git("update-index", "--assume-unchanged", "tests/test_a.py")


def replace_by_link(tree: Tree) -> None:
    (tree.root / "tests/test_a.py").unlink()
    (tree.root / "tests/test_a.py").symlink_to("../src/a.py")


def move_away(tree: Tree) -> None:
    (tree.root / "tests").rename(tree.root / "moved")
    (tree.root / "tests").symlink_to("moved")


def link(tree: Tree, path: str, text: str) -> None:
    (tree.root / path).unlink()
    (tree.root / path).symlink_to(text)


ROWS: dict[str, tuple[Callable[[Tree], object], list[tuple[str, str]]]] = {
    "an edit": (lambda t: t.write("tests/test_a.py", "assert 0\n"), [("tests/test_a.py", "changed")]),
    "an edit of the same size and time": (edit_and_hide, [("tests/test_a.py", "changed")]),
    "a permission bit": (lambda t: (t.root / "tests/test_a.py").chmod(0o646), [("tests/test_a.py", "changed")]),
    "a deletion": (lambda t: (t.root / "tests/test_a.py").unlink(), [("tests/test_a.py", "deleted")]),
    "a new file": (lambda t: t.write("tests/new.py"), [("tests/new.py", "added")]),
    "a new file that is ignored": (lambda t: t.write("tests/new.log"), [("tests/new.log", "added")]),
    "a new directory": (lambda t: (t.root / "tests/d").mkdir(), [("tests/d", "added")]),
    "an empty directory": (lambda t: (t.root / "tests/empty").rmdir(), [("tests/empty", "deleted")]),
    "a directory's permissions": (lambda t: (t.root / "tests/data").chmod(0o700), [("tests/data", "changed")]),
    "a link for a file": (replace_by_link, [("tests/test_a.py", "changed")]),
    "another target": (lambda t: link(t, "tests/link", "../src/a.py"), [("tests/link", "changed")]),
    "what a link leads to": (lambda t: t.write("shared/data.json", "[1]"), [("shared/data.json", "changed")]),
    "a link that is gone": (lambda t: (t.root / "tests/link").unlink(), [("tests/link", "deleted")]),
    "a pipe": (lambda t: os.mkfifo(t.root / "tests/pipe"), [("tests/pipe", "added")]),
    "a directory further down": (lambda t: t.write("other/tests/test_b.py"), [("other/tests/test_b.py", "changed")]),
    "a whole directory": (lambda t: shutil.rmtree(t.root / "tests/data"), [("tests/data/one.json", "deleted")]),
    "a link for the directory": (move_away, [("tests", "changed"), *((f"tests/{name}", "deleted") for name in ("data/one.json", "empty", "link", "loop", "test_a.py"))]),
    "nothing": (lambda t: t.write("src/a.py", "a = 2\n"), []),
    "a cache": (lambda t: t.write("tests/__pycache__/x.pyc"), []),
    "caches of tools": (lambda t: [t.write(f"tests/{c}/x") for c in (".pytest_cache", ".mypy_cache", ".ruff_cache")], []),
    "a compiled file": (lambda t: t.write("tests/x.pyc"), []),
    "a directory that is only called .git": (lambda t: t.write("tests/.git/x.py"), [("tests/.git/x.py", "added")]),
    "a file that is only called .git": (lambda t: t.write("tests/data/.git", "x"), [("tests/data/.git", "added")]),
    "a link that is called .git": (lambda t: (t.root / "tests/.git").symlink_to("../src/a.py"), [("tests/.git", "added")]),
    "in a directory of that name": (lambda t: t.write("src/.git/tests/x.py"), [("src/.git/tests/x.py", "added")]),
    "another file of the same content": (lambda t: t.write("tests/test_a.py", "assert 1\n"), []),
    "a package that is installed": (lambda t: (t.write(".venv/pyvenv.cfg"), t.write(".venv/lib/pkg/tests/test_x.py")), []),
    "ignored and not installed": (lambda t: t.write("x.log/tests/test_x.py"), [("x.log/tests/test_x.py", "added")]),
}  # fmt: skip


@pytest.mark.parametrize(("tamper", "changes"), ROWS.values(), ids=ROWS)
def test_changes_of_protected_paths_are_seen_and_undone(tree, tamper, changes):
    store = tree.store()
    rules = tree.rules(store, ["tests/"])
    start = store.snapshot(rules)
    protected = fingerprint(tree.root / "tests"), fingerprint(tree.root / "other/tests")
    tamper(tree)
    now = store.snapshot(rules, start.guard)
    expected = tuple(PathChange(path, kind) for path, kind in changes)
    assert tuple(store.guard_changes(start.guard, now.guard)) == expected
    done = store.restore(rules, start.guard)
    assert (done.paths, done.failed) == (tuple(path for path, _ in changes), ())
    store.remove_caches(rules, start.guard, NEVER_NS)
    assert (fingerprint(tree.root / "tests"), fingerprint(tree.root / "other/tests")) == protected
    assert (tree.root / "shared/data.json").read_text() == "[]"
    assert store.snapshot(rules, start.guard).guard == start.guard


def test_a_repository_that_is_made_later_is_left_out_and_what_lies_beside_it_is_not(tree):
    store = tree.store()
    rules = tree.rules(store, ["tests/"])
    start = store.snapshot(rules)
    for repository in ("tests/new/repo", "vendor/lib"):
        tree.write(f"{repository}/tests/test_x.py", "assert 0\n")
        tree.git("init", "-q", repository)
    tree.write("tests/new/plain.py", "added")
    now = store.snapshot(rules, start.guard)
    assert now.left_out == (
        "`tests/new/repo` is not watched: it is a separate git repository",
        "`vendor/lib` is not watched: it is a separate git repository",
    )
    done = store.restore(rules, start.guard)
    assert (done.paths, done.failed) == (("tests/new/plain.py",), ())
    assert (tree.root / "tests/new/repo/tests/test_x.py").exists()
    assert (tree.root / "vendor/lib/tests/test_x.py").exists()
    again = store.snapshot(rules, start.guard)
    assert (again.guard, again.left_out) == (start.guard, ())


@pytest.mark.parametrize("place", ["tests/repo", "tests/x.log/repo"])
def test_a_repository_that_was_there_at_the_start_is_protected_and_stays_so(tree, place):
    tree.write(f"{place}/test_x.py", "assert 1\n")
    tree.git("init", "-q", place)
    store = tree.store()
    rules = tree.rules(store, ["tests/"])
    start = store.snapshot(rules)
    assert store.snapshot(rules, start.guard).left_out == ()
    tree.write(f"{place}/test_x.py", "assert 0\n")
    tree.write(f"{place}/new.py", "new")
    done = store.restore(rules, start.guard)
    assert (done.paths, done.failed) == ((f"{place}/new.py", f"{place}/test_x.py"), ())
    assert (tree.root / place / "test_x.py").read_text() == "assert 1\n"


def test_a_work_tree_that_is_made_later_is_left_out(tree):
    store = tree.store()
    rules = tree.rules(store, ["tests/"])
    start = store.snapshot(rules)
    tree.git("worktree", "add", "-q", "tests/work")
    now = store.snapshot(rules, start.guard)
    assert (now.guard, now.left_out) == (
        start.guard,
        ("`tests/work` is not watched: it is a separate git repository",),
    )


def test_a_protected_directory_that_is_only_called_git_is_kept_and_put_back(tree):
    tree.write("tests/.git/x.py", "x = 1\n")
    store = tree.store()
    rules = tree.rules(store, ["tests/"])
    start = store.snapshot(rules)
    store.pack()
    shutil.rmtree(tree.root / "tests/.git")
    done = store.restore(rules, start.guard)
    assert (done.paths, done.failed) == (("tests/.git/x.py",), ())
    assert (tree.root / "tests/.git/x.py").read_text() == "x = 1\n"


@pytest.mark.parametrize("place", ["tests", "tests/data", "tests/empty", "other", "src"])
def test_a_repository_that_is_made_of_a_known_directory_hides_nothing(tree, place):
    store = tree.store()
    rules = tree.rules(store, ["tests/"])
    start = store.snapshot(rules)
    tree.git("init", "-q", place)
    warning = f"`{place}/.git` is not watched: it belongs to a git repository"
    now = store.snapshot(rules, start.guard)
    assert now.left_out == ((warning,) if place.startswith("tests") else ())
    tree.write("tests/data/one.json", "changed")
    tree.write("src/tests/new.py", "new")
    tree.write("tests/empty/new.py", "new")
    done = store.restore(rules, start.guard)
    assert (done.paths, done.failed) == (
        ("src/tests/new.py", "tests/data/one.json", "tests/empty/new.py"),
        (),
    )
    assert store.snapshot(rules, start.guard).guard == start.guard


def test_what_was_replaced_is_in_the_store(tree):
    store = tree.store()
    rules = tree.rules(store, ["tests/"])
    start = store.snapshot(rules)
    tree.write("tests/test_a.py", "assert 0\n", 0o600)
    tree.write("tests/new.log", "added")
    done = store.restore(rules, start.guard)
    changed = store.read_guarded(done.kept, "tests/test_a.py")
    added = store.read_guarded(done.kept, "tests/new.log")
    before = store.read_guarded(start.guard, "tests/test_a.py")
    assert changed is not None
    assert added is not None
    assert before is not None
    assert (changed.data, changed.mode) == (b"assert 0\n", 0o600)
    assert added.data == b"added"
    assert before.data == b"assert 1\n"
    assert store.read_guarded(start.guard, "tests/new.log") is None


def test_new_files_may_be_allowed(tree):
    store = tree.store()
    rules = tree.rules(store, ["tests/"])
    start = store.snapshot(rules)
    tree.write("tests/new.py", "new")
    tree.write("tests/test_a.py", "assert 0\n")
    now = store.snapshot(rules, start.guard)
    changes = store.guard_changes(start.guard, now.guard, existing_only=True)
    assert changes == (PathChange("tests/test_a.py", "changed"),)
    assert store.restore(rules, start.guard, existing_only=True).paths == ("tests/test_a.py",)
    assert (tree.root / "tests/new.py").read_text() == "new"


def test_caches_are_removed_and_what_is_tracked_is_not(tree):
    tree.write("tests/data/tracked.pyc", "a fixture")
    tree.git("add", "-f", "tests/data/tracked.pyc")
    tree.write("tests/data/new.pyc", "a fixture that is not committed yet")
    tree.write("conftest.py", "")
    store = tree.store()
    rules = tree.rules(store, ["/tests/", "/conftest.py"])
    start = store.snapshot(rules)
    caches = ["tests/__pycache__", "tests/data/.pytest_cache", "__pycache__"]
    for cache in caches:
        tree.write(f"{cache}/x.pyc", "cache")
    tree.write("tests/x.pyc", "cache")
    tree.write("src/__pycache__/x.pyc", "not protected")
    removed = store.remove_caches(rules, start.guard, NEVER_NS)
    assert sorted(removed) == sorted([*caches, "tests/x.pyc"])
    assert (tree.root / "tests/data/tracked.pyc").exists()
    assert (tree.root / "tests/data/new.pyc").exists()
    assert (tree.root / "src/__pycache__").exists()


def test_what_was_compiled_since_the_start_is_removed_everywhere(tree):
    tree.write("src/a.py", "a")
    for kept in ("src/__pycache__/a.pyc", "old/__pycache__/moved.pyc", "other/__pycache__/t.pyc"):
        tree.write(kept, "before the run")
    tree.git("add", "-f", "other/__pycache__/t.pyc")
    store = tree.store()
    rules = tree.rules(store, ["/tests/"])
    start = store.snapshot(rules)
    began = time.time_ns()
    until(lambda: time.time_ns() > began + CLOCK_NS, "a later time")
    tree.write("src/b/__pycache__/b.pyc", "new")
    tree.write("src/__pycache__/a.pyc", "changed in its place")
    os.utime(tree.root / "src/__pycache__/a.pyc", ns=(0, 0))
    tree.write("other/__pycache__/new.pyc", "beside a tracked one")
    (tree.root / "old/__pycache__").rename(tree.root / "src/b/c")
    (tree.root / "src/b/c").rename(tree.root / "old/__pycache__")
    (tree.root / "src/d").mkdir()
    (tree.root / "src/d/__pycache__").symlink_to("../b")
    store.snapshot(rules, start.guard)
    assert sorted(store.remove_caches(rules, start.guard, began)) == [
        "old/__pycache__",
        "other/__pycache__/new.pyc",
        "src/__pycache__/a.pyc",
        "src/b/__pycache__",
        "src/d/__pycache__",
    ]
    assert (tree.root / "other/__pycache__/t.pyc").exists()


def test_nothing_is_written_outside_the_project(tree):
    outside = tree.place / "outside"
    outside.mkdir()
    (outside / "test_a.py").write_text("mine")
    store = tree.store()
    rules = tree.rules(store, ["tests/"])
    start = store.snapshot(rules)
    shutil.rmtree(tree.root / "tests")
    (tree.root / "tests").symlink_to(outside)
    assert store.restore(rules, start.guard).failed == ()
    assert fingerprint(outside) == {"test_a.py": fingerprint(outside)["test_a.py"]}
    assert (outside / "test_a.py").read_text() == "mine"
    assert not (tree.root / "tests").is_symlink()


def test_what_cannot_be_put_back_is_named_and_the_rest_is_put_back(tree):
    store = tree.store()
    rules = tree.rules(store, ["tests/"])
    start = store.snapshot(rules)
    tree.write("tests/data/one.json", "changed")
    (tree.root / "tests/test_a.py").unlink()
    tree.git("init", "-q", "tests/test_a.py", cwd=tree.root)
    done = store.restore(rules, start.guard)
    assert done == Restoration(
        ("tests/data/one.json",),
        ("tests/test_a.py: a directory with other content already exists there",),
        done.kept,
    )
    assert (tree.root / "tests/test_a.py/.git/HEAD").exists()
    assert (tree.root / "tests/data/one.json").read_text() == "{}"


def test_a_protected_file_that_was_too_large_cannot_be_put_back(tree):
    with open(tree.root / "tests/large.bin", "wb") as file:
        file.truncate(51 << 20)
    store = tree.store()
    rules = tree.rules(store, ["tests/"])
    start = store.snapshot(rules)
    assert start.unstored == ("tests/large.bin",)
    tree.write("tests/large.bin", "small")
    tree.write("tests/test_a.py", "assert 0")
    done = store.restore(rules, start.guard)
    assert done.failed == ("tests/large.bin: too large to be stored",)
    assert done.paths == ("tests/test_a.py",)
    assert (tree.root / "tests/large.bin").read_text() == "small"


@pytest.mark.parametrize(
    "where", ["tests/new.bin", "tests/test_a.py", "tests/test_a.py/new.bin", "tests"]
)
def test_what_is_too_large_to_be_kept_is_not_replaced(tree, where):
    store = tree.store()
    rules = tree.rules(store, ["tests/"])
    start = store.snapshot(rules)
    large = tree.root / where
    if where == "tests":
        shutil.rmtree(large)
    elif where.startswith("tests/test_a.py"):
        (tree.root / "tests/test_a.py").unlink()
    large.parent.mkdir(exist_ok=True)
    with open(large, "wb") as file:
        file.truncate(51 << 20)
    done = store.restore(rules, start.guard)
    assert large.stat().st_size == 51 << 20
    why = "it is too large to store, so it was not replaced; move it yourself"
    assert any(failed.endswith(f": {why}") for failed in done.failed)
    large.unlink()
    if where == "tests/test_a.py/new.bin":
        large.parent.rmdir()
    assert store.restore(rules, start.guard).failed == ()
    assert (tree.root / "tests/test_a.py").read_text() == "assert 1\n"


@pytest.mark.parametrize(
    ("pattern", "spared"),
    [
        ("!/tests/test_a.py", {"tests/test_a.py"}),
        ("!tests/data/", {"tests/data/one.json", "tests/data/new.json"}),
        ("!*.json", {"tests/data/one.json", "tests/data/new.json"}),
        ("!/tests/", {"tests/test_a.py", "tests/data/one.json", "tests/data/new.json"}),
    ],
)
def test_a_negative_pattern_spares_what_lies_in_a_protected_directory(tree, pattern, spared):
    store = tree.store()
    rules = tree.rules(store, ["tests/", pattern])
    start = store.snapshot(rules)
    written = ("tests/test_a.py", "tests/data/one.json", "tests/data/new.json")
    for name in written:
        tree.write(name, "changed")
    done = store.restore(rules, start.guard)
    assert (set(done.paths), done.failed) == (set(written) - spared, ())


def test_what_another_pattern_protects_in_a_spared_directory(tree):
    store = tree.store()
    rules = tree.rules(store, ["tests/", "!tests/data/", "tests/data/one.json"])
    start = store.snapshot(rules)
    tree.write("tests/data/one.json", "changed")
    tree.write("tests/data/new.json", "new")
    assert store.restore(rules, start.guard).paths == ("tests/data/one.json",)
    assert (tree.root / "tests/data/new.json").exists()


def test_protected_paths_that_a_commit_changes(tree):
    store = tree.store()
    rules = tree.rules(store, ["tests/"])
    start = store.snapshot(rules)
    assert store.committed(rules, start.guard) == ()
    tree.write("tests/test_a.py", "assert 0\n")
    tree.write("tests/new.py", "")
    tree.write("src/a.py", "a = 2\n")
    (tree.root / "tests/data/one.json").unlink()
    tree.commit("cheat")
    store.restore(rules, start.guard)
    assert store.committed(rules, start.guard) == (
        "tests/data/one.json",
        "tests/new.py",
        "tests/test_a.py",
    )
    tree.commit("back")
    assert store.committed(rules, start.guard) == ()


def test_what_another_run_works_on_is_spared(tree):
    store = tree.store()
    rules = tree.rules(store, ["tests/"])
    start = store.snapshot(rules)
    tree.write("tests/test_a.py", "assert 0\n")
    tree.write("other/tests/test_b.py", "assert 3\n")
    tree.write("other/tests/new/new.py", "new")
    (tree.root / "other/tests").chmod(0o511)
    theirs = fingerprint(tree.root / "other")
    done = store.restore(rules, start.guard, spare=lambda path: path.startswith("other/"))
    assert (done.paths, done.failed) == (("tests/test_a.py",), ())
    assert fingerprint(tree.root / "other") == theirs
