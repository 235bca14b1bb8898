"""Merge branches one after the other, check each merged tree, and move the user's branch.

Merging needs no work tree, and nothing of the user's moves before the end. The check runs in a
clean copy: the files of the merged commit, with those that git ignores as in the clean copy of a
check (`trees.copies`), and a `.git` of its own.

Not here: which of this is due (`fsm.train`), git itself (`trees.merging`).
"""

from __future__ import annotations

import os

from little_loops.engine.action_process import Workplace
from little_loops.engine.copy_checks import PathTranslator
from little_loops.engine.hooks import Tail
from little_loops.engine.local_world import LocalWorld
from little_loops.engine.worktree_runs import (
    attempt,
    base_commit,
    commit_message,
    git_of,
    place_of_branch,
    problem_of,
    run_script,
    workspaces,
)
from little_loops.errors import StoreError
from little_loops.fsm.commands import CheckMerged, FindBase, LandTrain, MergeBranch, StartTrain
from little_loops.fsm.evidence import trees_of
from little_loops.fsm.happenings import (
    BaseFound,
    Happening,
    LandingTried,
    LeftoversEnded,
    MergedTreeChecked,
    MergeTried,
    StopAsked,
    TrainReady,
)
from little_loops.fsm.schema import WORKING_TREE
from little_loops.fsm.state import LoopState, Train
from little_loops.reporting.observers import Observer
from little_loops.system.user_state import state_home
from little_loops.trees import merging, worktrees
from little_loops.trees.git import Git
from little_loops.trees.merged_copies import CLEAN, MergedCopy
from little_loops.trees.python_paths import INSTALL, point_back
from little_loops.trees.rules import Rules

FOREIGN = "its git branch has commits that were made after its run had ended"
SAID = 200
"""How many characters of a check's last line are quoted in a reason."""


def find_base(world: LocalWorld, run: LoopState, command: FindBase) -> Happening:
    """Find the commit that the worktrees of a state begin at."""

    def do() -> Happening:
        git = git_of(world)
        merging.check_git(git)
        base = base_commit(git, world.place, command.from_, None, run)
        return BaseFound(world.clock.now(), base, merging.current_branch(git, world.place))

    return attempt(world, do)


def start(world: LocalWorld, run: LoopState, command: StartTrain) -> Happening:
    """Find the commit that branches are merged on top of: the newest of the user's branch."""

    def do() -> Happening:
        train = command.train
        name = "HEAD" if train.onto is None else worktrees.HEADS + train.onto
        head = worktrees.commit_of(git_of(world), _target(world, command.ended), name)
        if head is None:
            raise StoreError(f"the branch `{train.onto}` is gone", "create it again")
        return TrainReady(world.clock.now(), head, command.ended)

    return attempt(world, do, command.ended)


def _target(world: LocalWorld, ended: LeftoversEnded | None) -> str:
    """Return the directory whose branch is moved: where this run works, or, at the end of a run in
    a worktree, where that comes from."""
    if ended is None or world.worktree is None:
        return world.place
    return world.worktree.origin


# ── merging ────────────────────────────────────────────────────────────────────────────────────


def merge(world: LocalWorld, run: LoopState, command: MergeBranch) -> Happening:
    """Merge a branch with those before it, without a work tree."""
    return attempt(world, lambda: _merge(world, run, command), command.ended)


def _merge(world: LocalWorld, run: LoopState, command: MergeBranch) -> Happening:
    git, train, name, ended = git_of(world), command.train, command.branch, command.ended
    place = place_of_branch(world, command.children, name)
    theirs = None
    if place is not None:
        theirs = worktrees.commit_of(git, world.place, worktrees.HEADS + place.branch)
    if theirs is None:
        return MergeTried(world.clock.now(), name, None, (), "its git branch is gone", ended)
    known = workspaces(world, run, command.children, name)
    if theirs not in {commit for each in known for commit in (each.commit, each.base)}:
        return MergeTried(world.clock.now(), name, None, (), FOREIGN, ended)
    project = _target(world, ended)
    is_whole = command.worktree.from_ != WORKING_TREE
    kind: merging.MergeKind = (
        "merge" if command.worktree.merge == "merge" and is_whole else "squash"
    )
    title = f"Merge `{name}`" if kind == "merge" else f"{run.loop}: {name}"
    message = commit_message(title, run.loop, run.run, name)
    # A branch that was resolved begins at what it was resolved on, without uncommitted changes.
    if is_whole or not merging.contains(git, project, theirs, train.base):
        found = merging.merge(git, project, train.tip, theirs, message, kind)
    else:
        found = merging.rebased(git, project, train.base, theirs, train.tip, message)
    if isinstance(found, merging.Conflict):
        return MergeTried(world.clock.now(), name, None, found.files, "conflict", ended)
    return MergeTried(world.clock.now(), name, found.commit, ended=ended)


# ── checking ───────────────────────────────────────────────────────────────────────────────────


