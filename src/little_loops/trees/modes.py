"""Save the permission bits of a snapshot's files: git keeps only one, restoring a file needs all."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress

from little_loops.records import NamedTuple
from little_loops.system.files import to_json
from little_loops.trees import files as store_files
from little_loops.trees.walk import Entry

USUAL_MODES = (0o100644, 0o100755)
START = "start-"
"""The prefix before a run's id: the modes when the run started. A snapshot's modes are found by its
content, which does not include them, so a later snapshot replaces them."""


class Modes(NamedTuple):
    """The usual modes of plain and of executable files, and the files that have another mode."""

    usual: tuple[int, ...] = USUAL_MODES
    odd: Mapping[str, int] = {}

    def of(self, path: str, is_program: bool) -> int:
        """Return the mode of a file."""
        return self.odd.get(path, self.usual[is_program])

    def after_checkout(self, path: str, is_program: bool) -> int:
        """Return the mode of a file if git writes its later content: git keeps no other bits than
        the executable one, and touches only files that differ."""
        mode = self.of(path, is_program)
        return mode if bool(mode & stat.S_IXUSR) is is_program else self.usual[is_program]


def save_modes(path: str, found: Iterable[tuple[str, Entry]], *, always: bool = False) -> None:
    """Write the modes of regular files to the file at `path`; remove it if all of them are the
    defaults, unless it is `always` written."""
    modes = {name: entry[4] for name, entry in found if stat.S_ISREG(entry[4])}
    counts = Counter(modes.values())
    usual = tuple(_most_common(counts, is_program) for is_program in (False, True))
    odd = {name: mode for name, mode in modes.items() if mode != usual[bool(mode & stat.S_IXUSR)]}
    if always or odd or usual != USUAL_MODES:
        store_files.replace(path, to_json({"usual": usual, "odd": odd}))
    else:
        with suppress(FileNotFoundError):
            os.unlink(path)


def _most_common(counts: Counter[int], is_program: bool) -> int:
    """Return the most frequent mode among the executable, or the non-executable, files."""
    fitting = {
        mode: count for mode, count in counts.items() if bool(mode & stat.S_IXUSR) is is_program
    }
    return max(fitting, key=lambda mode: fitting[mode], default=USUAL_MODES[is_program])


def load_modes(path: str) -> Modes:
    """Read the modes of a snapshot; the defaults if there is no file, or it is damaged."""
    kept = store_files.read_json(path)
    try:
        return Modes(tuple(kept["usual"]), dict(kept["odd"]))
    except (TypeError, KeyError):
        return Modes()
