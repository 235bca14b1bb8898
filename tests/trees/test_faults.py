"""Snapshots, restoring and copies hold where things go wrong: kills, damage, others at work."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from little_loops.errors import StoreError
from little_loops.system.stops import StopFlag
from little_loops.trees.copies import CleanCopy
from little_loops.trees.git import Interrupted
from little_loops.trees.rules import Rules
from little_loops.trees.store import TreeStore
from tests.simulation.command import GONE
from tests.simulation.disk import COUNTED
from tests.trees.projects import Tree, fingerprint

Work = Callable[[], object]
OPERATIONS = COUNTED | {"os.chmod", "os.rmdir"}


def make(place: Path) -> Tree:
    tree = Tree(place)
    tree.write_all(
        {
            "src/a.py": "a = 1\n",
            "tests/test_a.py": "assert 1\n",
            "tests/data/one.json": "{}",
            "tests/swap/file": "file",
            "docs/d.md": "d\n",
        }
    )
    (tree.root / "tests/link").symlink_to("../src/a.py")
    tree.write(".gitignore", ".venv/\n")
    tree.commit()
    tree.write(".venv/lib/a.pth", str(tree.root))
    return tree


def tamper(tree: Tree) -> None:
    tree.write("tests/test_a.py", "assert 0\n")
    tree.write("tests/new/added.py", "new")
    shutil.rmtree(tree.root / "tests/data")
    (tree.root / "tests/data").symlink_to("../src")
    shutil.rmtree(tree.root / "tests/swap")
    tree.write("tests/swap", "a file now")
    (tree.root / "tests/link").unlink()
    (tree.root / "tests/link").mkdir()
    tree.write("docs/d.md", "changed\n")
    tree.write("docs/new/x.md", "new\n")


# ── kills ──────────────────────────────────────────────────────────────────────────────────────


def killed_at(number: int, work: Work) -> str | None:
    """Do something in a child that dies before its n-th file operation; which one that was."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(read_end)
        _die_at(number, write_end)
        try:
            work()
        finally:
            os._exit(0)
    os.close(write_end)
    with open(read_end) as said:
        reached = said.read()
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, GONE)
    return reached if code == GONE else None


