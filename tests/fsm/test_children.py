"""States that start other loops: what their endings lead to, and which runs start and stop."""

from __future__ import annotations

from textwrap import dedent
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.fsm.branching import protected_alike
from little_loops.fsm.child_steps import halt, rule_of
from little_loops.fsm.commands import RunChildren
from little_loops.fsm.endings import ENDINGS
from little_loops.fsm.events import ChildStart, Cost, Entry, TransitionTaken
from little_loops.fsm.evidence import has_agent, is_observed, wants_evidence
from little_loops.fsm.evolve import evolve
from little_loops.fsm.evolve_children import evolve_children
from little_loops.fsm.happenings import ChildOutcome, Denied
from little_loops.fsm.joins import (
    ENDED,
    OUTCOME_OF_ENDING,
    JoinRule,
    ending_text,
    judge_stages,
    needed,
    next_move,
    outcome_of_ending,
)
from little_loops.fsm.limits import exceeded
from little_loops.fsm.next_action import action_due
from little_loops.fsm.recorded import Recording, Unexpected
from little_loops.fsm.schema import Evidence, FSMLoop, StateConfig, child_loops
from little_loops.fsm.state import Children, Counted, Halt, Limits, LoopState, Stage
from little_loops.fsm.step_builder import StepBuilder
from little_loops.fsm.timestamps import Moment
from little_loops.fsm.values import result_values
from little_loops.runs.recordings import RecordedDefinition
from tests.fsm.scripted import (
    OUT_OF_TIME,
    Crash,
    Says,
    ScriptedWorld,
    Stop,
    begin,
    crash_and_go_on,
    cut,
    go_on,
    told,
)

INNER: dict[str, Any] = {
    "initial": "a",
    "states": {"a": {"action": "make", "next": "b"}, "b": {"terminal": True}},
}
ENDS = {"terminal": True}
STATES: dict[str, dict[str, Any]] = {
    "types": {
        "loop": {"name": "fix-types", **INNER},
        "on_pass": "done",
        "on_fail": "bad",
        "on_error": "broken",
        "on_timeout": "late",
    },
    "done": ENDS,
    "bad": {**ENDS, "outcome": "failure"},
    "broken": ENDS,
    "late": ENDS,
}


def world(*script: Any, states: dict[str, Any] | None = None, **fields: Any) -> ScriptedWorld:
    loop = {"name": "nightly", "initial": "types", "states": states or STATES, **fields}
    return ScriptedWorld(FSMLoop.from_dict(loop), script)


def ends(status: str, reason: str, **more: Any) -> ChildOutcome:
    return ChildOutcome(status, reason, "b", 2, 1000, **more)


PASSED = ends("completed", "terminal")
FAILED = ends("failed", "terminal")
CRASHED = ends("crashed", "crash")
GATE = ends("needs_review", "review", message="look at it")


# ── the table ──────────────────────────────────────────────────────────────────────────────────


def test_every_ending_of_a_run_has_a_meaning_for_its_parent():
    later = {("failed", "conflict"), ("failed", "hook"), ("failed", "consent")}
    assert set(OUTCOME_OF_ENDING) == set(ENDINGS) | later


LEADS_TO = {
    "pass": "loop_complete: completed, terminal",
    "fail": "loop_error: failed, terminal",
    "error": "loop_error: failed, terminal",
    "timeout": "loop_error: failed, terminal",
}
TARGET = {"pass": "done (on_pass)", "fail": "bad (on_fail)", "error": "broken (on_error)"}
TARGET["timeout"] = "late (on_timeout)"


