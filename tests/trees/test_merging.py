"""Merging worktrees: without a work tree, without hooks, and only ever a fast-forward."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from little_loops.errors import StoreError
from little_loops.trees import merging, worktrees
from little_loops.trees.git import Git
from little_loops.trees.merging import Conflict, Landed, LandingRefused, Merged, Moved
from tests.simulation.command import in_memory
from tests.trees.projects import Tree, fingerprint

HOOKS = (
    *("pre-commit", "commit-msg", "post-commit", "pre-merge-commit", "post-merge"),
    *("post-checkout", "reference-transaction", "post-index-change"),
)
TEXT = "".join(f"line {number}\n" for number in range(9))


@pytest.fixture
def tree() -> Iterator[Tree]:
    """A repository with hooks, settings that would get in the way, and a stash."""
    with in_memory() as place:
        tree = Tree(place)
        tree.write_all({"a.py": TEXT, "b.py": TEXT, ".gitignore": "*.log\n"})
        tree.commit()
        tree.write("b.py", "stashed\n")
        tree.git("stash")
        for name, value in {
            "commit.gpgSign": "true",
            "merge.autoStash": "true",
            "merge.verifySignatures": "true",
            "merge.ff": "false",
        }.items():
            tree.git("config", name, value)
        for hook in HOOKS:
            path = tree.top / ".git/hooks" / hook
            path.write_text(f"#!/bin/sh\necho {hook} >> {place}/hooks.log\n")
            path.chmod(0o755)
        yield tree
        assert not (place / "hooks.log").exists()


def quietly(tree: Tree, *words: str, cwd: Path | None = None) -> str:
    """Run git as the user, without the hooks."""
    return tree.git("-c", "core.hooksPath=/dev/null", *words, cwd=cwd)


def git_of(tree: Tree) -> Git:
    return tree.found_git()


def root(tree: Tree) -> str:
    return str(tree.root)


def head(tree: Tree, cwd: Path | None = None) -> str:
    return quietly(tree, "rev-parse", "HEAD", cwd=cwd).strip()


def branch(tree: Tree, name: str, files: dict[str, str | None], base: str | None = None) -> str:
    """A worktree of ours with these changes, committed; returns the commit."""
    git, base = git_of(tree), base or head(tree)
    place = worktrees.place_of(root(tree), name, tree.environ)
    worktrees.add(git, root(tree), place, f"ll/{name}", base)
    worktrees.check_out(git, place, base)
    for path, text in files.items():
        if text is None:
            (Path(place) / path).unlink()
        else:
            (Path(place) / path).write_text(text)
    commit = merging.commit_changes(git, place, f"ll/{name}", f"{name}\n")
    assert commit is not None
    return commit


def files(tree: Tree, commit: str) -> dict[str, str]:
    names = quietly(tree, "ls-tree", "-r", "--name-only", commit).split()
    return {
        name: quietly(tree, "show", f"{commit}:{name}") for name in names if name != ".gitignore"
    }


def users(tree: Tree) -> dict[str, object]:
    """All that is the user's, but for our own branches and worktrees."""
    git = tree.top / ".git"
    found: dict[str, object] = dict(fingerprint(tree.top, skip=[".git"]))
    for name in ("HEAD", "index", "config", "ORIG_HEAD", "logs/HEAD", "logs/refs/stash"):
        found[name] = (git / name).read_bytes() if (git / name).exists() else None
    refs = quietly(tree, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return {**found, "refs": [ref for ref in refs if "/ll/" not in ref]}


# ── committing ─────────────────────────────────────────────────────────────────────────────────


def test_everything_but_ignored_files_is_committed(tree: Tree):
    before = users(tree)
    commit = branch(tree, "x", {"new.py": "new\n", "b.py": None, "debug.log": "no\n"})
    assert files(tree, commit) == {"a.py": TEXT, "new.py": "new\n"}
    assert quietly(tree, "log", "-1", "--format=%an %s %P", commit).split() == [
        "a",
        "x",
        head(tree),
    ]
    assert quietly(tree, "rev-parse", "ll/x").strip() == commit
    assert users(tree) == before


def test_a_repository_inside_is_not_committed(tree: Tree):
    """Of a repository, git would commit only the name of a commit."""
    place = Path(worktrees.place_of(root(tree), "x", tree.environ))
    branch(tree, "x", {"new.py": "new\n"})
    quietly(tree, "init", "-q", "empty", cwd=place)
    quietly(tree, "clone", "-q", root(tree), "inner", cwd=place)
    (place / "more.py").write_text("more\n")
    commit = merging.commit_changes(git_of(tree), str(place), "ll/x", "more\n")
    assert commit is not None
    assert [*files(tree, commit)] == ["a.py", "b.py", "more.py", "new.py"]
    assert worktrees.unsaved(git_of(tree), str(place)) == ("empty/", "inner/")


@pytest.mark.parametrize(
    "hide",
    [
        pytest.param(["update-index", "--skip-worktree", "a.py"], id="skip-worktree"),
        pytest.param(["update-index", "--assume-unchanged", "a.py"], id="assume-unchanged"),
        pytest.param(["rm", "-q", "--cached", "a.py"], id="not in the index"),
        pytest.param(["config", "core.sparseCheckout", "true"], id="sparse"),
    ],
)
def test_what_the_index_of_a_worktree_says_hides_nothing(tree: Tree, hide):
    place = Path(worktrees.place_of(root(tree), "x", tree.environ))
    branch(tree, "x", {"new.py": "new\n"})
    quietly(tree, *hide, cwd=place)
    (place / "a.py").write_text("changed\n")
    commit = merging.commit_changes(git_of(tree), str(place), "ll/x", "more\n")
    assert commit is not None
    assert files(tree, commit)["a.py"] == "changed\n"


def test_a_directory_in_place_of_which_the_index_has_a_repository_is_committed(tree: Tree):
    place = Path(worktrees.place_of(root(tree), "x", tree.environ))
    (tree.root / "lib").mkdir()
    (tree.root / "lib/a.py").write_text("old\n")
    quietly(tree, "add", "-A")
    quietly(tree, "-c", "commit.gpgSign=false", "commit", "-qm", "lib")
    branch(tree, "x", {"new.py": "new\n"})
    (place / "lib/a.py").write_text("changed\n")
    quietly(tree, "rm", "-rq", "--cached", "lib", cwd=place)
    quietly(tree, "update-index", "--add", "--cacheinfo", f"160000,{head(tree)},lib", cwd=place)
    commit = merging.commit_changes(git_of(tree), str(place), "ll/x", "more\n")
    assert commit is not None
    assert files(tree, commit)["lib/a.py"] == "changed\n"


@pytest.mark.parametrize("converts", [False, True], ids=["removed from git", "converted"])
def test_what_is_known_to_be_unchanged_is_committed_as_before(tree: Tree, converts):
    place = Path(worktrees.place_of(root(tree), "x", tree.environ))
    base = branch(tree, "x", {"new.py": "new\n"})
    id = quietly(tree, "rev-parse", f"{base}:a.py").strip()
    if converts:
        quietly(tree, "config", "filter.old.clean", "echo old", cwd=place)
        (tree.top / ".git/info/attributes").write_text("a.py filter=old\nnew.py filter=old\n")
    else:
        quietly(tree, "rm", "-q", "--cached", "a.py", "new.py", cwd=place)
        (place / ".gitignore").write_text("*\n")
    unchanged = merging.Unchanged(base, {"a.py": id, "b.py": "another"})
    commit = merging.commit_changes(git_of(tree), str(place), "ll/x", "more\n", unchanged=unchanged)
    assert commit is not None
    assert files(tree, commit)["a.py"] == TEXT


@pytest.mark.parametrize("words", [["-c", "mine"], ["--detach"]], ids=["a branch", "detached"])
@pytest.mark.parametrize("is_committed", [True, False], ids=["committed", "not committed"])
def test_our_branch_follows_the_one_that_an_agent_has_checked_out(tree: Tree, words, is_committed):
    place = Path(worktrees.place_of(root(tree), "x", tree.environ))
    branch(tree, "x", {"new.py": "new\n"})
    quietly(tree, "switch", "-q", *words, cwd=place)
    (place / "a.py").write_text("changed\n")
    if is_committed:
        quietly(tree, "-c", "commit.gpgSign=false", "commit", "-qam", "agent", cwd=place)
    commit = merging.commit_changes(git_of(tree), str(place), "ll/x", "more\n")
    assert commit == quietly(tree, "rev-parse", "ll/x").strip()
    assert commit is not None
    assert files(tree, commit)["a.py"] == "changed\n"
    assert (commit == head(tree, cwd=place)) == is_committed


def test_our_branch_follows_none_that_does_not_contain_it(tree: Tree):
    place = Path(worktrees.place_of(root(tree), "x", tree.environ))
    branch(tree, "x", {"new.py": "new\n"})
    quietly(tree, "switch", "-q", "-c", "mine", "main", cwd=place)
    with pytest.raises(StoreError) as caught:
        merging.commit_changes(git_of(tree), str(place), "ll/x", "more\n")
    assert caught.value.message == f"`mine` is checked out in `{place}`, not `ll/x`"


def test_without_changes_there_is_nothing_to_commit(tree: Tree):
    place = worktrees.place_of(root(tree), "x", tree.environ)
    worktrees.add(git_of(tree), root(tree), place, "ll/x", head(tree))
    worktrees.check_out(git_of(tree), place, head(tree))
    assert merging.commit_changes(git_of(tree), place, "ll/x", "x") is None


def test_without_a_name_of_the_user_we_use_our_own(tree: Tree):
    unknown = {name: text for name, text in tree.environ.items() if not name.startswith("GIT_")}
    quietly(tree, "config", "user.useConfigOnly", "true")
    git = git_of(tree)._replace(environ=unknown)
    commit = merging.working_tree_commit(git, root(tree), "mine")
    assert quietly(tree, "log", "-1", "--format=%an <%ae>", commit).strip() == (
        "ll-loop <ll-loop@localhost>"
    )


def test_what_is_not_committed_becomes_a_commit_of_ours(tree: Tree):
    tree.write("a.py", "mine\n")
    tree.write("new.py", "new\n")
    tree.write("debug.log", "no\n")
    quietly(tree, "add", "new.py")
    before = users(tree)
    commit = merging.working_tree_commit(git_of(tree), root(tree), "what is not committed")
    assert files(tree, commit) == {"a.py": "mine\n", "b.py": TEXT, "new.py": "new\n"}
    assert users(tree) == before
    assert [path for path in os.listdir(tree.top / ".git") if "ll-loop" in path] == []


def test_a_repository_without_a_commit_is_refused():
    with in_memory() as place:
        empty = Tree(place)
        with pytest.raises(StoreError, match="no commit yet"):
            merging.working_tree_commit(git_of(empty), root(empty), "x")


# ── merging ────────────────────────────────────────────────────────────────────────────────────


def test_changes_in_different_places_are_merged(tree: Tree):
    before = users(tree)
    one = branch(tree, "one", {"a.py": TEXT.replace("line 0", "first")})
    two = branch(tree, "two", {"a.py": TEXT.replace("line 8", "last")})
    git = git_of(tree)
    train = merging.merge(git, root(tree), head(tree), one, "one")
    assert isinstance(train, Merged)
    both = merging.merge(git, root(tree), train.commit, two, "Merge two")
    assert isinstance(both, Merged)
    changed = TEXT.replace("line 0", "first").replace("line 8", "last")
    assert files(tree, both.commit)["a.py"] == changed
    parents = quietly(tree, "log", "-1", "--format=%P", both.commit).split()
    assert parents == [train.commit, two]
    assert users(tree) == before


def test_a_squash_has_one_parent(tree: Tree):
    one = branch(tree, "one", {"a.py": "one\n"})
    done = merging.merge(git_of(tree), root(tree), head(tree), one, "one", "squash")
    assert isinstance(done, Merged)
    assert quietly(tree, "log", "-1", "--format=%P", done.commit).split() == [head(tree)]
    assert files(tree, done.commit)["a.py"] == "one\n"


def test_merging_again_adds_nothing(tree: Tree):
    one = branch(tree, "one", {"a.py": "one\n"})
    done = merging.merge(git_of(tree), root(tree), head(tree), one, "one")
    assert isinstance(done, Merged)
    assert merging.merge(git_of(tree), root(tree), done.commit, one, "again") == done


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        pytest.param({"a.py": "theirs\n"}, ("a.py",), id="both changed a file"),
        pytest.param({"a.py": None}, ("a.py",), id="one deleted it"),
        pytest.param({"a.py": "t\n", "b.py": "t\n"}, ("a.py", "b.py"), id="two files"),
    ],
)
def test_a_conflict_names_the_files(tree: Tree, theirs, expected):
    before = users(tree)
    one = branch(tree, "one", {"a.py": "ours\n", "b.py": "ours\n"})
    two = branch(tree, "two", theirs)
    found = merging.merge(git_of(tree), root(tree), one, two, "two")
    assert isinstance(found, Conflict)
    assert found == Conflict(expected)
    assert users(tree) == before


