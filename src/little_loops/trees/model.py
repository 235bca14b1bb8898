"""The data types of the tree store.

Paths are relative to the project, with `/`. Bytes that are not UTF-8 become surrogates, as in
`os.fsdecode`, so every path can be written as JSON.
"""

from __future__ import annotations

from little_loops.fsm.happenings import PathChange as PathChange
from little_loops.fsm.state import Changed as Changed
from little_loops.light_typing import Literal
from little_loops.records import NamedTuple

Kind = Literal["file", "link", "dir", "other"]


class Snapshot(NamedTuple):
    """The tree at one moment, as object ids.

    `tree` is the part within the scope, `project` everything, `guard` the protected paths.
    `unstored` are files too large to store, which cannot be restored; `left_out` are sentences
    about paths that are not part of the snapshot.
    """

    tree: str
    project: str
    guard: str
    unstored: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


class GuardOnly(NamedTuple):
    """A snapshot that was stopped after the protected paths were read."""

    guard: str


class Restoration(NamedTuple):
    """Which paths were restored, which were not (`path: reason`), and a backup of what was
    replaced.

    `kept` is the id of the replaced content: a guard id for `restore`, a project id for `put_back`.
    """

    paths: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    kept: str = ""


class StoredFile(NamedTuple):
    """A stored file, or a link with its target as `data`; `mode` has all permission bits known."""

    path: str
    kind: Literal["file", "link"]
    mode: int
    data: bytes


class ListedPath(NamedTuple):
    """A path of a tree for a receipt; `sha256` is of the content, or of a link's target."""

    path: str
    mode: str
    sha256: str


class NewLink(NamedTuple):
    """A link that was made or changed during a run.

    `text` is what it says; `replaces`: something else was in its place before.
    """

    path: str
    text: str
    replaces: bool

    def leaves(self, prefix: str) -> bool:
        """Return whether it leads out of the repository, in which the project is at `prefix`, even if
        it comes back: a clone may have another name and place."""
        if self.text.startswith("/"):
            return True
        depth = f"{prefix}{self.path}".count("/")
        for part in self.text.split("/"):
            depth += -1 if part == ".." else int(part not in ("", "."))
            if depth < 0:
                return True
        return False


class DiskUse(NamedTuple):
    """The bytes that a project's snapshots and clean copies use on disk."""

    store: int
    copies: int
