"""What git answers in a world without effects: branches are merged, and the user's branch moves."""

from __future__ import annotations

from collections.abc import Callable

from little_loops.fsm.commands import (
    CheckMerged,
    ClearWorktrees,
    CommitWork,
    FindBase,
    LandTrain,
    MergeBranch,
    PrepareWorktree,
    StartTrain,
    WorktreeCommand,
)
from little_loops.fsm.happenings import (
    BaseFound,
    Happening,
    LandingTried,
    MergedTreeChecked,
    MergeTried,
    TrainReady,
    WorkSaved,
    WorktreePrepared,
    WorktreesGone,
)
from little_loops.fsm.state import Workspace
from little_loops.fsm.timestamps import Moment
from little_loops.light_typing import Final, assert_never

START: Final = "0" * 40
ONTO: Final = "main"


def answer(at: Moment, command: WorktreeCommand, fits: Callable[[str], bool] = bool) -> Happening:
    """Return what happens if everything goes well, except for branches that do not fit."""
    match command:
        case PrepareWorktree():
            return WorktreePrepared(at, Workspace("worktree", "ll/scripted", START, ONTO))
        case CommitWork():
            return WorkSaved(at, command.ended, _commit(1), 1)
        case FindBase():
            return BaseFound(at, START, ONTO)
        case StartTrain():
            return TrainReady(at, START, command.ended)
        case MergeBranch() if not fits(command.branch):
            return MergeTried(at, command.branch, None, (), "conflict", command.ended)
        case MergeBranch():
            commit = _commit(len(command.train.merged) + 2)
            return MergeTried(at, command.branch, commit, ended=command.ended)
        case CheckMerged():
            return MergedTreeChecked(at, command.branch, True, ended=command.ended)
        case LandTrain():
            return LandingTried(at, ended=command.ended)
        case ClearWorktrees():
            return WorktreesGone(at, command.branches, command.kept, command.ended)
        case _:
            assert_never(command)


def _commit(number: int) -> str:
    return f"{number:040x}"
