"""Open files without blocking.

Opening a named pipe blocks until its other end is opened, and the kernel restarts that wait after a
signal, so a run would ignore its deadline and Ctrl-C. A project, an agent or a user can put a pipe
anywhere. So every file is opened here, or in `files`, without blocking, and anything but a regular
file is refused.

Not here: files that only this program writes (`files`), and how long a program may run (`process`).
"""

from __future__ import annotations

import errno
import os
import stat

from little_loops.light_typing import BinaryIO

NOT_A_FILE = "not a regular file"
NONBLOCKING = os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
"""Do not block on a pipe or acquire a controlling terminal."""


def open_plain(
    path: str, flags: int = os.O_RDONLY, mode: int = 0o666, folder: int | None = None
) -> int:
    """Open a regular file, in the open directory `folder` if one is given, and return its
    descriptor; raise `OSError` for anything else."""
    descriptor = open_nonblocking(path, flags, mode, folder)
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, NOT_A_FILE, path)


def open_nonblocking(path: str, flags: int, mode: int = 0o666, folder: int | None = None) -> int:
    """Open any file without waiting for the other end of a pipe, and return its descriptor.

    Raises `OSError`, also for a socket, or for writing to a pipe that has no reader.
    """
    try:
        return os.open(path, flags | NONBLOCKING, mode, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a pipe without a reader, or a socket
            raise OSError(errno.EINVAL, NOT_A_FILE, path) from None
        raise


def reading(path: str) -> BinaryIO:
    """Open a regular file for reading."""
    return open(open_plain(path), "rb")


def read_plain(path: str, limit: int = -1) -> bytes:
    """Return the content of a regular file, or its first `limit` bytes."""
    with reading(path) as stream:
        return stream.read(limit)


def writing(path: str) -> BinaryIO:
    """Open a file that the user named for output, created or truncated; also a pipe that has a
    reader, or a device. Raises `OSError`."""
    descriptor = open_nonblocking(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.set_blocking(descriptor, True)  # writing to a pipe waits for its reader
    return open(descriptor, "wb")
