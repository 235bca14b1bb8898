"""What became of the branches that a run has merged."""

from __future__ import annotations

from typing import Any

import pytest

from little_loops.fsm.events import (
    BranchBase,
    BranchLeftOut,
    BranchMerged,
    ChildEnd,
    Entry,
    MergeChecked,
    StateEnter,
    TrainLanded,
    TrainStart,
    WorktreesCleared,
)
from little_loops.fsm.state import LeftOut, Stage
from little_loops.runs.merges import MergeSummary, merges_of

BASE = BranchBase("all", "0", "main")
BEGUN = TrainStart("main", "0", "0")
A, B = BranchMerged("a", "1"), BranchMerged("b", None, files=("f",), reason="conflict")
OUT = BranchLeftOut("b", ("f",), "conflict", "it failed")
LEFT = LeftOut("b", ("f",), "conflict", "it failed")
LANDED = TrainLanded("main", "1", ("a",))
STUCK = TrainLanded("main", "1", ("a",), "edited", "git merge x")


def ended(name: str, stage: Stage, reason: str = "terminal", message: str = "") -> ChildEnd:
    return ChildEnd("all", name, stage, "failed", reason, "", 1, 0, message)


GONE = ended("a", "error")  # resumed, it passed
FAILURES = (
    ended("a", "pass"),
    ended("b", "fail"),
    ended("c", "stopped"),
    ended("d", "error", "error", "no worktree"),
)
RESOLVED = ended("b.resolve-1", "fail")
FAILED = LeftOut("b", reason="it failed")
CRASHED = LeftOut("d", reason="it failed: no worktree")


@pytest.mark.parametrize(
    ("events", "merges"),
    [
        pytest.param([StateEnter("all", 1, 1, "initial")], [], id="no branches"),
        pytest.param([BASE], [], id="merging has not begun"),
        pytest.param([BASE, BEGUN, A, LANDED], [MergeSummary("all", "main", ("a",))], id="all fit"),
        pytest.param(
            [BASE, BEGUN, A, B, OUT, LANDED, WorktreesCleared(("x",), ("y",))],
            [MergeSummary("all", "main", ("a",), (LEFT,), kept=("y",))],
            id="one left out",
        ),
        pytest.param(
            [BASE, BEGUN, BranchMerged("a", "1", True), MergeChecked("a", "1", True), STUCK],
            [MergeSummary("all", "main", ("a",), (), "edited", "git merge x")],
            id="checked, and not landed",
        ),
        pytest.param(
            [BASE, BEGUN, A, TrainStart("main", "9", "0", True), A, LANDED],
            [MergeSummary("all", "main", ("a",))],
            id="merged again",
        ),
        pytest.param(
            [BASE, BEGUN, B, OUT, WorktreesCleared(), BASE, BEGUN, A, LANDED],
            [MergeSummary("all", "main", ("a",))],
            id="the state ran again",
        ),
        pytest.param(
            [
                BASE,
                BEGUN,
                A,
                LANDED,
                WorktreesCleared(),
                BEGUN,
                A,
                LANDED,
                WorktreesCleared(own=True),
            ],
            [MergeSummary("all", "main", ("a",)), MergeSummary(None, "main", ("a",))],
            id="the run itself, too",
        ),
        pytest.param(
            [BASE, GONE, *FAILURES, BEGUN, A, RESOLVED, LANDED, WorktreesCleared(), BEGUN, A],
            [
                MergeSummary("all", "main", ("a",), (FAILED, CRASHED)),
                MergeSummary(None, "main", ("a",)),
            ],
            id="some have failed",
        ),
        pytest.param(
            [TrainStart(None, "0", "0"), A], [MergeSummary(None, "HEAD", ("a",))], id="no branch"
        ),
    ],
)
def test_merges(events: list[Any], merges: list[MergeSummary]) -> None:
    entries = [Entry(event, 0, 0, "r", number) for number, event in enumerate(events, 1)]
    assert merges_of(entries) == merges