@pytest.mark.parametrize(
    ("ending", "meaning"),
    [pytest.param(*row, id=" ".join(row[0])) for row in OUTCOME_OF_ENDING.items()],
)
def test_what_the_ending_of_a_child_leads_to(ending, meaning):
    of = world(ends(*ending, message="why"))
    run, last = begin(of)
    if meaning in TARGET:
        assert f"types -> {TARGET[meaning]}" in told(of).splitlines()
        assert told(of).splitlines()[-1] == LEADS_TO[meaning]
        assert run.children is None
    elif meaning == "interrupted":  # by somebody: nobody asked the parent to stop
        assert "types ends: fail (stopped)" in told(of).splitlines()
    else:
        assert (last.status, last.reason) == ending
        assert last.message == "`types`: why"
        assert (run.children is not None, run.gate) == (True, None)


def test_an_ending_of_a_newer_version_is_an_error():
    assert outcome_of_ending("failed", "bored") == "error"


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        pytest.param(PASSED, "completed in `b` (2 iterations)", id="completed"),
        pytest.param(
            PASSED._replace(iterations=1), "completed in `b` (1 iteration)", id="one iteration"
        ),
        pytest.param(
            ends("failed", "max_iterations", message="5 iterations"),
            "failed: max iterations: 5 iterations",
            id="a limit",
        ),
        pytest.param(ends("failed", "error", message="error"), "failed: error", id="nothing more"),
        pytest.param(
            ends("needs_review", "terminal"), "needs review in `b` (2 iterations)", id="at a gate"
        ),
    ],
)
def test_how_a_child_ended_in_words(outcome, text):
    assert ending_text(outcome) == text


# ── stories ────────────────────────────────────────────────────────────────────────────────────


def test_a_child_that_passes():
    of = world(PASSED)
    begin(of)
    assert told(of) == dedent("""\
        types starts
        types ends: pass (terminal)
        types -> done (on_pass)
        loop_complete: completed, terminal""")


def test_a_child_that_dies_alone_continues_once():
    of = world(CRASHED, CRASHED)
    begin(of)
    assert told(of) == dedent("""\
        types starts
        types ends: interrupted (crash)
        types continues
        types ends: error (crash)
        types -> broken (on_error)
        loop_error: failed, terminal""")


def test_a_child_that_dies_again_while_the_run_stops_is_continued_by_a_resume():
    of = world(CRASHED, Stop(15))
    begin(of)
    go_on(of, [CRASHED])
    assert told(of) == dedent("""\
        types starts
        types ends: interrupted (crash)
        types continues
        children stop (signal)
        types ends: interrupted (signal)
        types interrupted by stop
        loop_interrupted: interrupted, signal
        resume in types
        types continues
        types ends: error (crash)
        types -> broken (on_error)
        loop_error: failed, terminal""")


def test_only_a_crash_counts_as_a_crash():
    of = world(GATE)
    begin(of)
    go_on(of, [CRASHED, PASSED], answered=("types",))
    assert told(of).splitlines()[-6:] == [
        "types continues",
        "types ends: interrupted (crash)",
        "types continues",
        "types ends: pass (terminal)",
        "types -> done (on_pass)",
        "loop_complete: completed, terminal",
    ]


def test_a_stop_stops_the_child_and_a_resume_continues_it():
    of = world(Stop(15))
    run, ending = begin(of)
    assert (ending.status, run.phase) == ("interrupted", "interrupted")
    go_on(of, [PASSED])
    assert told(of) == dedent("""\
        types starts
        children stop (signal)
        types ends: interrupted (signal)
        types interrupted by stop
        loop_interrupted: interrupted, signal
        resume in types
        types continues
        types ends: pass (terminal)
        types -> done (on_pass)
        loop_complete: completed, terminal""")


def test_after_a_crash_the_child_continues():
    of = world(Crash)
    crash_and_go_on(of, [PASSED])
    assert told(of) == dedent("""\
        types starts
        resume in types
        types interrupted by crash
        types continues
        types ends: pass (terminal)
        types -> done (on_pass)
        loop_complete: completed, terminal""")


@pytest.mark.parametrize(
    ("on_interrupt", "story"),
    [
        pytest.param("$error", "types -> broken (on_error)", id="an error"),
        pytest.param("late", "types -> late (on_interrupt)", id="a state"),
    ],
)
def test_on_interrupt_leaves_the_child(on_interrupt, story):
    states = {**STATES, "types": {**STATES["types"], "on_interrupt": on_interrupt}}
    of = world(Stop(15), states=states)
    begin(of)
    run, _ = go_on(of, [])
    assert story in told(of).splitlines()
    assert run.children is None


