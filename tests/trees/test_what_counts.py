"""What is part of a snapshot: ignore rules of the start, odd files, hidden edits."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from little_loops.trees.content import Bounds
from little_loops.trees.model import Changed
from tests.simulation.command import in_memory
from tests.trees.projects import Tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    made = Tree(tmp_path)
    made.write_all({"src/a.py": "a = 1\n", "kept.log": "tracked\n"})
    made.git("add", "-f", "kept.log")
    made.write(".gitignore", "*.log\n/build/\n")
    made.commit()
    return made


# ── ignore rules ───────────────────────────────────────────────────────────────────────────────


def test_ignored_files_do_not_count_unless_they_are_tracked(tree):
    tree.write("new.log", "ignored")
    tree.write("build/out.o", "ignored")
    tree.write("new.txt", "untracked")
    store = tree.store()
    found = store.snapshot(tree.rules(store))
    assert tree.paths(store, found.project) == [".gitignore", "kept.log", "new.txt", "src/a.py"]


def test_a_line_that_is_added_to_the_ignore_rules_later_hides_nothing(tree):
    store = tree.store()
    rules = tree.rules(store)
    before = store.snapshot(rules)
    tree.write(".git/info/exclude", "*\n")
    tree.write(".gitignore", "*\n")
    tree.write("src/.gitignore", "*\n")
    tree.write("src/hidden.py", "hidden")
    tree.git("config", "core.excludesFile", str(tree.root / ".gitignore"))
    after = store.snapshot(rules)
    assert store.changed(before.project, after.project).paths == (
        ".gitignore",
        "src/.gitignore",
        "src/hidden.py",
    )


def test_a_tracked_file_in_an_ignored_directory_counts_and_its_neighbours_do_not(tree):
    tree.write("build/kept/x.txt", "tracked")
    tree.git("add", "-f", "build/kept/x.txt")
    tree.write("build/kept/y.txt", "ignored")
    tree.write("build/z.txt", "ignored")
    store = tree.store()
    found = store.snapshot(tree.rules(store))
    assert "build/kept/x.txt" in tree.paths(store, found.project)
    assert len(tree.paths(store, found.project)) == 4


def test_every_source_of_ignore_rules_is_read(tree):
    tree.write(".git/info/exclude", "*.exclude\n")
    (tree.home / ".config/git").mkdir(parents=True)
    (tree.home / ".config/git/ignore").write_text("*.user\n")
    tree.write("src/.gitignore", "*.deep\n!kept.log\n")
    for name in ("x.exclude", "x.user", "x.deep", "src/x.deep", "src/kept.log"):
        tree.write(name, name)
    store = tree.store()
    found = store.snapshot(tree.rules(store))
    wanted = tree.git("ls-files", "-co", "--exclude-standard").split()
    assert tree.paths(store, found.project) == sorted(wanted)
    assert {"x.deep", "src/kept.log"} < set(wanted)


def test_an_excludes_file_of_the_users_choice(tree):
    (tree.home / "mine").write_text("*.mine\n")
    tree.git("config", "--global", "core.excludesFile", "~/mine")
    tree.write("x.mine", "ignored")
    store = tree.store()
    found = store.snapshot(tree.rules(store))
    assert "x.mine" not in tree.paths(store, found.project)


def test_a_project_inside_a_repository_obeys_the_rules_above_it(tmp_path):
    tree = Tree(tmp_path, below="packages/one")
    (tree.top / ".gitignore").write_text("*.log\n/packages/one/out/\n")
    (tree.top / "packages/.gitignore").write_text("*.tmp\n")
    (tree.top / "other.txt").write_text("not of the project")
    for name in ("a.py", "x.log", "x.tmp", "out/x", "sub/out/x"):
        tree.write(name, name)
    tree.commit()
    store = tree.store()
    found = store.snapshot(tree.rules(store))
    assert tree.paths(store, found.project) == ["a.py", "sub/out/x"]


def test_marks_in_the_users_index_have_no_effect(tree):
    store = tree.store()
    rules = tree.rules(store)
    before = store.snapshot(rules)
    tree.git("update-index", "--assume-unchanged", "src/a.py")
    tree.git("update-index", "--skip-worktree", ".gitignore")
    tree.write("src/a.py", "a = 2\n")
    tree.write(".gitignore", "")
    after = store.snapshot(rules)
    assert store.changed(before.project, after.project).paths == (".gitignore", "src/a.py")


def test_settings_of_the_user_do_not_change_ids(tree):
    tree.write("crlf.txt", b"a\r\nb\r\n")
    tree.write(".gitattributes", "* text=auto eol=lf ident filter=odd -diff\n")
    store = tree.store()
    rules = tree.rules(store)
    before = store.snapshot(rules)
    tree.git("config", "--global", "core.autocrlf", "true")
    tree.git("config", "--global", "filter.odd.clean", "false")
    tree.git("config", "--global", "diff.external", "false")
    again = tree.store()
    assert again.snapshot(rules).project == before.project
    stored = again.read(before.project, "crlf.txt")
    assert stored is not None
    assert stored.data == b"a\r\nb\r\n"
    tree.write("crlf.txt", b"a\r\nc\r\n")
    after = again.snapshot(rules)
    assert again.changed(before.project, after.project) == Changed(1, ("crlf.txt",), 1, 1)
    assert b"+c\r\n" in again.diff(before.project, after.project)


def test_what_the_repository_makes_git_do_is_not_done(tree):
    """Hooks, a monitor that says nothing has changed, replaced objects, variables of git."""
    store = tree.store()
    rules = tree.rules(store)
    before = store.snapshot(rules)
    ran = tree.place / "ran"
    program = tree.write(".git/program", f"#!/bin/sh\necho \"$0\" >> {ran}\nprintf 'x\\0'\n", 0o755)
    for name in ("post-index-change", "reference-transaction", "post-checkout", "pre-auto-gc"):
        shutil.copy(program, tree.top / ".git/hooks" / name)
    weak = tree.git("hash-object", "-w", ".gitignore").strip()
    tree.git("replace", tree.git("rev-parse", "HEAD:src/a.py").strip(), weak)
    tree.git("config", "core.fsmonitor", str(program))
    tree.git("config", "core.untrackedCache", "true")
    tree.git("config", "core.fileMode", "false")
    tree.git("config", "--global", "core.hooksPath", str(tree.top / ".git/hooks"))
    ran.unlink(missing_ok=True)
    environ = {"GIT_DIR": "elsewhere", "GIT_INDEX_FILE": "other", "GIT_EXTERNAL_DIFF": str(program)}
    tree.environ |= environ
    again = tree.store()
    assert again.snapshot(rules).project == before.project
    stored = again.read(before.project, "src/a.py")
    assert stored is not None
    assert stored.data == (tree.root / "src/a.py").read_bytes()
    tree.write("src/a.py", "a = 2\n", 0o755)
    after = again.snapshot(rules)
    assert again.changed(before.project, after.project).paths == ("src/a.py",)
    again.pack()
    assert not ran.exists()


def test_files_of_runs_never_count(tree):
    tree.write(".loops/old.yaml", "name: x")
    store = tree.store()
    rules = tree.rules(store, ["/.loops/"])
    before = store.snapshot(rules)
    tree.write(".loops/.running/x.state.json", "{}")
    tree.write(".loops/.history/x/y.log", "{}")
    assert store.snapshot(rules, before.guard) == before
    tree.write(".loops/new.yaml", "name: x")
    assert store.snapshot(rules, before.guard).project != before.project


# ── what cannot be part of it ──────────────────────────────────────────────────────────────────


def test_what_is_left_out_is_named_once(tree):
    os.mkfifo(tree.root / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.getcwd()
        os.chdir(tree.root)
        try:
            listening.bind("socket")
        finally:
            os.chdir(here)
    tree.git("init", "-q", "inner", cwd=tree.root)
    tree.write("inner/a.txt", "of another repository")
    store = tree.store()
    rules = tree.rules(store)
    found = store.snapshot(rules)
    assert found.left_out == (
        "`inner` is not part of the snapshot: a separate git repository",
        "`pipe` is not part of the snapshot: neither a file nor a link",
        "`socket` is not part of the snapshot: neither a file nor a link",
    )
    assert store.snapshot(rules).left_out == ()
    assert tree.paths(store, found.project) == [".gitignore", "kept.log", "src/a.py"]


UNREADABLE = """
import os, shutil, sys
from tests.trees.projects import Tree
from little_loops.trees import copies
from pathlib import Path
os.setgroups([]); os.setgid(65534); os.setuid(65534)
tree = Tree(Path(sys.argv[1]))
tree.write("a.txt", "a")
tree.write("secret.txt", "s", 0)
tree.write("closed/x.txt", "x")
(tree.root / "closed").chmod(0)
store = tree.store()
found = store.snapshot(tree.rules(store))
print(*found.left_out, *tree.paths(store, found.project), sep="\\n")
(tree.root / "closed").chmod(0o700)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_what_may_not_be_read_is_left_out_and_named():
    with in_memory() as place:
        os.chown(place, 65534, 65534)
        done = run_python(UNREADABLE, place)
    assert done.splitlines() == [
        "`closed` is not part of the snapshot: permission denied",
        "`secret.txt` is not part of the snapshot: not readable",
        "a.txt",
    ]


