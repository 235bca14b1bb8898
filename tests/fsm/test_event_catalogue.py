"""The catalogue of events holds in both directions: what it lists is emitted, and nothing else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from little_loops.fsm.commands import CheckMerged, LandTrain, MergeBranch
from little_loops.fsm.events import event_types
from little_loops.fsm.happenings import ChildOutcome, Denied
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import Answer, FileRef, Limits, Note, SignalLine
from tests.fsm.scripted import (
    START_MS,
    Crash,
    Opinion,
    Says,
    ScriptedWorld,
    Stop,
    begin,
    cut,
    go_on,
)

COMMON = {"event", "ts", "run", "seq", "ran_ms"}
LONG = FileRef("00001-1.out", 9000, "0" * 64)
HANDOFF = SignalLine("handoff", "3 left")
CHECK_FIX: dict[str, Any] = {
    "check": {"action": "check", "on_pass": "done", "on_fail": "fix", "capture": "report"},
    "fix": {"action": "/fix", "next": "check"},
    "done": {"terminal": True},
}


def world(states: dict[str, Any], *script: Any, **fields: Any) -> ScriptedWorld:
    loop = {"name": "l", "initial": next(iter(states)), "states": states} | fields
    return ScriptedWorld(FSMLoop.from_dict(loop), script)


def ended(of: ScriptedWorld, limits: Limits | None = None) -> ScriptedWorld:
    begin(of, limits or Limits())
    return of


def agents_and_files() -> ScriptedWorld:
    """An action of everything that an action can leave, and a command in the last state."""
    everything = Says(
        None,
        stderr="",
        output_file=LONG,
        stderr_file=LONG,
        tail="end",
        open_ended=True,
        stderr_open_ended=True,
        stream_file=LONG,
        order=(3, 2),
        order_file="00001-1.order",
        signal=9,
        failure="lost",
        agent="success",
        kind="max_turns",
        reason="done",
        verdict="pass",
        structured={},
        structured_file=LONG,
        session_id="s",
        tokens=5,
        cost_usd=0.5,
        turns=2,
        retry_at_ms=1,
        line=SignalLine("error", "broken"),
    )
    states = CHECK_FIX | {"failed": {"terminal": True, "action": "report", "label": "a report"}}
    return ended(world(states, 1, everything, 1, on_error="failed"), Limits(max_iterations=9))


def converging() -> ScriptedWorld:
    condition = {"type": "convergence", "target": 0, "patience": 2}
    measure = {"action": "count", "condition": condition, "on_progress": "$current"}
    states = {"measure": measure | {"on_target": "done"}, "done": {"terminal": True}}
    outputs = [Says(output=text) for text in ("3", "3", "0")]
    return ended(world(states, *outputs))


def out_of_iterations() -> ScriptedWorld:
    failing = world(CHECK_FIX, 1, 0, 1, 0, max_iterations=1, backoff=5)
    begin(failing)
    go_on(failing, [1, 0], limits=Limits(max_iterations=2), context={"a": "b"})
    return failing


def out_of_time() -> ScriptedWorld:
    states = CHECK_FIX | {"late": {"action": "report", "next": "done"}}
    return ended(world(states, Says(takes_ms=9000), 0, timeout=2, on_timeout="late"))


def stopped_in_an_action() -> ScriptedWorld:
    cut = Says(
        None,
        stop=15,
        signal=15,
        output_file=LONG,
        stderr_file=LONG,
        open_ended=True,
        stderr_open_ended=True,
        stream_file=LONG,
        order=(3, 2),
        order_file="00001-1.order",
    )
    return ended(world(CHECK_FIX, cut))


def stopped_by_an_action() -> ScriptedWorld:
    return ended(world(CHECK_FIX, Says(line=SignalLine("stop", "enough"))))


def stopped_before_an_action() -> ScriptedWorld:
    return ended(world(CHECK_FIX, Stop(15)))


def crashed() -> ScriptedWorld:
    broken = world(CHECK_FIX, Crash)
    with pytest.raises(Crash):
        begin(broken)
    go_on(broken, [2], orphans=("vite (pid 7)",))
    go_on(broken, [0])
    return broken


def maintained() -> ScriptedWorld:
    return ended(world(CHECK_FIX, 0, Stop(15), maintain=True, maintain_interval=30))


def waiting_for_a_host() -> ScriptedWorld:
    busy = Says(0, agent="wait", reason="usage limit")
    states = {"fix": {"action": "/fix", "next": "done"}, "done": {"terminal": True}}
    waiting = world(states, busy)
    waiting.stops_in_wait = 15
    begin(waiting)
    waiting.stops_in_wait = None
    go_on(waiting, [Says(0, agent="success")])
    return waiting


def with_a_fallback() -> ScriptedWorld:
    busy = Says(0, agent="wait", reason="usage limit", retry_at_ms=START_MS + 9000)
    states: dict[str, Any] = {"done": {"terminal": True}}
    states = {"fix": {"action": "Do it.", "action_type": "prompt", "next": "done"}, **states}
    return ended(world(states, busy, Says(0, agent="success"), fallback=[{"name": "codex"}]))


def with_a_judge() -> ScriptedWorld:
    judge = {"type": "judge", "question": "Is it fixed?"}
    states = {"check": {"action": "make", "on_pass": "done", "condition": judge}}
    judged = world(states | {"done": {"terminal": True}}, 0)
    judged.opinions = [Opinion("pass", "yes", quotes=("+a",), restored=("src/a",))]
    return ended(judged)


def handed_off() -> ScriptedWorld:
    handoff = Says(line=HANDOFF)
    waiting = world(
        CHECK_FIX, handoff, handoff, handoff, on_handoff="continue", max_continuations=2
    )
    begin(waiting)
    go_on(waiting, [0], limits=Limits(max_continuations=1))
    return waiting


def judged_at_the_limit() -> ScriptedWorld:
    """The last fix is still judged, and its check passes."""
    states = CHECK_FIX | {"check": {**CHECK_FIX["check"], "check": True}}
    return ended(world(states, 1, 0, 0, max_iterations=1))


def spawned() -> ScriptedWorld:
    handoff = Says(agent="success", line=HANDOFF)
    states = {"fix": {"action": "/fix", "next": "done"}, "done": {"terminal": True}}
    return ended(world(states, handoff, on_handoff="spawn"))


def cut_by_its_timeout() -> ScriptedWorld:
    """Nobody reported what the agent had used, so it is estimated."""
    states = {
        "fix": {"action": "/fix", "timeout": 2, "next": "done", "on_timeout": "done"},
        "done": {"terminal": True},
    }
    cut = Says(None, agent="error", cut_by="action", tokens=1000)
    return ended(world(states, cut, max_cost_usd=5))


def asked_to_wait() -> ScriptedWorld:
    states = {"prepare": {"action": "prepare", "next": "done"}, "done": {"terminal": True}}
    return ended(world(states, Says(wait_ms=1000)))


def under_review() -> ScriptedWorld:
    look = {"terminal": True, "outcome": "review", "action": "report"}
    states = {"check": {"action": "check", "next": "look"}, "look": look}
    paused = ended(world(states, 0, Says(output="look at it")))
    go_on(paused, [Stop(15)])
    return paused


def answered() -> ScriptedWorld:
    look = {"terminal": True, "outcome": "review", "choices": ["check"]}
    paused = ended(world({"check": {"action": "check", "next": "look"}, "look": look}, 0))
    go_on(paused, [Stop(15)], answer=Answer(7, "approved", "approve", "once more", "check"))
    return paused


def told() -> ScriptedWorld:
    telling = world(CHECK_FIX, 1, Says(agent="success"), 0)
    telling.told = (Note("n1", "be brief"),)
    return ended(telling)


def ended_by_a_handoff() -> ScriptedWorld:
    return ended(world(CHECK_FIX, Says(line=HANDOFF), on_handoff="terminate"))


EVIDENCE = {"protect": ["tests/"], "clean": True}
PROVED = CHECK_FIX | {"check": {**CHECK_FIX["check"], "check": True}}


def proved() -> ScriptedWorld:
    """An agent that touches tests and files outside the scope, twice; a check in a clean copy."""
    cheat = Says(agent="success", writes={"tests/t": "1", "other/b": "1", "Makefile": "1"})
    honest = Says(agent="success", writes={"src/a": "1"})
    proving = world(PROVED, 1, cheat, 1, Stop(15), evidence=EVIDENCE)
    begin(proving, evidence="on")
    proving.trees.files["tests/t"] = "mine"
    proving.trees.committed = ("tests/x",)
    go_on(proving, [honest, 0, 0], limits=Limits(stall_after=1))
    return proving


def strays_from_a_worktree() -> ScriptedWorld:
    """An agent in a worktree that changes a file of the project."""
    states = {
        "fix": {"action": "Fix it.", "action_type": "prompt", "next": "done"},
        "done": {"terminal": True},
    }
    strays = Says(agent="success", writes={"../notes": "1"})
    found = world(states, strays, worktree={"merge": "none"})
    begin(found, evidence="on")
    return found


def confirmed() -> ScriptedWorld:
    twice = world(PROVED, 0, 0, evidence={"confirm": 2})
    begin(twice, evidence="on")
    return twice


def kept_the_best() -> ScriptedWorld:
    """A start that is measured twice, a change that is not better, and one that has no number."""
    condition = {"type": "convergence", "target": 10, "patience": 2, "keep": "best"}
    states: dict[str, Any] = {
        "measure": {
            "action": "bench",
            "check": True,
            "repeat": 2,
            "condition": condition,
            "on_target": "done",
            "on_progress": "tune",
            "on_stall": "done",
        },
        "tune": {"action": "/tune", "next": "measure"},
        "done": {"terminal": True},
    }
    start = [Says(output=number) for number in ("20", "20", "21", "21")]
    worse = [Says(agent="success", writes={"src/a": "1"}), Says(output="30"), Says(output="31")]
    broken = [Says(agent="success", writes={"src/a": "2"}), Says(output="no number")]
    tuning = world(states, *start, *worse, *broken, context={"target": 10})
    begin(tuning, evidence="on")
    return tuning


def not_put_back() -> ScriptedWorld:
    cheat = Says(agent="success", writes={"tests/t": "1"})
    stuck = world(PROVED, 1, cheat, evidence=EVIDENCE)
    stuck.trees.stuck = ("tests/t",)
    begin(stuck, evidence="on")
    return stuck


def already_true() -> ScriptedWorld:
    return ended(world(PROVED, 0, paradigm="goal"))


def stopped_before_all_was_read() -> ScriptedWorld:
    hurried = world(PROVED, 1, Stop(15), evidence=EVIDENCE)
    hurried.trees.cut = "content"
    begin(hurried, evidence="on")
    return hurried


def looked_at_late() -> ScriptedWorld:
    fix = Says(agent="success", writes={"src/a": "1"})
    broken = world(PROVED, 1, fix, 0, 0, evidence=EVIDENCE)
    begin(broken, evidence="on")
    ends = [at for at, record in enumerate(broken.log) if record["event"] == "action_complete"]
    cut(broken, ends[1] + 1)
    go_on(broken, [1, Says(agent="success", writes={"src/a": "2"}), 0, 0])
    return broken


PAID = Says(agent="success", cost_usd=0.5, tokens=5)
LOOK = {"terminal": True, "outcome": "review"}


def paid_for(*script: Any, **fields: Any) -> Callable[[], ScriptedWorld]:
    """An agent costs something, and then the run ends."""
    states = {"first": {"action": "/fix", "next": "check"}, **CHECK_FIX, "look": LOOK}
    states["check"] = {**CHECK_FIX["check"], "on_error": "look"}
    return lambda: ended(world(states, PAID, *script, **fields))


def reported() -> ScriptedWorld:
    reporting = world(CHECK_FIX, 0)
    reporting.report = "two turns"
    return ended(reporting)


def with_hooks() -> ScriptedWorld:
    hooked = world(CHECK_FIX, 0, hooks={"before_run": "up", "after_run": "down"})
    hooked.hooks = {"before_run": ["exit 1"]}
    begin(hooked)
    go_on(hooked, [0])
    return hooked


def out_of_budget() -> ScriptedWorld:
    waiting = world({"first": {"action": "/fix", "next": "done"}, "done": {"terminal": True}})
    waiting.admissions = [
        lambda at: Denied(at, "launches", "30 launches in an hour", at.wall_ms + 1000),
        lambda at: Denied(at, "budget", "$20 of $20 a day is spent"),
    ]
    begin(waiting, metered=True)
    go_on(waiting, [PAID], metered=True, over_budget=True)
    return waiting


INNER = {"a": {"action": "/fix", "next": "b"}, "b": {"terminal": True}}
WITH_CHILD: dict[str, Any] = {
    "kid": {"loop": {"name": "x", "initial": "a", "states": INNER}, "on_pass": "done"},
    "done": {"terminal": True},
}
GATE = ChildOutcome("needs_review", "review", "b", 1, 5, "look", 0.5, 9, 1, "run-2")


def with_children() -> ScriptedWorld:
    """A child that pauses, is stopped, and passes; and the result of the loop."""
    parent = world(WITH_CHILD, GATE)
    begin(parent)
    go_on(parent, [Stop(15)], answered=("kid",))
    parent.result = {"n": "1"}
    go_on(parent, [GATE._replace(status="failed", reason="auth")])
    go_on(parent, [GATE._replace(status="completed", reason="terminal")])
    return parent


def with_branches() -> ScriptedWorld:
    """Two branches that pass."""
    states = {
        "all": {"for_each": ["a", "b"], "action": "make", "on_pass": "done"},
        "done": {"terminal": True},
    }
    done = GATE._replace(status="completed", reason="terminal")
    return ended(world(states, done, done))


TORN = {"commit": None, "files": ("a.py",), "reason": "conflict"}


def in_a_worktree() -> ScriptedWorld:
    """Work that is committed, merged and checked."""
    return ended(world(CHECK_FIX, 0, worktree={"merge": "merge"}))


def with_branches_that_do_not_fit() -> ScriptedWorld:
    """A conflict that is resolved, a red check, a branch that moves, and one that is left alone."""
    fit = {"loop": WITH_CHILD["kid"]["loop"]}
    tree = {"check": "make", "resolve": fit, "keep": "failed"}
    kid = {**WITH_CHILD["kid"], "worktree": tree}
    passed = GATE._replace(status="completed", reason="terminal")
    parent = world({**WITH_CHILD, "kid": kid}, passed, "kid.resolve-1", passed)
    parent.git = {
        MergeBranch: [TORN],
        CheckMerged: [{}, {"passed": False, "reason": "exit 1"}],
        LandTrain: [{"moved_to": "9" * 40}],
    }
    return ended(parent)


def left_alone() -> ScriptedWorld:
    kid = {**WITH_CHILD["kid"], "worktree": True}
    passed = GATE._replace(status="completed", reason="terminal")
    parent = world({**WITH_CHILD, "kid": kid}, passed)
    parent.git = {
        MergeBranch: [{}],
        LandTrain: [{"reason": "edits", "command": "git merge x"}],
    }
    return ended(parent)


def torn() -> ScriptedWorld:
    """A branch that is left out after two tries to resolve it."""
    tree = {"resolve": {"loop": WITH_CHILD["kid"]["loop"]}, "tries": 2}
    kid = {**WITH_CHILD["kid"], "worktree": tree}
    passed = GATE._replace(status="completed", reason="terminal")
    failed = passed._replace(status="failed")
    tries = ("kid.resolve-1", failed, "kid.resolve-2", failed)
    parent = world({**WITH_CHILD, "kid": kid}, passed, *tries)
    parent.git = {MergeBranch: [TORN]}
    return ended(parent)


def with_results(*script: Any, **fields: Any) -> Callable[[], ScriptedWorld]:
    """A loop with a `result`, however it ends."""

    def run() -> ScriptedWorld:
        of = world({**CHECK_FIX, "look": LOOK}, *script, **fields)
        of.result = {"n": "1"}
        return ended(of)

    return run


RUNS: list[Callable[[], ScriptedWorld]] = [
    with_children,
    with_branches,
    in_a_worktree,
    with_branches_that_do_not_fit,
    left_alone,
    torn,
    with_results(2),
    with_results(Stop(15)),
    with_results(Says(line=HANDOFF)),
    with_results(Says(takes_ms=9000), timeout=2),
    with_results(2, on_error="look"),
    agents_and_files,
    converging,
    out_of_iterations,
    out_of_time,
    stopped_in_an_action,
    stopped_by_an_action,
    stopped_before_an_action,
    crashed,
    maintained,
    waiting_for_a_host,
    with_a_fallback,
    with_a_judge,
    handed_off,
    judged_at_the_limit,
    spawned,
    cut_by_its_timeout,
    asked_to_wait,
    under_review,
    answered,
    told,
    proved,
    strays_from_a_worktree,
    confirmed,
    kept_the_best,
    not_put_back,
    stopped_before_all_was_read,
    looked_at_late,
    already_true,
    paid_for(0),
    paid_for(2),
    paid_for(Stop(15)),
    paid_for(Says(line=HANDOFF)),
    paid_for(Says(takes_ms=9000), timeout=2),
    reported,
    ended_by_a_handoff,
    out_of_budget,
    with_hooks,
]


def test_every_field_of_the_catalogue_is_emitted_by_some_run():
    emitted: defaultdict[str, set[str]] = defaultdict(set)
    for run in RUNS:
        for record in run().log:
            emitted[record["event"]] |= record.keys() - COMMON
    catalogued = {name: {*kind.fields, *kind.optional} for name, kind in event_types().items()}
    emitted["action_start"].add(
        "filled"
    )  # by the world that fills it in: tests/cli/test_run_lines.py
    emitted["forked"] |= catalogued["forked"]  # by no machine: tests/cli/test_fork.py
    assert dict(emitted) == catalogued


def final(of: ScriptedWorld, *fields: str) -> dict[str, Any]:
    return {name: of.log[-1].get(name) for name in ("event", "reason", *fields)}


@pytest.mark.parametrize(
    ("run", "fields"),
    [
        pytest.param(
            out_of_iterations,
            {"event": "loop_error", "reason": "max_iterations", "next_state": "check"},
            id="a limit before a state",
        ),
        pytest.param(
            out_of_time,
            {"event": "loop_timeout", "reason": "loop_timeout", "next_state": "check"},
            id="the loop's time during a state",
        ),
        pytest.param(
            agents_and_files,
            {"event": "loop_error", "reason": "terminal", "next_state": None},
            id="a failure state",
        ),
    ],
)
def test_the_next_state_is_where_a_resume_would_go(run, fields):
    assert final(run(), "next_state") == fields


@pytest.mark.parametrize("behavior", ["pause", "spawn"])
@pytest.mark.parametrize("notes", ["3 left", ""], ids=["with notes", "without notes"])
def test_a_handoff_carries_its_behavior_and_its_notes(behavior, notes):
    handing_off = world(CHECK_FIX, Says(line=SignalLine("handoff", notes)), on_handoff=behavior)
    assert final(ended(handing_off), "behavior", "continuation") == {
        "event": "handoff",
        "reason": "handoff",
        "behavior": behavior,
        "continuation": notes,
    }


def test_a_wait_for_a_host_says_how_long_it_is():
    (waits,) = [each for each in waiting_for_a_host().log if each["event"] == "host_wait"]
    assert (waits["wait_ms"], waits["until_wall_ms"]) == (10_000, START_MS + 1000 + 10_000)


def test_a_judgement_names_its_state_and_step():
    judged = [each for each in converging().log if each["event"] == "condition_eval"]
    assert [(each["state"], each["step"]) for each in judged] == [("measure", 1)] * 3
