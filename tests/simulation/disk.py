"""A disk that can lose power: which of what was written would still be there afterwards.

The engine runs as it is, its files in a directory of their own.  Whatever it does to them is
announced (by the interpreter: open, rename, remove, mkdir, link, truncate, lock; by `world.files`:
write, sync), so the disk can count, refuse, and remember what has been made safe:

- of a file, what was in it when it was last synced; of what was written since, any beginning may
  be there, with zeros behind it or not;
- of a directory, the names it had when it was last synced; of what was done to it since (a file
  made, renamed, removed), any beginning may have been kept, whatever other directories kept.  A
  rename from one directory to another is kept in both or in neither.

A name that was kept for a file that was never synced gives an empty file, or a piece of it.
"""

from __future__ import annotations

import os
import random
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from little_loops.system.files import SYNC, WRITE
from tests.engine.faults import FILE_WORK

COUNTED = FILE_WORK | {SYNC, WRITE}


class PowerCut(BaseException):
    """The process is gone, and so is what was in memory."""


class Killed(BaseException):
    """The process is gone; the system lives on and keeps what was written."""


class Node:
    """A file, a directory or a link: what is in it, and what of that is safe."""

    def __init__(self, kind: str, target: str = "") -> None:
        self.kind = kind  # "file", "dir" or "link"
        self.target = target
        self.synced: bytes | None = None
        self.written = b""
        self.stamp: tuple[int, int] | None = None
        self.entries: dict[str, Node] = {}  # of a directory: the names that are safe
        self.pending: list[Change] = []  # what was done to it since
        self.seen: dict[str, Node] = {}  # the names it has now


class Change:
    """Something done to names, in one directory or (a rename) in two; kept as a whole."""

    def __init__(self) -> None:
        self.is_kept = False
        self.names: list[tuple[Node, str, Node | None]] = []

    def note(self, directory: Node, name: str, node: Node | None) -> None:
        self.names.append((directory, name, node))
        if self not in directory.pending:
            directory.pending.append(self)


Fault = Callable[[str, tuple[Any, ...]], None]
"""Called before each operation with its name and arguments; raises what is to happen instead."""