def test_the_loops_timeout_stops_the_child_and_more_time_continues_it():
    of = world(OUT_OF_TIME, timeout=10)
    run, ending = begin(of)
    assert (ending.reason, run.phase) == ("loop_timeout", "entered")
    go_on(of, [PASSED], limits=Limits(timeout=100))
    assert told(of) == dedent("""\
        types starts
        children stop (loop_timeout)
        types ends: interrupted (signal)
        types interrupted by loop_timeout, never begun
        loop_timeout: failed, loop_timeout
        resume in types
        types continues
        types ends: pass (terminal)
        types -> done (on_pass)
        loop_complete: completed, terminal""")


def test_with_a_handler_for_the_timeout_more_time_continues_the_child_too():
    states = {**STATES, "tidy": {"action": "make tidy", "next": "done"}}
    of = world(OUT_OF_TIME, 0, states=states, timeout=10, on_timeout="tidy")
    _, ending = begin(of)
    assert ending.reason == "loop_timeout"
    go_on(of, [PASSED], limits=Limits(timeout=100))
    assert told(of).splitlines()[-4:] == [
        "types continues",
        "types ends: pass (terminal)",
        "types -> done (on_pass)",
        "loop_complete: completed, terminal",
    ]


def test_resuming_from_the_same_state_starts_new_children():
    """Nothing that the earlier ones came to counts, whether they had ended or were interrupted."""
    of = world(Stop(15))
    begin(of)
    go_on(of, [PASSED], from_state="types")
    assert told(of).splitlines()[-6:] == [
        "types -> types (resume)",
        "iteration 2",
        "types starts",
        "types ends: pass (terminal)",
        "types -> done (on_pass)",
        "loop_complete: completed, terminal",
    ]


def test_at_a_gate_the_run_pauses_until_the_gate_is_answered():
    of = world(GATE)
    run, ending = begin(of)
    assert (ending.status, ending.reason, ending.message) == (
        "needs_review",
        "review",
        "`types`: look at it",
    )
    run, ending = go_on(of, [])  # nobody has answered
    assert (ending.status, run.children is not None) == ("needs_review", True)
    go_on(of, [PASSED], answered=("types",))
    assert told(of).splitlines()[-4:] == [
        "types continues",
        "types ends: pass (terminal)",
        "types -> done (on_pass)",
        "loop_complete: completed, terminal",
    ]


def test_a_child_without_a_login_ends_the_run_and_continues_with_it():
    of = world(ends("failed", "auth", message="log in"))
    _, ending = begin(of)
    assert (ending.reason, ending.message) == ("auth", "`types`: log in")
    go_on(of, [PASSED])
    assert "types continues" in told(of).splitlines()


def test_a_failed_state_starts_a_new_child():
    states = {**STATES, "types": {**STATES["types"], "on_error": None}}
    states["types"] = {k: v for k, v in states["types"].items() if v is not None}
    of = world(ends("failed", "error"), states=states)
    begin(of)
    go_on(of, [PASSED])
    assert "types starts" in told(of).splitlines()[4:]
    folders = [(r["step"], r["attempt"]) for r in of.log if r["event"] == "children"]
    assert folders == [(1, 1), (1, 2)]


def test_what_children_use_counts_once():
    half = ends("needs_review", "review", cost_usd=0.5, tokens=10, turns=1)
    whole = ends("completed", "terminal", cost_usd=0.75, tokens=15, turns=2)
    of = world(half)
    begin(of)
    run, _ = go_on(of, [whole], answered=("types",))
    assert run.costs["types"][:3] == (15, 0.75, 2)


USED = Counted(15, 0.75, 2)
WHOLE = ends("completed", "terminal", **USED._asdict())


