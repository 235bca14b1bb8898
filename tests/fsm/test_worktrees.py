"""Runs in worktrees of their own, and the merge train: what is recorded, and what follows."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.fsm import endings
from little_loops.fsm.branching import shares_tree
from little_loops.fsm.commands import (
    CheckMerged,
    ClearWorktrees,
    CommitWork,
    FindBase,
    LandTrain,
    MergeBranch,
    PrepareWorktree,
    RunChildren,
    StartTrain,
)
from little_loops.fsm.events import (
    BranchLeftOut,
    BranchMerged,
    ChildEnd,
    Entry,
    MergeChecked,
    ResolveStart,
    TrainLanded,
    TrainStart,
    WorkCommitted,
    WorktreesCleared,
)
from little_loops.fsm.evolve import evolve
from little_loops.fsm.evolve_worktrees import after_resolver
from little_loops.fsm.happenings import ChildOutcome
from little_loops.fsm.recorded import Recording, Unexpected
from little_loops.fsm.schema import (
    Branches,
    FSMLoop,
    StateConfig,
    Worktree,
    has_worktree,
    own_worktree,
    worktree_of,
)
from little_loops.fsm.state import Landing, LeftOut, LoopState, Train
from little_loops.fsm.train import (
    MOST_RESTARTS,
    Check,
    Land,
    LeaveOut,
    Merge,
    Resolve,
    Start,
    branch_of,
    next_stop,
    resolver_of,
    result_of,
    why_incomplete,
)
from little_loops.fsm.values import result_values
from tests.fsm.scripted import Crash, ScriptedWorld, Stop, begin, cut, go_on, told

INNER: dict[str, Any] = {
    "initial": "a",
    "states": {"a": {"action": "make", "next": "b"}, "b": {"terminal": True}},
}
ENDS = {"terminal": True}
OWN: dict[str, Any] = {"fix": {"action": "make", "next": "done"}, "done": ENDS}
PASSED = ChildOutcome("completed", "terminal", "b", 2, 1000)
FAILED = PASSED._replace(status="failed")
NIGHT = {"fields": {"name": "nightly"}}


def own(*script: Any, worktree: Any = True, **fields: Any) -> ScriptedWorld:
    """A loop with a worktree of its own."""
    loop = {"name": "nightly", "initial": "fix", "states": OWN, "worktree": worktree, **fields}
    return ScriptedWorld(FSMLoop.from_dict(loop), script or (0,))


def one(*script: Any, worktree: Any = True, **more: Any) -> ScriptedWorld:
    """A state with a sub-loop in a worktree."""
    states = {
        "types": {
            "loop": {"name": "fix-types", **INNER},
            "worktree": worktree,
            "on_pass": "done",
            "on_fail": "bad",
            **more,
        },
        "done": ENDS,
        "bad": {**ENDS, "outcome": "failure"},
        "torn": {**ENDS, "outcome": "failure"},
    }
    loop = {"name": "nightly", "initial": "types", "states": states}
    return ScriptedWorld(FSMLoop.from_dict(loop), script or (PASSED,))


def story(world: ScriptedWorld) -> str:
    begin(world)
    return told(world)


def text(block: str) -> str:
    return dedent(block).strip()


# ── a run in a worktree of its own ─────────────────────────────────────────────────────────────


def test_a_run_prepares_its_worktree_and_commits_its_work():
    assert story(own()) == text("""
        worktree path=worktree branch=ll/scripted base=0000 onto=main
        fix -> done (next)
        work_committed branch=ll/scripted commit=0001 files=1
        worktrees_cleared removed=['nightly'] own=True
        loop_complete: completed, terminal
        """)


def test_its_work_is_merged_if_that_is_asked_for():
    assert story(own(worktree={"merge": "squash", "check": "make test"})) == text("""
        worktree path=worktree branch=ll/scripted base=0000 onto=main
        fix -> done (next)
        work_committed branch=ll/scripted commit=0001 files=1
        merge_start onto=main head=0000 base=0000
        branch_merged branch=nightly commit=0002 to_check=True
        merge_checked branch=nightly commit=0002 passed=True
        merge_landed onto=main commit=0002 merged=['nightly']
        worktrees_cleared removed=['nightly'] own=True
        loop_complete: completed, terminal
        """)


def test_nothing_changed_means_nothing_to_merge():
    world = own(worktree={"merge": "merge"})
    world.git = {CommitWork: [{"commit": None, "files": 0}]}
    assert story(world) == text("""
        worktree path=worktree branch=ll/scripted base=0000 onto=main
        fix -> done (next)
        work_committed branch=ll/scripted
        worktrees_cleared removed=['nightly'] own=True
        loop_complete: completed, terminal
        """)


def test_a_check_judges_a_run_that_changed_nothing():
    world = own(worktree={"merge": "merge", "check": "make test"})
    world.git = {
        CommitWork: [{"commit": None, "files": 0}],
        MergeBranch: [{"commit": "0" * 40}],
        CheckMerged: [{"passed": False, "reason": "exit 1"}],
    }
    _, ending = begin(world)
    assert (ending.status, ending.reason) == ("failed", "conflict")
    assert ending.message == "`nightly` is not merged: exit 1"


def test_work_that_does_not_fit_fails_the_run_and_stays_where_it_is():
    world = own(worktree={"merge": "merge"})
    world.git = {MergeBranch: [{"commit": None, "files": ("a.py",), "reason": "conflict"}]}
    run, ending = begin(world)
    assert (ending.status, ending.reason) == ("failed", "conflict")
    assert ending.message == "`nightly` is not merged: conflict (a.py)"
    assert "worktrees_cleared" not in told(world)
    assert run.workspace is not None


def test_a_resume_commits_and_merges_again():
    world = own(worktree={"merge": "merge"})
    world.git = {MergeBranch: [{"commit": None, "files": ("a.py",), "reason": "conflict"}]}
    begin(world)
    _, ending = go_on(world, [0])
    assert ending.status == "completed"


@pytest.mark.parametrize(
    ("keep", "script", "removed"),
    [
        ("failed", [0], True),
        ("failed", [2], False),
        ("always", [0], False),
        ("always", [2], False),
        ("never", [0], True),
        ("never", [2], True),
        ("never", [Stop(15)], False),
    ],
)
def test_which_worktrees_are_kept(keep, script, removed):
    world = own(*script, worktree={"keep": keep})
    begin(world)
    cleared = [each for each in world.commands if isinstance(each, ClearWorktrees)]
    assert [each.save for each in cleared] == ([keep == "never"] if removed else [])


def test_a_worktree_that_cannot_be_made_ends_the_run_and_a_resume_tries_again():
    world = own()
    world.git = {PrepareWorktree: ["no space"]}
    _, ending = begin(world)
    assert (ending.status, ending.reason, ending.message) == ("failed", "error", "no space")
    _, ending = go_on(world, [0])
    assert ending.status == "completed"


def test_work_that_cannot_be_committed_fails_the_run():
    world = own()
    world.git = {CommitWork: ["no space"]}
    _, ending = begin(world)
    assert (ending.status, ending.reason, ending.message) == ("failed", "error", "no space")


def test_a_stop_while_the_worktree_is_prepared():
    world = own()
    world.git = {PrepareWorktree: [Stop(15)]}
    _, ending = begin(world)
    assert ending.status == "interrupted"
    _, ending = go_on(world, [0])
    assert ending.status == "completed"


@pytest.mark.parametrize(
    "command", [CommitWork, StartTrain, MergeBranch, LandTrain, ClearWorktrees]
)
def test_a_stop_while_the_work_is_saved(command):
    world = own(worktree={"merge": "merge"})
    world.git = {command: [Stop(15)]}
    _, ending = begin(world)
    assert ending.status == "interrupted"
    _, ending = go_on(world, [0])
    assert ending.status == "completed"
    assert told(world).count("merge_landed") == 1


@pytest.mark.parametrize("command", [FindBase, StartTrain, MergeBranch, LandTrain, ClearWorktrees])
def test_a_stop_while_a_state_merges(command):
    world = one()
    world.git = {command: [Stop(15)]}
    _, ending = begin(world)
    assert ending.status == "interrupted"
    _, ending = go_on(world, [PASSED])
    assert ending.status == "completed"
    assert told(world).count("merge_landed") == 1


def test_hooks_run_in_the_worktree():
    world = own(hooks={"before_run": "up"})
    begin(world)
    lines = told(world).split("\n")
    assert [line.split()[0] for line in lines[:2]] == ["worktree", "before_run"]


def test_what_was_not_brought_along_is_a_warning():
    world = own()
    world.git = {PrepareWorktree: [{"warnings": ("missing: .env",)}]}
    assert story(world).split("\n")[1] == "warning: missing: .env"


# ── a state with a sub-loop ────────────────────────────────────────────────────────────────────


def test_a_state_merges_the_work_of_its_loop():
    assert story(one(worktree={"check": "make test"})) == text("""
        branch_base state=types base=0000 onto=main
        types starts
        types ends: pass (terminal)
        merge_start onto=main head=0000 base=0000
        branch_merged branch=types commit=0002 to_check=True
        merge_checked branch=types commit=0002 passed=True
        merge_landed onto=main commit=0002 merged=['types']
        worktrees_cleared removed=['types']
        types -> done (on_pass)
        loop_complete: completed, terminal
        """)


def test_a_loop_that_fails_is_not_merged_and_its_worktree_is_kept():
    assert story(one(FAILED)) == text("""
        branch_base state=types base=0000 onto=main
        types starts
        types ends: fail (terminal)
        worktrees_cleared kept=['types']
        types -> bad (on_fail)
        loop_error: failed, terminal
        """)


def test_a_red_check_is_the_verdict_conflict():
    world = one(worktree={"check": "make test"}, on_conflict="torn")
    world.git = {CheckMerged: [{"passed": False, "reason": "exit 1"}]}
    assert story(world) == text("""
        branch_base state=types base=0000 onto=main
        types starts
        types ends: pass (terminal)
        merge_start onto=main head=0000 base=0000
        branch_merged branch=types commit=0002 to_check=True
        merge_checked branch=types commit=0002 passed=False reason=exit 1
        branch_left_out branch=types reason=exit 1
        worktrees_cleared kept=['types']
        types -> torn (on_conflict)
        loop_error: failed, terminal
        """)


@pytest.mark.parametrize(("passed", "verdict"), [(True, "on_pass"), (False, "on_conflict")])
def test_a_check_judges_a_loop_that_changed_nothing(passed, verdict):
    world = one(worktree={"check": "make test"}, on_conflict="torn")
    world.git = {
        MergeBranch: [{"commit": "0" * 40}],
        CheckMerged: [{"passed": passed, "reason": "" if passed else "exit 1"}],
    }
    lines = story(world).splitlines()
    assert f"merge_checked branch=types commit=0000 passed={passed}" in "\n".join(lines)
    assert lines[-2].endswith(f"({verdict})")
    assert not any("merge_landed" in line for line in lines)


def test_without_a_transition_a_conflict_ends_the_run():
    world = one()
    world.git = {MergeBranch: [{"commit": None, "files": ("a.py",), "reason": "conflict"}]}
    run, ending = begin(world)
    assert (ending.status, ending.reason) == ("failed", "conflict")
    assert ending.message == "`types` is not merged: conflict (a.py)"
    merge = result_values(run.captured["types"])["merge"]
    out = {"name": "types", "files": ("a.py",), "reason": "conflict", "resolve": ""}
    assert merge["left_out"] == [out]


def test_a_branch_that_moves_meanwhile_is_merged_again_on_top():
    world = one()
    world.git = {LandTrain: [{"moved_to": "9" * 40}] * 2}
    assert story(world) == text("""
        branch_base state=types base=0000 onto=main
        types starts
        types ends: pass (terminal)
        merge_start onto=main head=0000 base=0000
        branch_merged branch=types commit=0002
        merge_start onto=main head=9999 base=0000 again=True
        branch_merged branch=types commit=0002
        merge_start onto=main head=9999 base=0000 again=True
        branch_merged branch=types commit=0002
        merge_landed onto=main commit=0002 merged=['types']
        worktrees_cleared removed=['types']
        types -> done (on_pass)
        loop_complete: completed, terminal
        """)


def test_a_branch_that_keeps_moving_is_left_alone():
    world = one()
    world.git = {LandTrain: [{"moved_to": "9" * 40, "command": "git merge x"}] * 9}
    _, ending = begin(world)
    assert told(world).count("merge_start") == 4  # and three times more
    assert ending.reason == "conflict"
    assert ending.message.endswith("; `git merge x` finishes it")


def test_a_refused_landing_is_a_conflict_that_names_the_command():
    world = one()
    world.git = {LandTrain: [{"reason": "`a.py` has edits", "command": "git merge x"}]}
    _, ending = begin(world)
    assert ending.message == "`a.py` has edits; `git merge x` finishes it"
    assert "worktrees_cleared kept=['types']" in told(world)


def test_without_merge_the_work_stays_on_its_branch():
    assert story(one(worktree={"merge": "none"})) == text("""
        branch_base state=types base=0000 onto=main
        types starts
        types ends: pass (terminal)
        worktrees_cleared removed=['types']
        types -> done (on_pass)
        loop_complete: completed, terminal
        """)


@pytest.mark.parametrize("keep", ["always", "never"])
def test_what_a_state_keeps(keep):
    world = one(worktree={"keep": keep})
    begin(world)
    which = "kept" if keep == "always" else "removed"
    assert f"worktrees_cleared {which}=['types']" in told(world)
    [cleared] = [each for each in world.commands if isinstance(each, ClearWorktrees)]
    assert cleared.save is (keep == "never")


def test_only_the_timeout_of_the_loop_limits_setup_and_check():
    settings = {"merge": "merge", "setup": "make", "check": "make test"}
    world = own(worktree=settings, timeout=100)
    begin(world)
    first, check = [
        each.job for each in world.commands if isinstance(each, PrepareWorktree | CheckMerged)
    ]
    assert (first.deadline_of, first.deadline_ms) == ("loop", 100_000)
    assert (check.deadline_of, check.deadline_ms is not None) == ("loop", True)


def test_a_run_that_failed_commits_and_merges_nothing():
    world = own(2, worktree={"merge": "merge"})
    _, ending = begin(world)
    assert ending.status == "failed"
    assert not [each for each in world.commands if isinstance(each, CommitWork | MergeBranch)]


@pytest.mark.parametrize(
    ("merges", "checks"),
    [
        pytest.param([{"commit": None, "reason": "conflict"}], 1, id="a conflict"),
        pytest.param([{"commit": "1"}, {"commit": "1"}], 1, id="nothing new"),
        pytest.param([{"commit": "1"}, {"commit": "2"}], 2, id="both new"),
    ],
)
def test_only_a_new_commit_is_checked(merges, checks):
    states = {
        "all": {
            "for_each": ["a", "b"],
            "action": "make",
            "worktree": {"check": "make test"},
            "on_pass": "done",
        },
        "done": ENDS,
    }
    loop = {"name": "nightly", "initial": "all", "states": states}
    world = ScriptedWorld(FSMLoop.from_dict(loop), (PASSED, PASSED))
    world.git = {MergeBranch: merges}
    begin(world)
    assert sum(isinstance(each, CheckMerged) for each in world.commands) == checks


def test_a_failure_is_no_conflict_although_a_branch_was_left_out():
    states = {
        "all": {
            "for_each": ["a", "b"],
            "action": "make",
            "worktree": True,
            "on_pass": "done",
            "on_fail": "bad",
            "on_conflict": "torn",
        },
        "done": ENDS,
        "bad": {**ENDS, "outcome": "failure"},
        "torn": {**ENDS, "outcome": "failure"},
    }
    loop = {"name": "nightly", "initial": "all", "states": states}
    world = ScriptedWorld(FSMLoop.from_dict(loop), ("a", FAILED, "b", PASSED))
    world.git = {MergeBranch: [TORN]}
    run, _ = begin(world)
    assert run.current_state == "bad"


def test_git_that_fails_before_the_loop_starts_is_an_error_of_the_state():
    world = one(on_error="bad")
    world.git = {FindBase: ["no repository"]}
    assert story(world) == text("""
        warning: state `types`: no repository
        types -> bad (on_error)
        loop_error: failed, terminal
        """)


def test_git_that_fails_while_merging_is_an_error_of_the_state():
    world = one()
    world.git = {MergeBranch: ["no space"]}
    _, ending = begin(world)
    assert (ending.reason, ending.message) == ("error", "no space")


# ── resolving ──────────────────────────────────────────────────────────────────────────────────

RESOLVING = {"resolve": {"loop": {"name": "mend", **INNER}}, "tries": 2}
TORN = {"commit": None, "files": ("a.py",), "reason": "conflict"}


def test_a_branch_that_was_resolved_is_merged_again():
    world = one(PASSED, "types.resolve-1", PASSED, worktree=RESOLVING)
    world.git = {MergeBranch: [TORN]}
    assert story(world) == text("""
        branch_base state=types base=0000 onto=main
        types starts
        types ends: pass (terminal)
        merge_start onto=main head=0000 base=0000
        branch_merged branch=types files=['a.py'] reason=conflict
        resolve_start branch=types child=types.resolve-1 files=['a.py'] reason=conflict
        types.resolve-1 starts
        types.resolve-1 ends: pass (terminal)
        branch_merged branch=types commit=0002
        merge_landed onto=main commit=0002 merged=['types']
        worktrees_cleared removed=['types']
        types -> done (on_pass)
        loop_complete: completed, terminal
        """)


@pytest.mark.parametrize(
    ("outcome", "why"),
    [
        (FAILED._replace(message="cannot"), "cannot"),
        (FAILED, "it ended in `b`"),
        (FAILED._replace(final_state="failed", message="terminal"), "it failed"),
        (PASSED._replace(status="failed", reason="rejected"), "rejected"),
        (PASSED._replace(status="interrupted", reason="signal"), "stopped"),
    ],
)
def test_a_branch_that_cannot_be_resolved_is_left_out(outcome, why):
    tries = ["types.resolve-1", outcome, "types.resolve-2", outcome]
    world = one(PASSED, *tries, worktree=RESOLVING)
    world.git = {MergeBranch: [TORN]}
    _, ending = begin(world)
    reason = f"conflict (a.py); `resolve` did not fix it: {why}"
    assert ending.message == f"`types` is not merged: {reason}"


def test_a_run_that_resolves_and_dies_continues_once_in_each_try():
    died = PASSED._replace(status="crashed", reason="crash")
    first, second = ["types.resolve-1", died], ["types.resolve-2", died]
    world = one(PASSED, *first, *first, *second, "types.resolve-2", PASSED, worktree=RESOLVING)
    world.git = {MergeBranch: [TORN]}
    _, ending = begin(world)
    assert ending.status == "completed"
    assert [line.split(":")[0] for line in told(world).split("\n") if "ends: " in line][1:] == [
        "types.resolve-1 ends",
        "types.resolve-1 ends",
        "types.resolve-2 ends",
        "types.resolve-2 ends",
    ]
    assert resumed(world) == []


def test_a_run_that_resolves_ends_with_the_time_of_the_loop():
    world = one(PASSED, "types.resolve-1", PASSED, worktree=RESOLVING)
    world.loop = world.loop._replace(timeout=100)
    world.git = {MergeBranch: [TORN]}
    begin(world)
    last = [each for each in world.commands if isinstance(each, RunChildren)][-1]
    assert (last.start, last.deadline_ms) == (("types.resolve-1",), 98_970)


def test_a_stop_while_it_resolves_continues_there():
    world = one(PASSED, Stop(15), worktree=RESOLVING)
    world.git = {MergeBranch: [TORN]}
    _, ending = begin(world)
    assert ending.status == "interrupted"
    stops = [each.stop for each in world.commands if isinstance(each, RunChildren) and each.stop]
    assert stops == [("types.resolve-1",)]
    _, ending = go_on(world, ["types.resolve-1", PASSED])
    assert ending.status == "completed"
    assert told(world).count("resolve_start") == 1


def test_a_login_that_is_gone_ends_the_run_and_a_resume_resolves_on():
    gone = PASSED._replace(status="failed", reason="auth", message="log in")
    world = one(PASSED, "types.resolve-1", gone, worktree=RESOLVING)
    world.git = {MergeBranch: [TORN]}
    _, ending = begin(world)
    assert (ending.status, ending.reason) == ("failed", "auth")
    _, ending = go_on(world, ["types.resolve-1", PASSED])
    assert ending.status == "completed"
    assert resumed(world) == [("types.resolve-1",)]


def resumed(world: ScriptedWorld) -> list[tuple[str, ...]]:
    """The paused runs that are continued, one by one."""
    commands = [each for each in world.commands if isinstance(each, RunChildren)]
    return [each.resumed for each in commands if each.resumed]


@pytest.mark.parametrize(
    ("status", "reason"),
    [("awaiting_continuation", "handoff"), ("needs_review", "budget")],
)
def test_a_run_that_resolves_and_pauses_pauses_the_run_and_a_resume_continues_it(status, reason):
    paused = PASSED._replace(status=status, reason=reason, message="later")
    world = one(PASSED, "types.resolve-1", paused, worktree=RESOLVING)
    world.git = {MergeBranch: [TORN]}
    _, ending = begin(world)
    assert ending == endings.ending(status, reason, "`types.resolve-1`: later")
    _, ending = go_on(world, ["types.resolve-1", PASSED])
    assert ending.status == "completed"
    assert resumed(world) == [("types.resolve-1",)]
    assert told(world).count("resolve_start") == 1


def test_a_gate_of_a_run_that_resolves_stays_open_until_it_is_answered():
    at_gate = PASSED._replace(status="needs_review", reason="review")
    world = one(PASSED, "types.resolve-1", at_gate, worktree=RESOLVING)
    world.git = {MergeBranch: [TORN]}
    begin(world)
    run, ending = go_on(world, [])  # nobody has answered
    assert ending == endings.ending("needs_review", "review", "`types.resolve-1`")
    assert run.train is not None
    assert run.train.resolving == "types.resolve-1"
    _, ending = go_on(world, ["types.resolve-1", PASSED], answered=("types.resolve-1",))
    assert ending.status == "completed"
    assert resumed(world) == [("types.resolve-1",)]


def test_a_branch_that_waits_although_enough_have_passed_does_not_pause_the_merge():
    """The first branch pauses; the second decides the join, conflicts, and is resolved."""
    at_gate = PASSED._replace(status="needs_review", reason="review")
    states = {
        "all": {
            "for_each": ["a", "b"],
            "action": "make",
            "join": "any",
            "worktree": RESOLVING,
            "on_pass": "done",
        },
        "done": ENDS,
    }
    loop = FSMLoop.from_dict({"name": "nightly", "initial": "all", "states": states})
    script = ("a", at_gate, "b", PASSED, "b.resolve-1", PASSED)
    world = ScriptedWorld(loop, script)
    world.git = {MergeBranch: [TORN]}
    _, ending = begin(world)
    assert ending.status == "completed"


# ── killed anywhere ────────────────────────────────────────────────────────────────────────────


def _script(record: dict[str, Any], rest: list[dict[str, Any]]) -> list[Any]:
    """What is still to come after an event, as far as actions and children are concerned."""
    ended = [each for each in rest if each["event"] in ("action_complete", "child_end")]
    return [0] if any(each["event"] == "action_complete" for each in ended) else []


def test_a_run_that_is_killed_after_any_event_ends_the_same_way():
    """Nothing but an action, a child or a check that was under way is done again."""
    whole = own(worktree={"merge": "merge", "check": "make"})
    begin(whole)
    log = whole.log
    for count in range(1, len(log)):
        world = own(worktree={"merge": "merge", "check": "make"})
        begin(world)
        cut(world, count)
        _, ending = go_on(world, [0])
        assert ending.status == "completed", count
        events = [record["event"] for record in world.log]
        assert events.count("merge_landed") == 1
        assert events.count("merge_checked") == 1
        assert events.count("work_committed") == 1


@pytest.mark.parametrize("git", [{}, {MergeBranch: [TORN]}], ids=["fits", "torn"])
def test_a_state_that_is_killed_after_any_event_ends_the_same_way(git):
    def fresh() -> ScriptedWorld:
        world = one(PASSED, "types.resolve-1", PASSED, worktree={**RESOLVING, "check": "make"})
        world.git = {kind: list(answers) for kind, answers in git.items()}
        return world

    whole = fresh()
    begin(whole)
    for count in range(1, len(whole.log)):
        world = fresh()
        begin(world)
        left = [record for record in world.log[count:] if record["event"] == "child_end"]
        is_merged = any(record["event"] == "branch_merged" for record in world.log[:count])
        cut(world, count)
        world.git = {} if is_merged or not git else {MergeBranch: [TORN]}
        script = [step for record in left for step in (record["child"], PASSED)]
        _, ending = go_on(world, script)
        assert ending.status == "completed", count
        events = [record["event"] for record in world.log]
        assert events.count("merge_landed") == 1
        assert events.count("child_end") == 1 + bool(git)


@pytest.mark.parametrize(
    "command", [FindBase, StartTrain, MergeBranch, CheckMerged, LandTrain, ClearWorktrees]
)
def test_a_crash_in_a_command_repeats_only_that(command):
    world = one(worktree={"check": "make"})
    world.git = {command: [Crash]}
    with pytest.raises(Crash):
        begin(world)
    _, ending = go_on(world, [PASSED])
    assert ending.status == "completed"
    assert told(world).count("merge_landed") == 1


# ── the order of merging ───────────────────────────────────────────────────────────────────────

PLAIN = Worktree(merge="merge")
CHECKED = Worktree(merge="merge", check="make")
BEGUN = Train("base", "main", "head", "head")
OUT = LeftOut("b", ("f",), "conflict")
FIXING = Worktree(merge="merge", resolve=StateConfig(action="make fit"))


@pytest.mark.parametrize(
    ("worktree", "branches", "train", "stop"),
    [
        (PLAIN._replace(merge="none"), ("a",), BEGUN, None),
        (PLAIN, (), BEGUN, None),
        (PLAIN, ("a",), Train("base", "main"), Start()),
        (PLAIN, ("a", "b"), BEGUN, Merge("a")),
        (PLAIN, ("a", "b"), BEGUN._replace(tip="1", merged=("a",)), Merge("b")),
        (PLAIN, ("a", "b"), BEGUN._replace(tip="1", merged=("a", "b")), Land()),
        (PLAIN, ("a", "b"), BEGUN._replace(merged=("a", "b")), None),
        (PLAIN, ("a",), BEGUN._replace(tip="1", merged=("a",), landing=Landing("1")), None),
        (PLAIN, ("a", "b"), BEGUN._replace(failing=OUT), LeaveOut(OUT)),
        (PLAIN, ("a", "b"), BEGUN._replace(merged=("a",), left_out=(OUT,)), None),
        (CHECKED, ("a",), BEGUN._replace(trial="a", trial_commit="1"), Check("a", "1")),
        (CHECKED, ("a", "b"), BEGUN._replace(merged=("a", "b")), Check("b", "head")),
        (CHECKED, ("a", "b"), BEGUN._replace(merged=("a", "b"), checked="head"), None),
        (CHECKED, ("a", "b"), BEGUN._replace(merged=("a",), left_out=(OUT,)), None),
        (CHECKED, ("b",), BEGUN._replace(left_out=(OUT,)), None),
        (FIXING, ("b",), BEGUN._replace(failing=OUT), Resolve("b.resolve-1", OUT)),
        (FIXING, ("b",), BEGUN._replace(failing=OUT, tries={"b": 1}), LeaveOut(OUT)),
        (
            FIXING,
            ("b",),
            BEGUN._replace(resolving="b.resolve-1", tries={"b": 1}),
            Resolve("b.resolve-1"),
        ),
    ],
)
def test_what_is_next(worktree, branches, train, stop):
    assert next_stop(worktree, branches, train) == stop


@pytest.mark.parametrize("branch", ["b", "src-app.py", "b.resolve-1"])
def test_the_name_of_a_run_that_resolves_says_whose_it_is(branch):
    resolver = resolver_of(branch, 2)
    assert resolver == f"{branch}.resolve-2"
    assert branch_of(resolver) == branch


def test_a_resolver_whose_branch_has_no_failure_on_record_names_the_branch():
    train = BEGUN._replace(resolving="b.resolve-1")
    ended = ChildEnd("all", "b.resolve-1", "error", "failed", "action", "a", 1, 0, "exit 1")
    after = after_resolver(train, ended)
    assert after == BEGUN._replace(failing=LeftOut("b", resolve="exit 1"))


@given(st.data())
def test_only_what_passed_lands_and_every_branch_is_merged_or_left_out(data):
    """However merges and checks turn out, the train comes to its end, in the order of branches."""
    branches = tuple("abcdef"[: data.draw(st.integers(0, 6))])
    run = LoopState("r", "l", "s", "", "", train=Train("base", "main"))
    red: set[str] = set()
    green: set[str] = set()
    landed = None
    for number in range(200):
        assert run.train is not None
        stop = next_stop(CHECKED, branches, run.train)
        if stop is None:
            break
        event: Any
        match stop:
            case Start():
                event = TrainStart("main", f"head{number}", "base")
            case Merge(branch):
                tip = run.train.tip
                commit = data.draw(st.sampled_from([None, tip, f"{number}"]))
                event = BranchMerged(branch, commit, commit not in (None, tip))
            case Check(branch, commit):
                passed = data.draw(st.booleans())
                (green if passed else red).add(commit)
                event = MergeChecked(branch, commit, passed, "red")
            case LeaveOut(out):
                event = BranchLeftOut(*out)
            case Land():
                moves = run.train.restarts < MOST_RESTARTS and data.draw(st.booleans())
                landed = None if moves else run.train.tip
                event = (
                    TrainStart("main", f"head{number}", "base", again=True)
                    if moves
                    else TrainLanded("main", run.train.tip, run.train.merged)
                )
            case _:
                raise AssertionError(stop)
        run = evolve(run, Entry(event, 0, 0, "r", run.seq + 1))
    train = run.train
    assert train is not None
    names = [each.name for each in train.left_out]
    assert sorted([*train.merged, *names]) == sorted(branches)
    assert list(train.merged) == [name for name in branches if name in train.merged]
    assert landed not in red
    assert landed is None or landed in green
    assert not train.merged or train.left_out or train.tip in green


def test_the_result_of_a_train():
    train = BEGUN._replace(tip="1", merged=("a",), left_out=(OUT,))
    assert result_of(train)._asdict() == {
        "commit": "1",
        "merged": ("a",),
        "left_out": (OUT,),
        "command": "",
    }
    assert result_of(Train("base")).commit == "base"
    assert result_of(Train("base", head="head")).commit == "head"
    assert why_incomplete(train) == "`b` is not merged: conflict (f)"
    assert why_incomplete(BEGUN) == ""


def test_events_of_a_train_that_is_not_there_change_nothing():
    run = LoopState("r", "l", "s", "", "")
    for event in (
        BranchMerged("a", "1"),
        WorkCommitted("b", "1"),
        WorktreesCleared(own=True),
        ResolveStart("a", "a.resolve-1"),
    ):
        after = evolve(run, Entry(event, 0, 0, "r", 1))
        assert (after.workspace, after.train) == (None, None)


# ── settings ───────────────────────────────────────────────────────────────────────────────────


def test_a_loop_is_merged_only_if_that_is_asked_for_and_a_state_unless_it_is_not():
    loop = FSMLoop.from_dict({"name": "l", "initial": "a", "states": {"a": ENDS}})
    inner = loop._replace(worktree=Worktree())
    assert own_worktree(loop) is None
    assert own_worktree(inner) == Worktree(merge="none")
    assert worktree_of(StateConfig()) is None
    assert worktree_of(StateConfig(loop=loop)) is None
    assert worktree_of(StateConfig(loop=inner)) == Worktree(merge="none")
    assert worktree_of(StateConfig(loop=inner, worktree=Worktree())) == Worktree(merge="merge")


def test_which_loops_have_worktrees():
    loop = FSMLoop.from_dict({"name": "l", "initial": "a", "states": {"a": ENDS}})
    inner = loop._replace(worktree=Worktree())
    assert not has_worktree(loop)
    assert has_worktree(inner)
    assert has_worktree(loop._replace(states={"a": StateConfig(loop=inner)}))
    assert has_worktree(loop._replace(states={"a": StateConfig(worktree=Worktree())}))


def test_branches_with_worktrees_do_not_share_their_files():
    state = StateConfig("make", branches=Branches(("a", "b")))
    assert shares_tree(state)
    assert not shares_tree(state._replace(worktree=Worktree()))


@pytest.mark.parametrize("torn", [True, False])
def test_a_condition_judges_branches_unless_one_was_left_out(torn):
    states = {
        "all": {
            "for_each": ["a", "b"],
            "action": "make",
            "worktree": True,
            "condition": {"type": "output_contains", "pattern": "pass"},
            "on_pass": "done",
            "on_conflict": "torn",
        },
        "done": ENDS,
        "torn": {**ENDS, "outcome": "failure"},
    }
    loop = {"name": "nightly", "initial": "all", "states": states}
    world = ScriptedWorld(FSMLoop.from_dict(loop), (PASSED, PASSED))
    world.git = {MergeBranch: [TORN]} if torn else {}
    run, _ = begin(world)
    assert run.current_state == ("torn" if torn else "done")


@pytest.mark.parametrize(
    "written",
    [True, {"from": "working-tree", "copy": [".env"], "link": ["lib"], "ports": {"PORT": 1}}],
)
def test_settings_are_written_as_they_were_read(written):
    data = {"name": "l", "initial": "a", "states": {"a": ENDS}, "worktree": written}
    assert FSMLoop.from_dict(data).to_dict()["worktree"] == written
    state = {"loop": {"name": "x", **INNER}, "worktree": written, "next": "b"}
    assert StateConfig.from_dict(state).to_dict()["worktree"] == written


def test_the_loop_that_resolves_is_written_as_it_was_read():
    state = {
        "loop": {"name": "x", **INNER},
        "worktree": {"resolve": {"loop": {"name": "y", **INNER}}},
    }
    assert StateConfig.from_dict(state).to_dict()["worktree"] == state["worktree"]


def test_no_worktree_at_all():
    data = {"name": "l", "initial": "a", "states": {"a": ENDS}, "worktree": False}
    assert FSMLoop.from_dict(data).worktree is None


def test_a_recording_that_says_nothing_about_git_is_not_followed():
    world = own()
    begin(world)
    entries = [Entry(TrainLanded("m", "1", ()), 0, 0, "r", 1)]
    with pytest.raises(Unexpected):
        Recording(entries).answer(world.loop, LoopState("r", "l", "fix", "", ""), world.commands[0])
