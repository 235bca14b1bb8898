"""Refuse a repository in which git would wait for a named pipe, or read a device without end.

Git opens its files without a look at what they are: with a pipe in the place of `.git/HEAD`, every
command blocks. An agent, or whoever made the project, can put one there. So before git reads the
user's repository, everything that it may open there has to be a regular file or a directory.

Not here: our own reading of files, which never blocks (`system.plain_files`, `content`), and how long
git may take (`git`), which ends what is put there between this look and git's own.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator

from little_loops.errors import StoreError
from little_loops.system.plain_files import read_plain

GIT = ".git"
GIT_FILE = b"gitdir: "
COMMON = "commondir"
MAX_POINTER_BYTES = 4096
MAX_INDEX_BYTES = 16 << 20
SUBMODULE = (0o160000).to_bytes(4, "big")
"""The mode of a submodule in an index."""
PARTIAL = (b"link", b"sdir")
"""The names of the parts of an index which say that entries are elsewhere (split index), or that one
stands for a whole directory (sparse index)."""
WORK_TREE_FILES = (".gitignore", ".gitattributes", ".gitmodules", ".mailmap")
NOT_READ = frozenset(("annex", "hooks", "lfs", "logs", "modules", "rr-cache", "worktrees"))
"""Directories of a repository in which git reads nothing for the commands that we run."""
LOOK_S = 0.25
"""How long one look at a repository stays valid, within one piece of work: git takes milliseconds."""
REMOVE = "remove it, because git would block on it forever"
HELP = f"{REMOVE}; then run `git fsck` to see what is missing"


def repository_of(root: str) -> str | None:
    """Return the top of the git repository that contains a directory; None without one."""
    here = os.path.realpath(root)
    while not os.path.lexists(os.path.join(here, GIT)):
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above
    return here


def lock_of_index(directory: str) -> str | None:
    """Return the file that exists while a git changes the index of a work tree; None without a
    repository. No git is asked, because this is looked up for each worktree."""
    found = _own_directory(directory)
    return None if found is None else os.path.join(found, "index.lock")


def may_have_submodules(directory: str) -> bool:
    """Return whether the index of a work tree may have submodules: only if it has the bytes of their
    mode, or a part of it is in another file or left out."""
    found = _own_directory(directory)
    try:
        index = b"" if found is None else read_plain(os.path.join(found, "index"), MAX_INDEX_BYTES)
    except OSError:
        return True
    return len(index) == MAX_INDEX_BYTES or any(each in index for each in (SUBMODULE, *PARTIAL))


def _own_directory(directory: str) -> str | None:
    """Return the directory in which git keeps the index of a work tree; None without a
    repository."""
    top = repository_of(directory)
    return None if top is None else next(_git_directories(os.path.join(top, GIT)), None)


def refuse_special_files(directory: str, looked: dict[str, float] | None = None) -> None:
    """Raise `StoreError` if the repository of a directory has a pipe, socket or device where git
    expects a file; do nothing if there is no repository.

    `looked` says when each directory of a repository was last found to have none, by
    `time.monotonic`; it is not searched again for `LOOK_S`.
    """
    for path in _special_files(directory, {} if looked is None else looked):
        raise StoreError(f"`{path}` is not a regular file", HELP)


def _special_files(directory: str, looked: dict[str, float]) -> Iterator[str]:
    """Yield the special files that git may open when it runs in a directory."""
    top = repository_of(directory)
    if top is None:
        return
    for folder in dict.fromkeys((top, os.path.realpath(directory))):
        paths = (os.path.join(folder, name) for name in WORK_TREE_FILES)
        yield from (path for path in paths if _is_special(path))
    for folder in _git_directories(os.path.join(top, GIT)):
        now = time.monotonic()
        if now - looked.get(folder, -LOOK_S) >= LOOK_S:
            yield from _special_below(folder, NOT_READ)
            looked[folder] = now


def _git_directories(git: str) -> Iterator[str]:
    """Yield the directories that a `.git` stands for: itself, or the one that it names in a work
    tree or submodule, and the one that several work trees share."""
    if not os.path.isdir(git):
        named = _pointer(git)
        if not named.startswith(GIT_FILE):
            return
        git = os.path.join(os.path.dirname(git), os.fsdecode(named[len(GIT_FILE) :]))
    yield git
    if common := os.fsdecode(_pointer(os.path.join(git, COMMON))):
        yield os.path.realpath(os.path.join(git, common))


def _pointer(path: str) -> bytes:
    """Return the first line of a file that names a directory; nothing if it cannot be read."""
    try:
        return read_plain(path, MAX_POINTER_BYTES).partition(b"\n")[0]
    except OSError:
        return b""


def _special_below(folder: str, but: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the special files in a directory and below; unreadable directories are git's problem."""
    try:
        with os.scandir(folder) as entries:
            found = list(entries)
    except OSError:
        return
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in but:
                yield from _special_below(entry.path)
        elif not entry.is_file(follow_symlinks=False) and _is_special(entry.path):
            yield entry.path


def _is_special(path: str) -> bool:
    """Return whether something is there that is neither a file nor a directory, also behind a
    link."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