def test_a_kill_at_any_event_counts_what_a_child_used_once():
    of = world(WHOLE)
    begin(of)
    log = of.log
    first = next(n for n, record in enumerate(log) if record["event"] == "child_start")
    for count in range(first + 1, len(log)):
        of = world(WHOLE)
        of.definitions = [RecordedDefinition(of.loop)]
        of.log = log
        cut(of, count)
        is_over = any(record["event"] == "child_end" for record in of.log)
        run, _ = go_on(of, [WHOLE], used={} if is_over else {"types": USED})
        assert Counted(*run.costs["types"][:3]) == USED


def test_what_a_child_used_counts_if_the_run_is_killed_and_goes_elsewhere():
    states = {**STATES, "types": {**STATES["types"], "on_interrupt": "bad"}}
    of = world(Crash, states=states)
    run, _ = crash_and_go_on(of, [], used={"types": USED})
    assert "types -> bad (on_interrupt)" in told(of).splitlines()
    assert Counted(*run.costs["types"][:3]) == USED


def test_a_cost_of_an_unknown_child_is_a_cost():
    run = LoopState("r", "nightly", "types", "", "")
    entry = Entry(Cost("types", 1, 0.5, 1, child="types"), 0, 0, "r", 1)
    assert evolve(run, entry).costs["types"].cost_usd == 0.5


@pytest.mark.parametrize(
    ("second", "cost"),
    [
        pytest.param({"cost_usd": 0.5, "tokens": 10, "turns": 1}, (10, 0.5, 1), id="nothing more"),
        pytest.param({"cost_usd": 0.75, "tokens": 8, "turns": 0}, (10, 0.75, 1), id="fewer tokens"),
        pytest.param({"cost_usd": 0.25, "tokens": 15, "turns": 2}, (15, 0.5, 2), id="a lower cost"),
    ],
)
def test_what_a_child_has_used_never_becomes_less(second, cost):
    of = world(ends("needs_review", "review", cost_usd=0.5, tokens=10, turns=1))
    begin(of)
    run, _ = go_on(of, [ends("completed", "terminal", **second)], answered=("types",))
    assert run.costs["types"][:3] == cost
    assert sum(r["event"] == "cost" for r in of.log) == 1 + (cost != (10, 0.5, 1))


def test_a_stop_between_the_end_of_a_child_and_its_verdict():
    of = world(PASSED)
    begin(of)
    at = next(n for n, r in enumerate(of.log) if r["event"] == "child_end")
    cut(of, at + 1)
    go_on(of, [])
    assert told(of).splitlines()[-1] == "loop_complete: completed, terminal"


def test_a_run_can_be_resumed_from_any_prefix_of_its_log():
    scripts = [[PASSED], [CRASHED, PASSED], [FAILED]]
    for script in scripts:
        whole = world(*script)
        begin(whole)
        for count in range(1, len(whole.log)):
            again = world(*script)
            begin(again)
            cut(again, count)
            ended = sum(r["event"] == "child_end" for r in again.log)
            go_on(again, script[ended:])
            assert told(again).splitlines()[-1] == told(whole).splitlines()[-1]


def test_the_result_is_in_the_last_event():
    of = world(PASSED)
    of.result = {"n": "3"}
    run, _ = begin(of)
    assert (of.log[-1]["result"], run.result) == ({"n": "3"}, {"n": "3"})


# ── protected files that change in a child ────────────────────────────────────────────────────

CHECKED: dict[str, Any] = {
    "initial": "test",
    "states": {
        "test": {"action": "make", "check": True, "on_pass": "b", "on_fail": "fix"},
        "fix": {"action": "/fix", "next": "test"},
        "b": {"terminal": True},
    },
}
UNCHECKED: dict[str, Any] = {
    "initial": "fix",
    "states": {"fix": {"action": "/fix", "next": "b"}, "b": {"terminal": True}},
}
WITHIN: dict[str, Any] = {
    "initial": "a",
    "states": {"a": {"loop": {"name": "c", **CHECKED}, "next": "b"}, "b": {"terminal": True}},
}
ON_OTHER_FILES = (
    "warning: the pass of `types` does not count:"
    " its checks ran on changed files that have been restored since: tests/t"
)


