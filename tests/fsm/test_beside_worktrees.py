"""What changes in a project while agents work in worktrees of it: it may be the user's, so it is
reported, or fails the run, and is never undone."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest

from little_loops.fsm.commands import (
    LandTrain,
    MergeBranch,
    PutBack,
    RestoreProtected,
    TakeSnapshot,
)
from little_loops.fsm.evidence import has_agents_in_tree
from little_loops.fsm.happenings import ChildOutcome
from little_loops.fsm.schema import FSMLoop
from tests.fsm.scripted import Crash, Says, ScriptedWorld, Stop, begin, go_on, told

PROMPT = {"action": "Fix it.", "action_type": "prompt"}
INNER: dict[str, Any] = {
    "name": "fix-types",
    "initial": "a",
    "states": {"a": {**PROMPT, "next": "b"}, "b": {"terminal": True}},
}
PASSED = ChildOutcome("completed", "terminal", "b", 2, 1000)
ENDS: dict[str, Any] = {
    "done": {"terminal": True},
    "bad": {"terminal": True, "outcome": "failure"},
}
OUTSIDE = {"other/b": "1"}
INSIDE = {"src/a": "1"}
TESTS = {"tests/t": "1"}


def state(*script: Any, evidence: Any = None, **fields: Any) -> ScriptedWorld:
    """A state with a sub-loop in a worktree, whose agent, or the user, changes files meanwhile."""
    fix = {"loop": INNER, "worktree": True, "on_pass": "done", "on_fail": "bad"}
    loop = {
        "name": "nightly",
        "initial": "fix",
        "scope": ["src"],
        "states": {"fix": fix, **ENDS},
        "evidence": {"protect": ["tests/"]} if evidence is None else evidence,
        **fields,
    }
    world = ScriptedWorld(FSMLoop.from_dict(loop), script)
    begin(world, evidence="on")
    return world


def own(*script: Any, **fields: Any) -> ScriptedWorld:
    """A loop in a worktree of its own, whose agent, or the user, changes files of the project."""
    states = {
        "fix": {**PROMPT, "next": "look"},
        "look": {"action": "make", "next": "done"},
        **ENDS,
    }
    loop = {"name": "nightly", "initial": "fix", "states": states, "worktree": True, **fields}
    world = ScriptedWorld(FSMLoop.from_dict(loop), script)
    begin(world, evidence="on")
    return world


def findings(world: ScriptedWorld) -> str:
    """What was said about files, and the ending."""
    kinds = ("tampered", "out of scope", "restored", "reference moved", "loop_")
    lines = [line.strip() for line in told(world).split("\n")]
    return "\n".join(line for line in lines if line.startswith(kinds))


def undoes(world: ScriptedWorld) -> bool:
    return any(isinstance(each, PutBack | RestoreProtected) for each in world.commands)


@pytest.mark.parametrize(
    ("fields", "writes", "story"),
    [
        pytest.param(
            {},
            {**OUTSIDE, **INSIDE},
            """\
            out of scope: other/b, src/a (tree, report)
            loop_complete: completed, terminal""",
            id="reported, in the scope or not",
        ),
        pytest.param(
            {"scope_writes": "ignore"},
            {**OUTSIDE, **INSIDE},
            "loop_complete: completed, terminal",
            id="ignored",
        ),
        pytest.param(
            {"scope_writes": "enforce"},
            {**OUTSIDE, **INSIDE},
            """\
            out of scope: other/b, src/a (tree, enforce)
            loop_error: failed, out_of_scope""",
            id="enforced",
        ),
        pytest.param(
            {},
            {**TESTS, **OUTSIDE},
            """\
            tampered by apart: tests/t (fail)
            out of scope: other/b (tree, report)
            loop_error: failed, tampered""",
            id="a protected file fails the run",
        ),
        pytest.param(
            {"scope_writes": "enforce"},
            {**TESTS, **OUTSIDE},
            """\
            tampered by apart: tests/t (fail)
            out of scope: other/b (tree, enforce)
            loop_error: failed, tampered""",
            id="a protected file, and one outside the scope",
        ),
        pytest.param(
            {"evidence": {"protect": ["tests/"], "tampering": "report"}},
            {**TESTS, "Makefile": "1"},
            """\
            tampered by apart: Makefile (report)
            tampered by apart: tests/t (report)
            loop_complete: completed, terminal""",
            id="a protected file that is only reported, and one that checks use",
        ),
    ],
)
def test_what_changes_beside_worktrees_of_a_state(fields, writes, story):
    world = state(Says(writes=writes), PASSED, **fields)
    assert findings(world) == dedent(story)
    assert not undoes(world)
    assert {path: world.trees.files[path] for path in writes} == writes


def test_what_was_merged_is_not_reported_and_is_what_is_protected_from_now_on():
    def world() -> ScriptedWorld:
        fix = {"loop": INNER, "worktree": True, "next": "more"}
        more = {**PROMPT, "next": "done"}
        loop = {
            "name": "nightly",
            "initial": "fix",
            "states": {"fix": fix, "more": more, **ENDS},
            "evidence": {"protect": ["tests/"]},
        }
        made = ScriptedWorld(FSMLoop.from_dict(loop), [])
        made.trees.landed = ("src/a", "tests/t")
        made.git = {MergeBranch: [{"commit": "new"}]}
        return made

    lands = Says(writes={**INSIDE, **TESTS})
    made = world()
    made.script = [lands, PASSED, Says(agent="success")]
    begin(made, evidence="on")
    assert findings(made) == dedent("""\
        reference moved: tests/t (`fix`)
        loop_complete: completed, terminal""")
    assert not undoes(made)
    # Killed between the merge and its record: git knows.
    made = world()
    made.script = [lands, PASSED]
    made.git[LandTrain] = [Crash]
    with pytest.raises(Crash):
        begin(made, evidence="on")
    go_on(made, [Says(agent="success")])
    assert findings(made) == dedent("""\
        reference moved: tests/t (`fix`)
        loop_complete: completed, terminal""")


@pytest.mark.parametrize(
    ("fields", "story"),
    [
        pytest.param(
            {},
            """\
            out of scope: ../notes (project, report)
            loop_complete: completed, terminal""",
            id="reported",
        ),
        pytest.param(
            {"scope_writes": "ignore"}, "loop_complete: completed, terminal", id="ignored"
        ),
        pytest.param(
            {"scope_writes": "enforce"},
            """\
            out of scope: ../notes (project, enforce)
            loop_error: failed, out_of_scope""",
            id="enforced",
        ),
    ],
)
def test_what_changes_beside_the_worktree_of_a_loop(fields, story):
    world = own(Says(agent="success", writes={"../notes": "1"}), 0, **fields)
    assert findings(world) == dedent(story)
    assert not undoes(world)
    assert world.trees.original == {"../notes": "1"}


def test_the_original_is_looked_at_only_around_agents():
    """What changes while a check or a command works is the user's."""
    world = own(Says(agent="success"), Says(writes={"../notes": "1"}))
    assert findings(world) == "loop_complete: completed, terminal"
    looks = [each for each in world.commands if isinstance(each, TakeSnapshot)]
    assert [(each.when, each.original is not None) for each in looks[:2]] == [
        ("before", True),
        ("after", True),
    ]
    assert [each.original for each in looks[2:]] == [None] * len(looks[2:])


