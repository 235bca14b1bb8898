"""Open files without waiting for anybody.

Whoever opens a named pipe waits until somebody opens its other end, and the kernel restarts that
wait after a signal, so a run would be deaf to its deadline and to Ctrl-C.  A project, an agent or a
user can put a pipe anywhere.  So every file is opened here, or in `files`, without blocking, and
whatever is not a regular file is refused.

Not here: files that only this program writes (`files`), and how long a program may run (`process`).
"""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO

NOT_A_FILE = "not a regular file"
CALM = os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
"""Neither wait for the other end of a pipe nor become the owner of a terminal."""


def open_plain(path: str, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
    """A descriptor of a regular file; `OSError` for anything else."""
    descriptor = open_at_once(path, flags, mode)
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, NOT_A_FILE, path)


def open_at_once(path: str, flags: int, mode: int = 0o666) -> int:
    """Open whatever lies there, without waiting for the other end of a pipe."""
    try:
        return os.open(path, flags | CALM, mode)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a pipe without a reader, or a socket
            raise OSError(errno.EINVAL, NOT_A_FILE, path) from None
        raise


def reading(path: str) -> BinaryIO:
    """A regular file, to be read."""
    return open(open_plain(path), "rb")


def read_plain(path: str, limit: int = -1) -> bytes:
    """What is in a regular file, or its first `limit` bytes."""
    with reading(path) as stream:
        return stream.read(limit)


def writing(path: str) -> BinaryIO:
    """A file that the user named for output, emptied; a pipe or a device, if somebody reads it."""
    descriptor = open_at_once(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.set_blocking(descriptor, True)  # a pipe takes what its reader takes
    return open(descriptor, "wb")