@pytest.mark.parametrize(
    ("inner", "tampering", "writes", "outcome", "leads_to"),
    [
        pytest.param(CHECKED, "restore", "tests/t", PASSED, "bad (on_fail)", id="a check passed"),
        pytest.param(WITHIN, "restore", "tests/t", PASSED, "bad (on_fail)", id="further down"),
        pytest.param(CHECKED, "restore", "src/a", PASSED, "done (on_pass)", id="other files"),
        pytest.param(UNCHECKED, "restore", "tests/t", PASSED, "done (on_pass)", id="no check"),
        pytest.param(CHECKED, "report", "tests/t", PASSED, "done (on_pass)", id="only reported"),
    ],
)
def test_a_pass_on_protected_files_that_were_changed_and_restored_does_not_count(
    inner, tampering, writes, outcome, leads_to
):
    story = told_with(inner, tampering, writes, outcome)
    assert f"types -> {leads_to}" in story
    assert (ON_OTHER_FILES in story) is (leads_to == "bad (on_fail)")


def test_a_failure_on_changed_files_stays_what_it_is():
    story = told_with(CHECKED, "restore", "tests/t", FAILED)
    assert "types -> bad (on_fail)" in story
    assert "does not count" not in story


def told_with(inner: dict[str, Any], tampering: str, writes: str, outcome: ChildOutcome) -> str:
    states = {**STATES, "types": {**STATES["types"], "loop": {"name": "fix-types", **inner}}}
    wanted = {"protect": ["tests/"], "tampering": tampering}
    of = world(Says(writes={writes: "1"}), outcome, states=states, evidence=wanted)
    begin(of, evidence="on")
    return told(of)


@pytest.mark.parametrize(
    ("inner", "writes", "strict", "ends"),
    [
        pytest.param(CHECKED, "src/a", False, ("completed", "stale"), id="changed"),
        pytest.param(CHECKED, "src/a", True, ("failed", "stale_evidence"), id="strict"),
        pytest.param(WITHIN, "src/a", False, ("completed", "stale"), id="further down"),
        pytest.param(CHECKED, None, True, ("completed", "unchecked"), id="not changed"),
        pytest.param(UNCHECKED, "src/a", True, ("completed", "unchecked"), id="no check"),
    ],
)
def test_a_pass_of_an_inner_loop_becomes_stale_if_files_change_later(inner, writes, strict, ends):
    states = {
        "types": {"loop": {"name": "fix-types", **inner}, "on_pass": "notes", "on_fail": "bad"},
        "notes": {"action": "/notes", "next": "done"},
        "done": {"terminal": True},
        "bad": {"terminal": True, "outcome": "failure"},
    }
    turn = Says(0, writes={} if writes is None else {writes: "1"}, agent="success")
    of = world(Says(), PASSED, turn, states=states, evidence={"strict": strict})
    begin(of, evidence="on")
    last = of.log[-1]
    assert (last["status"], last.get("evidence") or last["reason"]) == ends


# ── limits and evidence ────────────────────────────────────────────────────────────────────────


def with_agent() -> FSMLoop:
    inner = {
        "name": "x",
        **INNER,
        "states": {**INNER["states"], "a": {"action": "/fix", "next": "b"}},
    }
    states = {**STATES, "types": {**STATES["types"], "loop": inner}}
    loop = {"name": "nightly", "initial": "types", "states": states, "max_cost_usd": 1}
    return FSMLoop.from_dict(loop)


def test_an_agent_in_a_child_is_an_agent_of_the_loop():
    loop = with_agent()
    run = LoopState("r", "nightly", "types", "", "")
    assert has_agent(loop)
    assert is_observed(loop, run)
    assert not has_agent(world().loop)
    assert not is_observed(world().loop, run)
    assert [child.name for child in child_loops(loop)] == ["x"]