def test_what_is_no_commit_is_refused(tree: Tree):
    with pytest.raises(StoreError, match="git cannot merge"):
        merging.merge(git_of(tree), root(tree), head(tree), "0" * 40, "x")


def test_nothing_uncommitted_gets_into_the_history(tree: Tree):
    tree.write("a.py", TEXT.replace("line 0", "mine"))
    tree.write("new.py", "mine\n")
    git = git_of(tree)
    base = merging.working_tree_commit(git, root(tree), "base")
    work = branch(tree, "one", {"b.py": "done\n"}, base)
    done = merging.rebased(git, root(tree), base, work, head(tree), "one")
    assert isinstance(done, Merged)
    assert files(tree, done.commit) == {"a.py": TEXT, "b.py": "done\n"}
    assert quietly(tree, "log", "-1", "--format=%P", done.commit).split() == [head(tree)]


def test_work_on_what_is_not_committed_is_a_conflict(tree: Tree):
    tree.write("a.py", "mine\n")
    git = git_of(tree)
    base = merging.working_tree_commit(git, root(tree), "base")
    work = branch(tree, "one", {"a.py": "mine, improved\n"}, base)
    found = merging.rebased(git, root(tree), base, work, head(tree), "one")
    assert isinstance(found, Conflict)
    assert found.files == ("a.py",)


