"""Make sure that what a run was started with has not changed when it continues.

It is stored in the run's directory, inside the project, where an agent could rewrite it. So its
hashes are stored beside the tree store, outside the project.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from hashlib import sha256

from little_loops.errors import StoreError
from little_loops.system.plain_files import read_plain
from little_loops.trees.files import replace


class PinnedStart:
    """The files of a run that must not change, and where their hashes are stored."""

    def __init__(self, run_dir: str, names: Iterable[str], pins: str) -> None:
        self._paths = {name: os.path.join(run_dir, name) for name in names}
        self._pins = pins

    def pin(self, **written: bytes) -> None:
        """Store the hashes; `written` is what the file of that name, without its suffix, will
        contain.

        The other files must exist: raises `StoreError` if one cannot be read.
        """
        os.makedirs(os.path.dirname(self._pins), mode=0o700, exist_ok=True)
        digests = [
            sha256(written[stem]).hexdigest()
            if (stem := name.partition(".")[0]) in written
            else _digest(path)
            for name, path in self._paths.items()
        ]
        replace(self._pins, "\n".join(digests).encode(), sync=True)

    def check(self) -> None:
        """Raise `StoreError` if one of the files has changed, or if it or the hashes cannot be
        read."""
        pinned = read_file(self._pins).decode("ascii", "replace").split("\n")
        for (name, path), digest in zip(self._paths.items(), pinned, strict=False):
            if _digest(path) != digest:
                raise StoreError(
                    f"this run's `{name}` has changed since the run started",
                    "`resume --definition current` continues with the current loop file;"
                    " `run --fresh` starts again",
                )


def read_file(path: str) -> bytes:
    """Return the content of a regular file. Raises `StoreError`."""
    try:
        return read_plain(path)
    except OSError as error:
        raise StoreError(f"cannot read `{path}`: {error.strerror}") from error


def _digest(path: str) -> str:
    return sha256(read_file(path)).hexdigest()