LOCKED = """
import os, sys
from pathlib import Path
from tests.trees.projects import Tree, fingerprint

os.setgroups([]); os.setgid(65534); os.setuid(65534)
tree = Tree(Path(sys.argv[1]))
tree.write_all({"tests/a.py": "a", "tests/b.py": "b", "tests/d/c.py": "c"})
tree.commit()
store = tree.store()
rules = tree.rules(store, ["tests/"])
start = store.snapshot(rules)
before = fingerprint(tree.root / "tests")
tree.write("tests/a.py", "edited", 0)
(tree.root / "tests/b.py").unlink()
tree.write("tests/b.py/new.py", "a directory for a file")
tree.write("tests/d/c.py", "edited")
tree.write("tests/new/more/new.py", "new", 0)
for path, mode in (("b.py", 0o555), ("d", 0), ("new/more", 0), ("new", 0o111)):
    (tree.root / "tests" / path).chmod(mode)
done = store.restore(rules, start.guard)
print(done.failed, fingerprint(tree.root / "tests") == before)
for path in ("tests/a.py", "tests/b.py/new.py", "tests/d/c.py", "tests/new/more/new.py"):
    kept = store.read_guarded(done.kept, path)
    print(path, None if kept is None else kept.data.decode())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_what_an_agent_has_locked_is_kept_and_restored():
    with in_memory() as place:
        os.chown(place, 65534, 65534)
        done = run_python(LOCKED, place)
    assert done.splitlines() == [
        "() True",
        "tests/a.py edited",
        "tests/b.py/new.py a directory for a file",
        "tests/d/c.py edited",
        "tests/new/more/new.py new",
    ]


UNREADABLE_CHANGE = """
import os, sys
from pathlib import Path
from tests.trees.projects import Tree