def test_no_work_is_no_commit(tree: Tree):
    tree.write("a.py", "mine\n")
    git = git_of(tree)
    base = merging.working_tree_commit(git, root(tree), "base")
    assert merging.rebased(git, root(tree), base, base, head(tree), "x") == Merged(head(tree))


# ── landing ────────────────────────────────────────────────────────────────────────────────────


def test_the_branch_moves_once_and_the_users_edits_stay(tree: Tree):
    old = head(tree)
    work = branch(tree, "one", {"a.py": "done\n"})
    tree.write("b.py", "edited\n")
    tree.write("new.txt", "new\n")
    stash = quietly(tree, "rev-parse", "stash").strip()
    config = (tree.top / ".git/config").read_bytes()
    assert merging.land(git_of(tree), root(tree), "main", old, work) == Landed(work)
    assert head(tree) == work
    assert quietly(tree, "status", "--short").splitlines() == [" M b.py", "?? new.txt"]
    assert (tree.root / "a.py").read_text() == "done\n"
    assert (tree.root / "b.py").read_text() == "edited\n"
    assert quietly(tree, "rev-parse", "stash").strip() == stash
    assert (tree.top / ".git/config").read_bytes() == config
    log = (tree.top / ".git/logs/HEAD").read_text().splitlines()
    assert log[-1].endswith(f"merge {work}: Fast-forward")
    assert merging.land(git_of(tree), root(tree), "main", old, work) == Landed(work)