def _die_at(number: int, note: int) -> None:
    left = number

    def count(what: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if what not in OPERATIONS or not _is_ours(what, arguments):
            return
        left -= 1
        if left == 0:
            os.write(note, f"{what} {arguments[:1]}".encode("utf-8", "replace"))
            os._exit(GONE)

    sys.addaudithook(count)


def _is_ours(what: str, arguments: tuple[Any, ...]) -> bool:
    """Not what the interpreter itself opens to read."""
    if what != "open":
        return True
    flags = arguments[2] if len(arguments) > 2 and isinstance(arguments[2], int) else 0
    return bool(flags & (os.O_WRONLY | os.O_RDWR))


def every_kill(
    work: Callable[[Path], tuple[Work, Callable[[], None]]], place: Path, each: int
) -> int:
    """Kill the work at one operation after the other; it is done again and has to come out right."""
    number = reached = 0
    while True:
        number += each
        here = place / str(number)
        here.mkdir()
        begin, finish = work(here)
        was = killed_at(number, begin)
        try:
            finish()
        except AssertionError as error:
            raise AssertionError(f"killed at {number}, {was}") from error
        shutil.rmtree(here)
        if was is None:
            return reached
        reached += 1


def restoring(place: Path) -> tuple[Work, Callable[[], None]]:
    tree = make(place)
    wanted = fingerprint(tree.root / "tests")
    store = tree.store()
    rules = tree.rules(store, ["tests/"])
    start = store.snapshot(rules)
    tamper(tree)

    def begin() -> object:
        return tree.store().restore(rules, start.guard)

    def finish() -> None:
        again = tree.store(create=False)
        assert again.restore(rules, start.guard).failed == ()
        assert fingerprint(tree.root / "tests") == wanted
        assert again.snapshot(rules, start.guard).guard == start.guard
        assert not [path for path in fingerprint(tree.root) if ".ll-restore" in path]

    return begin, finish


def putting_back(place: Path) -> tuple[Work, Callable[[], None]]:
    tree = make(place)
    store = tree.store()
    rules = tree.rules(store, scope=["src"])
    start = store.snapshot(rules)
    tamper(tree)
    paths = store.outside(start.project, store.snapshot(rules).project, ["src"])

    def work() -> object:
        return tree.store().put_back(rules, start.project, paths, str(place / "patch"))

    def finish() -> None:
        work()
        assert tree.store().snapshot(rules).project == start.project

    return work, finish


def copying(place: Path) -> tuple[Work, Callable[[], None]]:
    tree = make(place)
    store = tree.store()
    rules = tree.rules(store, ["tests/"])
    start = store.snapshot(rules)
    lay_out(tree, rules, start.project, start.guard)
    tamper(tree)
    now = store.snapshot(rules, start.guard)

    def begin() -> object:
        return lay_out(tree, rules, now.project, start.guard)

    def finish() -> None:
        root = begin()
        found = fingerprint(Path(str(root)), skip=[".git"])
        assert found["tests/test_a.py"] == _file(b"assert 1\n")
        assert found["docs/new/x.md"] == _file(b"new\n")
        assert found[".venv/lib/a.pth"] == _file(str(root).encode())
        assert len(found) == 17, sorted(found)
        assert tree.git("status", "--short", cwd=Path(str(root))) == " M docs/d.md\n?? docs/new/\n"

    return begin, finish


def lay_out(tree: Tree, rules: Rules, project: str, guard: str) -> str:
    copy = CleanCopy(tree.store(), rules, str(tree.state))
    with copy.held():
        return copy.lay_out(project, guard)


def _file(data: bytes) -> tuple[str, str]:
    import hashlib

    return "-rw-r--r--", hashlib.sha256(data).hexdigest()


def taking(place: Path) -> tuple[Work, Callable[[], None]]:
    tree = make(place)
    store = tree.store()
    rules = tree.rules(store, ["tests/"])
    store.snapshot(rules)
    tamper(tree)

    def begin() -> object:
        other = tree.store()
        found = other.snapshot(rules)
        other.save_times(rules)
        other.pack()
        return found

    def finish() -> None:
        again = tree.store(create=False)
        found = again.snapshot(rules)
        assert len(list(again.listing(found.project))) == 8
        again.pack()
        assert again.snapshot(rules) == found

    return begin, finish


WORKS = {"restore": restoring, "put back": putting_back, "copy": copying, "snapshot": taking}


@pytest.mark.parametrize("work", WORKS.values(), ids=WORKS)
def test_killed_at_an_operation_and_done_again(place, work, record_property):
    reached = every_kill(work, place, each=9)
    record_property("figure: kills of work on trees", reached)
    assert reached > 2


@pytest.mark.soak
@pytest.mark.parametrize("work", WORKS.values(), ids=WORKS)
def test_killed_at_every_operation_and_done_again(place, work, record_property):
    reached = every_kill(work, place, each=1)
    record_property("figure: kills of work on trees, every operation", reached)
    assert reached > 20


# ── what the system refuses ────────────────────────────────────────────────────────────────────

AS_NOBODY = """
import os, shutil, sys
from tests.trees.projects import Tree
from little_loops.trees import copies
from pathlib import Path
os.setgroups([]); os.setgid(65534); os.setuid(65534)
tree = Tree(Path(sys.argv[1]))
for name in ("open/a.py", "locked/tests/b.py", "tests/c.py", "tests/deep/d.py"):
    tree.write(name, "assert 1")
store = tree.store()
rules = tree.rules(store, ["a.py", "tests/"])
start = store.snapshot(rules)
for name in ("open/a.py", "locked/tests/b.py", "tests/c.py", "tests/deep/d.py"):
    tree.write(name, "assert 0")
(tree.root / "open").chmod(0o500)
(tree.root / "tests").chmod(0o500)
(tree.root / "tests/deep").chmod(0)
print(store.restore(rules, start.guard)[:2])
print(oct((tree.root / "tests").stat().st_mode), oct((tree.root / "tests/deep").stat().st_mode))
(tree.root / "open").chmod(0o700)
print(store.restore(rules, start.guard)[:2])
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_directory_that_may_not_be_written_is_named_unless_its_mode_was_tampered_with(place):
    place.chmod(0o755)
    home = place / "home"
    home.mkdir()
    os.chown(home, 65534, 65534)
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(home)], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == [
        "(('locked/tests/b.py', 'tests', 'tests/c.py', 'tests/deep', 'tests/deep/d.py'), ('open/a.py: permission denied',))",
        "0o40755 0o40755",
        "(('open/a.py',), ())",
    ], done.stderr


# ── damage ─────────────────────────────────────────────────────────────────────────────────────


class Damaged:
    """A store with two snapshots, before something happens to it."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.store: TreeStore = tree.store()
        self.rules = tree.rules(self.store, ["tests/"])
        self.first = self.store.snapshot(self.rules)
        tamper(tree)
        self.second = self.store.snapshot(self.rules, self.first.guard)

    def pack(self, number: int) -> Path:
        folder = Path(self.store.files.packs)
        packs = sorted(folder.glob("*.pack"), key=lambda path: path.stat().st_mtime_ns)
        return packs[number]


def lose_pack(made: Damaged) -> None:
    made.pack(0).unlink()


def lose_both(made: Damaged) -> None:
    pack = made.pack(1)
    pack.unlink()
    pack.with_suffix(".idx").unlink()


def cut(made: Damaged) -> None:
    pack = made.pack(1)
    pack.write_bytes(pack.read_bytes()[:-30])


def lose_git(made: Damaged) -> None:
    shutil.rmtree(made.store.files.git_dir)


def lose_id(made: Damaged) -> None:
    os.unlink(made.store.files.place("id"))


DAMAGE = {
    "a pack is gone": lose_pack,
    "a pack and its index are gone": lose_both,
    "a pack is cut": cut,
    "git's directory is gone": lose_git,
    "the name is gone": lose_id,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damage_is_named_and_never_taken_for_nothing_changed(place, damage):
    made = Damaged(make(place))
    damage(made)
    before = fingerprint(made.tree.root)
    with pytest.raises(StoreError, match="tree store"):
        made.store.snapshot(made.rules)
    with pytest.raises(StoreError, match="tree store"):
        made.store.restore(made.rules, made.first.guard)
    with pytest.raises(StoreError, match="tree store"):
        made.store.changed(made.first.project, made.second.project)
    assert fingerprint(made.tree.root) == before


def test_another_process_notices_what_is_lost_when_it_needs_it(place):
    made = Damaged(make(place))
    for number in (1, 0):
        pack = made.pack(number)
        pack.unlink()
        pack.with_suffix(".idx").unlink()
    again = made.tree.store()
    with pytest.raises(StoreError, match="is missing from the tree store"):
        again.restore(made.rules, made.first.guard)
    with pytest.raises(StoreError, match="cannot be read"):
        again.changed(made.first.project, made.second.project)


def test_a_byte_that_has_changed_in_the_store_is_noticed(place):
    made = Damaged(make(place))
    pack = made.pack(0)
    data = bytearray(pack.read_bytes())
    found = 0
    for at in range(12, len(data) - 20, 7):
        pack.chmod(0o600)
        pack.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        again = made.tree.store()
        try:
            listed = list(again.listing(made.first.project))
        except StoreError:
            found += 1
        else:
            pack.write_bytes(data)
            assert listed == list(made.tree.store().listing(made.first.project))
    assert found > 10


def test_a_store_that_others_can_use_is_refused(place):
    tree = make(place)
    store = tree.store()
    os.chmod(store.files.path, 0o755)
    with pytest.raises(StoreError, match="can be accessed by other users"):
        tree.store()


def test_a_store_inside_the_project_is_refused(place):
    tree = make(place)
    with pytest.raises(StoreError, match="would be inside the project"):
        TreeStore.open(str(tree.root), str(tree.root / "state"), tree.found_git())


def test_outside_of_git_there_are_no_rules(place):
    tree = make(place)
    shutil.rmtree(tree.top / ".git")
    with pytest.raises(StoreError, match="is not in a git repository"):
        tree.rules(tree.store())


def test_git_is_not_taken_from_inside_the_project(place):
    tree = make(place)
    tree.write("bin/git", "#!/bin/sh\nexit 0\n", 0o755)
    tree.environ["PATH"] = f"{tree.root}/bin:{tree.environ['PATH']}"
    assert not tree.found_git().program.startswith(str(tree.root))
    tree.environ["PATH"] = f"{tree.root}/bin"
    with pytest.raises(StoreError, match="git is not installed"):
        tree.found_git()


def test_a_git_that_is_too_old_is_refused(place):
    tree = make(place / "one")
    old = place / "old"
    old.mkdir()
    (old / "git").write_text("#!/bin/sh\necho git version 2.20.1\n")
    (old / "git").chmod(0o755)
    tree.environ["PATH"] = f"{old}:{tree.environ['PATH']}"
    with pytest.raises(StoreError, match=r"git 2\.20 is too old"):
        tree.found_git()


# ── stops and others at work ───────────────────────────────────────────────────────────────────


def test_a_stop_or_a_deadline_ends_the_work_and_it_can_be_done_again(place):
    tree = make(place)
    store = tree.store()
    rules = tree.rules(store)
    flag = StopFlag()
    flag.ask(signal.SIGTERM)
    plain = store.git
    store.git = plain.bounded(None, flag)
    with pytest.raises(Interrupted) as caught:
        store.snapshot(rules)
    assert caught.value.by == "stop"
    store.git = plain.bounded(0.0)
    with pytest.raises(Interrupted) as caught:
        store.snapshot(rules)
    assert caught.value.by == "deadline"
    flag.close()
    store.git = plain
    assert store.snapshot(rules) == tree.store().snapshot(rules)


@contextmanager
def children(works: list[Work]) -> Iterator[list[int]]:
    pids = []
    for work in works:
        pid = os.fork()
        if not pid:
            try:
                work()
                os._exit(0)
            except BaseException as error:
                print(f"{error!r}", file=sys.__stderr__)
                os._exit(1)
        pids.append(pid)
    yield pids
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * len(pids)


def test_runs_beside_each_other_share_a_store(place):
    """Two runs take snapshots and restore, while a third process packs and a fourth prunes."""
    tree = make(place)
    tree.store()

    def runs(name: str) -> None:
        store = tree.store()
        rules = store.rules(name, [name], ["tests/"])
        seen = []
        for number in range(12):
            tree.write(f"{name}/x.txt", f"{name} {number}")
            snapshot = store.snapshot(rules)
            seen.append(snapshot)
        for number, snapshot in enumerate(seen):
            stored = store.read(snapshot.tree, f"{name}/x.txt")
            assert stored is not None
            assert stored.data == f"{name} {number}".encode()

    def packs() -> None:
        for _ in range(4):
            tree.store().pack()
            tree.store().prune(0, lambda: ["one", "two"])

    with children([lambda: runs("one"), lambda: runs("two"), packs]):
        pass
    assert tree.store().prune(0, lambda: ["one", "two"]) == ()