def test_what_changed_before_a_kill_is_found_by_the_resume():
    loop = {
        "name": "nightly",
        "initial": "fix",
        "states": {"fix": {**PROMPT, "next": "done"}, **ENDS},
        "worktree": True,
    }
    world = ScriptedWorld(FSMLoop.from_dict(loop), [Crash])
    with pytest.raises(Crash):
        begin(world, evidence="on")
    world.trees.write({"../notes": "1"})
    go_on(world, [Says(agent="success")])
    assert findings(world) == dedent("""\
        out of scope: ../notes (project, report)
        loop_complete: completed, terminal""")


def test_what_changes_in_a_pause_is_not_the_agents_and_what_changes_after_it_may_be():
    world = state(Stop(15))
    world.trees.write(OUTSIDE)
    go_on(world, [Says(writes=INSIDE), PASSED])
    assert findings(world) == dedent("""\
        loop_interrupted: interrupted, signal
        out of scope: src/a (tree, report)
        loop_complete: completed, terminal""")


def test_the_agents_of_a_child_that_continues_after_a_pause_are_responsible_again():
    fix = {"loop": INNER, "next": "done"}
    loop = {
        "name": "nightly",
        "initial": "fix",
        "states": {"fix": fix, **ENDS},
        "evidence": {"protect": ["tests/"]},
    }
    world = ScriptedWorld(FSMLoop.from_dict(loop), [Stop(15)])
    begin(world, evidence="on")
    go_on(world, [Says(writes=TESTS), PASSED])
    assert findings(world) == dedent("""\
        loop_interrupted: interrupted, signal
        tampered by agent: tests/t (restore)
        restored: tests/t
        loop_complete: completed, terminal""")


def test_a_snapshot_that_a_stop_cuts_short_leaves_the_rest_to_the_resume():
    fix = {"loop": INNER, "worktree": True, "next": "done"}
    loop = {"name": "n", "initial": "fix", "states": {"fix": fix, **ENDS}, "evidence": True}
    loop["evidence"] = {"protect": ["tests/"]}
    world = ScriptedWorld(FSMLoop.from_dict(loop), [Says(writes=TESTS), Stop(15)])
    world.trees.cut = "content"
    begin(world, evidence="on")
    assert findings(world) == "loop_interrupted: interrupted, signal"
    world.trees.cut = None
    go_on(world, [PASSED])
    assert findings(world) == dedent("""\
        loop_interrupted: interrupted, signal
        tampered by apart: tests/t (fail)
        loop_error: failed, tampered""")


AGENT = {"loop": INNER}
APART = {"loop": INNER, "worktree": True}
SHELL = {"action": "make", "next": "done"}


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        pytest.param(AGENT, True, id="an agent"),
        pytest.param(APART, False, id="in a worktree"),
        pytest.param(
            {"loop": {**INNER, "states": {"a": {**APART, "next": "b"}, "b": ENDS["done"]}}},
            False,
            id="below, in a worktree",
        ),
        pytest.param(
            {"loop": {**INNER, "states": {"a": {**AGENT, "next": "b"}, "b": ENDS["done"]}}},
            True,
            id="below",
        ),
        pytest.param({"for_each": ["x"], **PROMPT}, True, id="a branch"),
        pytest.param({"for_each": ["x"], "action": "make"}, False, id="a branch without an agent"),
        pytest.param(
            {"branches": {"x": PROMPT, "y": {"action": "make"}}}, True, id="a named branch"
        ),
        pytest.param({"branches": {"y": {"action": "make"}}}, False, id="named, without an agent"),
    ],
)
def test_which_runs_of_a_state_have_agents_that_work_where_it_does(runs, expected):
    loop = FSMLoop.from_dict(
        {"name": "n", "initial": "s", "states": {"s": {**runs, "next": "done"}, **ENDS}}
    )
    assert has_agents_in_tree(loop.states["s"], {}) is expected