def _edit_the_file(tree: Tree) -> None:
    tree.write("a.py", "edited\n")


def _stage_the_file(tree: Tree) -> None:
    tree.write("a.py", "edited\n")
    quietly(tree, "add", "a.py")


def _edit_the_end(tree: Tree) -> None:
    tree.write("a.py", (tree.root / "a.py").read_text().replace("line 8", "mine"))


def _put_a_file_in_the_way(tree: Tree) -> None:
    tree.write("new.py", "mine\n")


def _ignore_a_file_in_the_way(tree: Tree) -> None:
    _put_a_file_in_the_way(tree)
    (tree.top / ".git/info/exclude").write_text("new.py\n")


def _switch(tree: Tree) -> None:
    quietly(tree, "branch", "other")
    quietly(tree, "symbolic-ref", "HEAD", "refs/heads/other")


def _detach(tree: Tree) -> None:
    (tree.top / ".git/HEAD").write_text(head(tree) + "\n")


@pytest.mark.parametrize(
    ("meanwhile", "reason"),
    [
        pytest.param(
            _edit_the_file,
            "Your local changes to the following files would be overwritten by merge: a.py",
            id="an edit",
        ),
        pytest.param(
            _stage_the_file,
            "Your local changes to the following files would be overwritten by merge: a.py",
            id="a staged edit",
        ),
        pytest.param(
            _put_a_file_in_the_way,
            "The following untracked working tree files would be overwritten by merge: new.py"
            "; move them away first",
            id="an untracked file",
        ),
        pytest.param(
            _ignore_a_file_in_the_way,
            "The following untracked working tree files would be overwritten by merge: new.py"
            "; move them away first",
            id="an ignored file",
        ),
        pytest.param(_switch, "`other` is checked out, not `main`", id="another branch"),
        pytest.param(_detach, "no branch is checked out, not `main`", id="a detached HEAD"),
    ],
)
def test_where_it_cannot_land_nothing_is_touched(tree: Tree, meanwhile, reason):
    old = head(tree)
    work = branch(tree, "one", {"a.py": "done\n", "new.py": "done\n"})
    meanwhile(tree)
    before = users(tree)
    answer = merging.land(git_of(tree), root(tree), "main", old, work)
    assert isinstance(answer, LandingRefused)
    assert answer.reason == reason
    assert answer.command.endswith(f"--ff-only {work[:12]}")
    after = users(tree)
    # Git refreshes what its index remembers of files, but not what is in it.
    before.pop("index"), after.pop("index")
    assert after == before