def test_a_run_takes_snapshots_around_a_child_that_takes_some():
    """Otherwise nobody could undo what the child did."""
    inner = {"name": "x", **INNER, "evidence": True}
    states = {**STATES, "types": {**STATES["types"], "loop": inner}}
    loop = FSMLoop.from_dict({"name": "nightly", "initial": "types", "states": states})
    assert wants_evidence(loop)
    assert is_observed(loop, LoopState("r", "nightly", "types", "", ""))
    assert not wants_evidence(world().loop)
    assert not wants_evidence(loop._replace(evidence=Evidence(enabled=False)))


@pytest.mark.parametrize(
    ("own", "above", "made"),
    [
        pytest.param(Evidence(), Evidence(clean=True), Evidence(), id="nothing is protected"),
        pytest.param(
            Evidence(enabled=False),
            Evidence(protect=("a",)),
            Evidence(enabled=False),
            id="the child records no evidence",
        ),
        pytest.param(
            Evidence(),
            Evidence(enabled=False, protect=("a",)),
            Evidence(),
            id="the run above records no evidence",
        ),
        pytest.param(
            Evidence(clean=True),
            Evidence(protect=("a",), existing_only=True, tampering="fail"),
            Evidence(protect=("a",), existing_only=True, tampering="fail", clean=True),
            id="only above",
        ),
        pytest.param(
            Evidence(protect=("b", "!a"), existing_only=True, tampering="report"),
            Evidence(protect=("a",)),
            Evidence(protect=("b", "!a", "a")),
            id="both",
        ),
        pytest.param(
            Evidence(protect=("b",), existing_only=True, tampering="fail"),
            Evidence(protect=("a",), existing_only=True),
            Evidence(protect=("b", "a"), existing_only=True, tampering="fail"),
            id="the child is stricter",
        ),
    ],
)
def test_what_is_protected_in_a_child(own: Evidence, above: Evidence, made: Evidence):
    loop = world().loop._replace(evidence=own)
    assert protected_alike(loop, above) == loop._replace(evidence=made)


def test_a_child_in_a_worktree_cannot_turn_protection_off():
    loop = world().loop._replace(evidence=Evidence(enabled=False, clean=True))
    above = Evidence(protect=("a",), tampering="fail")
    made = Evidence(protect=("a",), tampering="fail")
    assert protected_alike(loop, above, apart=True) == loop._replace(evidence=made)


def test_no_child_with_an_agent_starts_without_money():
    loop = with_agent()
    run = LoopState("r", "nightly", "types", "", "", limits=Limits(max_cost_usd=0.0))
    ending = exceeded(loop, run, Moment(0, 0), "types")
    assert ending is not None
    assert ending.reason == "max_cost"


# ── joins ──────────────────────────────────────────────────────────────────────────────────────

STAGES: tuple[Stage, ...] = get_args(Stage)
P: Stage = "pass"
F: Stage = "fail"
E: Stage = "error"
T: Stage = "timeout"
W: Stage = "waiting"
R: Stage = "running"
JOINS = ("all", "any", 0, 1, 2, 3, 5, "0%", "50%", "67%", "100%")
rules = st.builds(
    JoinRule, st.sampled_from(JOINS), st.integers(1, 4), st.booleans(), st.just(value=False)
)


@pytest.mark.parametrize(
    ("join", "total", "need"),
    [("all", 3, 3), ("any", 3, 1), (2, 3, 2), ("80%", 10, 8), ("80%", 9, 8), ("50%", 0, 0)],
)
def test_how_many_have_to_pass(join, total, need):
    assert needed(join, total) == need


