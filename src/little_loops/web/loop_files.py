"""The loop files of a project, read once for each version of them."""

from __future__ import annotations

import os
from collections.abc import Mapping

from little_loops.definitions.loop_entries import LoopEntry, entry_of, resolve_duplicates
from little_loops.runs.project import loop_files


class LoopCache:
    """The loops of a project; a changed file makes all of them be read again, because a loop may use
    another one."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._known: tuple[object, list[LoopEntry]] = (None, [])
        self._names: dict[str, LoopEntry] = {}

    def entries(self) -> list[LoopEntry]:
        """Return an entry for each loop file, with its problem if it has one."""
        paths = loop_files(self._root)
        stamps = tuple((path, _stamp(path)) for path in paths)
        if self._known[0] != stamps:
            self._known = (stamps, resolve_duplicates([entry_of(path) for path in paths]))
            self._names = {entry.name: entry for entry in self._known[1]}
        return self._known[1]

    def by_name(self) -> Mapping[str, LoopEntry]:
        """Return the entries by the names of their loops."""
        self.entries()
        return self._names


def _stamp(path: str) -> tuple[int, int, int]:
    try:
        info = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return (info.st_ino, info.st_size, info.st_mtime_ns)