@pytest.mark.parametrize("meanwhile", [_edit_the_end, _put_a_file_in_the_way, _switch])
def test_the_command_that_is_printed_finishes_it(tree: Tree, meanwhile):
    tree.git("config", "core.hooksPath", "/dev/null")
    tree.git("config", "merge.verifySignatures", "false")
    old = head(tree)
    work = branch(tree, "one", {"a.py": TEXT.replace("line 0", "done"), "new.py": "done\n"})
    meanwhile(tree)
    answer = merging.land(git_of(tree), root(tree), "main", old, work)
    assert isinstance(answer, LandingRefused)
    if "move them away first" in answer.reason:
        (tree.root / "new.py").unlink()
    subprocess.run(answer.command, shell=True, cwd=root(tree), check=True)
    assert head(tree) == work
    first, *_, last = (tree.root / "a.py").read_text().splitlines()
    assert (first, last) == ("done", "mine" if meanwhile is _edit_the_end else "line 8")


# ── after a kill in the middle of it ───────────────────────────────────────────────────────────

KILLED_FILES = {"a.py": "done\n", "new.py": "done\n", "b.py": None}


def half_landed(tree: Tree) -> tuple[str, str]:
    """A git that fast-forwards has written some files when it is killed, but not the index."""
    old = head(tree)
    work = branch(tree, "one", KILLED_FILES)
    tree.write("a.py", "done\n")
    tree.write("new.py", "done\n")
    tree.write("mine.txt", "mine\n")
    return old, work


def land_again(tree: Tree, old: str, work: str) -> object:
    return merging.land(git_of(tree), root(tree), "main", old, work, is_repeated=True)


def test_what_a_killed_landing_has_written_is_not_in_the_way_of_the_next(tree: Tree):
    old, work = half_landed(tree)
    assert land_again(tree, old, work) == Landed(work)
    assert quietly(tree, "status", "--short").splitlines() == ["?? mine.txt"]
    assert (tree.root / "a.py").read_text() == "done\n"
    assert not (tree.root / "b.py").exists()
    assert list((tree.top / ".git").glob("*.index*")) == []


