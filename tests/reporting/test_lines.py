"""What is said of an action that has ended."""

from __future__ import annotations

from typing import Any

import pytest

from little_loops.fsm.events import (
    HostWait,
    LoopComplete,
    LoopInterrupted,
    Restored,
    Resume,
    Tampered,
    Tree,
    TreeUnread,
    WorktreesCleared,
)
from little_loops.fsm.state import Changed
from little_loops.reporting.lines import PlainLines
from little_loops.reporting.worktree_lines import worktree_lines
from tests.entries import event

REFUSED = {"agent": "wait", "reason": "a rate limit was reached"}


def row(name: str, kind: str, told: str, **fields: Any):
    return pytest.param(kind, fields, told, id=name)


@pytest.mark.parametrize(
    ("kind", "fields", "told"),
    [
        row("a command", "shell", "✓ two (exit 0)", output="one\ntwo\n"),
        row("a command that printed much", "shell", "✓ the end (exit 0)", output=None, tail="the end"),
        row("a table", "shell", "✓ a | 96 % (exit 0)", output="a | 96 %\n--|---\n==+===\n"),
        row("only a frame", "shell", "✓ --- (exit 0)", output="===\n---\n"),
        row("a command without a word", "shell", "✓ (exit 0)", output=""),
        row("an agent", "prompt", "✓ I mended it", output="I mended it", agent="success"),
        row("an agent without an answer", "prompt", "✗ a rate limit was reached",
            output="", tail='{"type": "result", "is_error": true}\n', **REFUSED),
    ],
)  # fmt: skip
def test_an_action_ends_with_what_it_said(kind: str, fields: dict[str, Any], told: str) -> None:
    teller = PlainLines("demo", 9)
    teller.lines(event("action_start", action_type=kind))
    assert teller.lines(event("action_complete", **fields)) == [f"       {told}"]


def test_a_wait_of_an_earlier_version_does_not_say_how_long():
    wait = HostWait("fix", "usage limit reached", 5)
    assert PlainLines("demo", 9).lines(wait) == ["       waiting: usage limit reached"]
    assert PlainLines("demo", 9).lines(wait._replace(wait_ms=5000)) == [
        "       waiting 5.0s: usage limit reached"
    ]


def test_a_path_that_could_not_be_restored_is_not_among_those_that_were():
    teller = PlainLines("demo", 9)
    assert teller.lines(Tampered("fix", 2, ("tests/a", "tests/b"), "restore", "check")) == []
    restored = Restored("fix", 1, ("tests/a",), "protected", ("tests/b: permission denied",))
    assert teller.lines(restored) == [
        "       ! tests/a was changed while the check ran: restored",
        "       ! not restored: tests/b: permission denied",
    ]


def test_who_changed_what_a_resume_restores_is_not_said_again():
    restored = Restored("fix", 2, ("tests/a", "tests/b"), "protected")
    assert PlainLines("demo", 9).lines(restored) == [
        "       ! tests/a, tests/b were changed: restored"
    ]


@pytest.mark.parametrize(
    ("paths", "words"),
    [
        (("tests/a",), ("it", "tests/a")),
        (("tests/a b",), ("it", "PATH")),
        (("tests/a", "tests/b"), ("them", "PATH")),
    ],
)
def test_what_is_restored_after_a_kill_can_be_brought_back(paths, words):
    teller = PlainLines("demo", 9, name="mine")
    teller.lines(Resume("fix", 1, "running"))
    teller.lines(Tampered("fix", len(paths), paths, "restore", "agent"))
    restored = Restored("fix", len(paths), paths, "protected", kept="3" * 40)
    assert teller.lines(restored)[1:] == [
        f"       If you changed {words[0]} after the kill, this restores your version:",
        f"         ll-loop restore mine {words[1]} --tree 3333333333",
    ]
    teller.lines(event("action_start", action_type="prompt"))
    assert len(teller.lines(restored)) == 1


def test_a_run_that_stopped_before_it_had_read_its_files_says_so():
    stopped = LoopInterrupted("interrupted", "signal", "fix", 1, 2000, 2)
    files = "Files changed: unknown, because the run stopped before all files were read"
    protected = "Protected files were not compared; `ll-loop resume` does that"
    for guard, told in (("a1", [files]), (None, [files, protected])):
        teller = PlainLines("demo", 9)
        assert teller.lines(TreeUnread("fix", "end", guard)) == []
        assert teller.lines(stopped)[2:] == told
        teller.lines(Tree("fix", 1, 1, "end", "a1", "a1", "a1"))
        assert teller.lines(stopped)[2:] == []


@pytest.mark.parametrize(
    ("snapshots", "told"),
    [
        pytest.param([("end", 1, ())], "1 file has", id="by the action of the success state"),
        pytest.param([("end", 4, ()), ("end", 2, ())], "2 files have", id="the last one counts"),
        pytest.param([("end", 2, ()), ("last", 0, ())], "2 files have", id="before leftovers end"),
        pytest.param([("end", 0, (9, 3))], "3 files have", id="since an agent's check passed"),
    ],
)
def test_the_ending_says_how_many_files_have_changed_since_the_last_pass(snapshots, told):
    teller = PlainLines("demo", 9)
    for when, changed, compared in snapshots:
        since = tuple(map(Changed, compared))
        teller.lines(Tree("done", 1, 1, when, "a1", "a1", "a1", Changed(changed), since))
    ended = LoopComplete("completed", "terminal", "done", 1, 2000, evidence="stale")
    assert teller.lines(ended)[-1] == f"Not verified: {told} changed since the last check passed"


@pytest.mark.parametrize(
    ("count", "lines"),
    [
        (0, []),
        (3, ["kept: 0", "kept: 1", "kept: 2"]),
        (4, ["kept: 4 worktrees, listed by `ll-loop worktrees`"]),
    ],
)
def test_many_worktrees_that_are_kept_are_one_line(count, lines):
    event = WorktreesCleared((), tuple(map(str, range(count))))
    assert worktree_lines(event, "x") == lines
