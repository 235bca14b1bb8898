"""Worktrees: added and removed without hooks, and without touching anything else of the user's."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from little_loops.errors import StoreError, UsageError
from little_loops.system.stops import StopFlag
from little_loops.trees import index_locks, repository_files, worktrees
from little_loops.trees.git import Interrupted
from tests.trees.projects import Tree, fingerprint
from tests.trees.test_faults import every_kill

BRANCH = "ll/fork/fix@step2"
HOOKS = ("post-checkout", "reference-transaction", "post-index-change", "pre-commit")


def make(place: Path) -> Tree:
    """A repository with every hook a worktree could start, a stash, and changes not committed."""
    tree = Tree(place)
    tree.write_all({"app/a.py": "a = 1\n", "lib/b.py": "b = 1\n", ".gitignore": "*.log\n"})
    tree.commit()
    tree.write("lib/b.py", "b = 2\n")
    tree.git("stash")
    tree.write("lib/b.py", "b = 3\n")
    tree.write("new.txt", "new\n")
    tree.git("add", "lib/b.py")
    for hook in HOOKS:
        path = tree.top / ".git/hooks" / hook
        path.write_text(f"#!/bin/sh\necho {hook} >> {place}/hooks.log\n")
        path.chmod(0o755)
    return tree


def head(tree: Tree) -> str:
    return tree.git("rev-parse", "HEAD").strip()


def where(tree: Tree) -> str:
    return worktrees.place_of(str(tree.root), "fix@step2", tree.environ)


def add(tree: Tree) -> str:
    place = where(tree)
    worktrees.add(tree.found_git(), str(tree.root), place, BRANCH, head(tree))
    worktrees.read_commit(tree.found_git(), place, head(tree))
    return place


def users(tree: Tree) -> dict[str, object]:
    """All that is the user's, without the branch and the entry of the worktree."""
    git = tree.top / ".git"
    found: dict[str, object] = dict(fingerprint(tree.top, skip=[".git"]))
    for name in ("HEAD", "index", "config", "ORIG_HEAD", "logs/HEAD", "logs/refs/stash"):
        found[name] = (git / name).read_bytes() if (git / name).exists() else None
    refs = tree.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return {**found, "refs": [ref for ref in refs if BRANCH not in ref]}


def test_a_worktree_has_a_branch_an_index_and_no_files(place):
    tree = make(place)
    before = users(tree)
    there = Path(add(tree))
    assert there == place / "home/.cache/little-loops/worktrees" / there.parent.name / "fix@step2"
    assert there.parent.stat().st_mode & 0o777 == 0o700
    assert sorted(os.listdir(there)) == [".git"]
    assert tree.git("status", "--short", cwd=there).splitlines() == [
        " D .gitignore",
        " D app/a.py",
        " D lib/b.py",
    ]
    assert tree.git("symbolic-ref", "HEAD", cwd=there).strip() == f"refs/heads/{BRANCH}"
    assert users(tree) == before
    assert not (place / "hooks.log").exists()


def test_adding_it_again_changes_nothing(place):
    tree = make(place)
    there = Path(add(tree))
    (there / "mine.txt").write_text("kept")
    add(tree)
    assert (there / "mine.txt").read_text() == "kept"


def test_a_branch_of_that_name_at_another_commit_is_left_alone(place):
    tree = make(place)
    before = head(tree)
    tree.git("commit", "-qm", "more")
    tree.git("branch", BRANCH, before)
    with pytest.raises(StoreError, match="cannot create the branch `ll/fork/fix@step2`") as caught:
        add(tree)
    assert caught.value.help == f"`git branch -m {BRANCH} NAME` renames the one that exists"
    assert not os.path.lexists(where(tree))


def test_a_cache_inside_the_project_is_refused(place):
    tree = make(place)
    environ = {**tree.environ, "XDG_CACHE_HOME": str(tree.root / "cache")}
    with pytest.raises(StoreError, match="would be inside the project") as caught:
        worktrees.place_of(str(tree.root), "x", environ)
    assert caught.value.help == "set XDG_CACHE_HOME to a directory outside the project"


def test_the_files_around_a_project_are_checked_out(place):
    tree = make(place)
    there = Path(add(tree))
    git = tree.found_git()
    worktrees.check_out_around(git, str(there), "")
    assert sorted(os.listdir(there)) == [".git"]
    worktrees.check_out_around(git, str(there), "app/")
    assert sorted(path for path in fingerprint(there, skip=[".git"])) == [
        ".git",
        ".gitignore",
        "lib",
        "lib/b.py",
    ]
    assert (there / "lib/b.py").read_text() == "b = 1\n"
    assert not (place / "hooks.log").exists()


