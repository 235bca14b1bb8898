"""What has to be done about the tree at each point of a step.

Each function returns the command that comes first, or None if the step may continue. They look only
at the run, so a resume that finds half of it done does the rest.

Not here: the rules themselves (`evidence`), what a snapshot showed (`record_trees`), what a check's
verdict leads to (`check_steps`), carrying any of it out (`engine.evidence`, `engine.copy_checks`).
"""

from __future__ import annotations

from little_loops.fsm import endings
from little_loops.fsm.commands import (
    CopySource,
    Ending,
    EndLeftovers,
    OriginalLook,
    PutBack,
    RestoreProtected,
    TakeSnapshot,
    TreeCommand,
)
from little_loops.fsm.evidence import (
    REPORT,
    Rerun,
    has_unmeasured_change,
    is_observed,
    is_stale,
    landed_commits,
    latest_agent_pass,
    leads_to_success,
    never_settles,
    recheck_due,
    tampering_of,
    trees_of,
    watches_original,
)
from little_loops.fsm.happenings import LeftoversEnded
from little_loops.fsm.path_text import listed_paths
from little_loops.fsm.schema import TAMPERED
from little_loops.fsm.state import Judgement, LoopState, Move, Trees, When
from little_loops.fsm.step_builder import StepBuilder

WITHOUT_TREE = ("storage",)
"""Endings after which the tree can no longer be read."""
PAUSES = ("interrupted", "awaiting_continuation", "needs_review")
"""Endings after which a resume continues the work on a change."""


# ── the points of a step ───────────────────────────────────────────────────────────────────────


def before_action(builder: StepBuilder) -> TreeCommand | EndLeftovers | None:
    """Return what must happen before the action starts: restore files, take a snapshot, or end the
    run because of a finding. None if it can start."""
    trees = trees_of(builder.run)
    if trees is None or not is_observed(builder.loop, builder.run):
        return first_snapshot(builder)
    if (unfinished := _to_put_back(builder, trees)) is not None:
        return unfinished
    is_fresh = trees.snapshot == "before" or (trees.place == "clean" and trees.snapshot is not None)
    if not is_fresh:
        return _snapshot(builder, trees, "before")
    if trees.finding is not None:  # of an interrupted action: there is no verdict to route
        return EndLeftovers(endings.failed(trees.finding.verdict, trees.finding.reason))
    return None


def first_snapshot(builder: StepBuilder) -> TakeSnapshot | None:
    """Return the command for the first snapshot of the run, which comes before anything that may
    change files; None if it was taken, or the run takes none."""
    trees = trees_of(builder.run)
    if trees is None or trees.project is not None:
        return None
    return _snapshot(builder, trees, "before")


def after_action(builder: StepBuilder) -> TreeCommand | None:
    """Return what must happen before the action is judged: restore files or take a snapshot. None
    if nothing."""
    trees = trees_of(builder.run)
    if trees is None or not is_observed(builder.loop, builder.run):
        return None
    if (unfinished := _to_put_back(builder, trees)) is not None:
        return unfinished
    return (
        None
        if trees.snapshot == "after"
        else _snapshot(builder, trees, "after", late=builder.run.late)
    )


def before_success(builder: StepBuilder) -> TreeCommand | EndLeftovers | Judgement | Rerun | None:
    """Return what has to be done before the run enters a success state."""
    return None if builder.run.move is None else _proof_for(builder, builder.run.move)


def in_success(builder: StepBuilder) -> TreeCommand | EndLeftovers | Judgement | Rerun | None:
    """Return what has to be done in a success state before its action or the end; None unless the
    run was interrupted there and is resumed."""
    trees = trees_of(builder.run)
    if trees is None or trees.snapshot == "before":  # proved: its own action is next
        return None
    return _proof_for(builder, Move(builder.run.current_state, builder.run.entered_by or ""))


def _proof_for(
    builder: StepBuilder, move: Move
) -> TreeCommand | EndLeftovers | Judgement | Rerun | None:
    """Return what has to be done before a move to a success state: a snapshot, a rerun, a verdict
    because of a finding, or the ending. None if nothing, or for other moves."""
    trees = trees_of(builder.run)
    if trees is None or not leads_to_success(builder.loop, builder.run, move):
        return None
    if trees.project is None:  # nothing has run
        return None
    if (unfinished := _to_put_back(builder, trees)) is not None:
        return unfinished
    if trees.snapshot != "end":
        return _snapshot(builder, trees, "end")
    if trees.finding is not None:
        return Judgement(*trees.finding)
    return _commit_problem(builder, trees) or never_settles(trees) or _missing_proof(builder, trees)


def _missing_proof(builder: StepBuilder, trees: Trees) -> EndLeftovers | Rerun | None:
    """Return the check to run again, or the failure because of stale evidence; None if all is
    proved."""
    rerun = recheck_due(builder.loop, builder.run, trees)
    if rerun is None and trees.stale and builder.loop.evidence.strict:
        files = "1 file has" if trees.stale == 1 else f"{trees.stale} files have"
        return EndLeftovers(
            endings.failed("stale_evidence", f"{files} changed since the last check passed")
        )
    return rerun


def _commit_problem(builder: StepBuilder, trees: Trees) -> Judgement | None:
    """Return a problem if a commit still contains changes that were restored; commits are never
    moved."""
    if not trees.committed or tampering_of(builder.loop.evidence) != "fail":
        return None
    return Judgement(
        TAMPERED, f"a commit changes {listed_paths(trees.committed, len(trees.committed))}"
    )


