"""From the system calls of a real command to what a loss of power leaves of its files.

What strace has seen is done again on a model of the disk, up to any call; then the power is cut.
The model and its rules are those of the simulation (`disk`): what was synced is there, of the rest
there may be a beginning.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tests.simulation.disk import Change, Node, choose, keep, lay_out

CALLS = (
    *("openat", "close", "dup", "dup2", "dup3", "fcntl", "write", "pwrite64", "ftruncate"),
    *("fsync", "fdatasync", "rename", "renameat", "renameat2", "mkdir", "mkdirat"),
    *("unlink", "unlinkat", "rmdir", "symlink", "symlinkat", "link", "linkat"),
    *("clone", "clone3"),
)
OPTIONS = ("-e", f"trace={','.join(CALLS)}", "-xx", "-s", str(1 << 22))

_CALL = re.compile(r"(\w+)\((.*)\) += (-?\d+)")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
# Not looked at: their results matter, their names do not.
_HARMLESS = ("close", "dup", "dup2", "dup3", "fcntl")


class Call(NamedTuple):
    name: str
    arguments: list[str]
    texts: list[bytes]
    result: int


def parse(lines: Iterable[str]) -> Iterator[Call]:
    """The calls that did something."""
    for line in lines:
        match = _CALL.match(line)
        if match is None or int(match[3]) < 0:
            continue
        texts = [bytes.fromhex(each.replace("\\x", "")) for each in _TEXT.findall(match[2])]
        arguments = [each.strip() for each in _TEXT.sub('""', match[2]).split(",")]
        yield Call(match[1], arguments, texts, int(match[3]))


class Opened:
    """An open file: where it stands, and whether it is only added to."""

    def __init__(self, node: Node, *, appends: bool) -> None:
        self.node = node
        self.appends = appends
        self.at = 0


class Replay:
    """The files of a project while a command works on them."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.top = Node("dir")
        _read_in(self.top, root)
        self.open: dict[int, Opened] = {}
        self.actions = 0

    def do(self, calls: Iterable[Call]) -> None:
        for call in calls:
            getattr(self, f"_{call.name}")(call)

    # One method a call

    def _openat(self, call: Call) -> None:
        parent, name = self._place(call.arguments[0], call.texts[0])
        if parent is None:
            self.open.pop(call.result, None)  # something outside of the project
            return
        node = parent if name == "" else parent.seen.get(name)
        if node is None:
            assert "O_CREAT" in call.arguments[2], call
            node = Node("file")
            self._put(parent, name, node)
        if "O_TRUNC" in call.arguments[2]:
            node.written = b""
        self.open[call.result] = Opened(node, appends="O_APPEND" in call.arguments[2])

    def _close(self, call: Call) -> None:
        self.open.pop(int(call.arguments[0]), None)

    def _dup(self, call: Call) -> None:
        opened = self.open.get(int(call.arguments[0]))
        self.open.pop(call.result, None)
        if opened is not None:
            self.open[call.result] = opened

    _dup2 = _dup3 = _dup

    def _fcntl(self, call: Call) -> None:
        if call.arguments[1].startswith("F_DUPFD"):
            self._dup(call)

    def _write(self, call: Call) -> None:
        opened = self.open.get(int(call.arguments[0]))
        if opened is not None:
            at = len(opened.node.written) if opened.appends else opened.at
            _put_bytes(opened.node, at, call.texts[0][: call.result])
            opened.at = at + call.result

    def _pwrite64(self, call: Call) -> None:
        opened = self.open.get(int(call.arguments[0]))
        if opened is not None:
            _put_bytes(opened.node, int(call.arguments[3]), call.texts[0][: call.result])

    def _ftruncate(self, call: Call) -> None:
        opened = self.open.get(int(call.arguments[0]))
        if opened is not None:
            opened.node.written = opened.node.written[: int(call.arguments[1])]

    def _fsync(self, call: Call) -> None:
        opened = self.open.get(int(call.arguments[0]))
        if opened is None:
            return
        for change in tuple(opened.node.pending):
            keep(change)
        opened.node.synced = opened.node.written

    _fdatasync = _fsync

    def _renameat(self, call: Call) -> None:
        source, old = self._place(call.arguments[0], call.texts[0])
        target, new = self._place(call.arguments[2], call.texts[1])
        assert source is not None, call
        assert target is not None, call
        change = Change()
        node = source.seen.pop(old)
        change.note(source, old, None)
        change.note(target, new, node)
        target.seen[new] = node

    def _mkdirat(self, call: Call) -> None:
        parent, name = self._place(call.arguments[0], call.texts[0])
        if parent is not None:
            self._put(parent, name, Node("dir"))

    def _symlinkat(self, call: Call) -> None:
        parent, name = self._place(call.arguments[1], call.texts[1])
        assert parent is not None, call
        self._put(parent, name, Node("link", call.texts[0].decode()))

    def _unlinkat(self, call: Call) -> None:
        parent, name = self._place(call.arguments[0], call.texts[0])
        if parent is not None:
            del parent.seen[name]
            Change().note(parent, name, None)

    def _clone(self, call: Call) -> None:
        self.actions += 1

    _clone3 = _clone

    # Where things are

    def _put(self, parent: Node, name: str, node: Node) -> None:
        parent.seen[name] = node
        Change().note(parent, name, node)

    def _place(self, at: str, text: bytes) -> tuple[Node | None, str]:
        """The directory a name is in; none if that is not in the project."""
        path = text.decode()
        if at != "AT_FDCWD":
            opened = self.open.get(int(at))
            return (None, "") if opened is None else (opened.node, path)
        path = os.path.normpath(os.path.join(self.root, path))
        if path != self.root and not path.startswith(self.root + "/"):
            return None, ""
        *above, name = os.path.relpath(path, self.root).split("/")
        node: Node | None = self.top
        for each in above:
            node = None if node is None else node.seen.get(each)
        return node, "" if name == "." else name

    # What is left

    def safe_log(self, name: str) -> bytes:
        """What of the event log would be there after any loss of power."""
        node: Node | None = self.top
        for part in (".loops", ".running", name):
            node = None if node is None else node.entries.get(part)
        return b"" if node is None else node.synced or b""

    def cut(self, dice: random.Random, place: str) -> None:
        choose(self.top, dice)
        os.mkdir(place)
        lay_out(self.top, place, dice)


def _put_bytes(node: Node, at: int, data: bytes) -> None:
    node.written = node.written[:at].ljust(at, b"\0") + data + node.written[at + len(data) :]


def _read_in(directory: Node, path: str) -> None:
    """What was there before is safe."""
    for entry in os.scandir(path):
        if entry.is_symlink():
            node = Node("link", os.readlink(entry.path))
        elif entry.is_dir():
            node = Node("dir")
            _read_in(node, entry.path)
        else:
            node = Node("file")
            with open(entry.path, "rb") as file:
                node.written = node.synced = file.read()
        directory.seen[entry.name] = directory.entries[entry.name] = node


def moments(calls: Sequence[Call]) -> list[int]:
    """Before each call that changes something, and after the last."""
    changing = [at for at, call in enumerate(calls) if call.name not in _HARMLESS]
    return [*changing, len(calls)]
