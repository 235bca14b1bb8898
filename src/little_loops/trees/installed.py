"""Detect that installed packages (`.venv`, `node_modules`) or other repositories in the project were
changed during a run, and remove what was compiled in them.

A clean copy links these directories, so a check runs there with whatever is in them. Nothing in
them is read or stored: one hash per directory, over the names, sizes and times of its files, shows
whether and where something was changed. Caches do not count: who uses a package compiles it. For the
same reason Python would load whatever an agent put there, so that is removed before a check.

A file with several hard links is often shared with other projects by the tool that installed it.
Its `ctime` changes with them, so it is not part of the hash.
"""

from __future__ import annotations

import json
import os
import stat
import zlib
from collections.abc import Collection, Iterator
from hashlib import blake2b

from little_loops.fsm.path_text import path_text
from little_loops.system.files import to_json
from little_loops.trees.git import Git
from little_loops.trees.placing import OpenDirectory
from little_loops.trees.repository_files import GIT
from little_loops.trees.restore import COMPILED_FOLDER, remove_compiled
from little_loops.trees.rules import Rules, is_cache

NAMES = frozenset((".venv", "venv", "node_modules"))
ENVIRONMENT = "pyvenv.cfg"
TOOL_CACHES = frozenset((".cache", ".vite", ".vite-temp", ".vitest"))
NEVER_COMPILED = frozenset((GIT, "node_modules", COMPILED_FOLDER))
HASH_BYTES = 8
LEVEL = 6

ITSELF = ""
Stamps = dict[str, dict[str, str]]
"""For each linked directory, the hashes of all directories in it, by path; for a linked file, its
hash, as `ITSELF`."""


def installed_in(rules: Rules) -> Iterator[tuple[str, str]]:
    """Yield the linked directories with installed packages, and repositories such as submodules: the
    path to display and the full path."""
    for path in rules.linked:
        full = os.path.join(rules.project, path)
        is_known = os.path.basename(path) in NAMES
        if is_known or any(
            os.path.lexists(os.path.join(full, name)) for name in (ENVIRONMENT, GIT)
        ):
            yield path, full
    protected = rules.protected()
    for path in rules.nested:
        if not protected.match(os.fsencode(path), True):  # else its files are compared one by one
            yield path, os.path.join(rules.project, path)
    if rules.around is not None:
        for _, full in installed_in(rules.around.rules):
            yield os.path.relpath(full, rules.project), full


def repositories_in(rules: Rules) -> frozenset[str]:
    """Return those directories that are repositories of their own, by the path to display."""
    found = installed_in(rules)
    return frozenset(path for path, full in found if os.path.lexists(os.path.join(full, GIT)))


def look(rules: Rules, git: Git) -> Stamps:
    """Return hashes of the directories of installed packages, of the repositories in the project and
    of large ignored files, by which `changes` detects a change. Raises `Interrupted` on a stop."""
    found: Stamps = {}
    for path, full in installed_in(rules):
        _hash_directory(full, path, git, found.setdefault(path, {}))
    for path in rules.linked:
        if (stamp := _hash_file(os.path.join(rules.project, path))) is not None:
            found[path] = {ITSELF: stamp}
    return found


def _hash_file(full: str) -> str | None:
    """Return a hash of the size and times of a large ignored file; None if it is no file."""
    try:
        info = os.lstat(full)
    except OSError:
        return None
    if not stat.S_ISREG(info.st_mode):
        return None
    numbers = (info.st_mode, info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino)
    return blake2b(repr(numbers).encode("ascii"), digest_size=HASH_BYTES).hexdigest()


