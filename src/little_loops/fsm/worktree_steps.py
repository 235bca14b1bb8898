"""Runs in worktrees of their own: preparing one, and getting the work back.

A run in a worktree prepares it before anything else, and commits its work when it has completed.
Then its branch is merged: by the run itself, or, if a state has started it, by the run of that
state, together with the other branches. Nothing is remembered that git knows: each command can be
repeated after a crash.

Not here: the order of merging (`train`), what the events change (`evolve_worktrees`), git
(`engine.worktree_runs`, `engine.merge_trains`).
"""

from __future__ import annotations

from little_loops.fsm import endings
from little_loops.fsm.commands import (
    CheckMerged,
    ClearWorktrees,
    Command,
    CommitWork,
    FindBase,
    Job,
    LandTrain,
    MergeBranch,
    PrepareWorktree,
    RunChildren,
    StartTrain,
)
from little_loops.fsm.events import (
    BranchBase,
    BranchLeftOut,
    BranchMerged,
    ChildStart,
    MergeChecked,
    ResolveStart,
    RunWarning,
    TrainLanded,
    TrainStart,
    WorkCommitted,
    WorktreeReady,
    WorktreesCleared,
)
from little_loops.fsm.happenings import (
    BaseFound,
    LandingTried,
    LeftoversEnded,
    MergedTreeChecked,
    MergeTried,
    TrainReady,
    WorkSaved,
    WorktreeFailed,
    WorktreeHappening,
    WorktreePrepared,
    WorktreesGone,
)
from little_loops.fsm.limits import time_left_ms
from little_loops.fsm.next_action import side_job
from little_loops.fsm.schema import CONFLICT, PASS, Worktree, own_worktree, worktree_of
from little_loops.fsm.state import Children, Judgement, Train
from little_loops.fsm.step_builder import StepBuilder
from little_loops.fsm.train import (
    MOST_RESTARTS,
    MOVED,
    Check,
    Land,
    LeaveOut,
    Merge,
    Resolve,
    Start,
    next_stop,
    why_incomplete,
)
from little_loops.light_typing import assert_never

OVER = ("failed", "stopped")
"""Statuses of runs that ended without success and do not continue on their own."""


def preparation_due(builder: StepBuilder) -> PrepareWorktree | None:
    """Return the command that gives the run its worktree, before anything else; None if it has one,
    or needs none."""
    worktree = own_worktree(builder.loop)
    if worktree is None or builder.run.workspace is not None:
        return None
    return PrepareWorktree(worktree, _job(builder), builder.loop.shell)


def _job(builder: StepBuilder) -> Job:
    """Return what `setup` and `check` need to run; only the loop's timeout limits them."""
    left = time_left_ms(builder.loop, builder.run, builder.at)
    return side_job(builder.loop, builder.run, left)._replace(deadline_of="loop")


# ── what git has done ──────────────────────────────────────────────────────────────────────────


def record(builder: StepBuilder, happening: WorktreeHappening) -> None:
    """Record what was done for a worktree, or for merging."""
    match happening:
        case WorktreePrepared():
            _record_prepared(builder, happening)
        case WorkSaved():
            space = builder.run.workspace
            assert space is not None, "only a run in a worktree commits its work"
            builder.note(WorkCommitted(space.branch, happening.commit, happening.files))
        case BaseFound():
            here = builder.run.current_state
            builder.note(BranchBase(here, happening.base, happening.onto))
        case WorktreesGone():
            own = happening.ended is not None
            builder.note(WorktreesCleared(happening.removed, happening.kept, own))
        case WorktreeFailed():
            pass
        case _:
            _record_merge(builder, happening)


def _record_prepared(builder: StepBuilder, prepared: WorktreePrepared) -> None:
    space = prepared.workspace
    builder.note(WorktreeReady(space.path, space.branch, space.base, space.onto))
    for warning in prepared.warnings:
        builder.note(RunWarning(warning))


def _record_merge(
    builder: StepBuilder, happening: TrainReady | MergeTried | MergedTreeChecked | LandingTried
) -> None:
    """Record one step of merging."""
    train = train_of(builder)
    match happening:
        case TrainReady():
            builder.note(TrainStart(train.onto, happening.head, train.base))
        case MergeTried():
            worktree = _settings(builder, happening.ended)
            is_new = happening.commit not in (None, train.tip)
            builder.note(
                BranchMerged(
                    happening.branch,
                    happening.commit,
                    is_new and worktree.check is not None,
                    happening.files,
                    happening.reason,
                )
            )
        case MergedTreeChecked():
            # Without a trial, the branches have changed nothing.
            commit, reason = train.trial_commit or train.tip, happening.reason
            builder.note(MergeChecked(happening.branch, commit, happening.passed, reason))
        case LandingTried():
            _record_landing(builder, train, happening)
        case _:
            assert_never(happening)


def _record_landing(builder: StepBuilder, train: Train, landing: LandingTried) -> None:
    """Record that the user's branch was moved, or why not; if it has other commits now, merging
    begins again on top of them."""
    if landing.moved_to is not None and train.restarts < MOST_RESTARTS:
        builder.note(TrainStart(train.onto, landing.moved_to, train.base, again=True))
        return
    reason = MOVED if landing.moved_to is not None else landing.reason
    builder.note(TrainLanded(train.onto, train.tip, train.merged, reason, landing.command))


def train_of(builder: StepBuilder) -> Train:
    """Return the branches that are being merged: those of the current state, or the run's own."""
    run = builder.run
    if run.train is not None:
        return run.train
    assert run.workspace is not None, "only a run in a worktree has its own work to merge"
    return Train(run.workspace.base, run.workspace.onto)