def test_git_lists_it(place):
    tree = make(place)
    there = add(tree)
    git = tree.found_git()
    assert worktrees.list_all(git, str(tree.root)) == [
        worktrees.GitWorktree(str(tree.root), head(tree), "main"),
        worktrees.GitWorktree(there, head(tree), BRANCH),
    ]
    tree.git("checkout", "-q", "--detach", cwd=Path(there))
    found = worktrees.find(git, str(tree.root), there)
    assert found == worktrees.GitWorktree(there, head(tree), None)
    with pytest.raises(StoreError, match="git cannot list the worktrees"):
        worktrees.list_all(git, str(place))
    with pytest.raises(StoreError, match="git cannot compare"):
        worktrees.unsaved(git, str(place))


# ── removing ───────────────────────────────────────────────────────────────────────────────────


def filled(tree: Tree) -> Path:
    there = Path(add(tree))
    tree.git("checkout-index", "-a", cwd=there)
    return there


def remove(tree: Tree, *, is_stored: bool = False) -> None:
    base = tree.git("rev-parse", "main").strip()
    git = tree.found_git()
    worktrees.remove(git, str(tree.root), where(tree), is_stored=is_stored)
    worktrees.delete_branches(git, str(tree.root), {BRANCH: base})


def branches(tree: Tree) -> list[str]:
    return tree.git("for-each-ref", "--format=%(refname:short)", "refs/heads").split()


def test_a_worktree_without_changes_is_removed_with_its_branch(place):
    tree = make(place)
    before = users(tree)
    there = filled(tree)
    (there / "build.log").write_text("ignored")
    remove(tree)
    assert not there.exists()
    assert not os.path.lexists(f"{there}.removed")
    assert tree.git("worktree", "list").count("\n") == 1
    assert branches(tree) == ["main"]
    assert users(tree) == before
    remove(tree)  # nothing is left of it


GIT = "git -c user.name=a -c user.email=b -c core.hooksPath=/dev/null"
GIT_IN_R = f"{GIT} -C r add x; {GIT} -C r"


@pytest.mark.parametrize(
    ("change", "path"),
    [
        pytest.param("echo >> app/a.py", "app/a.py", id="changed"),
        pytest.param("rm lib/b.py", "lib/b.py", id="deleted"),
        pytest.param("mkdir new; touch new/x", "new/x", id="untracked"),
        pytest.param("chmod +x app/a.py", "app/a.py", id="mode"),
        pytest.param("echo 1 > s; git add s; rm s", "s", id="only in the index"),
        pytest.param(f"git init -q r; touch r/x; {GIT_IN_R} commit -qm x", "r/", id="a repository"),
        pytest.param(
            f"git init -q r; touch r/x; {GIT_IN_R} commit -qm x; {GIT} add r; {GIT} commit -qm r",
            "r",
            id="a repository whose commit is in no other one",
        ),
        pytest.param(
            f"git checkout -q --detach; touch x; {GIT} add x; {GIT} commit -qm x",
            "HEAD",
            id="a commit on no branch",
        ),
    ],
)
def test_changes_that_are_in_no_commit_are_not_removed(change, path, place):
    tree = make(place)
    there = filled(tree)
    os.system(f"cd {there} && {change}")
    before = fingerprint(there, skip=[".git"])
    with pytest.raises(UsageError) as caught:
        remove(tree)
    assert caught.value.message == f"`{there}` has changes that are not committed: {path}"
    assert fingerprint(there, skip=[".git"]) == before
    remove(tree, is_stored=True)
    assert not there.exists()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param("git clone -q ../other r; git add r; git commit -qm r", id="a submodule"),
        pytest.param("git checkout -q --detach", id="a commit of a branch"),
    ],
)
def test_what_is_somewhere_else_too_is_removed(change, place):
    tree = make(place)
    shutil.rmtree(tree.top / ".git/hooks")
    there = filled(tree)
    tree.git("clone", "-q", str(tree.top), str(there.parent / "other"))
    for line in change.split("; "):
        tree.git(*line.split()[1:], cwd=there)
    remove(tree)
    assert not there.exists()


def test_a_branch_that_is_in_the_way_is_named(place):
    tree = make(place)
    shutil.rmtree(tree.top / ".git/hooks")
    taken = BRANCH.split("/")[0]
    tree.git("branch", taken)
    with pytest.raises(StoreError) as caught:
        add(tree)
    assert (caught.value.message, caught.value.help) == (
        f"cannot create the branch `{BRANCH}`, because there is already a branch `{taken}`",
        f"rename it: `git branch -m {taken} NEW_NAME`",
    )


