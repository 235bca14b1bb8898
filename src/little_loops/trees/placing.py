"""Change files below one directory, without following links.

Every step can be repeated: if it is killed anywhere and done again, the result is the same. A file
is put in place by a rename.

Not here: which files to change (`restore`, `copies`).
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from little_loops.light_typing import Self
from little_loops.system.files import write_all
from little_loops.trees.content import SAFE, open_folder

NEW = SAFE | os.O_WRONLY | os.O_CREAT | os.O_EXCL
OWNER_ALL = 0o700
FOLDER_MODE = 0o777


class PathBlocked(OSError):
    """Something that is not a directory is in the place of one."""


class OpenDirectory:
    """An open directory, below which paths are changed."""

    def __init__(self, path: str) -> None:
        """Open the directory at `path`, which must not be a link. Raises `OSError`."""
        self.path = path
        self._fd = open_folder(path)
        self._current: tuple[str, int] | None = None

    def close(self) -> None:
        self._close_current()
        os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def lstat(self, path: str) -> os.stat_result | None:
        """Return the stat of a path; None if it does not exist, is not accessible, or is below a
        link."""
        try:
            with self.parent(path) as (folder, name):
                return os.stat(name, dir_fd=folder, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError, PermissionError, PathBlocked):
            return None

    def write(self, path: str, data: bytes, mode: int, time_ns: int | None = None) -> None:
        """Write a file atomically, with this mode and modification time; create missing directories
        above it.

        Raises `OSError`, and its subclass `PathBlocked` if a link or a file is in place of a
        directory above.
        """
        with self.writing(path, mode, time_ns) as descriptor:
            write_all(descriptor, data)

    @contextmanager
    def writing(self, path: str, mode: int, time_ns: int | None = None) -> Iterator[int]:
        """Yield a descriptor for new content, which replaces the file when the block ends; if the
        block raises, the old file stays.

        `time_ns` is the modification time to set; None leaves the current time. Raises as `write`
        does.
        """
        with self.parent(path, make=True) as (folder, name):
            temporary = _temporary_name(name)
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
            self._rename(folder, temporary, name)

    def link(self, path: str, text: str) -> None:
        """Create or replace a link to `text`; create missing directories above it."""
        with self.parent(path, make=True) as (folder, name):
            temporary = _temporary_name(name)
            _unlink(folder, temporary)
            os.symlink(text, temporary, dir_fd=folder)
            self._rename(folder, temporary, name)

    def _rename(self, folder: int, temporary: str, name: str) -> None:
        """Rename a temporary file into place; remove it if that fails."""
        try:
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise

    def mkdir(self, path: str) -> None:
        """Create a directory, and those above it, if missing. A file in its place is left there."""
        with self.parent(path, make=True) as (folder, name), suppress(FileExistsError):
            os.mkdir(name, FOLDER_MODE, dir_fd=folder)

    def set_mode(self, path: str, mode: int) -> None:
        """Set the permissions of a directory; do nothing if the path is something else.

        Raises `OSError`, also if it does not exist.
        """
        with self.parent(path) as (folder, name):
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(info.st_mode) and stat.S_IMODE(info.st_mode) != stat.S_IMODE(mode):
                # By its name, because a directory that is not readable cannot be opened.
                os.chmod(name, stat.S_IMODE(mode), dir_fd=folder)

    def unlock(self, path: str) -> None:
        """Make files at and below a path readable for the owner, and directories fully
        accessible."""
        with self.parent(path) as (folder, name):
            _unlock(folder, name)

    def remove(self, path: str) -> None:
        """Remove a file, a link or an empty directory, if it exists. Raises `OSError` for a
        directory that is not empty."""
        with suppress(FileNotFoundError, NotADirectoryError), self.parent(path) as (folder, name):
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(info.st_mode):
                os.rmdir(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)

    def remove_all(self, path: str) -> None:
        """Remove a path and everything below it, if it exists, also where permissions are missing.
        Raises `OSError`."""
        with suppress(FileNotFoundError, NotADirectoryError), self.parent(path) as (folder, name):
            try:
                _remove_all(folder, name)
            except RecursionError as error:
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG)) from error

    def remove_empty(self, path: str) -> None:
        """Remove a directory that contains nothing but directories. If there is anything else,
        remove nothing and raise `PathBlocked`."""
        for folder in reversed(list(self._folders(path))):
            self.remove(folder)

    def _folders(self, path: str) -> Iterator[str]:
        """Yield a directory and all directories below it; raise `PathBlocked` if there is anything
        else."""
        yield path
        for name in self.names(path):
            info = self.lstat(f"{path}/{name}")
            if info is None or not stat.S_ISDIR(info.st_mode):
                raise PathBlocked(
                    errno.ENOTEMPTY, "a directory with other content already exists there"
                )
            yield from self._folders(f"{path}/{name}")

    def names(self, path: str) -> list[str]:
        """Return the names in a directory."""
        with self.parent(f"{path}/x" if path else "x") as (folder, _):
            return os.listdir(folder)

    @contextmanager
    def parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """Yield a descriptor of the directory that contains a path, and the path's last component.
        The next call for another directory closes the descriptor.

        With `make`, create missing directories. Raises `OSError`, and `PathBlocked` for a link or a
        file in place of a directory.
        """
        above, _, name = path.rpartition("/")
        yield self._open_cached(above, make=make), name

    def _open_cached(self, path: str, *, make: bool) -> int:
        """Open a directory, or reuse the descriptor of the previous call if it is the same one."""
        if self._current is not None and self._current[0] == path:
            return self._current[1]
        self._close_current()
        fd = self._open(path, make=make)
        self._current = (path, fd)
        return fd

    def _close_current(self) -> None:
        if self._current is not None:
            os.close(self._current[1])
            self._current = None

    def _open(self, path: str, *, make: bool) -> int:
        """Open a directory below, component by component, without following links."""
        here = os.dup(self._fd)
        for part in path.split("/") if path else ():
            try:
                below = self._open_child(here, part, make=make)
            finally:
                os.close(here)
            here = below
        return here

    def _open_child(self, here: int, part: str, *, make: bool) -> int:
        """Open a subdirectory; with `make`, create it if it is missing. Raises `PathBlocked` for a
        file or a link."""
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


def _temporary_name(name: str) -> str:
    """Return a temporary name that is always the same for `name`.

    That way, the next attempt removes what a killed one left behind.
    """
    digest = hashlib.sha1(os.fsencode(name), usedforsecurity=False).hexdigest()
    return f".ll-restore-{digest[:16]}"


def _unlink(folder: int, name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def _unlock(folder: int, name: str) -> None:
    """Add the owner's read permission to a path, and recursively to everything in a directory."""
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
    """Remove a path recursively, adding permissions where they are missing."""
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
