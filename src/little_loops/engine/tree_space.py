"""How much disk space the snapshots of a project may use, and which of them go first.

Not here: measuring and repacking a store (`trees.upkeep`).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress

from little_loops.errors import StoreError, UsageError
from little_loops.light_typing import Any
from little_loops.records import NamedTuple
from little_loops.runs.config_files import (
    TREES,
    mentions,
    project_config,
    read_mapping,
    user_config,
)
from little_loops.runs.history import delete_runs
from little_loops.runs.layout import RULES, RUNNING, RunFiles
from little_loops.runs.project import loops_of
from little_loops.system.plain_files import read_plain
from little_loops.system.user_state import state_home
from little_loops.trees import upkeep
from little_loops.trees.files import StoreFiles, store_of
from little_loops.trees.git import Interrupted, find_git
from little_loops.trees.rules import Rules
from little_loops.trees.store import TreeStore

UNITS = {"kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
USUAL_CAP = 500 * UNITS["MB"]
MAX_RULES_BYTES = 64 << 20
_SIZE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?) ?(kB|MB|GB)")


def read_cap(values: Mapping[str, Any], path: str) -> int | None:
    """Return how many bytes the snapshots of a project may use by a config file; None if it does
    not say. Raises `UsageError` for anything but a size."""
    if TREES not in values:
        return None
    found = _SIZE.fullmatch(str(values[TREES]))
    if found is None:
        raise UsageError(f"`{path}`: `{TREES}` is not a size", "write, for example, `trees: 500MB`")
    return round(float(found[1]) * UNITS[found[2]])


def cap_of(root: str, environ: Mapping[str, str]) -> int:
    """Return how many bytes the snapshots of a project may use. Raises `UsageError` for an invalid
    setting."""
    for path in (project_config(root), user_config(environ)):
        # Most config files have no such setting, and parsing one takes time.
        cap = read_cap(read_mapping(path), path) if mentions(path, TREES) else None
        if cap is not None:
            return cap
    return USUAL_CAP


def shrink(store: TreeStore, root: str, environ: Mapping[str, str]) -> None:
    """Forget the snapshots of the oldest runs if those of the project use too much space.

    Nothing of a run that can be continued is forgotten; if that is uncertain, nothing at all.
    """
    with suppress(StoreError, UsageError, Interrupted, OSError):
        store.prune(cap_of(root, environ), lambda: frozenset(_unfinished(root)))


def _unfinished(root: str) -> Iterator[str]:
    """Yield the runs in `.running`, and the runs in them. Raises `StoreError` if one is unreadable."""
    return runs_below(os.path.join(root, loops_of(root), RUNNING))


def runs_below(folder: str) -> Iterator[str]:
    """Yield the runs with snapshots whose files are in a directory, at any depth.

    Raises `StoreError` if one of them cannot be read.
    """

    def fail(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error

    for place, _, names in os.walk(folder, onerror=fail):
        if RULES in names:
            yield _run_of(os.path.join(place, RULES))


def _run_of(path: str) -> str:
    try:
        return Rules.from_json(json.loads(read_plain(path, MAX_RULES_BYTES))).run
    except (OSError, ValueError) as error:
        raise StoreError(f"cannot read `{path}`: {error}") from error


class Freed(NamedTuple):
    """The past runs that were deleted, and the bytes of snapshots and clean copies with them."""

    runs: list[RunFiles]
    bytes: int


def delete_past(root: str, environ: Mapping[str, str], old: Sequence[RunFiles]) -> Freed:
    """Delete past runs with their snapshots, and the clean copies of the project that are not in
    use. What cannot be removed stays; a later run makes room for itself."""
    recorded = {files: _recorded_in(files) for files in old}
    gone = delete_runs(root, old) if old else []
    runs = [run for files in gone for run in recorded[files]]
    return Freed(gone, _free(root, environ, runs))


def _recorded_in(files: RunFiles) -> tuple[str, ...]:
    try:
        return tuple(runs_below(files.data))
    except (StoreError, OSError):
        return ()


def _free(root: str, environ: Mapping[str, str], runs: Collection[str]) -> int:
    """Remove the snapshots of these runs, and copies. Return how many bytes that freed."""
    store = existing_store(root, environ)
    if store is None:
        return 0
    before = sum(upkeep.disk_use(store))
    with suppress(StoreError, Interrupted, OSError):
        upkeep.remove_copies(store)
        upkeep.forget(store, find_git(root, environ), runs)
    return max(0, before - sum(upkeep.disk_use(store)))


def existing_store(root: str, environ: Mapping[str, str]) -> StoreFiles | None:
    """Return the store of a project; None if there is none."""
    try:
        store = store_of(root, state_home(environ))
    except StoreError:
        return None
    return store if os.path.isdir(store.path) else None