class Shown(Tail):
    """Keeps the end of what a check prints, and passes all of it on."""

    def __init__(self, onlookers: Observer) -> None:
        super().__init__()
        self._onlookers = onlookers

    def stdout(self, chunk: bytes) -> None:
        super().stdout(chunk)
        self._onlookers.printed("stdout", chunk)

    def stderr(self, chunk: bytes) -> None:
        super().stdout(chunk)
        self._onlookers.printed("stderr", chunk)


def check(world: LocalWorld, run: LoopState, command: CheckMerged) -> Happening:
    """Run the check on a merged tree, in a clean copy, which is removed afterwards."""
    return attempt(world, lambda: _check(world, run, command), command.ended)


def _check(world: LocalWorld, run: LoopState, command: CheckMerged) -> Happening:
    project, worktree = _target(world, command.ended), command.worktree
    assert worktree.check is not None, "without a check, nothing is checked"
    root, home = world.own_request().root, state_home(world.services.environ)
    start = _rules_of(world, run, project)
    copy = MergedCopy(git_of(world), root, project, run.run, home, start)
    copy.lay_out(command.commit, links=worktree.setup is None)
    copy.bring(worktree.copy, worktree.link)
    try:
        at = _workplace_in(world, copy)
        if worktree.setup is None and (why := copy.stand_in.leads_back(at.redirect(at.environ))):
            return _red(world, command, f"`check` cannot judge the merge: {why} ({INSTALL})")
        for what, script in (("setup", worktree.setup), ("check", worktree.check)):
            if script is None:
                continue
            tail = Shown(world.onlookers)
            shown = PathTranslator(tail, copy.project, project)
            ended = run_script(world, run, command.job, command.shell, script, shown, at)
            shown.close()
            if isinstance(ended, StopAsked):
                return ended
            if problem := problem_of(ended, tail):
                when = "after the merge" if command.is_new else "and no branch changed anything"
                return _red(world, command, f"`{what}` failed {when}: {problem[:SAID]}")
    finally:
        point_back(world.services.environ, copy.project, project)
        copy.remove()
    return MergedTreeChecked(world.clock.now(), command.branch, True, ended=command.ended)


def _rules_of(world: LocalWorld, run: LoopState, project: str) -> Rules | None:
    """Return what was fixed for the project when the run started; None if nobody knows."""
    if trees_of(run) is None:
        return None
    trees = world.trees
    known = [trees.rules, *([] if trees.original is None else [trees.original.rules])]
    return next((each for each in known if each.project == os.path.realpath(project)), None)


def _red(world: LocalWorld, command: CheckMerged, why: str) -> MergedTreeChecked:
    return MergedTreeChecked(world.clock.now(), command.branch, False, why, command.ended)


def _workplace_in(world: LocalWorld, copy: MergedCopy) -> Workplace:
    """Return where the check works: in the copy; its variables name the copy, not the project."""
    at = world.workplace
    environ = {**copy.environment(at.environ), CLEAN: "1"}
    redirect = copy.stand_in.environment
    return at._replace(project=copy.project, environ=environ, redirect=redirect)


# ── landing ────────────────────────────────────────────────────────────────────────────────────


def land(world: LocalWorld, run: LoopState, command: LandTrain) -> Happening:
    """Move the user's branch to the merged commit. A branch of ours keeps that commit, until it has
    been moved."""

    def do() -> Happening:
        git, train, project = git_of(world), command.train, _target(world, command.ended)
        name = merged_branch(run, command.ended)
        is_repeated = worktrees.commit_of(git, project, worktrees.HEADS + name) is not None
        words = ["update-ref", worktrees.HEADS + name, train.tip]
        worktrees.run_git(git, project, words, "keep the merged commit")
        found = merging.land(
            git, project, train.onto, train.head, train.tip, name, is_repeated=is_repeated
        )
        return _landed(world, git, project, train, name, found, command.ended)

    return attempt(world, do, command.ended)


def _landed(
    world: LocalWorld,
    git: Git,
    project: str,
    train: Train,
    name: str,
    found: merging.Landed | merging.Moved | merging.LandingRefused,
    ended: LeftoversEnded | None,
) -> LandingTried:
    """Return what became of the user's branch."""
    now = world.clock.now()
    command = f"git merge {name}"
    match found:
        case merging.Landed():
            worktrees.delete_branches(git, project, {name: train.tip})
            return LandingTried(now, ended=ended)
        case merging.Moved():
            return LandingTried(now, found.head, command=command, ended=ended)
        case merging.LandingRefused():
            return LandingTried(now, None, found.reason, found.command, ended)


def merged_branch(run: LoopState, ended: LeftoversEnded | None) -> str:
    """Return the name of the git branch that keeps the merged commit."""
    step = "" if ended is not None else f"-{run.step}"
    return f"ll/{run.loop}/merged/{run.run}{step}"