class Disk:
    """The files below a directory, and what of them is safe."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.top = Node("dir")
        self.by_inode: dict[int, Node] = {os.stat(root).st_ino: self.top}
        self.fault: Fault = lambda what, arguments: None
        self.operations = 0
        self.death: type[BaseException] | None = None
        self._notice()
        self._settle(self.top)

    def kill(self, how: type[BaseException]) -> NoReturn:
        """The process is gone: nothing it does from now on happens."""
        self.death = how
        raise how

    # What the engine does

    def hear(self, what: str, arguments: tuple[Any, ...]) -> None:
        if what not in COUNTED or (what == "open" and not self._is_ours(arguments[0])):
            return
        if self.death is not None:  # what a dead process would have tidied up stays as it is
            raise self.death
        self.operations += 1
        self.fault(what, arguments)
        if what in CHANGES_WHAT_IS_SAFE:
            self._notice()
            CHANGES_WHAT_IS_SAFE[what](self, *arguments)

    def _is_ours(self, path: object) -> bool:
        # Names are looked up in a directory held open; what is imported has a whole path.
        return isinstance(path, str) and (not path.startswith("/") or path.startswith(self.root))

    def _sync(self, descriptor: int) -> None:
        node = self.by_inode.get(os.fstat(descriptor).st_ino)
        if node is None:
            return
        if node.kind == "dir":
            for change in tuple(node.pending):
                keep(change)
        else:
            node.synced = node.written

    def _rename(self, old: str, new: str, source: int, target: int) -> None:
        from_dir, to_dir = self._directory(source), self._directory(target)
        if from_dir is None or to_dir is None or old not in from_dir.seen:
            return
        change = Change()
        node = from_dir.seen.pop(old)
        change.note(from_dir, old, None)
        change.note(to_dir, new, node)
        self._forget(to_dir.seen.get(new))
        to_dir.seen[new] = node

    def _remove(self, name: str, directory: int) -> None:
        parent = self._directory(directory)
        if parent is not None and name in parent.seen:
            self._forget(parent.seen.pop(name))
            Change().note(parent, name, None)

    def _directory(self, descriptor: int) -> Node | None:
        return None if descriptor == -1 else self.by_inode.get(os.fstat(descriptor).st_ino)

    def _forget(self, node: Node | None) -> None:
        """Its number may be given to another file; a loss of power may bring it back."""
        for number in [number for number, each in self.by_inode.items() if each is node]:
            del self.by_inode[number]

    def _notice(self) -> None:
        """See what was made and written since the last operation."""
        places = [(self.root, self.top)]
        for path, directory in places:
            with os.scandir(path) as found:
                for entry in sorted(found, key=lambda each: each.name):
                    node = self._node_of(entry)
                    if directory.seen.get(entry.name) is not node:
                        directory.seen[entry.name] = node
                        Change().note(directory, entry.name, node)
                    if node.kind == "dir":
                        places.append((entry.path, node))
                    elif node.kind == "file":
                        _look_into(node, entry)

    def _node_of(self, entry: os.DirEntry[str]) -> Node:
        node = self.by_inode.get(entry.inode())
        if node is None:
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                node = Node("link", os.readlink(entry.path))
            else:
                node = Node("dir" if stat.S_ISDIR(mode) else "file")
            self.by_inode[entry.inode()] = node
        return node

    def _settle(self, node: Node) -> None:
        """All that is there is safe."""
        node.synced = node.written
        for change in tuple(node.pending):
            keep(change)
        for child in node.seen.values():
            self._settle(child)

    # What is left of it

    def safe_files(self) -> Iterator[tuple[str, bytes]]:
        """The files that would be there after any loss of power, with what is safe of each."""
        places = [self.top]
        for directory in places:
            for name, node in directory.entries.items():
                if node.kind == "dir":
                    places.append(node)
                elif node.kind == "file":
                    yield name, node.synced or b""

    def after_power_cut(self, dice: random.Random, place: str) -> Disk:
        """What the machine finds when it comes up again, laid out at a place of its own."""
        self._notice()
        choose(self.top, dice)
        os.mkdir(place)
        lay_out(self.top, place, dice)
        return Disk(place)


def choose(directory: Node, dice: random.Random) -> None:
    """Decide how much of what was done to names, and not synced, was kept after all."""
    done = len(directory.pending)
    for change in directory.pending[: dice.choice([0, done, dice.randint(0, done)])]:
        keep(change)
    for child in directory.entries.values():
        if child.kind == "dir":
            choose(child, dice)


def keep(change: Change) -> None:
    """Make it safe, and with it what was done before in the same places."""
    if change.is_kept:
        return
    change.is_kept = True
    for directory in {directory for directory, _, _ in change.names}:
        for earlier in tuple(directory.pending[: directory.pending.index(change)]):
            keep(earlier)
        directory.pending.remove(change)
    for directory, name, node in change.names:
        if node is None:
            directory.entries.pop(name, None)
        else:
            directory.entries[name] = node


def lay_out(directory: Node, place: str, dice: random.Random) -> None:
    """Write what is left of a directory to a place of its own."""
    for name, node in sorted(directory.entries.items()):
        path = os.path.join(place, name)
        if node.kind == "dir":
            os.mkdir(path, 0o700)
            lay_out(node, path, dice)
        elif node.kind == "link":
            os.symlink(node.target, path)
        else:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
                file.write(survivor(node.synced, node.written, dice))


def survivor(synced: bytes | None, written: bytes, dice: random.Random) -> bytes:
    """What a file holds after a loss of power."""
    safe = synced or b""
    if not written.startswith(safe):  # written over: as it was, as it is, or cut off in between
        return dice.choice([safe, written, b""] if synced is None else [safe, written])
    length = dice.choice([len(safe), len(written), dice.randint(len(safe), len(written))])
    zeros = b"\0" * (len(written) - length) if dice.random() < 0.2 else b""
    return written[:length] + zeros


def _look_into(node: Node, entry: os.DirEntry[str]) -> None:
    info = entry.stat(follow_symlinks=False)
    if node.stamp != (info.st_size, info.st_mtime_ns):
        node.stamp = info.st_size, info.st_mtime_ns
        with open(entry.path, "rb") as file:
            node.written = file.read()


CHANGES_WHAT_IS_SAFE: dict[str, Callable[..., None]] = {
    SYNC: Disk._sync,
    "os.rename": Disk._rename,
    "os.remove": Disk._remove,
}


# ── listening ──────────────────────────────────────────────────────────────────────────────────

_listening: list[Disk] = []
_is_installed = False


def _hear(what: str, arguments: tuple[Any, ...]) -> None:
    if _listening:
        disk = _listening.pop()  # what the disk itself does is not heard
        try:
            disk.hear(what, arguments)
        finally:
            _listening.append(disk)


@contextmanager
def heard(disk: Disk) -> Iterator[None]:
    """Everything this process does to files is done to that disk."""
    global _is_installed  # noqa: PLW0603 - a hook cannot be taken away again
    if not _is_installed:
        sys.addaudithook(_hear)
        _is_installed = True
    _listening.append(disk)
    try:
        yield
    finally:
        _listening.pop()