def found_verdict(builder: StepBuilder) -> Judgement | None:
    """Return the verdict that the rules give an action, whatever its own result."""
    trees = trees_of(builder.run)
    return None if trees is None or trees.finding is None else Judgement(*trees.finding)


def before_end(builder: StepBuilder, ending: Ending) -> TreeCommand | EndLeftovers:
    """Return the command for the end: first restore files and take the last snapshot. A success
    becomes a failure if there is a finding or, if strict, the evidence is stale."""
    trees = trees_of(builder.run)
    if trees is None or trees.project is None or ending.reason in WITHOUT_TREE:
        return EndLeftovers(ending)
    if (unfinished := _to_put_back(builder, trees, ending)) is not None:
        return unfinished
    if ending.status not in PAUSES and (undo := undo_change(builder, ending)) is not None:
        return undo
    if trees.snapshot not in ("end", "last"):
        return _snapshot(builder, trees, "end", ending=ending)
    if trees.finding is not None and ending.status == "completed":
        ending = endings.failed(trees.finding.verdict, trees.finding.reason)
    if ending.status == "completed" and builder.loop.evidence.strict:
        return EndLeftovers(_unless_stale(builder, trees, ending))
    return EndLeftovers(ending)


def undo_change(builder: StepBuilder, ending: Ending | None = None) -> TreeCommand | None:
    """Return the command to put back a change that will not be measured, in a loop with `keep:
    best`; None if there is none."""
    trees = trees_of(builder.run)
    if trees is None or trees.best is None or not has_unmeasured_change(builder.run):
        return None
    if trees.snapshot not in ("end", "last"):
        return _snapshot(builder, trees, "end", ending=ending)
    if trees.tree == trees.best.tree:
        return None
    from little_loops.fsm.measuring import undo_unmeasured  # few loops keep the best

    return undo_unmeasured(builder, ending)


def _unless_stale(builder: StepBuilder, trees: Trees, ending: Ending) -> Ending:
    """Return the ending, or a failure if the action of the success state changed the proved tree."""
    if not is_stale(builder.loop, builder.run, trees):
        return ending
    message = (
        f"the action of `{builder.run.current_state}` changed files after the last check passed"
    )
    return endings.failed("stale_evidence", message)


def after_leftovers(builder: StepBuilder, ended: LeftoversEnded) -> TakeSnapshot | None:
    """Return the command for another snapshot if processes were ended, because a dying one may have
    changed proved files; else None."""
    trees = trees_of(builder.run)
    if trees is None or trees.snapshot != "end" or not ended.names:
        return None
    return _snapshot(builder, trees, "last", ending=ended.ending)


def _to_put_back(
    builder: StepBuilder, trees: Trees, ending: Ending | None = None
) -> TreeCommand | None:
    """Return the command to restore protected files, or those outside the scope, if that is due;
    else None."""
    if trees.restore and trees.reference is not None:
        existing_only = builder.loop.evidence.existing_only
        return RestoreProtected(trees.reference, existing_only, ending, trees.guard)
    if trees.put_back is not None:
        only_reported = tampering_of(builder.loop.evidence) == REPORT
        return PutBack(trees.put_back, None if only_reported else trees.reference, ending)
    if trees.best is not None and trees.best.undo:
        from little_loops.fsm.measuring import restore_best  # few loops keep the best

        return restore_best(trees, ending)
    return None


def _snapshot(
    builder: StepBuilder,
    trees: Trees,
    when: When,
    *,
    ending: Ending | None = None,
    late: bool = False,
) -> TakeSnapshot:
    """Return the command to take a snapshot; `late` if other things may have happened since the
    action ended, and `ending` if the run ends after it."""
    run = builder.run
    return TakeSnapshot(
        run.current_state,
        run.step,
        run.attempt + (when == "before"),
        when,
        trees.project,
        trees.reference,
        _to_compare(builder, trees) if when in ("end", "last") else (),
        ending,
        late,
        trees.blame == "apart",
        landed_commits(run, trees),
        _original(builder, trees),
    )


def _original(builder: StepBuilder, trees: Trees) -> OriginalLook | None:
    """Return how to look at the project that the run's worktree comes from; None if that is not
    necessary. What changes there while no agent works is the user's."""
    if not watches_original(builder.loop, builder.run):
        return None
    return OriginalLook(trees.original if trees.blame in ("agent", "apart") else None)


def _to_compare(builder: StepBuilder, trees: Trees) -> tuple[str, ...]:
    """Return the project at the start, and the one on which the latest agent's check passed."""
    passed = latest_agent_pass(builder.loop, builder.run, trees)
    given = (trees.first, passed.project if passed is not None else None)
    return tuple(project for project in given if project is not None)


def copy_for(loop_setup: str | None, run: LoopState) -> CopySource | None:
    """Return the clean copy that the current state's action runs in, or None for the project."""
    trees = trees_of(run)
    if trees is None or trees.place == "here":
        return None
    assert trees.project is not None, "a clean copy is of a stored project"
    assert trees.reference is not None, "if a project is stored, so are its protected paths"
    return CopySource(trees.project, trees.reference, loop_setup, trees.writes, trees.first)
