"""Write down what was seen of the tree, and what the rules make of it.

Not here: the rules themselves (`evidence`), when the tree is looked at (`tree_steps`).
"""

from __future__ import annotations

from typing import assert_never

from little_loops.fsm import endings
from little_loops.fsm.commands import Ending
from little_loops.fsm.events import (
    OutOfScope,
    ReferenceMoved,
    Restored,
    RunWarning,
    Tampered,
    Tree,
    TreeUnread,
)
from little_loops.fsm.evidence import (
    MAX_PATHS,
    MAX_RESTORES,
    REPORT,
    Attributed,
    forbidden,
    is_out_of_scope,
    is_tampering,
    known,
    one_report_each,
    tampering_of,
)
from little_loops.fsm.happenings import PathsRestored, SnapshotCut, SnapshotTaken, StoreFailed
from little_loops.fsm.path_text import listed
from little_loops.fsm.state import Trees
from little_loops.fsm.turn import Turn

Look = SnapshotTaken | SnapshotCut | PathsRestored | StoreFailed


def note_look(turn: Turn, seen: Look) -> Ending | None:
    """The ending that the look was taken for, or that it has led to; None: the step continues."""
    match seen:
        case SnapshotTaken():
            _note_snapshot(turn, seen)
            return _true_ending(seen)
        case SnapshotCut():
            _note_cut(turn, seen)
            return seen.ending
        case PathsRestored():
            _note_restored(turn, seen)
            return seen.ending
        case StoreFailed():
            return endings.failed("storage", seen.why)
        case _:
            assert_never(seen)


def _note_snapshot(turn: Turn, taken: SnapshotTaken) -> None:
    """What was found first, then the tree itself: a log cut between them is looked at again."""
    run, trees = turn.run, known(turn.run)
    assert trees is not None, "only a run with evidence takes snapshots"
    for warning in taken.warnings:
        turn.note(RunWarning(warning, run.current_state))
    if trees.blame is None:
        _note_reference(turn, trees, taken)
    else:
        _note_changes(turn, trees, taken, taken.watched, taken.outside)
    turn.note(
        Tree(
            run.current_state,
            run.step,
            run.attempt + (taken.when == "before"),
            taken.when,
            taken.tree,
            taken.project,
            taken.guard,
            taken.changed,
            taken.compared,
            taken.committed,
            taken.late,
        )
    )


def _true_ending(taken: SnapshotTaken) -> Ending | None:
    """The ending that the look was taken for; no success if the tree has changed since the last."""
    if taken.when != "last" or taken.ending is None or taken.ending.status != "completed":
        return taken.ending
    if not taken.changed.files:
        return taken.ending
    paths = listed(taken.changed.paths, taken.changed.files)
    message = f"{paths} changed after the last check passed, while leftover processes were ended"
    return endings.failed("stale_evidence", message)


def _note_cut(turn: Turn, cut: SnapshotCut) -> None:
    """Protected paths are judged as ever, if they could be read."""
    trees = known(turn.run)
    assert trees is not None, "only a run with evidence takes snapshots"
    if cut.guard is not None and trees.blame is None:
        _note_reference(turn, trees, cut)
    elif cut.guard is not None:
        _note_changes(turn, trees, cut)
    turn.note(TreeUnread(turn.run.current_state, cut.when, cut.guard))


def _note_reference(turn: Turn, trees: Trees, taken: SnapshotTaken | SnapshotCut) -> None:
    """Somebody has changed protected paths who may."""
    if taken.tampered and taken.guard != trees.guard:
        paths = tuple(each.path for each in taken.tampered)
        turn.note(ReferenceMoved(len(paths), paths[:MAX_PATHS], trees.moved_by or "unknown"))


def _note_changes(
    turn: Turn,
    trees: Trees,
    taken: SnapshotTaken | SnapshotCut,
    watched: tuple[str, ...] = (),
    outside: tuple[str, ...] = (),
) -> None:
    evidence, here = turn.loop.evidence, turn.run.current_state
    by = trees.blame or "agent"
    is_tampered = is_tampering(evidence, trees, taken.guard or "", taken.when)
    found = one_report_each(
        turn.loop,
        Attributed(
            forbidden(evidence, taken.tampered) if is_tampered else (),
            watched if by == "agent" else (),
            outside if is_out_of_scope(turn.loop, trees) else (),
        ),
    )
    tampering = tampering_of(evidence)
    if tampering == "restore" and trees.restores >= MAX_RESTORES:
        tampering = "fail"  # somebody changes them as fast as they are put back
    for paths, then in ((found.watched, REPORT), (found.protected, tampering)):
        if paths:
            turn.note(Tampered(here, len(paths), paths[:MAX_PATHS], then, by))
    if paths := found.outside:
        turn.note(OutOfScope(here, len(paths), paths[:MAX_PATHS], turn.loop.scope_writes))


def _note_restored(turn: Turn, restored: PathsRestored) -> None:
    turn.note(
        Restored(
            turn.run.current_state,
            len(restored.paths),
            restored.paths[:MAX_PATHS],
            restored.of,
            restored.failed[:MAX_PATHS],
        )
    )