def test_from_a_directory_of_the_repository_it_lands_again_too(tmp_path):
    tree = Tree(tmp_path, below="sub")
    tree.write_all({"a.py": TEXT, "b.py": TEXT})
    tree.commit()
    old = head(tree)
    tree.write("a.py", "done\n")
    tree.commit()
    work = head(tree)
    quietly(tree, "reset", "-q", "--hard", old)
    tree.write("a.py", "done\n")
    assert land_again(tree, old, work) == Landed(work)
    assert quietly(tree, "status", "--short") == ""


@pytest.mark.parametrize("edit", ["edited\n", "do"], ids=["an edit", "half of a file"])
def test_other_content_is_in_the_way_of_a_repeated_landing(tree: Tree, edit):
    old, work = half_landed(tree)
    tree.write("a.py", edit)
    answer = land_again(tree, old, work)
    assert isinstance(answer, LandingRefused)
    assert answer.reason.endswith("would be overwritten by merge: a.py")
    assert (tree.root / "a.py").read_text() == edit
    assert head(tree) == old


def test_what_the_user_has_staged_stays_staged(tree: Tree):
    old, work = half_landed(tree)
    tree.write("a.py", "staged\n")
    quietly(tree, "add", "a.py")
    tree.write("a.py", "done\n")
    assert isinstance(land_again(tree, old, work), LandingRefused)
    assert quietly(tree, "show", ":a.py") == "staged\n"


def test_it_waits_until_another_git_has_finished(tree: Tree):
    """The other one ends a moment after this one has begun."""
    old, work = head(tree), branch(tree, "one", {"a.py": "done\n"})
    lock, git = tree.top / ".git/index.lock", git_of(tree)
    lock.write_text("")
    program = tree.place / "git"
    ends = f'case "$*" in *--ff-only*) (sleep 0.3; rm -f {lock}) >/dev/null 2>&1 &; esac'
    program.write_text(f'#!/bin/sh\n{ends}\nexec {git.program} "$@"\n'.replace("&;", "& ;;"))
    program.chmod(0o755)
    answer = merging.land(git._replace(program=str(program)), root(tree), "main", old, work)
    assert answer == Landed(work)
    assert not lock.exists()


def test_a_lock_that_stays_is_named(tree: Tree):
    old, work = head(tree), branch(tree, "one", {"a.py": "done\n"})
    lock = tree.top / ".git/index.lock"
    lock.write_text("")
    answer = merging.land(git_of(tree), root(tree), "main", old, work, wait_s=0.2)
    assert answer == LandingRefused(
        f"another git process is running here, or was killed; if none is running, remove `{lock}`",
        f"git merge --no-overwrite-ignore --ff-only {work[:12]}",
    )
    assert head(tree) == old


def test_a_branch_that_was_never_checked_out_is_refused(tree: Tree):
    answer = merging.land(git_of(tree), root(tree), None, head(tree), head(tree))
    assert answer == LandingRefused(
        "no branch is checked out (HEAD is detached)", f"git merge --ff-only {head(tree)[:12]}"
    )


def test_a_branch_that_has_moved_is_merged_first(tree: Tree):
    old = head(tree)
    work = branch(tree, "one", {"a.py": "done\n"})
    new = branch(tree, "users", {"b.py": "theirs\n"})
    quietly(tree, "update-ref", "refs/heads/main", new)
    assert merging.land(git_of(tree), root(tree), "main", old, work) == Moved(new)


def test_this_git_is_new_enough(tree: Tree):
    merging.check_git(git_of(tree))


def test_an_old_git_is_refused(tmp_path: Path):
    program = tmp_path / "git"
    program.write_text("#!/bin/sh\necho git version 2.37.1\n")
    program.chmod(0o755)
    with pytest.raises(StoreError, match=r"git 2\.37 cannot merge without a work tree"):
        merging.check_git(Git(str(program), dict(os.environ)))
