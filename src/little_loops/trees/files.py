"""Where the tree store of a project is, and its files besides git's own.

STATE/trees/NAME-HASH/
  id            identifies this store; each run records it
  project       the real path of the project
  lock          shared while a snapshot is taken or restored, exclusive to pack and to prune
  packed        counts how often the packs were rewritten
  unstored      content that is not stored: id, size, SHA-256, and `left-out` if it was not too large
  times.json    caches the times of files, so that unchanged ones need not be read again
  runs/RUN      the ids that a run has recorded, one per line
  modes/ID      the permission bits of a snapshot's files, unless they are the usual ones
  undos/RUN     what the last `undo` of a run has changed, so that it can be undone
  origins.json  which ignored files are yours, and which runs have not recorded their end (`origins`)
  turns/RUN     the agent's turn, or the check, that a run is at; `RUN.patch`: what was restored after
                it was killed (`engine.interrupted_turns`)
  git/          a bare repository
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from little_loops.errors import StoreError
from little_loops.light_typing import Any
from little_loops.records import NamedTuple
from little_loops.system.files import PRIVATE_FILE, PRIVATE_FOLDER, failure, sync_all, write_all
from little_loops.system.plain_files import open_plain, read_plain
from little_loops.system.user_state import key_of
from little_loops.trees.git import Git, is_inside

STORES, COPIES = "trees", "copies"
LOCK_WAIT_S = 600.0
LOCK_POLL_S = 0.01
CONFIG = b"""\
[core]
\trepositoryformatversion = 0
\tbare = true
\tautocrlf = false
\tfsmonitor = false
\tuntrackedCache = false
\tfsync = all
\tattributesFile = /dev/null
\texcludesFile = /dev/null
\thooksPath = /dev/null
[gc]
\tauto = 0
[maintenance]
\tauto = false
[pack]
\tthreads = 1
"""
FOLDERS = (
    "runs",
    "modes",
    "git",
    "git/objects",
    "git/objects/pack",
    "git/objects/info",
    "git/refs",
    "git/refs/heads",
    "git/info",
)
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
ATTRIBUTES = b"* -text -filter -ident -eol -working-tree-encoding !diff\n"


class StoreFiles(NamedTuple):
    """The paths of a store's files; opens nothing."""

    path: str
    project: str

    @property
    def git_dir(self) -> str:
        return os.path.join(self.path, "git")

    @property
    def packs(self) -> str:
        return os.path.join(self.path, "git", "objects", "pack")

    def place(self, *names: str) -> str:
        return os.path.join(self.path, *names)


def store_of(project: str, home: str) -> StoreFiles:
    """Return the paths of a project's store; raise `StoreError` if they are inside the project."""
    real = os.path.realpath(project)
    if is_inside(os.path.realpath(home), real):
        raise StoreError(
            f"the tree store would be inside the project, in `{home}`; set XDG_STATE_HOME to a"
            " directory outside the project"
        )
    return StoreFiles(os.path.join(home, STORES, key_of(real)), real)


def create(files: StoreFiles) -> None:
    """Create an empty store, atomically; keep the existing one if another process was faster.

    Raises `StoreError`.
    """
    parent = os.path.dirname(files.path)
    try:
        os.makedirs(parent, mode=PRIVATE_FOLDER, exist_ok=True)
        new = f"{files.path}.new-{os.urandom(6).hex()}"
        _create_files(new, files.project)
        try:
            os.rename(new, files.path)
        except OSError:
            import shutil  # another process was faster

            shutil.rmtree(new, ignore_errors=True)
            if not os.path.isdir(files.path):
                raise
        _sync(parent)
    except OSError as error:
        raise _store_failure(error, "make", files.path) from error


def _create_files(root: str, project: str) -> None:
    """Create the directories and initial files of a store."""
    os.mkdir(root, PRIVATE_FOLDER)
    for folder in FOLDERS:
        os.mkdir(os.path.join(root, folder), PRIVATE_FOLDER)
    for name, data in (
        ("id", os.urandom(16).hex().encode()),
        ("project", os.fsencode(project)),
        ("lock", b""),
        ("packed", b"0"),
        ("unstored", b""),
        ("git/HEAD", b"ref: refs/heads/none\n"),
        ("git/config", CONFIG),
        ("git/info/attributes", ATTRIBUTES),
    ):
        replace(os.path.join(root, name), data)


