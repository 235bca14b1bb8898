"""Lock files: hold one, check whether somebody holds it, and make decisions exclusively.

`.running/.lock` is the guard. It is held only for moments, by whoever decides which runs may start;
reading takes it shared, so that readers never make a start fail.

Not here: what is decided (`claims`, `history`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock

from little_loops.errors import StorageError
from little_loops.system.files import Folder, failure, read_all

GUARD = ".lock"
WAIT_S = 10.0
LARGEST = 1 << 20


@contextmanager
def guarded(folder: Folder, wait_s: float = WAIT_S) -> Iterator[None]:
    """Hold the guard exclusively, and create it if needed. Raises `StorageError` after `wait_s`, or
    if the folder was removed."""
    try:
        descriptor = _take_guard(folder, os.O_RDWR | os.O_CREAT, LOCK_EX, wait_s)
    except FileNotFoundError as error:
        raise StorageError(f"`{folder.path}` was removed") from error
    try:
        yield
    finally:
        os.close(descriptor)


@contextmanager
def guarded_shared(folder: Folder, wait_s: float = WAIT_S) -> Iterator[None]:
    """Hold the guard shared, for reading; without a guard, hold nothing, and do not create one.

    Raises `StorageError` after `wait_s`.
    """
    try:
        descriptor = _take_guard(folder, os.O_RDONLY, LOCK_SH, wait_s)
    except FileNotFoundError:
        yield
        return
    try:
        yield
    finally:
        os.close(descriptor)


def _take_guard(folder: Folder, flags: int, kind: int, wait_s: float) -> int:
    """Open and lock the guard, retrying until `wait_s` have passed. Return its descriptor.

    Raises `StorageError` after that, and `FileNotFoundError` if there is none and `flags` do not
    create it.
    """
    until = time.monotonic() + wait_s
    pause_s = 0.001
    while True:
        descriptor = folder.open(GUARD, flags)
        if _try_lock(descriptor, kind) and has_name(folder, GUARD, descriptor):
            return descriptor
        os.close(descriptor)
        if time.monotonic() > until:
            raise StorageError(
                f"`{folder.place(GUARD)}` has been held for {wait_s:g} s",
                "a process that starts or stops a run seems to hang; to find it, run `fuser` on that file",
            )
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, 0.02)


def lock_within(descriptor: int, place: str, wait_s: float = WAIT_S) -> None:
    """Lock an open file, which others hold only for moments. Raises `StorageError` after
    `wait_s`."""
    until = time.monotonic() + wait_s
    pause_s = 0.001
    while not _try_lock(descriptor, LOCK_EX):
        if time.monotonic() > until:
            raise StorageError(f"`{place}` has been locked for {wait_s:g} s")
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, 0.02)


def hold(descriptor: int) -> bool:
    """Lock an open file until it is closed; return False if somebody else holds it."""
    return _try_lock(descriptor, LOCK_EX)


def held(folder: Folder, name: str) -> bytes | None:
    """Return the content of a file that somebody holds; None if nobody does, or it does not exist.

    Empty if we may not read it: another user may hold it. Call it only under the guard.
    """
    try:
        descriptor = folder.open(name, os.O_RDONLY)
    except FileNotFoundError:
        return None
    except StorageError as error:
        # A file that we cannot read may be held by another user. A link is never held: we create none.
        return b"" if isinstance(error.__cause__, PermissionError) else None
    try:
        if _try_lock(descriptor, LOCK_SH):
            return None
        return read_all(descriptor, LARGEST, folder.place(name))
    except OSError as error:
        raise failure(error, "read", folder.place(name)) from error
    finally:
        os.close(descriptor)


def has_name(folder: Folder, name: str, descriptor: int) -> bool:
    """Return whether the open file is still the one with that name."""
    stamp = folder.stamp(name)
    return stamp is not None and stamp.inode == os.fstat(descriptor).st_ino


def _try_lock(descriptor: int, kind: int) -> bool:
    """Try to lock a file; return False if it is locked. Raise `StorageError` if locks do not work."""
    try:
        flock(descriptor, kind | LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise StorageError(
            f"this file system cannot lock files: {(error.strerror or str(error)).lower()}",
            "move the project to a local disk; ll-loop does not run without locks",
        ) from error
    return True
