"""Record snapshots of the tree, and what the rules of evidence conclude from them.

Not here: the rules themselves (`evidence`), when snapshots are taken (`tree_steps`).
"""

from __future__ import annotations

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
    one_report_each,
    tampering_of,
    trees_of,
    without,
)
from little_loops.fsm.happenings import PathsRestored, SnapshotCut, SnapshotTaken, StoreFailed
from little_loops.fsm.path_text import listed_paths
from little_loops.fsm.state import Trees
from little_loops.fsm.step_builder import StepBuilder
from little_loops.light_typing import Literal, assert_never

Look = SnapshotTaken | SnapshotCut | PathsRestored | StoreFailed


def note_tree_result(builder: StepBuilder, seen: Look) -> Ending | None:
    """Record a snapshot. Return the ending it was taken for or has led to, or None if the step
    continues."""
    match seen:
        case SnapshotTaken():
            _note_snapshot(builder, seen)
            return _ending_of_last_snapshot(seen)
        case SnapshotCut():
            _note_cut(builder, seen)
            return seen.ending
        case PathsRestored():
            _note_restored(builder, seen)
            return seen.ending
        case StoreFailed():
            return endings.failed("storage", seen.why)
        case _:
            assert_never(seen)


def _note_snapshot(builder: StepBuilder, taken: SnapshotTaken) -> None:
    """Record the findings first, then the tree: if a crash comes between them, the snapshot is
    repeated."""
    run, trees = builder.run, trees_of(builder.run)
    assert trees is not None, "only a run with evidence takes snapshots"
    for warning in taken.warnings:
        builder.note(RunWarning(warning, run.current_state))
    if trees.blame is None:
        _note_reference(builder, trees, taken)
    elif trees.blame == "apart":
        _note_changes_beside(builder, trees, taken)
    else:
        _note_changes(builder, trees, taken, taken.watched, taken.outside)
    if taken.strayed and builder.loop.scope_writes != "ignore":
        _note_strayed(builder, taken.strayed, "project", taken.patch)
    builder.note(
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
            taken.original,
        )
    )


def _note_strayed(
    builder: StepBuilder, paths: tuple[str, ...], beside: Literal["tree", "project"], patch: str
) -> None:
    """Record that files of a project changed while agents worked in worktrees of it."""
    here, scope_writes = builder.run.current_state, builder.loop.scope_writes
    builder.note(OutOfScope(here, len(paths), paths[:MAX_PATHS], scope_writes, beside, patch))


def _note_changes_beside(builder: StepBuilder, trees: Trees, taken: SnapshotTaken) -> None:
    """Record which paths of the tree changed while agents worked in worktrees of it. The user may
    have changed them, so nothing is restored, and what is protected keeps its new content.

    What was merged from the worktrees does not count: each run has applied the rules to its own.
    """
    evidence, here = builder.loop.evidence, builder.run.current_state
    changed = forbidden(evidence, taken.tampered) if taken.guard != trees.guard else ()
    found = one_report_each(
        builder.loop._replace(scope_writes="report"),
        Attributed(
            without(changed, taken.landed), without(taken.watched, taken.landed), taken.outside
        ),
    )
    tampering = REPORT if tampering_of(evidence) == REPORT else "fail"
    for paths, then in ((found.watched, REPORT), (found.protected, tampering)):
        if paths:
            builder.note(Tampered(here, len(paths), paths[:MAX_PATHS], then, "apart"))
    if len(found.protected) < len(changed):
        _note_reference(builder, trees, taken)
    if found.outside and builder.loop.scope_writes != "ignore":
        _note_strayed(builder, found.outside, "tree", taken.patch)


def _ending_of_last_snapshot(taken: SnapshotTaken) -> Ending | None:
    """Return the ending that the snapshot was taken for; not a success if the tree has changed
    since the last one."""
    if taken.when != "last" or taken.ending is None or taken.ending.status != "completed":
        return taken.ending
    if not taken.changed.files:
        return taken.ending
    paths = listed_paths(taken.changed.paths, taken.changed.files)
    message = f"{paths} changed after the last check passed, while leftover processes were ended"
    return endings.failed("stale_evidence", message)


def _note_cut(builder: StepBuilder, cut: SnapshotCut) -> None:
    """Record a snapshot that was cut off, after judging the protected paths as usual if they could
    be read."""
    trees = trees_of(builder.run)
    assert trees is not None, "only a run with evidence takes snapshots"
    if cut.guard is not None and trees.blame is None:
        _note_reference(builder, trees, cut)
    elif cut.guard is not None and trees.blame != "apart":
        _note_changes(builder, trees, cut)
    # What was merged from worktrees is not known now, so a resume judges the protected paths.
    guard = None if trees.blame == "apart" else cut.guard
    builder.note(TreeUnread(builder.run.current_state, cut.when, guard))


def _note_reference(builder: StepBuilder, trees: Trees, taken: SnapshotTaken | SnapshotCut) -> None:
    """Record that someone with permission changed protected paths, if they differ from the last
    snapshot."""
    if taken.tampered and taken.guard != trees.guard:
        paths = tuple(each.path for each in taken.tampered)
        builder.note(ReferenceMoved(len(paths), paths[:MAX_PATHS], trees.moved_by or "unknown"))


def _note_changes(
    builder: StepBuilder,
    trees: Trees,
    taken: SnapshotTaken | SnapshotCut,
    watched: tuple[str, ...] = (),
    outside: tuple[str, ...] = (),
) -> None:
    """Record which protected, watched and outside paths an agent or a check changed, and what
    follows. Restoring becomes a failure after `MAX_RESTORES` attempts."""
    evidence, here = builder.loop.evidence, builder.run.current_state
    by = trees.blame or "agent"
    is_tampered = is_tampering(evidence, trees, taken.guard or "", taken.when)
    found = one_report_each(
        builder.loop,
        Attributed(
            forbidden(evidence, taken.tampered) if is_tampered else (),
            watched if by == "agent" else (),
            outside if is_out_of_scope(builder.loop, trees) else (),
        ),
    )
    tampering = tampering_of(evidence)
    if tampering == "restore" and trees.restores >= MAX_RESTORES:
        tampering = "fail"  # something changes them as fast as they are restored
    for paths, then in ((found.watched, REPORT), (found.protected, tampering)):
        if paths:
            builder.note(Tampered(here, len(paths), paths[:MAX_PATHS], then, by))
    if paths := found.outside:
        builder.note(OutOfScope(here, len(paths), paths[:MAX_PATHS], builder.loop.scope_writes))


def _note_restored(builder: StepBuilder, restored: PathsRestored) -> None:
    """Record which paths were restored, and which could not be."""
    builder.note(
        Restored(
            builder.run.current_state,
            len(restored.paths),
            restored.paths[:MAX_PATHS],
            restored.of,
            restored.failed[:MAX_PATHS],
            restored.project,
            restored.kept,
        )
    )