@pytest.mark.parametrize(
    ("rule", "stages", "verdict"),
    [
        pytest.param(JoinRule(), (), ("pass", "0 of 0 passed"), id="all of none"),
        pytest.param(
            JoinRule("50%"), (), ("pass", "0 of 0 passed; 0 needed"), id="a share of none"
        ),
        pytest.param(JoinRule("any"), (), ("fail", "0 of 0 passed; 1 needed"), id="any of none"),
        pytest.param(JoinRule(3), (W, W), ("fail", "0 of 2 passed; 3 needed"), id="too many"),
        pytest.param(JoinRule(), (P, F, R), None, id="all run to their ends"),
        pytest.param(JoinRule(), (P, P, R), None, id="not yet all"),
        pytest.param(JoinRule(), (P, P), ("pass", "2 of 2 passed"), id="all"),
        pytest.param(JoinRule(), (P, F), ("fail", "1 of 2 passed"), id="one failed"),
        pytest.param(
            JoinRule(fail_fast=True), (P, F, R), ("fail", "1 of 3 passed, 1 failed"), id="fail fast"
        ),
        pytest.param(
            JoinRule("any"), (P, R, W), ("pass", "1 of 3 passed; 1 needed"), id="the first"
        ),
        pytest.param(
            JoinRule("any"),
            (E, T),
            ("error", "0 of 2 passed; 1 needed; the others ended with errors"),
            id="only errors",
        ),
        pytest.param(JoinRule("any"), (E, F), ("fail", "0 of 2 passed; 1 needed"), id="no pass"),
        pytest.param(JoinRule(2), (P, F, R), None, id="still possible"),
        pytest.param(
            JoinRule(2), (F, F, R), ("fail", "0 of 3 passed, 2 failed; 2 needed"), id="impossible"
        ),
    ],
)
def test_the_verdict_of_a_join(rule, stages, verdict):
    found = judge_stages(rule, stages)
    assert (None if found is None else found[:2]) == verdict


def made(stages: tuple[Stage, ...], **fields: Any) -> Children:
    names = tuple(f"n{at}" for at in range(len(stages)))
    return Children("s", 1, 1, names, stages, **fields)


@pytest.mark.parametrize(
    ("children", "move"),
    [
        pytest.param(made((W, W, W)), ((0, 1), (), None, False), id="two at once"),
        pytest.param(made((R, W, W)), ((1,), (), None, False), id="one more"),
        pytest.param(made((R, R, W)), ((), (), None, False), id="no room"),
        pytest.param(made((P, "paused", P)), ((), (), None, True), id="one pauses"),
        pytest.param(made((R, "paused", W)), ((2,), (), None, False), id="the others continue"),
        pytest.param(made(("interrupted", "resumed", W)), ((0, 1), (), None, False), id="again"),
        pytest.param(
            made((R, W), halt=Halt("failed", "auth")), ((), (0,), None, False), id="all stop"
        ),
        pytest.param(
            made((P, W), halt=Halt("failed", "auth")), ((), (), None, True), id="all have stopped"
        ),
        pytest.param(made((P, R), verdict="fail"), ((), (1,), None, False), id="decided before"),
    ],
)
def test_what_starts_and_stops(children, move):
    assert tuple(next_move(JoinRule(max_parallel=2), children)) == move


def test_a_state_has_one_child():
    assert rule_of(StateConfig(loop=world().loop)) == JoinRule(max_parallel=1, single=True)
    for stage in STAGES:
        found = judge_stages(JoinRule(single=True), (stage,))
        assert (found is not None) == (stage in ENDED)


