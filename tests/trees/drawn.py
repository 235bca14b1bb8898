"""Arbitrary trees of files, links and directories, and how they are put on a disk."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NamedTuple

from hypothesis import strategies as st

NAMES = ["a", "b", "-f", "A", "new\nline", "\udcff", "é", " ", "x.pyd", "c*"]
MODES = [0o644, 0o755, 0o600, 0o444, 0o000, 0o4755]
TARGETS = ["a", "../b", ".", "..", "/", "/etc/hostname", "gone", "../../outside", "a/b"]


class File(NamedTuple):
    data: bytes
    mode: int


class Link(NamedTuple):
    text: str


class Dir(NamedTuple):
    entries: dict[str, File | Link | Dir]
    mode: int


Node = File | Link | Dir

LEAVES: st.SearchStrategy[Node] = st.one_of(
    st.builds(File, st.binary(max_size=4), st.sampled_from(MODES)),
    st.builds(Link, st.sampled_from(TARGETS)),
)


def dirs(below: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    entries = st.dictionaries(st.sampled_from(NAMES), below, max_size=3)
    return st.builds(Dir, entries, st.sampled_from([0o755, 0o700, 0o555]))


NODES: st.SearchStrategy[Node] = st.recursive(LEAVES, dirs, max_leaves=8)
DIRS = dirs(NODES)


def plant(path: Path, node: Node | None) -> None:
    """Make a path be this, whatever it was before; nothing if none."""
    clear(path)
    match node:
        case None:
            pass
        case File():
            path.write_bytes(node.data)
            path.chmod(node.mode)
        case Link():
            path.symlink_to(node.text)
        case Dir():
            path.mkdir()
            for name, below in node.entries.items():
                plant(path / name, below)
            path.chmod(node.mode)


def clear(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        for folder, _, _ in os.walk(path):
            os.chmod(folder, 0o700)
        shutil.rmtree(path)


def content(node: Node | None) -> object:
    """What counts for a snapshot: no empty directories, of all permissions only one."""
    match node:
        case None:
            return None
        case File():
            return ("file", node.data, bool(node.mode & 0o100))
        case Link():
            return ("link", node.text)
        case Dir():
            found = {name: content(below) for name, below in node.entries.items()}
            return {name: below for name, below in found.items() if below is not None} or None