def test_a_worktree_with_another_branch_is_not_replaced(place):
    tree = make(place)
    there = filled(tree)
    shutil.rmtree(tree.top / ".git/hooks")
    tree.git("switch", "-q", "-c", "other", cwd=there)
    (there / "mine.txt").write_text("in no commit")
    with pytest.raises(StoreError) as caught:
        add(tree)
    assert caught.value.message == f"`other` is checked out in `{there}`, not `{BRANCH}`"
    assert (there / "mine.txt").read_text() == "in no commit"


def test_branches_that_have_other_commits_are_not_deleted(place):
    tree = make(place)
    git, root, base = tree.found_git(), str(tree.root), head(tree)
    shutil.rmtree(tree.top / ".git/hooks")
    tree.git("commit", "-qm", "more")
    for name in ("ll/a", "ll/b", "ll/c"):
        tree.git("branch", name, base)
    tree.git("branch", "ll/later")
    worktrees.delete_branches(git, root, {"ll/a": base, "ll/later": base, "ll/none": base})
    assert branches(tree) == ["ll/b", "ll/c", "ll/later", "main"]
    (tree.top / ".git/refs/heads/ll/b.lock").write_text("")  # somebody is changing it
    worktrees.delete_branches(git, root, {"ll/b": base, "ll/c": base})
    assert branches(tree) == ["ll/b", "ll/later", "main"]
    worktrees.delete_branches(git, root, {"ll/none": base, "ll/later": base})
    worktrees.delete_branches(git, root, {})
    assert branches(tree) == ["ll/b", "ll/later", "main"]


def test_commits_of_its_own_keep_the_branch(place):
    tree = make(place)
    there = filled(tree)
    shutil.rmtree(tree.top / ".git/hooks")
    (there / "more.py").write_text("1\n")
    tree.git("add", "-A", cwd=there)
    tree.git("commit", "-qm", "more", cwd=there)
    remove(tree)
    assert not there.exists()
    assert branches(tree) == [BRANCH, "main"]


# ── kills ──────────────────────────────────────────────────────────────────────────────────────

Works = Callable[[Path], tuple[Callable[[], object], Callable[[], None]]]


def adding(place: Path) -> tuple[Callable[[], object], Callable[[], None]]:
    tree = make(place)
    before = users(tree)
    # What a killed `git worktree add` may have left.
    os.makedirs(f"{where(tree)}/half")

    def finish() -> None:
        there = add(tree)
        assert worktrees.find(tree.found_git(), str(tree.root), there) is not None
        assert sorted(os.listdir(there)) == [".git"]
        assert users(tree) == before

    return lambda: add(tree), finish


def removing(place: Path) -> tuple[Callable[[], object], Callable[[], None]]:
    tree = make(place)
    before = users(tree)
    filled(tree)

    def finish() -> None:
        remove(tree)
        assert os.listdir(os.path.dirname(where(tree))) == []
        assert branches(tree) == ["main"]
        assert users(tree) == before

    return lambda: remove(tree), finish


WORKS: dict[str, Works] = {"add": adding, "remove": removing}


@pytest.mark.parametrize("work", WORKS.values(), ids=WORKS)
def test_killed_at_an_operation_and_done_again(place, work):
    assert every_kill(work, place, each=3) > 0


@pytest.mark.soak
@pytest.mark.parametrize("work", WORKS.values(), ids=WORKS)
def test_killed_at_every_operation_and_done_again(place, work):
    assert every_kill(work, place, each=1) > 2


def test_a_registration_that_a_killed_git_left_locked_is_replaced(place):
    tree = make(place)
    there = add(tree)
    [entry] = (tree.top / ".git/worktrees").iterdir()
    (entry / "locked").write_text("initializing")
    shutil.rmtree(there)
    add(tree)
    assert sorted(os.listdir(there)) == [".git"]
    assert len(list((tree.top / ".git/worktrees").iterdir())) == 1


def test_a_worktree_whose_files_a_killed_git_was_writing_is_made_anew(place):
    tree = make(place)
    there = add(tree)
    [entry] = (tree.top / ".git/worktrees").iterdir()
    (entry / "index.lock").write_text("")
    Path(there, "half").write_text("")
    git, root = tree.found_git(), str(tree.root)
    worktrees.add(git, root, there, BRANCH, head(tree), wait_s=0.1)
    assert sorted(os.listdir(there)) == [".git"]
    worktrees.check_out(git, there, head(tree))
    assert worktrees.unsaved(git, there) == ()
    assert not (entry / "index.lock").exists()


def test_the_lock_of_an_index_that_a_killed_git_left_is_deleted(place):
    tree = make(place)
    there = add(tree)
    [entry] = (tree.top / ".git/worktrees").iterdir()
    (entry / "index.lock").write_text("")
    index_locks.unlock_index(tree.found_git(), there, wait_s=0.1)
    assert not (entry / "index.lock").exists()
    index_locks.unlock_index(tree.found_git(), there)
    (Path(there) / ".git").unlink()
    outer = Path(there).parent
    tree.git("init", "-q", cwd=outer)
    (outer / ".git/index.lock").write_text("")
    index_locks.unlock_index(tree.found_git(), there, wait_s=0.1)
    assert (outer / ".git/index.lock").exists()


