"""Keep stores small: pack them, prune the oldest runs, say how much disk they use."""

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
from little_loops.trees.reading import ask, unusable

PACK = ["pack-objects", "--quiet", "--revs", "--missing=allow-any", "--delta-base-offset"]


def pack(files: StoreFiles, git: Git) -> None:
    """One pack of all that the runs have recorded; what nobody recorded is left out."""
    with locked(files, git, alone=True):
        names = _packs(files)
        if len(names) > 1:
            _repack(files, git, _ids(files, _runs(files)))


def prune(files: StoreFiles, git: Git, cap_bytes: int, keep: frozenset[str]) -> tuple[str, ...]:
    """Forget as few runs as it takes, the oldest first, and none of `keep`."""
    with locked(files, git, alone=True):
        if _size(files.git_dir) <= cap_bytes:
            return ()
        runs = _runs(files)
        free = [run for run in runs if run not in keep]
        low, high = 0, len(free)
        while low < high:  # the fewest that are enough
            middle = (low + high) // 2
            rest = [run for run in runs if run not in free[:middle]]
            if _packed_size(files, git, _ids(files, rest)) <= cap_bytes:
                high = middle
            else:
                low = middle + 1
        gone = tuple(free[:low])
        rest = [run for run in runs if run not in gone]
        ids = _ids(files, rest)
        for run in gone:
            os.unlink(files.place("runs", run))
            for kind in ("installed", "pins"):
                with suppress(FileNotFoundError):
                    os.unlink(files.place(kind, run))
        _repack(files, git, ids)
        _forget_modes(files, ids)
        return gone


def _repack(files: StoreFiles, git: Git, ids: list[str]) -> None:
    """The new pack is there and synced before the old ones go."""
    before = _packs(files)
    made = ""
    if ids:
        stdin = "".join(f"{id}\n" for id in ids).encode("ascii")
        stem = os.path.join(files.packs, "pack")
        made = ask(git, files, [*PACK, stem], stdin).decode("ascii").strip()
    count = int(store_files.read(files.place("packed")) or b"0")
    store_files.replace(files.place("packed"), b"%d" % (count + 1), sync=True)
    for name in before:
        if name != f"pack-{made}":
            _remove_pack(files, name)
    for name in os.listdir(files.packs):
        if name.startswith((TEMPORARY, ".tmp-")):
            os.unlink(os.path.join(files.packs, name))


def _remove_pack(files: StoreFiles, name: str) -> None:
    """The index first: a pack without one does not exist for git."""
    for suffix in (".idx", ".rev", ".pack"):
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(files.packs, name + suffix))


def _packed_size(files: StoreFiles, git: Git, ids: list[str]) -> int:
    if not ids:
        return 0
    size = 0

    def count(chunk: bytes) -> None:
        nonlocal size
        size += len(chunk)

    stdin = "".join(f"{id}\n" for id in ids).encode("ascii")
    answer = git.store(files.git_dir, [*PACK, "--stdout"], stdin, count)
    if answer.code != 0:
        raise unusable(files, answer)
    return size


def _packs(files: StoreFiles) -> list[str]:
    try:
        names = os.listdir(files.packs)
    except OSError as error:
        raise StoreError(f"`{files.packs}` is missing from the tree store") from error
    return [name.removesuffix(".pack") for name in names if name.endswith(".pack")]


def _runs(files: StoreFiles) -> list[str]:
    """The oldest first, by when they recorded something last."""
    with os.scandir(files.place("runs")) as entries:
        found = [(entry.stat().st_mtime_ns, entry.name) for entry in entries]
    return [name for _, name in sorted(found)]


def _ids(files: StoreFiles, runs: Iterable[str]) -> list[str]:
    lines = [
        line
        for run in runs
        for line in (store_files.read(files.place("runs", run)) or b"").decode("ascii").split("\n")
    ]
    return [line for line in dict.fromkeys(lines) if line]


def _forget_modes(files: StoreFiles, ids: Iterable[str]) -> None:
    kept = frozenset(ids)
    for name in os.listdir(files.place("modes")):
        if name not in kept:
            os.unlink(files.place("modes", name))


def disk_use(home: str) -> tuple[DiskUse, ...]:
    """What every project's store and copies take, the largest first."""
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
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


def _size(path: str) -> int:
    """Bytes on disk below a directory; links are not followed."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
    return total