def _hash_directory(folder: str, path: str, git: Git, found: dict[str, str]) -> None:
    """Add the hashes of a directory and all its subdirectories to `found`; skip unreadable ones."""
    git.check()
    digest, inner = blake2b(digest_size=HASH_BYTES), []
    try:
        with os.scandir(folder) as entries:
            listed = sorted(entries, key=lambda one: one.name)
    except OSError:
        return
    for entry in listed:
        if is_cache(entry.name) or entry.name in TOOL_CACHES or entry.name == GIT:
            continue
        if entry.is_dir(follow_symlinks=False):
            inner.append(entry.name)
        else:
            digest.update(_describe_entry(entry))
    found[path] = digest.hexdigest()
    for name in inner:
        _hash_directory(f"{folder}/{name}", f"{path}/{name}", git, found)


def _describe_entry(entry: os.DirEntry[str]) -> bytes:
    """Return an entry's name, mode, size, times and inode as bytes to be hashed."""
    try:
        info = entry.stat(follow_symlinks=False)
    except OSError:
        return os.fsencode(entry.name)
    is_shared = info.st_nlink > 1 and stat.S_ISREG(info.st_mode)
    ctime = 0 if is_shared else info.st_ctime_ns
    numbers = (info.st_mode, info.st_size, info.st_mtime_ns, ctime, info.st_ino)
    return os.fsencode(entry.name) + repr(numbers).encode("ascii")


def changes(before: Stamps, after: Stamps, repositories: Collection[str] = ()) -> Iterator[str]:
    """Yield a warning for each linked directory in which something has changed; `repositories` are
    those that are repositories of their own. Linked directories that only `after` has do not
    count."""
    for top, old in before.items():
        new = after.get(top, {})
        paths = sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path))
        if paths == [ITSELF]:
            yield (
                f"`{path_text(top)}` was changed during the run, and the check in the clean copy ran"
                " with it; git ignores it, so it is not delivered"
            )
        elif paths:
            more = len(paths) - 1
            rest = f" and {more} more director{'y' if more == 1 else 'ies'}" if more else ""
            what = "`setup` can install it there again"
            if top in repositories:
                what = "it is a separate git repository, so its files were not verified"
            yield (
                f"`{path_text(top)}` was changed during the run (in {path_text(paths[0])}{rest}), and"
                f" the check in the clean copy ran with it; {what}"
            )


def remove_compiled_in(rules: Rules, git: Git, since_ns: int) -> None:
    """Remove what Python compiled since a time in the directories that the clean copy links.

    Raises `OSError`, and `Interrupted` on a stop.
    """
    for full in _linked_directories(rules):
        if not os.path.isdir(full) or os.path.islink(full):
            continue
        folders = list(_with_compiled(full, "", git))
        with OpenDirectory(full) as ground:
            remove_compiled(ground, folders, is_cache, since_ns)


def _linked_directories(rules: Rules) -> Iterator[str]:
    """Yield the full paths of what a clean copy links, also around the project."""
    for path in (*rules.linked, *rules.nested):
        yield os.path.join(rules.project, path)
    if rules.around is not None:
        yield from _linked_directories(rules.around.rules)


def _with_compiled(folder: str, path: str, git: Git) -> Iterator[str]:
    """Yield the directories at and below `folder` that have a `__pycache__`, relative to the first
    one."""
    git.check()
    try:
        with os.scandir(folder) as entries:
            inner = [one.name for one in entries if one.is_dir(follow_symlinks=False)]
    except OSError:
        return
    if COMPILED_FOLDER in inner:
        yield path
    for name in inner:
        if name not in NEVER_COMPILED:
            yield from _with_compiled(f"{folder}/{name}", f"{path}/{name}".lstrip("/"), git)


def to_bytes(stamps: Stamps) -> bytes:
    return zlib.compress(to_json(stamps), LEVEL)


def from_bytes(raw: bytes) -> Stamps:
    """Decode the output of `to_bytes`; return {} if it is damaged, so that nothing is reported."""
    try:
        plain = json.loads(zlib.decompress(raw))
        return {str(top): dict(stamps) for top, stamps in plain.items()}
    except (ValueError, TypeError, zlib.error, AttributeError):
        return {}