def check(files: StoreFiles) -> str:
    """Return the id of a store; raise `StoreError` if files are missing or other users have access."""
    for name in ("git/HEAD", "git/config", "git/info/attributes", "git/refs", "git/objects/pack"):
        if not os.path.lexists(files.place(name)):
            raise _missing(files.place(name))
    info = os.stat(files.path)
    if info.st_uid != os.geteuid() or info.st_mode & 0o077:
        raise StoreError(
            f"`{files.path}` can be accessed by other users",
            f"chown it to yourself and `chmod 700 {files.path}`",
        )
    id = read(files.place("id"))
    if id is None:
        raise _missing(files.place("id"))
    return id.decode("ascii", "replace")


def _missing(path: str) -> StoreError:
    return StoreError(
        f"`{path}` is missing from the tree store",
        "files stored there can no longer be compared or restored",
    )


def _store_failure(error: OSError, doing: str, path: str) -> StoreError:
    plain = failure(error, doing, path)
    return StoreError(plain.message, plain.help)


def read(path: str) -> bytes | None:
    """Return the content of a file, or None if there is none; raise `StoreError` if it cannot be
    read."""
    try:
        return read_plain(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _store_failure(error, "read", path) from error


def replace(path: str, data: bytes, *, sync: bool = False) -> None:
    """Write a file atomically; with `sync`, also flush it to the disk. Raises `StoreError`."""
    temporary = f"{path}.tmp-{os.urandom(6).hex()}"
    try:
        descriptor = os.open(temporary, NEW, PRIVATE_FILE)
        try:
            write_all(descriptor, data)
            if sync:
                sync_all(descriptor)
        finally:
            os.close(descriptor)
        os.rename(temporary, path)
        if sync:
            _sync(os.path.dirname(path))
    except OSError as error:
        raise _store_failure(error, "write", path) from error


def append(path: str, data: bytes) -> None:
    """Append to a file, created if needed, and flush it to the disk. Raises `StoreError`."""
    try:
        is_new = not os.path.lexists(path)
        descriptor = open_plain(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE_FILE)
        try:
            write_all(descriptor, data)
            sync_all(descriptor)
        finally:
            os.close(descriptor)
        if is_new:
            _sync(os.path.dirname(path))
    except OSError as error:
        raise _store_failure(error, "write", path) from error


def _sync(folder: str) -> None:
    """Flush the names in a directory to the disk. Raises `OSError`."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync_all(descriptor)
    finally:
        os.close(descriptor)


def read_json(path: str) -> Any:
    """Return the parsed content of a cache file; None if it is missing or damaged."""
    try:
        return json.loads(read(path) or b"null")
    except ValueError:
        return None


@contextmanager
def locked(files: StoreFiles, git: Git, *, alone: bool = False) -> Iterator[None]:
    """Hold the store's lock: shared, or exclusive if `alone`.

    Raises `StoreError` if it is missing or held for too long, `Interrupted` on a stop.
    """
    path = files.place("lock")
    try:
        descriptor = open_plain(path, os.O_RDWR)
    except OSError as error:
        raise _missing(path) from error
    try:
        lock_file(descriptor, fcntl.LOCK_EX if alone else fcntl.LOCK_SH, git, path)
        yield
    finally:
        os.close(descriptor)


def lock_file(descriptor: int, kind: int, git: Git, path: str) -> None:
    """Lock an open file until it is closed.

    Raises `Interrupted` if `git` is to stop, and `StoreError` after `LOCK_WAIT_S`.
    """
    until = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            git.check()
            if time.monotonic() > until:
                raise StoreError(f"`{path}` has been held for {LOCK_WAIT_S:g} s") from None
            time.sleep(LOCK_POLL_S)
        except OSError as error:
            raise _store_failure(error, "lock", path) from error
