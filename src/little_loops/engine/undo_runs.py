"""Undo a run while nothing else works in its scope: claim the scope, then change its files.

Not here: what is restored, and what is a conflict (`fsm.reversal`, `trees.undoing`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from little_loops.errors import ConflictError
from little_loops.fsm.events import Entry
from little_loops.fsm.step_trees import latest_tree
from little_loops.fsm.timestamps import timestamp
from little_loops.receipts.run_trees import TreesAndRules
from little_loops.runs.claims import Claim, claim, nesting
from little_loops.runs.project import resolve_scope, run_name
from little_loops.runs.view import RunView
from little_loops.system.clock import wall_ms
from little_loops.trees.undoing import Recorded, Undo

VERB = "undo"


@contextmanager
def undoing(
    root: str,
    view: RunView,
    entries: Sequence[Entry],
    trees: TreesAndRules,
    environ: Mapping[str, str],
) -> Iterator[Undo]:
    """Claim the scope of the run, and yield what undoes it.

    Raises `ConflictError` if a run works there, or one was killed and its action still does.
    """
    assert view.summary is not None, "a run that cannot be read has no scope"
    scope = resolve_scope(trees.store.project, view.summary.scope)
    with _claimed(root, view.loop, scope, environ):
        yield Undo(*trees, _recorded(view.name, entries))


def _recorded(name: str, entries: Sequence[Entry]) -> Recorded:
    """Return what the run has recorded, from its events."""
    latest, last = latest_tree(entries), entries[-1]
    assert latest.tree is not None, "a run without a snapshot cannot be undone"
    return Recorded(name, last.run, last.seq, latest.tree.project, latest.is_current)


def _claimed(root: str, loop: str, scope: tuple[str, ...], environ: Mapping[str, str]) -> Claim:
    """Claim the scope under a name of its own, `LOOP@undo`."""
    name = run_name(loop, VERB)
    try:
        return claim(
            root,
            name,
            scope,
            f"{VERB}-{os.urandom(4).hex()}",
            loop=name,
            started_at=timestamp(wall_ms()),
            outer=nesting(environ).runs,
        )
    except ConflictError as error:
        # The help for a run suggests `--queue` and `--scope`, which this command does not have.
        message = error.message.replace(f"Cannot start '{name}'", f"Cannot {VERB} '{loop}'")
        raise ConflictError(message, "wait until it has ended, or stop it") from error