def _settings(builder: StepBuilder, ended: LeftoversEnded | None) -> Worktree:
    """Return the settings of the branches that are merged: at the end, those of the loop."""
    found = worktree_of(builder.state) if ended is None else own_worktree(builder.loop)
    assert found is not None, "only a loop or a state with a worktree merges branches"
    return found


def _next_command(
    builder: StepBuilder,
    branches: tuple[str, ...],
    children: Children | None,
    ended: LeftoversEnded | None,
) -> Command | None:
    """Return the next command to merge these branches; None if nothing is left to do."""
    worktree = _settings(builder, ended)
    stop = next_stop(worktree, branches, train_of(builder))
    while isinstance(stop, LeaveOut):
        builder.note(BranchLeftOut(*stop.out))
        stop = next_stop(worktree, branches, train_of(builder))
    train = train_of(builder)
    match stop:
        case None:
            return None
        case Start():
            return StartTrain(train, ended)
        case Merge():
            return MergeBranch(worktree, train, stop.branch, children, ended)
        case Check():
            job, shell = _job(builder), builder.loop.shell
            is_new = stop.commit != train.head
            return CheckMerged(worktree, job, shell, stop.branch, stop.commit, ended, is_new)
        case Resolve():
            return _resolve(builder, stop, children)
        case Land():
            return LandTrain(train, ended)
        case _:
            assert_never(stop)


def _resolve(builder: StepBuilder, stop: Resolve, children: Children | None) -> RunChildren:
    """Return the command that starts or continues the run that is to resolve a branch."""
    assert children is not None, "`resolve` is only for the branches of a state"
    if (out := stop.failing) is not None:
        builder.note(ResolveStart(out.name, stop.child, out.files, out.reason, out.resolve))
    builder.note(ChildStart(children.state, stop.child, stop.failing is None))
    has_paused = children.beside is not None and children.beside.stage == "resumed"
    return RunChildren(
        children.state,
        children.step,
        children.attempt,
        (stop.child,),
        resumed=(stop.child,) if has_paused else (),
        deadline_ms=time_left_ms(builder.loop, builder.run, builder.at),
    )


# ── of a state ─────────────────────────────────────────────────────────────────────────────────


def base_due(builder: StepBuilder) -> FindBase | None:
    """Return the command that finds the commit for the worktrees of a state, if it needs one."""
    worktree = worktree_of(builder.state)
    if worktree is None or builder.run.train is not None:
        return None
    return FindBase(builder.run.current_state, worktree.from_)


def merge_due(builder: StepBuilder, children: Children, decided: Judgement) -> Command | Judgement:
    """Return the next command to merge the branches of a state that passed, now that all have
    ended, or to remove their worktrees; else the verdict."""
    worktree = worktree_of(builder.state)
    if worktree is None or builder.run.train is None:
        return decided
    passed = tuple(
        name for name, stage in zip(children.names, children.stages, strict=True) if stage == "pass"
    )
    command = _next_command(builder, passed, children, None)
    if command is not None:
        return command
    train = train_of(builder)
    if not train.is_cleared:
        return _clear(worktree, train, children, passed)
    why = why_incomplete(train)
    return Judgement(CONFLICT, why) if why and decided.verdict == PASS else decided


def _clear(
    worktree: Worktree, train: Train, children: Children, passed: tuple[str, ...]
) -> ClearWorktrees:
    """Return the command that removes the worktrees which `keep` does not ask for."""
    out = {each.name for each in train.left_out}
    is_stuck = train.landing is not None and bool(train.landing.reason)
    failed = {name for name in children.names if name not in passed or name in out or is_stuck}
    by_setting = {"always": set(children.names), "never": set(), "failed": failed}
    kept = tuple(name for name in children.names if name in by_setting[worktree.keep])
    gone = tuple(name for name in children.names if name not in kept)
    return ClearWorktrees(gone, kept, children, save=worktree.keep == "never")


# ── of the run itself ──────────────────────────────────────────────────────────────────────────


def at_end(builder: StepBuilder, ended: LeftoversEnded) -> Command | LeftoversEnded:
    """Return the next command that saves the work of a run in a worktree, now that it has ended;
    when nothing is left to do, how it has ended."""
    run, worktree = builder.run, own_worktree(builder.loop)
    space = run.workspace
    assert worktree is not None, "a run always works in the same place"
    assert space is not None, "only a run in a worktree saves its work"
    if ended.ending.status == "completed":
        if not space.is_committed:
            return CommitWork(space, ended)
        command = _next_command(builder, _own_branch(builder), None, ended)
        if command is not None:
            return command
        if run.train is not None and (why := why_incomplete(train_of(builder))):
            ended = ended._replace(ending=endings.failed(CONFLICT, why))
    if space.is_cleared or not _is_removed(worktree, ended.ending.status):
        return ended
    return ClearWorktrees((run.loop,), (), None, worktree.keep == "never", ended)


def _own_branch(builder: StepBuilder) -> tuple[str, ...]:
    """Return the run's own branch, by the name of its loop, if there is anything to merge, or to
    check."""
    space, worktree = builder.run.workspace, own_worktree(builder.loop)
    has_check = worktree is not None and worktree.check is not None
    is_due = space is not None and (space.commit is not None or has_check)
    return (builder.run.loop,) if is_due else ()


def _is_removed(worktree: Worktree, status: str) -> bool:
    """Return whether the worktree of a run is removed when it ends like this. One that can be
    continued keeps it."""
    if status == "completed":
        return worktree.keep != "always"
    return worktree.keep == "never" and status in OVER
