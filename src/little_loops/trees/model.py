"""What the tree store takes and gives: data only.

Paths are relative to the project, with `/`; bytes that are not UTF-8 are surrogates, as `os.fsdecode`
makes them, so every path can be written as JSON.
"""

from __future__ import annotations

from typing import Literal

from little_loops.fsm.happenings import PathChange as PathChange
from little_loops.fsm.state import Changed as Changed
from little_loops.records import NamedTuple

Kind = Literal["file", "link", "dir", "other"]


class Snapshot(NamedTuple):
    """The tree at one moment, as ids of its content.

    `tree` is what lies within the scope, `project` everything, `guard` the protected paths.
    `unstored` are files too large to be kept, which cannot be restored; `left_out` says in words
    what is no part of the snapshot.
    """

    tree: str
    project: str
    guard: str
    unstored: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


class GuardOnly(NamedTuple):
    """A snapshot that was cut short after the protected paths."""

    guard: str


class Restoration(NamedTuple):
    """Paths that were put back, why others were not (`path: reason`), and what was there before.

    `kept` is the id of the replaced content: a guard id for `restore`, a project id for `put_back`.
    """

    paths: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    kept: str = ""


class StoredFile(NamedTuple):
    """A file (or the text of a link) as it was; `mode` has all permission bits that are known."""

    path: str
    kind: Literal["file", "link"]
    mode: int
    data: bytes


class Listed(NamedTuple):
    """A path of a tree for a receipt; `sha256` is of the content, or of a link's text."""

    path: str
    mode: str
    sha256: str


class DiskUse(NamedTuple):
    """Bytes on disk, for one project."""

    project: str
    store: int
    copies: int
    runs: tuple[str, ...] = ()
