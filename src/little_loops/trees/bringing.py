"""Bring files that git does not track into a worktree: as copies, or as links to the project's.

A linked directory becomes a directory with links to what the project has in it, because a pattern
such as `node_modules/` ignores a directory, but not a link. Nothing in it leads back into the project
(`shadows`).
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
from little_loops.trees.copy_plan import CopyRoot
from little_loops.trees.git import Git
from little_loops.trees.placing import OpenDirectory
from little_loops.trees.shadows import Linked, link_to, plan, rewritten


def bring(git: Git, where: CopyRoot, copy: Sequence[str], link: Sequence[str]) -> tuple[str, ...]:
    """Bring these paths of the project into a worktree or copy; return those that do not exist.

    What is there already stays. Raises `StoreError`, and its subclass `NotClean` if a linked
    directory would lead back into the project.
    """
    project, place = _projects(where)
    try:
        with OpenDirectory(place) as ground:
            copied = {path: _copy(ground, project, path) for path in map(normalise, copy)}
            linked = {path: _link(git, ground, where, path) for path in map(normalise, link)}
    except OSError as error:
        plain = failure(error, "write", place)
        raise StoreError(plain.message, plain.help) from error
    return tuple(path for path, is_there in (copied | linked).items() if not is_there)


def _projects(where: CopyRoot) -> tuple[str, str]:
    """Return the project, and its directory in the copy."""
    real, copy, prefix = where
    return os.path.join(real, prefix).rstrip("/"), os.path.join(copy, prefix).rstrip("/")


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


def _link(git: Git, ground: OpenDirectory, where: CopyRoot, path: str) -> bool:
    """Link a file, or what is in a directory; return whether it exists."""
    full = os.path.join(_projects(where)[0], path)
    if not os.path.isdir(full):
        if os.path.lexists(full) and ground.lstat(path) is None:
            ground.link(path, full)
        return os.path.lexists(full)
    ground.mkdir(path)
    folder = where.prefix + path
    planned = plan(Linked(where.real, where.copy, (folder,)), {}, git, {})
    if folder in planned:  # nothing in it leads back
        names = os.listdir(full)
        planned = {f"{folder}/{name}": link_to(os.path.join(full, name)) for name in names}
    for each, one in sorted(planned.items()):
        here = each.removeprefix(where.prefix)
        if ground.lstat(here) is not None:
            continue
        if one.kind == "link":
            ground.link(here, os.fsdecode(one.data))
        else:
            ground.write(here, one.data, one.mode)
    return True


def still_the_same(where: CopyRoot, copy: Sequence[str], link: Sequence[str]) -> tuple[str, ...]:
    """Return the paths in the worktree that were brought there and are no work of the run: copies
    that are as they are in the project, links, and files that only name the worktree instead."""
    project, place = _projects(where)
    found = []
    for path in map(normalise, copy):
        for each in _below(project, path):
            here, there = os.path.join(place, each), os.path.join(project, each)
            if os.path.isfile(here) and os.path.isfile(there) and cmp(here, there, shallow=False):
                found.append(each)
    for path in map(normalise, link):
        found += [each for each in _below(place, path) if _is_linked(where, each)]
    return tuple(sorted(found))


def _is_linked(where: CopyRoot, path: str) -> bool:
    """Return whether a path in a linked directory is a link, or a file of a shadow as it was laid
    out."""
    project, place = _projects(where)
    here, there = os.path.join(place, path), os.path.join(project, path)
    if os.path.islink(here):
        return True
    try:
        other = rewritten(Linked(where.real, where.copy, ()), where.prefix + path)
        return read_plain(here) == (read_plain(there) if other is None else other.data)
    except (OSError, StoreError):  # it is not one of those that were laid out
        return False