def test_a_stop_ends_the_wait_for_another_git(place):
    tree = make(place)
    lock = tree.place / "index.lock"
    lock.write_text("")
    stop = StopFlag()
    stop.ask(signal.SIGINT)
    with pytest.raises(Interrupted):
        index_locks.wait_until_gone(tree.found_git()._replace(stop=stop), str(lock))
    stop.close()


def test_the_lock_of_a_branch_that_a_killed_git_left_is_replaced(place):
    tree = make(place)
    before = users(tree)
    lock = tree.top / ".git/refs/heads" / f"{BRANCH}.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text("")
    add(tree)
    assert tree.git("rev-parse", BRANCH).strip() == head(tree)
    assert not lock.exists()
    assert users(tree) == before


def test_worktrees_that_are_added_together_are_all_there(tmp_path):
    """While git adds one, another git that looks at all of them would fail on what is half made."""
    tree = make(tmp_path)
    commit, root = head(tree), str(tree.root)
    places = [worktrees.place_of(root, f"w{n}", tree.environ) for n in range(24)]

    def add_one(place: str) -> None:
        branch = f"ll/{os.path.basename(place)}"
        worktrees.add(tree.found_git(), root, place, branch, commit)

    with ThreadPoolExecutor(len(places)) as pool:
        list(pool.map(add_one, places))
    assert all(worktrees.find(tree.found_git(), root, place) for place in places)


def test_several_names_are_looked_up_at_once(place):
    tree = make(place)
    git, root, commit = tree.found_git(), str(tree.root), head(tree)
    tree.git("branch", BRANCH)
    names = [f"refs/heads/{BRANCH}", "HEAD", "HEAD:app", "none", "with spaces", "-x", commit[:12]]
    found = worktrees.commits_of(git, root, *names)
    assert found == [commit, commit, None, None, None, None, commit]
    assert found == [worktrees.commit_of(git, root, name) for name in names]
    assert worktrees.commits_of(git, root, "HEAD", "HEAD\nHEAD") == [commit, None]
    assert worktrees.commits_of(git, str(place), "HEAD", "x") == [None, None]  # no repository


def with_submodule(tree: Tree) -> None:
    """Let the project's commit have a submodule that is populated there."""
    inner = tree.place / "inner"
    inner.mkdir()
    tree.git("init", "-q", cwd=inner)
    tree.git("commit", "-qm", "inner", "--allow-empty", cwd=inner)
    allowed = ("-c", "protocol.file.allow=always")
    tree.git(*allowed, "submodule", "add", "-q", str(inner), "inner", cwd=tree.top)
    tree.git("commit", "-qm", "a submodule", cwd=tree.top)


def split(tree: Tree) -> None:
    tree.git("update-index", "--split-index", cwd=tree.top)


def damaged(tree: Tree) -> None:
    (tree.top / ".git/index").unlink()
    (tree.top / ".git/index").mkdir()


@pytest.mark.parametrize(
    ("change", "may"),
    [
        pytest.param(lambda tree: None, False, id="files only"),
        pytest.param(with_submodule, True, id="a submodule"),
        pytest.param(split, True, id="an index in two files"),
        pytest.param(damaged, True, id="an index that cannot be read"),
    ],
)
def test_submodules_are_noticed_without_git(place, change, may):
    tree = make(place)
    change(tree)
    assert repository_files.may_have_submodules(str(tree.root)) is may


def test_submodules_stay_empty_in_a_worktree_whatever_the_settings_say(place):
    tree = make(place)
    with_submodule(tree)
    tree.git("config", "submodule.recurse", "true")
    there, git = add(tree), tree.found_git()
    worktrees.check_out(git, there, head(tree))
    assert worktrees.has_submodules(git, there)
    assert os.listdir(f"{there}/inner") == []
    assert worktrees.unsaved(git, there) == ()


def test_one_look_for_pipes_counts_for_a_moment(place):
    tree = make(place)
    root, now = str(tree.root), time.monotonic()
    os.mkfifo(tree.top / ".git/refs/pipe")
    repository_files.refuse_special_files(root, {str(tree.top / ".git"): now + 1000})
    for before in ({}, {str(tree.top / ".git"): now - repository_files.LOOK_S}):
        with pytest.raises(StoreError, match="is not a regular file"):
            repository_files.refuse_special_files(root, before)
        with pytest.raises(StoreError, match="is not a regular file"):  # nothing good was noted
            repository_files.refuse_special_files(root, before)