os.setgroups([]); os.setgid(65534); os.setuid(65534)
tree = Tree(Path(sys.argv[1]))
tree.write_all({"src/a.py": "a", "src/b.py": "b"})
tree.commit()
store = tree.store()
rules = tree.rules(store)
start = store.snapshot(rules)
tree.write("src/a.py", "edited", 0)
os.unlink(tree.root / "src/b.py")
os.mkfifo(tree.root / "src/b.py", 0o600)
paths = store.inside(start.project, store.snapshot(rules).project, ["src"])
done = store.put_back(rules, start.project, paths)
print(done.failed, store.snapshot(rules).project == start.project)
print(store.read(done.kept, "src/a.py").data.decode())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_change_that_cannot_be_read_is_kept_and_put_back():
    with in_memory() as place:
        os.chown(place, 65534, 65534)
        done = run_python(UNREADABLE_CHANGE, place)
    assert done.splitlines() == ["() True", "edited"]


REPLACED = """
import os, shutil, sys
from pathlib import Path
from tests.trees.projects import Tree

tree = Tree(Path(sys.argv[1]))
tree.write("tests/a.py", "a")
tree.write("src/b.py", "b")
tree.write("src/c.py", "c")
tree.commit()
store = tree.store()
rules = tree.rules(store, ["tests/"])
start = store.snapshot(rules)
for path in ("tests/a.py", "src/b.py", "src/c.py"):
    tree.write(path, "changed")

def link(name):
    os.unlink(name)
    os.symlink("elsewhere", name)

def folder(name):
    os.unlink(name)
    os.mkdir(name)

sudden = {"a.py": link, "b.py": os.unlink, "c.py": folder}

def hear(what, arguments):
    happens = sudden.pop(arguments[0], None) if what == "open" else None
    if happens is not None:
        happens(next(map(str, tree.root.rglob(arguments[0]))))

sys.addaudithook(hear)
now = store.snapshot(rules, start.guard)
print(sudden, store.guard_changes(start.guard, now.guard), tree.paths(store, now.project))
print(now.left_out)
"""


