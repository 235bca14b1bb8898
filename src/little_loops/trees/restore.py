"""Restore protected paths from a reference, and files outside the scope from a snapshot.

Everything that is about to be replaced has already been stored and flushed to the disk. If one path
cannot be restored, the others still are.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from little_loops.trees.content import TOO_LARGE
from little_loops.trees.guard import Guard, Guarded
from little_loops.trees.model import PathChange
from little_loops.trees.placing import OWNER_ALL, OpenDirectory
from little_loops.trees.rules import parents

UNKNOWN_MODE = 0
Spare = Callable[[str], bool]
"""Returns whether a path belongs to another run and must not be touched."""
COMPILED_FOLDER = "__pycache__"
NOT_READ = "it cannot be read, so it was not replaced; move it yourself"
NOT_KEPT = "it is too large to store, so it was not replaced; move it yourself"


class Repair:
    """Restores paths; `failed` maps those that could not be restored to the reason."""

    def __init__(
        self,
        ground: OpenDirectory,
        reference: Guard,
        now: Guard,
        contents: Mapping[str, bytes],
        is_cache: Callable[[str], bool],
        why_unstored: Callable[[str], str | None],
    ) -> None:
        """Restore below `ground` what differs between `reference` and `now`.

        `contents` has the reference's content by id. `why_unstored` says why an id is not in the
        store, or returns None; such content is never overwritten.
        """
        self._ground = ground
        self._why_unstored = why_unstored
        self._is_cache = is_cache
        self._reference = reference
        self._now = now
        self._contents = contents
        self.failed: dict[str, str] = {}

    def run(self, changes: Iterable[PathChange]) -> None:
        """Remove what was added, bottom up; then restore what was changed or deleted, top down; at
        last set the modes of directories.

        Never raises `OSError`: `failed` has the paths that could not be restored, with the reason.
        """
        wanted = list(changes)
        added = [change.path for change in wanted if change.kind == "added"]
        for path in reversed(added):
            self._attempt(path, self._remove)
        for folder in sorted(set(parents(added)), reverse=True):
            self._remove_empty_folder(folder)
        for change in wanted:
            if change.kind != "added":
                self._attempt(change.path, self._restore)
        paths = [change.path for change in wanted]
        for path in sorted({*paths, *parents(paths)}, reverse=True):
            one = self._reference.paths.get(path)
            if one is not None and one.kind == "dir" and one.mode != UNKNOWN_MODE:
                self._attempt(path, self._restore_directory)

    def _attempt(self, path: str, step: Callable[[str], None]) -> None:
        """Run a step, a second time after unlocking the directory above; on failure, record the
        reason."""
        try:
            try:
                step(path)
            except PermissionError:
                self._unlock(path.rpartition("/")[0])
                step(path)
        except OSError as error:
            self.failed.setdefault(path, (error.strerror or str(error)).lower())

    def _unlock(self, folder: str) -> None:
        """Make a directory writable if its mode is known; `_restore_directory` sets that mode
        again.

        Raises `PermissionError` if it is not known.
        """
        one = self._reference.paths.get(folder)
        if one is None or one.kind != "dir" or one.mode == UNKNOWN_MODE:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        self._ground.set_mode(folder, OWNER_ALL)

    def _restore_directory(self, path: str) -> None:
        """Create the directory if it is missing, and set the mode of the reference."""
        info = self._ground.lstat(path)
        if info is None:
            self._ground.mkdir(path)
        self._ground.set_mode(path, self._reference.paths[path].mode)

    def _remove(self, path: str) -> None:
        """Remove a path that was added; raise `OSError` if its content is not in the store."""
        self._check_stored(path)
        if self._now.paths[path].kind == "dir":
            self._remove_caches_in(path)
        self._ground.remove(path)

    def _remove_empty_folder(self, path: str) -> None:
        """Remove a directory that is new, if it is empty now."""
        if path not in self._now.paths or path in self._reference.paths:
            return
        with suppress(OSError):  # it is not empty: keep what is in it
            self._remove_caches_in(path)
            self._ground.remove(path)

    def _check_stored(self, path: str) -> None:
        """Raise `OSError` if the current content of a path is not in the store."""
        one = self._now.paths.get(path)
        if one is not None and self._why_unstored(one.id) is not None:
            raise OSError(0, NOT_KEPT)
        if one is not None and one.kind == "other" and stat.S_ISREG(one.mode):
            raise OSError(0, NOT_READ)

    def _remove_caches_in(self, path: str) -> None:
        """Remove what tools cached in a directory, so that the directory itself can be removed."""
        for name in names_in(self._ground, path):
            if self._is_cache(f"{path}/{name}"):
                self._ground.remove_all(f"{path}/{name}")

    def _restore(self, path: str) -> None:
        """Write a path as the reference has it; raise `OSError` if its content is not available."""
        one = self._reference.paths[path]
        self._check_stored(path)
        self._remove_obstacles(path, one)
        if one.kind == "dir":
            self._ground.mkdir(path)
        elif one.kind == "other":
            raise OSError(0, "it could not be read when the run started")
        elif one.id not in self._contents:
            raise OSError(0, self._why_unstored(one.id) or TOO_LARGE)
        elif one.kind == "link":
            self._ground.link(path, os.fsdecode(self._contents[one.id]))
        else:
            self._ground.write(path, self._contents[one.id], one.mode)

    def _remove_obstacles(self, path: str, one: Guarded) -> None:
        """Remove what is in the way: files in place of directories above, and at the path another
        kind."""
        parts = path.split("/")
        for count in range(1, len(parts)):
            above = "/".join(parts[:count])
            info = self._ground.lstat(above)
            if info is not None and not stat.S_ISDIR(info.st_mode):
                self._check_stored(above)
                self._ground.remove(above)
        info = self._ground.lstat(path)
        if info is None:
            return
        is_dir = stat.S_ISDIR(info.st_mode)
        if is_dir and one.kind != "dir":
            self._remove_directory(path)
        elif not is_dir and one.kind == "dir":
            self._ground.remove(path)

    def _remove_directory(self, path: str) -> None:
        """Remove a directory that replaced a file; raise `PathBlocked` if it has unknown files in
        it."""
        below = [other for other in self._now.paths if other.startswith(f"{path}/")]
        for other in below:
            self._check_stored(other)
        for other in sorted(below, reverse=True):
            if self._now.paths[other].kind == "dir":
                self._remove_caches_in(other)
            else:
                self._ground.remove(other)
        self._remove_caches_in(path)
        self._ground.remove_empty(path)


def names_in(ground: OpenDirectory, path: str) -> list[str]:
    """Return the names in a directory; an empty list if it cannot be read."""
    try:
        return ground.names(path)
    except OSError:
        return []


def spare_nothing(path: str) -> bool:
    return False


def unlock(ground: OpenDirectory, reference: Guard, spare: Spare) -> None:
    """Make protected directories accessible whose permissions were removed.

    Their content has to be stored before it is replaced.
    """
    for path, one in sorted(reference.paths.items()):
        info = ground.lstat(path) if one.kind == "dir" and not spare(path) else None
        if info is None or info.st_mode == one.mode or not stat.S_ISDIR(info.st_mode):
            continue
        if info.st_mode & OWNER_ALL != OWNER_ALL:
            with suppress(OSError):  # reported when something in it cannot be restored
                ground.set_mode(path, OWNER_ALL)


def unlock_changed(
    ground: OpenDirectory, reference: Guard, now: Guard, changes: Iterable[PathChange]
) -> bool:
    """Make paths readable that were added or replaced, as far as possible. Return whether any were
    not readable."""
    changed = [one.path for one in changes]
    locked = [
        path
        for path in sorted({*changed, *parents(changed)} & now.paths.keys())
        if _is_locked(reference.paths.get(path), now.paths[path])
    ]
    for path in locked:
        with suppress(OSError, RecursionError):
            ground.unlock(path)
    return bool(locked)


def _is_locked(before: Guarded | None, now: Guarded) -> bool:
    """Return whether a new directory is not accessible, or a file not readable, for its owner."""
    if now.kind == "dir":
        return now.mode & OWNER_ALL != OWNER_ALL and (before is None or before.kind != "dir")
    return now.kind == "other" and stat.S_ISREG(now.mode) and not now.mode & stat.S_IRUSR


def obstacles(ground: OpenDirectory, reference: Guard, now: Guard) -> list[str]:
    """Return unprotected paths that are in the place of protected ones, or of directories above
    them."""
    found: set[str] = set()
    for path, one in reference.paths.items():
        if path in now.paths:
            continue
        parts = path.split("/")
        for count in range(1, len(parts) + 1):
            above = "/".join(parts[:count])
            info = ground.lstat(above)
            if info is None:
                break
            if not stat.S_ISDIR(info.st_mode) or (count == len(parts) and one.kind != "dir"):
                found.add(above)
                break
    return sorted(found - now.paths.keys())


def remove_caches(
    ground: OpenDirectory, protected: Guard, is_cache: Callable[[str], bool]
) -> list[str]:
    """Remove caches in protected directories, and `__pycache__` beside protected files. Return
    their paths. Raises `OSError`."""
    folders = {path for path, one in protected.paths.items() if one.kind == "dir"}
    beside = {path.rpartition("/")[0] for path in protected.paths} - folders
    removed = []
    for folder in sorted(folders | beside):
        for name in names_in(ground, folder):
            path = f"{folder}/{name}" if folder else name
            if is_cache(path) and (folder in folders or name == COMPILED_FOLDER):
                ground.remove_all(path)
                removed.append(path)
    return removed


def remove_compiled(
    ground: OpenDirectory, folders: Iterable[str], is_cache: Callable[[str], bool], since_ns: int
) -> list[str]:
    """Remove what was compiled into the `__pycache__` of these directories since a time: Python would
    load it instead of the source. Return the removed paths. Raises `OSError`.

    By `ctime`, which a program cannot set back. A directory that was changed itself is removed as a
    whole: it may have been moved there, with older files in it.
    """
    removed = []
    for folder in folders:
        path = f"{folder}/{COMPILED_FOLDER}" if folder else COMPILED_FOLDER
        info = ground.lstat(path)
        if info is None:
            continue
        if info.st_ctime_ns >= since_ns and is_cache(path):
            found = [path]
        else:
            found = [one for one in _files_in(ground, path) if is_cache(one)]
            found = [one for one in found if _is_changed(ground, one, since_ns)]
        for one in found:
            ground.remove_all(one)
        removed += found
    return removed


def _files_in(ground: OpenDirectory, path: str) -> list[str]:
    return [f"{path}/{name}" for name in names_in(ground, path)]


def _is_changed(ground: OpenDirectory, path: str, since_ns: int) -> bool:
    info = ground.lstat(path)
    return info is not None and info.st_ctime_ns >= since_ns
