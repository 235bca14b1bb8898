"""Keep stores small: merge their packs, prune the oldest runs, measure disk use."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from little_loops.errors import StoreError
from little_loops.trees import files as store_files
from little_loops.trees.files import COPIES, STORES, StoreFiles, locked
from little_loops.trees.git import Git
from little_loops.trees.model import DiskUse
from little_loops.trees.objects import TEMPORARY
from little_loops.trees.reading import cannot_read, run_git

PACK = ["pack-objects", "--quiet", "--revs", "--missing=allow-any", "--delta-base-offset"]


def pack(files: StoreFiles, git: Git) -> None:
    """Merge all packs into one with the objects that runs have recorded, and drop the rest; do
    nothing if there is only one. Holds the exclusive lock."""
    with locked(files, git, alone=True):
        names = _packs(files)
        if len(names) > 1:
            _repack(files, git, _recorded_ids(files, _runs(files)))


def prune(files: StoreFiles, git: Git, cap_bytes: int, keep: frozenset[str]) -> tuple[str, ...]:
    """Remove as few runs as possible, oldest first and never those in `keep`, to get below the cap.

    Return the removed runs; none if the store is small enough. Holds the exclusive lock.
    """
    with locked(files, git, alone=True):
        if _size(files.git_dir) <= cap_bytes:
            return ()
        runs = _runs(files)
        free = [run for run in runs if run not in keep]
        low, high = 0, len(free)
        while low < high:  # binary search for the smallest number of runs to remove
            middle = (low + high) // 2
            rest = [run for run in runs if run not in free[:middle]]
            if _packed_size(files, git, _recorded_ids(files, rest)) <= cap_bytes:
                high = middle
            else:
                low = middle + 1
        gone = tuple(free[:low])
        rest = [run for run in runs if run not in gone]
        ids = _recorded_ids(files, rest)
        for run in gone:
            os.unlink(files.place("runs", run))
            for kind in ("installed", "pins"):
                with suppress(FileNotFoundError):
                    os.unlink(files.place(kind, run))
        _repack(files, git, ids)
        _remove_modes(files, ids)
        return gone


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
    """Remove the modes files of snapshots that are not in `ids`."""
    kept = frozenset(ids)
    for name in os.listdir(files.place("modes")):
        if name not in kept:
            os.unlink(files.place("modes", name))


def disk_use(home: str) -> tuple[DiskUse, ...]:
    """Return how much each project's store and copies use, the largest first."""
    found = []
    for name in _names(os.path.join(home, STORES)):
        place = os.path.join(home, STORES, name)
        project = os.fsdecode(store_files.read(os.path.join(place, "project")) or b"")
        copies = sum(
            _size(os.path.join(home, COPIES, each))
            for each in _names(os.path.join(home, COPIES))
            if each == name
        )
        runs = tuple(_names(os.path.join(place, "runs")))
        found.append(DiskUse(project, _size(place), copies, runs))
    return tuple(sorted(found, key=lambda one: -(one.store + one.copies)))


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
