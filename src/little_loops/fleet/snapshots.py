"""Take over the snapshots of a run whose workspace was on another worker.

A clone has one run, so the tree store of its project belongs to that run alone, and is part of its
checkpoints. It knows the path of its project, as do the rules of the run; both are changed to the
path of the new clone.

Not here: pushing and restoring these files (`workspace`).
"""

from __future__ import annotations

import json
import os
from hashlib import sha256

from little_loops.runs.layout import RULES, RUN_JSON, RunFiles
from little_loops.system.user_state import state_home
from little_loops.trees import files as store_files


def store_at(root: str) -> str:
    """Return the path of the tree store of a project; it need not exist."""
    return store_files.store_of(root, state_home(os.environ)).path


def adopt(files: RunFiles, run: str) -> None:
    """Make the restored snapshots those of this clone. Without any, do nothing."""
    store = store_files.store_of(files.root, state_home(os.environ))
    rules = os.path.join(files.data, RULES)
    if not os.path.isdir(store.path) or not os.path.exists(rules):
        return
    for folder in store_files.FOLDERS:
        os.makedirs(store.place(folder), mode=0o700, exist_ok=True)
    store_files.replace(store.place("project"), os.fsencode(store.project))
    with open(rules, encoding="utf-8") as file:
        fixed = json.load(file)
    fixed["project"] = store.project
    written = json.dumps(fixed, separators=(",", ":")).encode()
    store_files.replace(rules, written)
    with open(os.path.join(files.data, RUN_JSON), "rb") as start:
        digests = [sha256(start.read()).hexdigest(), sha256(written).hexdigest()]
    os.makedirs(store.place("pins"), mode=0o700, exist_ok=True)
    store_files.replace(store.place("pins", run), "\n".join(digests).encode())
