"""Read and write files so that neither a crash nor a planted link does harm.

A `Folder` is an open directory. Names are looked up in it, never along its path, so nobody can
redirect them with a link, and a project that is moved meanwhile takes its files along. Files are
private to the owner, whatever the umask.

Every failure is raised as a `StorageError` that names the file; only a missing file is treated
separately, because often that is a valid answer.

Python raises audit events for opening and renaming, but not for writing and syncing; those are
raised here.

Not here: which files there are and what is in them (`storage`, `journal`, `claims`).
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from contextlib import suppress
from types import TracebackType

from little_loops.errors import StorageError
from little_loops.light_json import make_compact_encoder
from little_loops.light_typing import Any, Self
from little_loops.records import NamedTuple

PRIVATE_FOLDER = 0o700
PRIVATE_FILE = 0o600
# Never block on a planted pipe, nor acquire a controlling terminal.
SAFE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
NEW = SAFE | os.O_WRONLY | os.O_CREAT | os.O_EXCL
CHUNK = 1 << 16
FOLDER = SAFE | os.O_RDONLY | os.O_DIRECTORY

WRITE = "little_loops.write"
SYNC = "little_loops.sync"
_sync_data = getattr(os, "fdatasync", os.fsync)  # macOS only has `fsync`

# Escaped to ASCII, so that no control character or lone surrogate gets into a file. Values are
# trees, so the check for cycles, a sixth of the time, is not needed.
_encode = make_compact_encoder()


class FileStamp(NamedTuple):
    """Identifies a version of a file, to detect that it is no longer the one we wrote."""

    inode: int
    size: int
    mtime_ns: int


def to_json(value: Any) -> bytes:
    """Encode a value as one line of strict ASCII JSON, without a newline; NaN and infinity become
    null."""
    try:
        return _encode(value).encode("ascii")
    except ValueError:
        return _encode(_finite(value)).encode("ascii")


def _finite(value: Any) -> Any:
    """Return the value with NaN and infinity replaced by None."""
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and value - value != 0:
        return None
    return value


def write_all(descriptor: int, data: bytes) -> None:
    """Write all data, usually with a single call. Raises `OSError`; part of it may be written
    then."""
    sys.audit(WRITE, descriptor, data)
    written = os.write(descriptor, data)
    while written < len(data):
        written += os.write(descriptor, data[written:])


def sync_data(descriptor: int) -> None:
    """Flush a file's content to the disk."""
    sys.audit(SYNC, descriptor)
    _sync_data(descriptor)


def sync_all(descriptor: int) -> None:
    """Flush a file's content and metadata to the disk; for a directory, its names."""
    sys.audit(SYNC, descriptor)
    os.fsync(descriptor)


def failure(error: OSError, doing: str, path: str) -> StorageError:
    """Return the error for a failed operation, with a hint if there is one."""
    reason = (error.strerror or str(error)).lower()
    return StorageError(f"cannot {doing} `{path}`: {reason}", _FIXES.get(error.errno or 0))


_FIXES = {
    errno.ENOSPC: "free some space on that disk",
    errno.EDQUOT: "free some of your quota on that disk",
    errno.EROFS: "remount that disk writable, or use another one",
    errno.EACCES: "check its owner and permissions",
    errno.EPERM: "check its owner and permissions",
    errno.EMFILE: "raise the limit on open files (`ulimit -n`)",
}


