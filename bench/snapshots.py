"""Work with a tree store so many times: `python -m bench.snapshots take|copy N PROJECT STATE`.

The first time makes the store and reads everything; what is measured are the times after it.
"""

from __future__ import annotations

import json
import os
import sys

from little_loops.trees.copies import CleanCopy
from little_loops.trees.git import find_git
from little_loops.trees.rules import Rules
from little_loops.trees.store import TreeStore


def begin(project: str, state: str) -> tuple[TreeStore, Rules]:
    store = TreeStore.open(project, state, find_git(project, os.environ))
    kept = f"{state}/{os.path.basename(project)}.rules.json"
    if not os.path.exists(kept):
        with open(kept, "w") as file:
            json.dump(store.rules("bench", ["."], ["/d0/e0/"]).to_json(), file)
    with open(kept) as file:
        return store, Rules.from_json(json.load(file))


def take(count: int, project: str, state: str) -> None:
    store, rules = begin(project, state)
    first = store.snapshot(rules)
    for _ in range(count):
        store.snapshot(rules, first.guard)
    store.save_times(rules)


def copy(count: int, project: str, state: str) -> None:
    store, rules = begin(project, state)
    now = store.snapshot(rules)
    store.save_times(rules)
    clean = CleanCopy(store, rules, state)
    for _ in range(count):
        with clean.held():
            clean.lay_out(now.project, now.guard)


if __name__ == "__main__":
    from little_loops.system import process_tree

    process_tree.adopt_orphans()  # as the engine does: processes are started the quicker way
    {"take": take, "copy": copy}[sys.argv[1]](int(sys.argv[2]), *sys.argv[3:])
