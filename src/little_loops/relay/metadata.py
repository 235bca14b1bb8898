"""The return-metadata file: out of the way before a turn, read with care after it.

The file is written by somebody else's program, in a directory others can write to.  It counts only
if it is a plain file of bounded size that was written since the turn began; everything else is an
error of that turn.

Not here: what may stand in it (`contract`), what it leads to (`rules`).
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
from little_loops.relay.rules import STATUSES, Metadata, Unusable

LARGEST = 1 << 20
CONSOLE_TAIL = 1 << 16
MOST_CANDIDATES = 50
OBJECT = re.compile(r"^[ \t]*\{", re.MULTILINE)
SAFE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def read_metadata(path: str, started_ns: int) -> Metadata | Unusable:
    """What the turn that began at `started_ns` (by the file system's clock) left at `path`."""
    try:
        descriptor = os.open(path, SAFE)
    except FileNotFoundError:
        return Unusable("the agent wrote no metadata file")
    except OSError as problem:
        return Unusable(f"the metadata file cannot be read: {_open_failure(problem)}")
    try:
        return _read(descriptor, started_ns)
    except OSError as problem:
        return Unusable(f"the metadata file cannot be read: {_words(problem)}")
    finally:
        os.close(descriptor)


def _open_failure(problem: OSError) -> str:
    # FreeBSD and its kin have another number for a link that is not followed.
    if problem.errno in (errno.ELOOP, errno.EMLINK):
        return "it is a symbolic link, and links are not followed"
    return _words(problem)


def _words(problem: OSError) -> str:
    return (problem.strerror or str(problem)).lower()


def _read(descriptor: int, started_ns: int) -> Metadata | Unusable:
    info = os.fstat(descriptor)
    if not stat.S_ISREG(info.st_mode):
        return Unusable("the metadata file cannot be read: it is not a regular file")
    if info.st_mtime_ns < started_ns:
        return Unusable("the metadata file is older than the turn")
    with open(descriptor, "rb", closefd=False) as stream:
        content = stream.read(LARGEST + 1)  # it may grow while it is read
    if len(content) > LARGEST:
        return Unusable(f"the metadata file is larger than {LARGEST >> 10} KiB")
    try:
        return read_text(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return Unusable("the metadata file is not UTF-8")


def move_away(path: str, target: str, home: str = "") -> bool:
    """Make room for a turn's metadata, `path` of `home`; what was there is kept at `target`."""
    full = os.path.join(home, path)
    try:
        mode = os.lstat(full).st_mode
    except FileNotFoundError:
        return False
    except OSError as problem:
        raise StorageError(f"cannot read `{path}`: {_words(problem)}") from problem
    if stat.S_ISDIR(mode):
        raise UsageError(f"`{path}` is a directory", "`metadata` names a file")
    try:
        os.rename(full, target)
    except OSError as problem:
        if problem.errno != errno.EXDEV:
            raise StorageError(f"cannot move `{path}` away: {_words(problem)}") from problem
        _move_far(full, target, is_file=stat.S_ISREG(mode))
    return True


def _move_far(path: str, target: str, *, is_file: bool) -> None:
    """To another file system: a copy.  Of a link or a pipe there is nothing to keep."""
    import shutil  # the run's directory is nearly always on the same disk

    try:
        if is_file:
            with suppress(FileNotFoundError):
                os.unlink(target)
            shutil.copyfile(path, target, follow_symlinks=False)
        os.unlink(path)
    except OSError as problem:
        raise StorageError(f"cannot move `{path}` away: {_words(problem)}") from problem


def printed_instead(path: str) -> bool:
    """Whether an agent printed its metadata, as far as its output at `path` shows."""
    try:
        with open(os.open(path, SAFE), "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            stream.seek(max(0, size - CONSOLE_TAIL))
            text = stream.read(CONSOLE_TAIL).decode("utf-8", "replace")
    except OSError:
        return False
    return any(_is_metadata(candidate) for candidate in _objects(text))


def _objects(text: str) -> list[object]:
    """The JSON objects that begin a line, the last ones first."""
    decoder = json.JSONDecoder()
    starts = [match.end() - 1 for match in OBJECT.finditer(text)]
    found: list[object] = []
    for start in reversed(starts[-MOST_CANDIDATES:]):
        with suppress(ValueError, RecursionError):
            found.append(decoder.raw_decode(text, start)[0])
    return found


def _is_metadata(candidate: object) -> bool:
    return isinstance(candidate, dict) and candidate.get("status") in STATUSES


def instead_of(path: str) -> str:
    return f"the agent printed its metadata instead of writing it to `{one_line(path)}`"
