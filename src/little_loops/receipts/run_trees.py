"""The trees that a run has recorded: its store, and the rules that were fixed when it started."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping

from little_loops.errors import UsageError
from little_loops.receipts.statement import File
from little_loops.records import NamedTuple
from little_loops.runs.folders import folder_of
from little_loops.runs.imported import read_imported
from little_loops.runs.layout import DATA, RULES, RunFiles
from little_loops.system.user_state import state_home
from little_loops.trees.files import read, store_of
from little_loops.trees.git import find_git
from little_loops.trees.guard import FILES
from little_loops.trees.rules import Rules
from little_loops.trees.store import TreeStore

MAX_RULES_BYTES = 64 << 20


class TreesAndRules(NamedTuple):
    store: TreeStore
    rules: Rules


def trees_of(files: RunFiles, environ: Mapping[str, str]) -> TreesAndRules:
    """Open the store of a run's trees.

    Raises `UsageError` if the run recorded none, `StoreError` if the store is gone or the record of
    the run's rules is damaged.
    """
    rules = rules_of(files)
    git = find_git(files.root, environ)
    return TreesAndRules(TreeStore.open_for(rules, state_home(environ), git), rules)


def kept_trees_of(files: RunFiles, run: str, environ: Mapping[str, str]) -> TreesAndRules:
    """Open the store of a run's trees, which must all be there.

    Raises `UsageError` if the run recorded none, or they are on another machine or were deleted.
    """
    rules = rules_of(files)
    place = store_of(rules.owner or rules.project, state_home(environ))
    id = read(place.place("id")) if os.path.lexists(place.path) else None
    if id is None or id.decode("ascii", "replace") != rules.store:
        raise UsageError(
            f"the snapshots of `{files.name}` are not in `{place.path}`",
            "they are on the machine that ran it, and belong to the user who ran it",
        )
    if not os.path.lexists(place.place("runs", run)):
        raise UsageError(
            f"the snapshots of `{files.name}` were deleted to save space",
            "the limit is `trees` in `.loops/.config.yaml`; the oldest runs lose theirs first",
        )
    return trees_of(files, environ)


def rules_of(files: RunFiles) -> Rules:
    """Return the rules that were fixed when a run started.

    Raises `UsageError` if it recorded no trees, `StoreError` if they are damaged.
    """
    folder = folder_of(files)
    data = None if folder is None else folder.child(files.base + DATA)
    raw = None if data is None else data.read(RULES, MAX_RULES_BYTES)
    imported = read_imported(files) if raw is None else None
    if imported is not None and imported.no_trees is not None:
        raise UsageError(
            f"the run file of `{files.name}` has no snapshots: {imported.no_trees}",
        )
    if raw is None:
        shares = f"its snapshots may be stored with `{files.name}`, which started it"
        raise UsageError(
            f"no snapshots of the files were recorded for `{files.shown_name}`",
            shares if files.below else "evidence was off for this run",
        )
    return Rules.from_json(json.loads(raw))


def guarded_files(store: TreeStore, guard: str) -> Iterator[File]:
    """Yield the protected files that a guard recorded."""
    below = os.fsdecode(FILES) + "/"
    for one in store.listing(guard):
        if one.path.startswith(below):
            yield File(one.path.removeprefix(below), one.mode, one.sha256)
