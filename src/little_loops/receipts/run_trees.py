"""The trees that a run has recorded: its store, and the rules that were fixed when it started."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping

from little_loops.errors import UsageError
from little_loops.receipts.statement import File
from little_loops.records import NamedTuple
from little_loops.runs.folders import folder_of
from little_loops.runs.layout import DATA, RULES, RunFiles
from little_loops.system.user_state import state_home
from little_loops.trees.git import find_git
from little_loops.trees.guard import FILES
from little_loops.trees.rules import Rules
from little_loops.trees.store import TreeStore

MAX_RULES_BYTES = 64 << 20


class RunTrees(NamedTuple):
    store: TreeStore
    rules: Rules


def trees_of(files: RunFiles, environ: Mapping[str, str]) -> RunTrees:
    """Open the store of a run's trees.

    Raises `UsageError` if the run recorded none, `StoreError` if the store is gone or the record of
    the run's rules is damaged.
    """
    folder = folder_of(files)
    data = None if folder is None else folder.child(files.base + DATA)
    raw = None if data is None else data.read(RULES, MAX_RULES_BYTES)
    if raw is None:
        raise UsageError(
            f"no snapshots of the files were recorded for `{files.name}`",
            "evidence was off for this run",
        )
    rules = Rules.from_json(json.loads(raw))
    git = find_git(files.root, environ)
    store = TreeStore.open(rules.project, state_home(environ), git, create=False)
    return RunTrees(store, rules)


def guarded_files(store: TreeStore, guard: str) -> Iterator[File]:
    """Yield the protected files that a guard recorded."""
    below = os.fsdecode(FILES) + "/"
    for one in store.listing(guard):
        if one.path.startswith(below):
            yield File(one.path.removeprefix(below), one.mode, one.sha256)
