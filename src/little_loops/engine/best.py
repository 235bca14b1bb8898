"""Put back a change that was not better, in a loop with `keep: best`.

Not here: which change that is (`fsm.best`), how files are restored (`trees.store`).
"""

from __future__ import annotations

from little_loops.engine.evidence import tampered_since, with_trees
from little_loops.engine.run_trees import RunTrees
from little_loops.fsm.commands import RestoreBest
from little_loops.fsm.happenings import Happening, PathsRestored
from little_loops.fsm.path_text import path_text
from little_loops.light_typing import TYPE_CHECKING
from little_loops.trees.model import Snapshot

if TYPE_CHECKING:
    from little_loops.engine.local_world import LocalWorld

AGAIN = "it was changed again while it was being restored"


def restore_best(world: LocalWorld, command: RestoreBest) -> Happening:
    """Restore the files within the scope to the best tree, except those in the scopes of other runs
    and protected paths that are as they should be. What is replaced stays in the store.

    Returns the restored paths and those that could not be restored, or `StoreFailed`.
    """

    def restore(trees: RunTrees) -> PathsRestored:
        store, rules = trees.store, trees.rules
        wanted = _changed(trees, command, store.snapshot(rules, command.reference))
        done = store.put_back(rules, command.project, wanted)
        after = store.snapshot(rules, command.reference)
        known = frozenset(wanted).difference(done.paths)
        late = [path for path in _changed(trees, command, after) if path not in known]
        failed = (*done.failed, *(f"{path_text(path)}: {AGAIN}" for path in late))
        paths = tuple(path for path in done.paths if path not in late)
        return PathsRestored(
            world.clock.now(), "change", paths, failed, command.ending, after.project
        )

    return with_trees(world, command, restore)


def _changed(trees: RunTrees, command: RestoreBest, taken: Snapshot) -> tuple[str, ...]:
    """Return the paths to restore: those that differ between the best tree and a snapshot."""
    trees.others()
    right = frozenset[str]()
    if command.reference is not None:
        # What equals its reference is right, also if the best tree is older than the reference.
        tampered = tampered_since(trees, command.reference, taken.guard)
        right = trees.store.guarded(command.reference) - {each.path for each in tampered}
    changed = trees.store.inside(command.project, taken.project, trees.rules.scope)
    return tuple(path for path in changed if path not in right and not trees.is_anothers(path))
