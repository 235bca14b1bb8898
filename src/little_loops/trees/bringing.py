"""Bring files that git does not track into a worktree: as copies, or as links to the project's.

A linked directory becomes a directory with links to what the project has in it, because a pattern
such as `node_modules/` ignores a directory, but not a link.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from filecmp import cmp

from little_loops.errors import StoreError
from little_loops.fsm.scope import normalise
from little_loops.system.files import failure
from little_loops.system.plain_files import read_plain
from little_loops.trees.placing import OpenDirectory


def bring(project: str, place: str, copy: Sequence[str], link: Sequence[str]) -> tuple[str, ...]:
    """Bring these paths of the project into the directory `place`; return those that do not exist.

    What is there already stays. Raises `StoreError`.
    """
    try:
        with OpenDirectory(place) as ground:
            copied = {path: _copy(ground, project, path) for path in map(normalise, copy)}
            linked = {path: _link(ground, project, path) for path in map(normalise, link)}
    except OSError as error:
        plain = failure(error, "write", place)
        raise StoreError(plain.message, plain.help) from error
    return tuple(path for path, is_there in (copied | linked).items() if not is_there)


def _copy(ground: OpenDirectory, project: str, path: str) -> bool:
    """Copy a file, a link, or a directory with all that is in it; return whether it exists."""
    for each in _below(project, path):
        full = os.path.join(project, each)
        info = os.lstat(full)
        if ground.lstat(each) is not None:
            continue
        if stat.S_ISLNK(info.st_mode):
            ground.link(each, os.readlink(full))
        elif stat.S_ISREG(info.st_mode):
            ground.write(each, read_plain(full), info.st_mode)
    return os.path.lexists(os.path.join(project, path))


def _below(project: str, path: str) -> Iterator[str]:
    """Yield a file, or the files below a directory, with their paths in the project."""
    full = os.path.join(project, path)
    if os.path.islink(full) or not os.path.isdir(full):
        if os.path.lexists(full):
            yield path
        return
    for name in sorted(os.listdir(full)):
        yield from _below(project, f"{path}/{name}")


def _link(ground: OpenDirectory, project: str, path: str) -> bool:
    """Link a file, or what is in a directory; return whether it exists."""
    full = os.path.join(project, path)
    if not os.path.isdir(full):
        if os.path.lexists(full) and ground.lstat(path) is None:
            ground.link(path, full)
        return os.path.lexists(full)
    ground.mkdir(path)
    for name in sorted(os.listdir(full)):
        if ground.lstat(f"{path}/{name}") is None:
            ground.link(f"{path}/{name}", os.path.join(full, name))
    return True


def still_the_same(
    project: str, place: str, copy: Sequence[str], link: Sequence[str]
) -> tuple[str, ...]:
    """Return the paths below `place` that were brought there and are no work of the run: copies that
    are as they are in the project, and links."""
    found = []
    for path in map(normalise, copy):
        for each in _below(project, path):
            here, there = os.path.join(place, each), os.path.join(project, each)
            if os.path.isfile(here) and os.path.isfile(there) and cmp(here, there, shallow=False):
                found.append(each)
    for path in map(normalise, link):
        full = os.path.join(place, path)
        names = [""] if os.path.islink(full) or not os.path.isdir(full) else os.listdir(full)
        paths = [os.path.join(path, name) if name else path for name in names]
        found += [each for each in paths if os.path.islink(os.path.join(place, each))]
    return tuple(sorted(found))
