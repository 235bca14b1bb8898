"""Files that the user named for output."""

from __future__ import annotations

from little_loops.definitions.loading import shown_path
from little_loops.errors import LittleLoopsError
from little_loops.light_typing import BinaryIO
from little_loops.system.plain_files import writing


def open_output(path: str) -> BinaryIO:
    """Open a file for output, truncated; raise `LittleLoopsError` if that is not possible."""
    try:
        return writing(path)
    except OSError as error:
        raise LittleLoopsError(f"cannot write `{shown_path(path)}`: {error.strerror}") from error