def test_what_is_replaced_while_it_is_read_does_not_end_the_run(tmp_path):
    done = run_python(REPLACED, tmp_path)
    assert done.splitlines() == [
        "{} (PathChange(path='tests/a.py', kind='changed'),) ['tests/a.py']",
        "('`src/c.py` is not part of the snapshot: neither a file nor a link',)",
    ]


def run_python(code: str, place: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, str(place)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HOME": str(place)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_submodule_is_left_out(tree, tmp_path):
    other = Tree(tmp_path / "other")
    other.write("lib.py", "lib")
    other.commit()
    tree.git("submodule", "add", "-q", str(other.top), "lib")
    tree.git("commit", "-q", "-m", "lib")
    store = tree.store()
    rules = tree.rules(store)
    found = store.snapshot(rules)
    assert rules.nested == ("lib",)
    assert found.left_out == ("`lib` is not part of the snapshot: a separate git repository",)
    assert ".gitmodules" in tree.paths(store, found.project)


def test_a_repository_that_is_made_of_a_known_directory_hides_nothing(tree):
    store = tree.store()
    rules = tree.rules(store)
    before = store.snapshot(rules)
    tree.git("init", "-q", "src", cwd=tree.root)
    assert store.snapshot(rules) == before
    tree.write("src/a.py", "a = 2\n")
    assert tree.store().snapshot(rules).project != before.project


def test_what_git_would_not_take_for_a_repository_is_none(tree):
    tree.write("old/.git/note", "x")
    tree.write("old/a.txt", "old")
    store = tree.store()
    rules = tree.rules(store)
    tree.write("new/.git/note", "x")
    tree.write("new/a.txt", "new")
    found = store.snapshot(rules)
    wanted = tree.git("ls-files", "-co", "--exclude-standard").split()
    assert (tree.paths(store, found.project), found.left_out) == (sorted(wanted), ())
    assert {"old/a.txt", "new/a.txt"} < set(wanted)


def test_a_pointer_of_a_large_file_is_a_plain_file(tree):
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    tree.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
    tree.write("data.bin", pointer)
    store = tree.store()
    found = store.snapshot(tree.rules(store))
    stored = store.read(found.project, "data.bin")
    assert stored is not None
    assert stored.data.decode() == pointer


def test_names_of_any_kind(tree):
    names = [
        "new\nline",
        "-rf",
        "\udcff\udc80",
        "tab\t",
        "quote'\"",
        "\u00e9",
        "e\u0301",
        ":(top)x",
        "*",
    ]
    for name in names:
        tree.write(f"odd/{name}", name.encode("utf-8", "surrogateescape"))
    store = tree.store()
    rules = tree.rules(store, ["odd/"])
    before = store.snapshot(rules)
    found = [path for path in tree.paths(store, before.project) if path.startswith("odd/")]
    assert sorted(found) == sorted(f"odd/{name}" for name in names)
    for name in names:
        tree.write(f"odd/{name}", "changed")
    after = store.snapshot(rules, before.guard)
    assert store.changed(before.project, after.project).files == len(names)
    assert len(store.restore(rules, before.guard).paths) == len(names)
    assert store.snapshot(rules, before.guard).project == before.project
    for name in names:
        tree.write(f"odd/{name}", "changed")
    again = store.snapshot(rules).project
    paths = store.outside(before.project, again, ["src"])
    assert len(store.put_back(rules, before.project, paths, str(tree.place / "patch")).paths) == 9
    assert store.snapshot(rules, before.guard).project == before.project


# ── large content ──────────────────────────────────────────────────────────────────────────────


def test_a_file_that_is_too_large_is_recorded_by_its_hash_and_not_stored(tree):
    with open(tree.root / "large.bin", "wb") as file:
        file.truncate(200 << 20)
    store = tree.store()
    rules = tree.rules(store)
    before = store.snapshot(rules)
    assert before.unstored == ("large.bin",)
    assert store.snapshot(rules) == before
    assert sum(one.stat().st_size for one in Path(store.files.packs).iterdir()) < 1 << 20
    with open(tree.root / "large.bin", "r+b") as file:
        file.seek(100 << 20)
        file.write(b"x")
    after = store.snapshot(rules)
    assert store.changed(before.project, after.project) == Changed(1, ("large.bin",), 0, 0)
    assert store.diff(before.project, after.project) == (
        b"Binary files a/large.bin and b/large.bin differ (too large to be stored)\n"
    )
    digest = hashlib.sha256((tree.root / "large.bin").read_bytes()).hexdigest()
    assert {one.path: one.sha256 for one in store.listing(after.project)}["large.bin"] == digest
    # Another process knows it, too.
    assert tree.store().listing(before.project).__next__().path == ".gitignore"


def test_content_beyond_the_limit_of_one_snapshot_is_not_stored(tmp_path):
    tree = Tree(tmp_path, bounds=Bounds(file_bytes=1000, new_bytes=2500))
    for number in range(5):
        tree.write(f"f{number}", str(number) * 800)
    store = tree.store()
    rules = tree.rules(store, ["/f4"])
    found = store.snapshot(rules)
    assert len(found.unstored) == 2
    assert "f4" not in found.unstored
    # The id does not depend on what could be kept; the next snapshot keeps more.
    again = Tree(tmp_path).store().snapshot(rules)
    assert again.project == found.project
    assert again.unstored == ()


# ── hidden edits ───────────────────────────────────────────────────────────────────────────────


def test_an_edit_that_leaves_size_and_time_as_they_were_is_noticed(tree):
    store = tree.store()
    rules = tree.rules(store)
    ids = [store.snapshot(rules).project]
    times = os.stat(tree.root / "src/a.py")
    for number in range(2, 10):
        # As fast as it goes: within one tick of the kernel's clock.
        with open(tree.root / "src/a.py", "r+") as file:
            file.write(f"a = {number}\n")
        os.utime(tree.root / "src/a.py", ns=(times.st_atime_ns, times.st_mtime_ns))
        ids.append(store.snapshot(rules).project)
    assert len(set(ids)) == 9


def test_a_file_that_comes_and_goes_as_fast_as_it_can_is_noticed(tree):
    store = tree.store()
    rules = tree.rules(store)
    without = store.snapshot(rules).project
    for _ in range(5):
        tree.write("src/b.py", "b")
        assert store.snapshot(rules).project != without
        (tree.root / "src/b.py").unlink()
        assert store.snapshot(rules).project == without


def test_a_mode_is_part_of_the_content(tree):
    store = tree.store()
    rules = tree.rules(store)
    before = store.snapshot(rules).project
    (tree.root / "src/a.py").chmod(0o755)
    assert store.snapshot(rules).project != before
    (tree.root / "src/a.py").chmod(0o600)
    assert store.snapshot(rules).project == before
