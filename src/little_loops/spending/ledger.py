"""The files of the ledger: one per month, outside of any project, only ever appended to.

A turn and its reservation are in the file of the month in which the turn started, so the files from
some day on have everything about the turns since then.

Not here: what the lines mean (`fsm.ledger`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from little_loops.errors import StorageError
from little_loops.fsm.ledger import Line, read_lines, to_record
from little_loops.fsm.timestamps import timestamp
from little_loops.system.files import PRIVATE_FOLDER, Folder, failure, sync_data, to_json, write_all
from little_loops.system.lock_files import guarded
from little_loops.system.user_state import state_home

FOLDER = "ledger"
SUFFIX = ".jsonl"
MAX_MONTH_BYTES = 1 << 30
GUARD_S = 60.0
"""Each line is synced, and on a busy machine many runs may be waiting for that."""


def folder_of(environ: Mapping[str, str]) -> str:
    return os.path.join(state_home(environ), FOLDER)


def read(environ: Mapping[str, str], since_ms: int) -> list[Line]:
    """Return the lines that are not older than `since_ms`; nothing if there is no ledger. Takes no
    lock."""
    folder = Folder.at(folder_of(environ))
    if folder is None:
        return []
    with folder:
        return list(lines_since(folder, since_ms))


def lines_since(folder: Folder, since_ms: int) -> Iterator[Line]:
    """Yield the lines that are not older than `since_ms`; those that cannot be read are skipped."""
    first = _name(since_ms)
    for name in sorted(folder.names()):
        if name.endswith(SUFFIX) and name >= first:
            for line in read_lines(folder.read(name, MAX_MONTH_BYTES) or b""):
                if line.at_ms >= since_ms:
                    yield line


@contextmanager
def writing(environ: Mapping[str, str]) -> Iterator[Folder]:
    """Lock the ledger, to read and append in one step. Its directory is created if necessary.

    Raises `StorageError` if that fails, or another process holds the lock too long.
    """
    path = folder_of(environ)
    try:
        os.makedirs(path, mode=PRIVATE_FOLDER, exist_ok=True)
    except OSError as error:
        raise failure(error, "make", path) from error
    folder = Folder.at(path)
    if folder is None:
        raise StorageError(f"`{path}` was removed while it was being created")
    with folder, guarded(folder, GUARD_S):
        yield folder


def append(environ: Mapping[str, str], *lines: Line) -> None:
    with writing(environ) as folder:
        append_to(folder, lines)


def append_to(folder: Folder, lines: Iterable[Line]) -> None:
    """Append each line to the file of its month and sync it. The caller holds the lock
    (`writing`)."""
    for line in lines:
        _append(folder, _name(line.at_ms), to_json(to_record(line)) + b"\n")


def _append(folder: Folder, name: str, text: bytes) -> None:
    """Append text to a file and sync it, creating the file if necessary. Raises `StorageError`."""
    descriptor = folder.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    try:
        # A power cut may have left half a line, which must not take the next one with it.
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            text = b"\n" + text
        write_all(descriptor, text)
        sync_data(descriptor)
    except OSError as error:
        raise failure(error, "write", folder.place(name)) from error
    finally:
        os.close(descriptor)


def _name(at_ms: int) -> str:
    """Return the file of a time: `2026-11.jsonl`."""
    return timestamp(at_ms)[:7] + SUFFIX