class Folder:
    """An open directory; `path` is for messages."""

    def __init__(self, descriptor: int, path: str) -> None:
        self.fd = descriptor
        self.path = path

    @classmethod
    def at(cls, path: str) -> Folder | None:
        """Open a directory by its path, following links; return None if it does not exist.

        Raises `StorageError` if it is not a directory or cannot be opened.
        """
        try:
            return cls(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise failure(error, "open", path) from error

    def child(self, name: str) -> Folder | None:
        """Open a subdirectory, for the caller to close; return None if it does not exist.

        Raises `StorageError` if it is a link or not a directory.
        """
        try:
            return Folder(os.open(name, FOLDER, dir_fd=self.fd), self.place(name))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._refusal(error, name, "open") from error

    def make(self, name: str, mode: int = PRIVATE_FOLDER) -> Folder:
        """Open a subdirectory, creating it if necessary; a private one gets its permissions again.

        Raises `StorageError` if it cannot be created, or is to be private and belongs to another
        user.
        """
        self._make(name, mode)
        child = self.child(name)
        if child is None:
            raise StorageError(f"`{self.place(name)}` was removed while it was being created")
        try:
            if child.is_empty():  # created just now, or by a process that crashed before this line
                self.sync()
            if mode == PRIVATE_FOLDER:
                child._keep_private()
        except StorageError:
            child.close()
            raise
        return child

    def _make(self, name: str, mode: int) -> None:
        """Create a subdirectory, unless something of that name exists. Raises `StorageError`."""
        try:
            os.mkdir(name, mode, dir_fd=self.fd)
        except FileExistsError:
            return
        except OSError as error:
            raise failure(error, "make", self.place(name)) from error

    def _keep_private(self) -> None:
        """Make the directory private again. Raises `StorageError` if it belongs to another user,
        unless we are root."""
        info = os.fstat(self.fd)
        if info.st_uid != os.geteuid() != 0:
            raise StorageError(
                f"`{self.path}` belongs to another user", "remove it, or run as that user"
            )
        if stat.S_IMODE(info.st_mode) != PRIVATE_FOLDER:
            try:
                os.fchmod(self.fd, PRIVATE_FOLDER)
            except OSError as error:
                raise failure(error, "protect", self.path) from error

    def is_same(self, other: Folder) -> bool:
        return os.path.samestat(os.fstat(self.fd), os.fstat(other.fd))

    def is_in_place(self) -> bool:
        """Return whether this is still the directory at its path, which may have been moved or
        replaced."""
        try:
            return os.path.samestat(os.fstat(self.fd), os.stat(self.path, follow_symlinks=False))
        except OSError:
            return False

    def place(self, name: str) -> str:
        return f"{self.path}/{name}"

    def names(self) -> list[str]:
        """Return the names in the directory, in no order. Raises `StorageError`."""
        try:
            return os.listdir(self.fd)
        except OSError as error:
            raise failure(error, "list", self.path) from error

    def is_empty(self) -> bool:
        try:
            with os.scandir(self.fd) as entries:
                return next(entries, None) is None
        except OSError as error:
            raise failure(error, "list", self.path) from error

    def open(self, name: str, flags: int) -> int:
        """Open a regular file without following a link, and return its descriptor; a created one is
        private.

        Raises `FileNotFoundError`, or `FileExistsError` with `O_EXCL`; `StorageError` for other
        failures, and for anything but a regular file.
        """
        try:
            descriptor = os.open(name, flags | SAFE, PRIVATE_FILE, dir_fd=self.fd)
        except (FileNotFoundError, FileExistsError):
            raise
        except OSError as error:
            raise self._refusal(error, name, "open") from error
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            os.close(descriptor)
            raise StorageError(f"`{self.place(name)}` is not a file", "remove it")
        if flags & os.O_CREAT and stat.S_IMODE(mode) != PRIVATE_FILE:
            with suppress(OSError):  # it belongs to another user; using it may still work
                os.fchmod(descriptor, PRIVATE_FILE)
        return descriptor

    def read(self, name: str, limit: int) -> bytes | None:
        """Return the content of a file, or None if there is none.

        Raises `StorageError` if it is larger than `limit` bytes or cannot be read.
        """
        try:
            descriptor = self.open(name, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            return read_all(descriptor, limit, self.place(name))
        finally:
            os.close(descriptor)

    def replace(
        self,
        name: str,
        data: bytes,
        temporary: str,
        *,
        sync: bool = False,
        mode: int = PRIVATE_FILE,
    ) -> FileStamp:
        """Write a file atomically, through the name `temporary`: after a crash it is either the old
        one or the new one. Return its stamp.

        With `sync`, it is on disk when this returns. Raises `StorageError`, and removes the
        temporary file.
        """
        try:
            stamp = self._write_new(temporary, data, sync, mode)
            os.rename(temporary, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        except OSError as error:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=self.fd)
            raise failure(error, "write", self.place(name)) from error
        if sync:
            self.sync()
        return stamp

    def add(self, name: str, data: bytes, temporary: str) -> bool:
        """Put a file in place whole and synced, if there is none of that name. Return False if
        there is one.

        It is written under the name `temporary` first, so of two processes that try at once, one
        succeeds.
        """
        try:
            self._write_new(temporary, data, sync=True, mode=PRIVATE_FILE)
            os.link(temporary, name, src_dir_fd=self.fd, dst_dir_fd=self.fd, follow_symlinks=False)
        except FileExistsError:
            return False
        except OSError as error:
            raise failure(error, "write", self.place(name)) from error
        finally:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=self.fd)
        self.sync()
        return True

    def _write_new(self, name: str, data: bytes, sync: bool, mode: int) -> FileStamp:
        """Write a new file and return its stamp. Raises `OSError`, also if a file of that name
        exists."""
        descriptor = os.open(name, NEW, PRIVATE_FILE, dir_fd=self.fd)
        try:
            write_all(descriptor, data)
            info = os.fstat(descriptor)
            if stat.S_IMODE(info.st_mode) != mode:
                os.fchmod(descriptor, mode)
            if sync:
                sync_all(descriptor)
            return FileStamp(info.st_ino, info.st_size, info.st_mtime_ns)
        finally:
            os.close(descriptor)

    def stamp(self, name: str) -> FileStamp | None:
        """Return the stamp of a file, or of a link itself; None if there is none."""
        try:
            info = os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise failure(error, "read", self.place(name)) from error
        return FileStamp(info.st_ino, info.st_size, info.st_mtime_ns)

    def move(self, name: str, target: Folder, new_name: str) -> None:
        """Move a file or directory to another folder, replacing a file there; do nothing if it does
        not exist."""
        with suppress(FileNotFoundError):
            try:
                os.rename(name, new_name, src_dir_fd=self.fd, dst_dir_fd=target.fd)
            except FileNotFoundError:
                raise
            except OSError as error:
                raise failure(error, "move", self.place(name)) from error

    def remove(self, name: str) -> None:
        """Remove a file or a link, if it exists; a directory raises `StorageError`."""
        try:
            os.unlink(name, dir_fd=self.fd)
        except FileNotFoundError:
            return
        except OSError as error:
            raise failure(error, "remove", self.place(name)) from error

    def sync(self) -> None:
        """Flush created, renamed and removed names in this directory to the disk."""
        try:
            sync_all(self.fd)
        except OSError as error:
            raise failure(error, "sync", self.path) from error

    def close(self) -> None:
        os.close(self.fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _refusal(self, error: OSError, name: str, doing: str) -> StorageError:
        """Return the error for a file that cannot be opened; explain it if it is a link."""
        with suppress(OSError):
            info = os.stat(name, dir_fd=self.fd, follow_symlinks=False)
            if stat.S_ISLNK(info.st_mode):
                return StorageError(
                    f"`{self.place(name)}` is a symbolic link, and links are not followed here",
                    "replace it with a real directory, or run in the directory the link points to"
                    if name == ".loops"
                    else "remove it; ll-loop creates its own files",
                )
        return failure(error, doing, self.place(name))


def read_all(descriptor: int, limit: int, path: str) -> bytes:
    """Read an open file from its current position; raise `StorageError` beyond `limit` bytes."""
    pieces: list[bytes] = []
    room = limit + 1
    try:
        while room and (piece := os.read(descriptor, min(room, CHUNK))):
            pieces.append(piece)
            room -= len(piece)
    except OSError as error:
        raise failure(error, "read", path) from error
    if not room:
        raise StorageError(f"`{path}` is larger than {limit} bytes")
    return b"".join(pieces)
