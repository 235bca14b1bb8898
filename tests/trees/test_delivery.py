"""What a commit of everything would contain, by git's own rules."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from little_loops.errors import StoreError
from little_loops.trees.copies import CleanCopy
from little_loops.trees.copy_plan import LONG_AGO_NS
from little_loops.trees.delivery import Delivery
from little_loops.trees.upkeep import forget
from tests.trees.projects import Tree, fingerprint


class Delivering:
    """A project with a snapshot of its start, and what a commit would make of later changes."""

    def __init__(self, tree: Tree) -> None:
        self.tree, self.store = tree, tree.store()
        self.rules = tree.rules(self.store, ("tests/",))
        first = self.store.snapshot(self.rules)
        self.first, self.reference = first.project, first.guard
        self.copy = CleanCopy(self.store, self.rules, str(tree.state))

    def now(self) -> Delivery:
        project = self.store.snapshot(self.rules).project
        with self.copy.held():
            return self.copy.delivery(self.first, project, self.reference)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    made = Tree(tmp_path)
    made.write_all({"src/a.py": "a = 1\n", "src/b.py": "b = 1\n", "run.sh": "true\n"})
    made.commit()
    return made


def test_a_plain_change_is_delivered_as_it_is(tree):
    found = Delivering(tree)
    tree.write("src/a.py", "a = 2\n")
    tree.write("src/new.py", "new\n")
    (tree.root / "link").symlink_to("src/a.py")
    (tree.root / "run.sh").chmod(0o755)
    assert found.now() == Delivery()


def test_nothing_of_the_users_repository_is_changed(tree):
    found = Delivering(tree)
    tree.write("src/new.py", "new\n")
    tree.git("status")  # it updates the index
    before = fingerprint(tree.root)
    found.now()
    assert fingerprint(tree.root) == before
    assert not os.path.exists(found.copy._state_file("delivery"))


def test_a_gitlink_in_the_index_hides_a_directory(tree):
    found = Delivering(tree)
    tree.write("src/a.py", "a = 2\n")
    tree.git("rm", "-rq", "--cached", "src")
    head = tree.git("rev-parse", "HEAD").strip()
    tree.git("update-index", "--add", "--cacheinfo", f"160000,{head},src")
    assert found.now().left_out == ("src/a.py", "src/b.py")


@pytest.mark.parametrize("name", [".Git/a", "git~1/a"])
def test_a_name_that_git_refuses_is_left_out(tree, name):
    found = Delivering(tree)
    tree.write(name, "x")
    tree.write("src/a.py", "a = 2\n")
    assert found.now() == Delivery((name,))


def test_what_is_not_in_the_sparse_checkout_is_left_out(tree):
    found = Delivering(tree)
    tree.git("sparse-checkout", "set", "--no-cone", "/*", "!/lib/")
    tree.write("lib/a.py", "a")
    assert found.now() == Delivery(("lib/a.py",))


def test_line_ends_are_those_of_a_checkout(tree):
    tree.write(".gitattributes", "*.txt text\n*.bat text eol=crlf\n")
    found = Delivering(tree)
    tree.write("a.txt", "a\r\n")
    tree.write("a.bat", "a\r\n")
    other = found.now().other
    assert {path: one.data for path, one in other.items()} == {"a.txt": b"a\n"}


def test_a_filter_decides_what_is_delivered(tree):
    found = Delivering(tree)
    tree.write("src/a.py", "a = 2\n")
    tree.write("src/b.py", "b = 2\n")
    tree.git("config", "filter.old.clean", "echo old; cat >/dev/null")
    tree.git("config", "filter.rot.clean", "tr a-z n-za-m")
    tree.git("config", "filter.rot.smudge", "tr n-za-m a-z")
    tree.write(".git/info/attributes", "a.py filter=old\nb.py filter=rot\n")
    other = found.now().other
    assert {path: one.data for path, one in other.items()} == {"src/a.py": b"old\n"}


@pytest.mark.parametrize("there", [False, True], ids=["new attributes", "old attributes"])
def test_a_clone_has_what_git_checks_out(tree, there):
    """Git stores these bytes as they are, and writes others into a clone."""
    attributes = ".gitattributes", "*.txt text eol=crlf\n*.id ident\nplain.txt -text\n"
    if there:
        tree.write(*attributes)
    found = Delivering(tree)
    tree.write(*attributes)
    tree.write_all({"a.txt": "a\n", "a.id": "$Id$\n", "plain.txt": "a\n"})
    id = "$Id: 055c8729cdcc372500a08db659c045e16c4409fb $\n"
    other = {path: one.data for path, one in found.now().other.items()}
    assert other == {"a.txt": b"a\r\n", "a.id": id.encode()}


def test_new_attributes_change_files_that_the_run_did_not(tree):
    tree.write_all({"a.txt": "a\n", "b.txt": "b\n"})
    tree.commit()
    found = Delivering(tree)
    tree.write(".gitattributes", "a.txt eol=crlf\n")
    other = {path: one.data for path, one in found.now().other.items()}
    assert other == {"a.txt": b"a\r\n"}


def test_git_may_have_taken_what_is_not_in_the_work_tree(tree):
    os.utime(tree.root / "src/a.py", (0, 0))  # or git would read it again
    found = Delivering(tree)
    tree.git("config", "filter.old.clean", "echo old")
    tree.write(".git/info/attributes", "a.py filter=old\n")
    tree.git("add", "--renormalize", "src/a.py")
    tree.write(".git/info/attributes", "")
    other = {path: one.data for path, one in found.now().other.items()}
    assert other == {"src/a.py": b"old\n"}
    tree.git("commit", "-qm", "old")
    assert found.now().other.keys() == {"src/a.py"}


@pytest.mark.parametrize("flag", ["--skip-worktree", "--assume-unchanged"])
def test_a_commit_keeps_what_git_does_not_see_to_be_gone(tree, flag):
    (tree.root / "link").symlink_to("src/a.py")
    tree.commit()
    found = Delivering(tree)
    for path in ("src/a.py", "link", "src/b.py"):
        (tree.root / path).unlink()
        if path != "src/b.py":
            tree.git("update-index", flag, path)
    kept = {path: (one.kind, one.mode, one.data) for path, one in found.now().kept.items()}
    assert kept == {
        "src/a.py": ("file", 0o100644, b"a = 1\n"),
        "link": ("link", 0o120777, b"src/a.py"),
    }


def test_a_file_may_be_in_the_index_alone(tree):
    found = Delivering(tree)
    id = tree.git("hash-object", "-w", "run.sh").strip()
    tree.git("update-index", "--add", "--cacheinfo", f"100755,{id},src/new.py")
    tree.git("update-index", "--skip-worktree", "src/new.py")
    (kept,) = found.now().kept.values()
    assert (kept.mode, kept.data) == (0o100755, b"true\n")


def test_what_the_user_keeps_out_of_the_work_tree_is_not_missing(tree):
    tree.git("sparse-checkout", "set", "--no-cone", "/*", "!/src/a.py")
    tree.git("update-index", "--skip-worktree", "src/b.py")
    found = Delivering(tree)
    tree.write("src/b.py", "b = 2\n")
    tree.write("run.sh", "false\n")
    assert found.now() == Delivery()


def test_before_the_first_commit_everything_is_compared(tmp_path):
    tree = Tree(tmp_path)
    tree.write_all({"a.py": "a = 1\n", "b.py": "b = 1\n"})
    found = Delivering(tree)
    tree.git("config", "filter.old.clean", "echo old")
    tree.write(".git/info/attributes", "a.py filter=old\n")
    assert found.now().other.keys() == {"a.py"}


WEAKENING = {
    "by a flag": (
        ("add", "tests/a.py"),
        ("update-index", "--skip-worktree", "tests/a.py"),
    ),
    "by a commit": (
        ("commit", "-qam", "weak"),
        ("update-index", "--assume-unchanged", "tests/a.py"),
    ),
    "by a commit without it": (
        ("rm", "-q", "--cached", "tests/a.py"),
        ("commit", "-qm", "without"),
        ("config", "core.excludesFile", ".git/ignored"),
    ),
}


@pytest.mark.parametrize("words", WEAKENING.values(), ids=WEAKENING)
def test_a_protected_file_may_be_another_in_the_next_commit(tree, words):
    tree.write("tests/a.py", "strict\n")
    tree.commit()
    found = Delivering(tree)
    tree.write(".git/ignored", "tests/\n")
    tree.write("tests/a.py", "weak\n")
    for each in words:
        tree.git(*each)
    tree.write("tests/a.py", "strict\n")
    assert found.now().weakened == ("tests/a.py",)


def test_a_filter_runs_as_in_a_commit_of_the_users(tree):
    other = Tree(tree.place / "other")
    other.write("key", "key\n")
    other.commit()
    tree.environ |= {"LC_ALL": "C.UTF-8"}
    ours = "ALTERNATE|COMMITTER|CONFIG_P|INDEX|LITERAL|NO_|OBJECT|OPTIONAL|TERMINAL"
    show = f"env | grep -oE '^(GIT_({ours})[^=]*|LC_ALL)=[^/]*' | sort"
    script = f"{show}; git -C {other.top} show HEAD:key"
    tree.git("config", 'filter.it"s.clean', script)
    tree.git("config", "filter.large.clean", f": git-lfs; {script}")
    tree.write(".git/info/attributes", 'a.py filter=it"s\nb.py filter=large\n')
    found = Delivering(tree)
    tree.write("src/a.py", "a = 2\n")
    tree.write("src/b.py", "b = 2\n")
    who = "GIT_COMMITTER_EMAIL=a@example.org\nGIT_COMMITTER_NAME=a\n"
    one, large = (
        (found.now().other[path].data or b"").decode() for path in ("src/a.py", "src/b.py")
    )
    assert one == f"{who}LC_ALL=C.UTF-8\nkey\n"
    settings = "GIT_CONFIG_PARAMETERS='core.fsmonitor'='false' 'core.hooksPath'='\n"
    assert large == f"{who}{settings}LC_ALL=C.UTF-8\nkey\n"


def test_git_does_not_read_what_is_too_large(tree):
    found = Delivering(tree)
    with open(tree.root / "*.[b]in", "wb") as file:
        file.truncate(60 << 20)
    tree.write("b.in", "a\r\n")
    tree.git("config", "filter.bad.clean", "false")
    tree.git("config", "filter.bad.required", "true")
    tree.write(".git/info/attributes", "*bin filter=bad\n*.in text\n")
    assert found.now().other["b.in"].data == b"a\n"


def test_a_repository_without_its_objects_cannot_deliver(tree):
    found = Delivering(tree)
    tree.write("src/a.py", "a = 2\n")
    shutil.rmtree(tree.root / ".git/objects")
    (tree.root / ".git/objects").mkdir()
    with pytest.raises(StoreError, match="objects of the repository are missing"):
        found.now()


def test_a_required_filter_that_fails_is_an_error(tree):
    found = Delivering(tree)
    tree.write("src/a.py", "a = 2\n")
    tree.git("config", "filter.bad.smudge", "false")
    tree.git("config", "filter.bad.clean", "tr a b")
    tree.git("config", "filter.bad.required", "true")
    tree.write(".git/info/attributes", "a.py filter=bad\n")
    with pytest.raises(StoreError, match=r"src/a\.py: smudge filter bad failed"):
        found.now()


def test_git_may_overlook_that_a_file_is_a_program(tree):
    found = Delivering(tree)
    tree.git("config", "core.fileMode", "false")
    (tree.root / "run.sh").chmod(0o755)
    (one,) = found.now().other.values()
    assert (one.data, one.mode & 0o777) == (b"true\n", 0o644)


def test_a_project_in_a_directory_of_its_repository(tree):
    tree.write("app/.gitattributes", "*.txt text\n")
    tree.write("app/b.txt", "b\n")
    tree.commit()
    tree.root /= "app"
    found = Delivering(tree)
    tree.write("a.txt", "a\r\n")
    assert found.now().other["a.txt"].data == b"a\n"


def test_a_repository_in_which_git_cannot_add_anything(tree):
    found = Delivering(tree)
    tree.write("src/a.py", "a = 2\n")
    project = found.store.snapshot(found.rules).project
    tree.git("config", "core.bare", "true")
    with (
        found.copy.held(),
        pytest.raises(StoreError, match="git cannot add and check out the project's files"),
    ):
        found.copy.delivery(found.first, project, found.reference)


@pytest.mark.parametrize("name", ["a:b", "a\nb", 'a"b'], ids=["colon", "newline", "quote"])
def test_a_repository_with_an_odd_path(tmp_path, name):
    tree = Tree(tmp_path / name)
    tree.write("a.txt", "a\n")
    tree.commit()
    found = Delivering(tree)
    tree.write("b.txt", "b\n")
    assert found.now() == Delivery()


def test_a_build_product_that_has_changed_is_older_than_everything_else(tree):
    found = Delivering(tree)
    tree.write("a.o", "built")
    (one,) = found.now().other.values()
    assert (one.data, one.time_ns) == (None, LONG_AGO_NS)


def test_git_keeps_only_the_executable_bit(tree):
    (tree.root / "src/b.py").chmod(0o600)
    found = Delivering(tree)
    (tree.root / "src/a.py").chmod(0o600)  # the content, and so the snapshot's id, is the same
    other = found.now().other
    assert {path: one.mode & 0o777 for path, one in other.items()} == {"src/a.py": 0o644}
    (tree.root / "src/b.py").chmod(0o700)
    tree.write("src/new.py", "new\n")
    (tree.root / "src/new.py").chmod(0o640)
    other = found.now().other
    assert {path: one.mode & 0o777 for path, one in other.items()} == {
        "src/a.py": 0o644,
        "src/b.py": 0o755,
        "src/new.py": 0o644,
    }
    assert all(one.is_only_mode for one in other.values())


def test_the_modes_of_the_start_are_kept_as_long_as_the_run(tree):
    (tree.root / "src/a.py").chmod(0o600)
    found = Delivering(tree)
    store, run = found.store, found.rules.run
    assert store.start_modes(run, found.first).odd == {"src/a.py": 0o100600}
    assert store.start_modes("of-an-earlier-version", found.first).odd == {"src/a.py": 0o100600}
    assert store.start_modes("of-an-earlier-version", None).odd == {}
    (kept,) = tree.state.rglob("modes/start-*")
    store.snapshot(found.rules._replace(run="another"))
    forget(store.files, store.git, ["another"])
    assert [*tree.state.rglob("modes/start-*")] == [kept]
    forget(store.files, store.git, [run])
    assert not kept.exists()
