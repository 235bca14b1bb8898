"""Change files below one directory, step by step, through no link.

Every step can be repeated: killed anywhere and done again, the result is the same.  A file is put in
place whole, by a rename.

Not here: which files (`restore`, `copies`).
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self

from little_loops.system.files import write_all
from little_loops.trees.content import SAFE, open_folder

NEW = SAFE | os.O_WRONLY | os.O_CREAT | os.O_EXCL
OWNER_ALL = 0o700
FOLDER_MODE = 0o777


class PathBlocked(OSError):
    """Something else lies where a directory is needed."""


class OpenDirectory:
    """A directory held open, below which paths are changed."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = open_folder(path)
        self._at: tuple[str, int] | None = None

    def close(self) -> None:
        self._leave()
        os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def look(self, path: str) -> os.stat_result | None:
        """What lies at a path; none if nothing does, a link leads there, or it is not to be seen."""
        try:
            with self.above(path) as (folder, name):
                return os.stat(name, dir_fd=folder, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError, PermissionError, PathBlocked):
            return None

    def write(self, path: str, data: bytes, mode: int, time_ns: int | None = None) -> None:
        """Put a file in place; the directories above are made where they are missing."""
        with self.writing(path, mode, time_ns) as descriptor:
            write_all(descriptor, data)

    @contextmanager
    def writing(self, path: str, mode: int, time_ns: int | None = None) -> Iterator[int]:
        """A descriptor for new content, which is put in place when the block has ended.

        `time_ns`: when it was last changed; None: now.
        """
        with self.above(path, make=True) as (folder, name):
            temporary = _temporary(name)
            _unlink(folder, temporary)
            descriptor = os.open(temporary, NEW, 0o600, dir_fd=folder)
            try:
                yield descriptor
                os.fchmod(descriptor, stat.S_IMODE(mode))
                if time_ns is not None:
                    os.utime(descriptor, ns=(time_ns, time_ns))
            except BaseException:
                _unlink(folder, temporary)
                raise
            finally:
                os.close(descriptor)
            self._put(folder, temporary, name)

    def link(self, path: str, text: str) -> None:
        with self.above(path, make=True) as (folder, name):
            temporary = _temporary(name)
            _unlink(folder, temporary)
            os.symlink(text, temporary, dir_fd=folder)
            self._put(folder, temporary, name)

    def _put(self, folder: int, temporary: str, name: str) -> None:
        try:
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise

    def make(self, path: str) -> None:
        """A directory; a file or link in its place is to be removed first."""
        with self.above(path, make=True) as (folder, name), suppress(FileExistsError):
            os.mkdir(name, FOLDER_MODE, dir_fd=folder)

    def set_mode(self, path: str, mode: int) -> None:
        """The permissions of a directory."""
        with self.above(path) as (folder, name):
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(info.st_mode) and stat.S_IMODE(info.st_mode) != stat.S_IMODE(mode):
                # Not by its descriptor: it may not be readable.
                os.chmod(name, stat.S_IMODE(mode), dir_fd=folder)

    def unlock(self, path: str) -> None:
        """Let the owner read what lies at a path, and all that is in it."""
        with self.above(path) as (folder, name):
            _unlock(folder, name)

    def remove(self, path: str) -> None:
        """Remove a file or link, or a directory that is empty."""
        with suppress(FileNotFoundError, NotADirectoryError), self.above(path) as (folder, name):
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(info.st_mode):
                os.rmdir(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)

    def remove_all(self, path: str) -> None:
        """Remove whatever lies at a path, with all that is in it."""
        with suppress(FileNotFoundError, NotADirectoryError), self.above(path) as (folder, name):
            try:
                _remove_all(folder, name)
            except RecursionError as error:
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG)) from error

    def remove_empty(self, path: str) -> None:
        """Remove a directory, if there is nothing in it but directories."""
        for folder in reversed(list(self._folders(path))):
            self.remove(folder)

    def _folders(self, path: str) -> Iterator[str]:
        """A directory and all below it; `InTheWay` if there is anything else."""
        yield path
        for name in self.names(path):
            info = self.look(f"{path}/{name}")
            if info is None or not stat.S_ISDIR(info.st_mode):
                raise PathBlocked(
                    errno.ENOTEMPTY, "a directory with other content already exists there"
                )
            yield from self._folders(f"{path}/{name}")

    def names(self, path: str) -> list[str]:
        """What lies in a directory."""
        with self.above(f"{path}/x" if path else "x") as (folder, _):
            return os.listdir(folder)

    @contextmanager
    def above(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """The directory a path lies in, held open, and the last part of the path."""
        above, _, name = path.rpartition("/")
        yield self._enter(above, make=make), name

    def _enter(self, path: str, *, make: bool) -> int:
        """Mostly the directory of the path before: it stays open until another one is needed."""
        if self._at is not None and self._at[0] == path:
            return self._at[1]
        self._leave()
        fd = self._open(path, make=make)
        self._at = (path, fd)
        return fd

    def _leave(self) -> None:
        if self._at is not None:
            os.close(self._at[1])
            self._at = None

    def _open(self, path: str, *, make: bool) -> int:
        here = os.dup(self._fd)
        for part in path.split("/") if path else ():
            try:
                below = self._step(here, part, make=make)
            finally:
                os.close(here)
            here = below
        return here

    def _step(self, here: int, part: str, *, make: bool) -> int:
        try:
            return open_folder(part, here)
        except FileNotFoundError:
            if not make:
                raise
            with suppress(FileExistsError):
                os.mkdir(part, FOLDER_MODE, dir_fd=here)
            return open_folder(part, here)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise PathBlocked(errno.ENOTDIR, f"`{part}` is not a directory") from error
            raise


def _temporary(name: str) -> str:
    """Always the same for a name, so that what a kill left is cleared away by the next attempt."""
    digest = hashlib.sha1(os.fsencode(name), usedforsecurity=False).hexdigest()
    return f".ll-restore-{digest[:16]}"


def _unlink(folder: int, name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def _unlock(folder: int, name: str) -> None:
    info = os.stat(name, dir_fd=folder, follow_symlinks=False)
    is_dir = stat.S_ISDIR(info.st_mode)
    if not is_dir and not stat.S_ISREG(info.st_mode):
        return
    wanted = OWNER_ALL if is_dir else stat.S_IRUSR
    if info.st_mode & wanted != wanted:
        os.chmod(name, stat.S_IMODE(info.st_mode) | wanted, dir_fd=folder)
    if is_dir:
        inner = open_folder(name, folder)
        try:
            for below in os.listdir(inner):
                _unlock(inner, below)
        finally:
            os.close(inner)


def _remove_all(folder: int, name: str) -> None:
    info = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISDIR(info.st_mode):
        os.unlink(name, dir_fd=folder)
        return
    try:
        inner = open_folder(name, folder)
    except PermissionError:
        os.chmod(name, OWNER_ALL, dir_fd=folder)
        inner = open_folder(name, folder)
    try:
        if info.st_mode & OWNER_ALL != OWNER_ALL:
            os.fchmod(inner, stat.S_IMODE(info.st_mode) | OWNER_ALL)
        for below in os.listdir(inner):
            _remove_all(inner, below)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=folder)
