"""The return-metadata file: moved away before a turn, and read without trusting it afterwards.

It is written by a foreign program, in a directory that others can write to. It counts only if it is
a regular file of limited size that was written since the turn started; anything else is an error of
that turn.

Not here: its format (`contract`), what it leads to (`rules`).
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from contextlib import suppress

from little_loops.errors import StorageError, UsageError
from little_loops.relay.contract import one_line, read_text
from little_loops.relay.rules import STATUSES, Metadata, UnusableMetadata

LARGEST = 1 << 20
CONSOLE_TAIL = 1 << 16
MOST_CANDIDATES = 50
OBJECT = re.compile(r"^[ \t]*\{", re.MULTILINE)
SAFE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def read_metadata(path: str, started_ns: int) -> Metadata | UnusableMetadata:
    """Return the metadata at `path` that the turn left, or why it is unusable.

    `started_ns` is when the turn started, by the file system's clock.
    """
    try:
        descriptor = os.open(path, SAFE)
    except FileNotFoundError:
        return UnusableMetadata("the agent wrote no metadata file")
    except OSError as problem:
        return UnusableMetadata(f"the metadata file cannot be read: {_open_failure(problem)}")
    try:
        return _read(descriptor, started_ns)
    except OSError as problem:
        return UnusableMetadata(f"the metadata file cannot be read: {_error_text(problem)}")
    finally:
        os.close(descriptor)


def _open_failure(problem: OSError) -> str:
    """Return why a file could not be opened."""
    # BSD systems have another error number for a link that is not followed.
    if problem.errno in (errno.ELOOP, errno.EMLINK):
        return "it is a symbolic link, and links are not followed"
    return _error_text(problem)


def _error_text(problem: OSError) -> str:
    return (problem.strerror or str(problem)).lower()


def _read(descriptor: int, started_ns: int) -> Metadata | UnusableMetadata:
    """Read and parse an open metadata file."""
    info = os.fstat(descriptor)
    if not stat.S_ISREG(info.st_mode):
        return UnusableMetadata("the metadata file cannot be read: it is not a regular file")
    if info.st_mtime_ns < started_ns:
        return UnusableMetadata("the metadata file is older than the turn")
    with open(descriptor, "rb", closefd=False) as stream:
        content = stream.read(LARGEST + 1)  # it may grow while it is read
    if len(content) > LARGEST:
        return UnusableMetadata(f"the metadata file is larger than {LARGEST >> 10} KiB")
    try:
        return read_text(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return UnusableMetadata("the metadata file is not UTF-8")


def move_away(path: str, target: str, home: str = "") -> bool:
    """Move an old metadata file to `target`, to make room. Return whether there was one.

    `path` is relative to `home`. Raises `UsageError` if it is a directory, `StorageError` if it
    cannot be moved.
    """
    full = os.path.join(home, path)
    try:
        mode = os.lstat(full).st_mode
    except FileNotFoundError:
        return False
    except OSError as problem:
        raise StorageError(f"cannot read `{path}`: {_error_text(problem)}") from problem
    if stat.S_ISDIR(mode):
        raise UsageError(f"`{path}` is a directory", "`metadata` names a file")
    try:
        os.rename(full, target)
    except OSError as problem:
        if problem.errno != errno.EXDEV:
            raise StorageError(f"cannot move `{path}` away: {_error_text(problem)}") from problem
        _copy_and_remove(full, target, is_file=stat.S_ISREG(mode))
    return True


def _copy_and_remove(path: str, target: str, *, is_file: bool) -> None:
    """Move to another file system by copying, replacing `target`; a link or a pipe is only removed.

    Raises `StorageError` if that fails.
    """
    import shutil  # the run's directory is nearly always on the same disk

    try:
        if is_file:
            with suppress(FileNotFoundError):
                os.unlink(target)
            shutil.copyfile(path, target, follow_symlinks=False)
        os.unlink(path)
    except OSError as problem:
        raise StorageError(f"cannot move `{path}` away: {_error_text(problem)}") from problem


def was_printed(path: str) -> bool:
    """Return whether the end of the agent's output, in the file at `path`, contains metadata.

    False if the file cannot be read.
    """
    try:
        with open(os.open(path, SAFE), "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            stream.seek(max(0, size - CONSOLE_TAIL))
            text = stream.read(CONSOLE_TAIL).decode("utf-8", "replace")
    except OSError:
        return False
    return any(_is_metadata(candidate) for candidate in _objects(text))


def _objects(text: str) -> list[object]:
    """Return the JSON objects that start at the beginning of a line, the last ones first."""
    decoder = json.JSONDecoder()
    starts = [match.end() - 1 for match in OBJECT.finditer(text)]
    found: list[object] = []
    for start in reversed(starts[-MOST_CANDIDATES:]):
        with suppress(ValueError, RecursionError):
            found.append(decoder.raw_decode(text, start)[0])
    return found


def _is_metadata(candidate: object) -> bool:
    return isinstance(candidate, dict) and candidate.get("status") in STATUSES


def printed_instead_of(path: str) -> str:
    return f"the agent printed its metadata instead of writing it to `{one_line(path)}`"