@given(
    rules, st.lists(st.sampled_from(["pass", "fail", "error", "timeout"]), max_size=6), st.data()
)
def test_whatever_the_order_a_join_is_decided_once_and_by_its_table(rule, outcomes, data):
    """Children end in any order; the rest are stopped once it is decided, and none starts then."""
    stages: tuple[Stage, ...] = (W,) * len(outcomes)
    children, decided = made(stages), []
    while True:
        move = next_move(rule, children)
        if move.decided is not None:
            decided.append(move.decided)
            children = children._replace(verdict=move.decided.verdict)
        assert not (children.verdict and move.start)
        stages = tuple(R if at in move.start else stage for at, stage in enumerate(children.stages))
        assert stages.count("running") <= rule.max_parallel
        children = children._replace(stages=stages)
        if move.is_over:
            break
        running = [at for at, stage in enumerate(stages) if stage == "running"]
        at = data.draw(st.sampled_from(running))
        ended: Stage = "stopped" if at in move.stop else outcomes[at]
        stages = (*stages[:at], ended, *stages[at + 1 :])
        children = children._replace(stages=stages)
    assert len(decided) == 1
    need, passed = needed(rule.join, len(outcomes)), outcomes.count("pass")
    assert (decided[0].verdict == "pass") == (passed >= need)
    if not rule.stops_the_rest:
        assert "stopped" not in children.stages
    if decided[0].verdict == "error":
        assert "pass" not in children.stages


@given(st.recursive(st.sampled_from(sorted(OUTCOME_OF_ENDING)), st.tuples, max_leaves=4))
def test_the_ending_of_a_tree_is_what_the_table_gives(tree):
    """Each level starts one child; the ending of the innermost goes up through the table."""
    ending, depth = tree, 0
    while isinstance(ending[0], tuple):
        ending, depth = ending[0], depth + 1
    for _ in range(depth):
        of = world(ends(*ending, message="why"))
        _, last = begin(of)
        meaning = outcome_of_ending(*ending)
        expected = {
            "pass": ("completed", "terminal"),
            "fail": ("failed", "terminal"),
            "error": ("failed", "terminal"),
            "timeout": ("failed", "terminal"),
            "interrupted": ("failed", "terminal"),
        }.get(meaning, ending)
        assert (last.status, last.reason) == expected
        ending = (last.status, last.reason)


def test_the_values_of_a_childs_result():
    from little_loops.fsm.state import ChildResult, Result

    child = ChildResult("completed", "terminal", "done", 2, {"n": "3"})
    values = result_values(Result(0, 5, "out", cost_usd=0.5, child=child))
    assert {name: values[name] for name in ("status", "final_state", "iterations", "cost_usd")} == {
        "status": "completed",
        "final_state": "done",
        "iterations": 2,
        "cost_usd": 0.5,
    }
    assert values["result"] == {"n": "3"}


def test_an_event_of_children_that_nobody_has_changes_nothing():
    run = LoopState("r", "nightly", "types", "", "", phase="running")
    start = ChildStart("types", "types")
    assert evolve_children(run, start) is run
    other = run._replace(children=made((R,)))
    assert evolve_children(other, start) == other


def test_children_stop_for_one_reason_only():
    of = world(Stop(15))
    run, _ = begin(of)
    assert run.children is not None
    stopped = run._replace(children=run.children._replace(halt=Halt("failed", "auth")))
    builder = StepBuilder(of.loop, stopped, Moment(0, 0))
    halt(builder, Halt("interrupted", "signal", signal=2))
    assert builder.events == []


def test_a_state_with_a_loop_has_no_action_of_its_own():
    run = LoopState("r", "nightly", "types", "", "")
    with pytest.raises(AssertionError, match="no action itself"):
        action_due(world().loop, run, Moment(0, 0))


def test_a_limit_above_ends_the_run():
    loop = FSMLoop.from_dict(
        {"name": "x", "initial": "a", "states": {"a": {"action": "/fix", "next": "b"}, "b": ENDS}}
    )
    of = ScriptedWorld(loop, [])
    of.admissions = [lambda at: Denied(at, "budget", "all is spent", limit="max_cost")]
    _, ending = begin(of, metered=True)
    assert (ending.status, ending.reason, ending.message) == ("failed", "max_cost", "all is spent")


def test_an_event_that_is_no_answer_to_the_command_for_children():
    entry = Entry(TransitionTaken("types", "done", "next"), 1, 1, "r", 1)
    run = LoopState("r", "nightly", "types", "", "")
    with pytest.raises(Unexpected):
        Recording([entry]).answer(world().loop, run, RunChildren("types", 1, 1, ("types",)))
