"""Keep stores small: merge their packs, forget runs, remove copies, measure disk use.

Not here: which runs may be forgotten, and when (`engine.tree_space`).
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress

from little_loops.errors import StoreError
from little_loops.system.plain_files import open_plain
from little_loops.trees import files as store_files
from little_loops.trees.files import COPIES, StoreFiles, locked
from little_loops.trees.git import Git
from little_loops.trees.model import DiskUse
from little_loops.trees.modes import START
from little_loops.trees.objects import TEMPORARY
from little_loops.trees.reading import cannot_read, run_git

ROOM = 0.8
"""A store above its limit is reduced to less than the limit, so that not every run has to do it when it ends."""
LOCK = "lock"
PACK = ["pack-objects", "--quiet", "--revs", "--missing=allow-any", "--delta-base-offset"]


def pack(files: StoreFiles, git: Git) -> None:
    """Merge all packs into one with the objects that runs have recorded, and drop the rest; do
    nothing if there is only one. Holds the exclusive lock."""
    with locked(files, git, alone=True):
        names = _packs(files)
        if len(names) > 1:
            _repack(files, git, _recorded_ids(files, _runs(files)))


def prune(
    files: StoreFiles, git: Git, cap_bytes: int, keep: Callable[[], Collection[str]]
) -> tuple[str, ...]:
    """If the store is above the cap, forget runs, oldest first, until there is some room again.

    Runs in `keep`, which is asked while no run can take a snapshot, are never forgotten. Return the
    forgotten runs. Holds the exclusive lock.
    """
    if _size(files.git_dir) <= cap_bytes:
        return ()
    with locked(files, git, alone=True):
        kept, target = keep(), round(cap_bytes * ROOM)
        runs = _runs(files)
        free = [run for run in runs if run not in kept]
        low, high = 0, len(free)
        while low < high:  # binary search for the smallest number of runs to remove
            middle = (low + high) // 2
            rest = [run for run in runs if run not in free[:middle]]
            if _packed_size(files, git, _recorded_ids(files, rest)) <= target:
                high = middle
            else:
                low = middle + 1
        gone = tuple(free[:low])
        _forget(files, git, gone)
        return gone


def forget(files: StoreFiles, git: Git, runs: Collection[str]) -> tuple[str, ...]:
    """Remove the snapshots of these runs. Return those that had any. Holds the exclusive lock."""
    with locked(files, git, alone=True):
        gone = tuple(run for run in _runs(files) if run in runs)
        if gone:
            _forget(files, git, gone)
        return gone


def _forget(files: StoreFiles, git: Git, gone: Collection[str]) -> None:
    """Remove what is recorded of these runs, and the objects that no other run needs."""
    ids = _recorded_ids(files, (run for run in _runs(files) if run not in gone))
    for run in gone:
        os.unlink(files.place("runs", run))
        for kind in ("installed", "pins", "undos", "turns"):
            for name in (run, f"{run}.patch"):
                with suppress(FileNotFoundError):
                    os.unlink(files.place(kind, name))
    _repack(files, git, ids)
    _remove_modes(files, ids)


def _repack(files: StoreFiles, git: Git, ids: list[str]) -> None:
    """Write one pack with everything reachable from `ids`, then remove all others, and temporary
    files.

    The new pack is on the disk before the old ones are removed. The exclusive lock must be held.
    """
    before = _packs(files)
    made = ""
    if ids:
        stdin = "".join(f"{id}\n" for id in ids).encode("ascii")
        stem = os.path.join(files.packs, "pack")
        made = run_git(git, files, [*PACK, stem], stdin).decode("ascii").strip()
    count = int(store_files.read(files.place("packed")) or b"0")
    store_files.replace(files.place("packed"), b"%d" % (count + 1), sync=True)
    for name in before:
        if name != f"pack-{made}":
            _remove_pack(files, name)
    for name in os.listdir(files.packs):
        if name.startswith((TEMPORARY, ".tmp-")):
            os.unlink(os.path.join(files.packs, name))


def _remove_pack(files: StoreFiles, name: str) -> None:
    """Remove a pack, the index first: git ignores a pack without one."""
    for suffix in (".idx", ".rev", ".pack"):
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(files.packs, name + suffix))


def _packed_size(files: StoreFiles, git: Git, ids: list[str]) -> int:
    """Return the size of a pack with everything reachable from `ids`; nothing is written."""
    if not ids:
        return 0
    size = 0

    def count(chunk: bytes) -> None:
        nonlocal size
        size += len(chunk)

    stdin = "".join(f"{id}\n" for id in ids).encode("ascii")
    answer = git.store(files.git_dir, [*PACK, "--stdout"], stdin, count)
    if answer.code != 0:
        raise cannot_read(files, answer)
    return size


def _packs(files: StoreFiles) -> list[str]:
    """Return the names of the packs, without suffix."""
    try:
        names = os.listdir(files.packs)
    except OSError as error:
        raise StoreError(f"`{files.packs}` is missing from the tree store") from error
    return [name.removesuffix(".pack") for name in names if name.endswith(".pack")]


def _runs(files: StoreFiles) -> list[str]:
    """Return the recorded runs, oldest first by the time of their last record."""
    with os.scandir(files.place("runs")) as entries:
        found = [(entry.stat().st_mtime_ns, entry.name) for entry in entries]
    return [name for _, name in sorted(found)]


def _recorded_ids(files: StoreFiles, runs: Iterable[str]) -> list[str]:
    """Return the ids that these runs have recorded, without duplicates."""
    lines = [
        line
        for run in runs
        for line in (store_files.read(files.place("runs", run)) or b"").decode("ascii").split("\n")
    ]
    return [line for line in dict.fromkeys(lines) if line]


def _remove_modes(files: StoreFiles, ids: Iterable[str]) -> None:
    """Remove the modes files of snapshots that are not in `ids`, and of runs that are forgotten."""
    kept = frozenset((*ids, *(START + run for run in _runs(files))))
    for name in os.listdir(files.place("modes")):
        if name not in kept:
            os.unlink(files.place("modes", name))


def disk_use(files: StoreFiles) -> DiskUse:
    """Return how much a project's store and its clean copies use; 0 for what does not exist."""
    return DiskUse(_size(files.path), _size(_copies(files)))


def remove_copies(files: StoreFiles) -> None:
    """Remove the clean copies of a project, except those in use; they are made again when needed."""
    base = _copies(files)
    for place in (os.path.join(base, name) for name in _names(base)):
        try:
            descriptor = open_plain(os.path.join(place, LOCK), os.O_RDWR)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for name in _names(place):
                if name != LOCK:
                    _remove(os.path.join(place, name))
        except BlockingIOError:
            continue
        finally:
            os.close(descriptor)


def _copies(files: StoreFiles) -> str:
    stores, key = os.path.split(files.path)
    return os.path.join(os.path.dirname(stores), COPIES, key)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            os.unlink(path)


def _names(folder: str) -> list[str]:
    """Return the sorted names in a directory; none if it does not exist."""
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


def _size(path: str) -> int:
    """Return the bytes on disk below a directory, without following links."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
    return total
