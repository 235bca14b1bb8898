"""What each event changes in a run, and that it changes nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from little_loops.fsm.events import (
    ActionComplete,
    ActionInterrupted,
    ActionStart,
    AgentWait,
    CheckResult,
    ConditionEval,
    Cost,
    Cycle,
    Entry,
    Event,
    Forked,
    GateAnswered,
    Handoff,
    HandoffDetected,
    HookRun,
    HostChosen,
    HostUnavailable,
    HostWait,
    Iteration,
    KeepBest,
    LoopComplete,
    LoopError,
    LoopInterrupted,
    LoopPaused,
    LoopStart,
    LoopTimeout,
    NoteDelivered,
    NoteReceived,
    OutOfScope,
    Recheck,
    ReferenceMoved,
    Report,
    Restored,
    Resume,
    RetryWait,
    RunWarning,
    Sampled,
    SignalFound,
    StateEnter,
    Tampered,
    TransitionTaken,
    Tree,
    UnknownEvent,
)
from little_loops.fsm.evolve import evolve, first_state
from little_loops.fsm.evolve_children import interrupted_children
from little_loops.fsm.plain import WrongShape
from little_loops.fsm.state import (
    Answer,
    Beside,
    CheckRecord,
    Children,
    Finding,
    Fork,
    Hosts,
    Judgement,
    Limits,
    LoopState,
    Metric,
    Move,
    Note,
    Result,
    Sample,
    SignalLine,
    Spending,
    Train,
    Trees,
    WaitFor,
)

NOW_MS = 1_768_473_000_000
NOW = "2026-01-15T10:30:00.000Z"
RAN_MS = 5_000
HANDOFF = SignalLine("handoff", "3 left")
DONE = Result(0, 7)
WAITS = Result(2, 7, agent="wait")

HOSTS = Hosts("fix", 7, 4, 1, {"claude": 90_000, "codex": None}, ("claude",))
TRIED_AGAIN = HOSTS._replace(passed=())
FULL = LoopState(
    run="run-1",
    loop="l",
    current_state="fix",
    started_at=NOW,
    updated_at="2026-01-15T10:29:00.000Z",
    scope=("src",),
    context={"a": 1, "b": 2},
    status="failed",
    reason="error",
    error="it broke",
    phase="running",
    move=Move("done", "next"),
    wait=WaitFor("host", 9, 9, "busy", 9),
    judgement=Judgement("fail", "exit 1"),
    signal_line=SignalLine("error", "broken"),
    iteration=3,
    cycle=2,
    step=7,
    attempt=4,
    retries=2,
    visited=("check", "fix"),
    entered_by="on_fail",
    captured={"check": Result(1, 5)},
    prev_state="check",
    metrics={"check": Metric(4.0, 1)},
    samples=(Sample(3.0, "t"),),
    continuation_prompt="half done",
    continuations=2,
    spawns=True,
    late=True,
    handoff_waits=2,
    host_waits=2,
    host_waited_ms=3_000,
    hosts=HOSTS,
    at_limit=True,
    owes=True,
    timed_out_in="check",
    resume_to="fix",
    session_id="s-1",
    ran_ms=4_000,
    limits=Limits(max_iterations=9, timeout=60.0),
    costs={"fix": Spending(100, 0.5, 3, 0.25)},
    trees=Trees(off="off"),
    metered=True,
    gate=40,
    answer=Answer(40, "approved", "approve", "fine", "done"),
    notes=(Note("n1", "be brief", 7), Note("n2", "be kind")),
    hooks_done=("before_run", "before"),
    fork=Fork("r0", "other", 2),
    seq=41,
)
"""A run in which every field has been used."""

GIVEN = (Note("n1", "be brief", 7), Note("n2", "be kind", 7))
HEARD = (Note("n1", "be brief", 7, True), Note("n2", "be kind"))
FROM_ZERO: dict[str, Any] = {
    "continuation_prompt": None,
    "continuations": 0,
    "handoff_waits": 0,
    "host_waits": 0,
    "host_waited_ms": 0,
    "hosts": TRIED_AGAIN,
}
GOES_ON: dict[str, Any] = {
    "metered": False,
    "status": "running",
    "reason": None,
    "error": None,
    "spawns": False,
    "resume_to": None,
    "late": False,
    "hosts": HOSTS._replace(attempt=0, limited={"claude": 90_000}, passed=()),
    "hooks_done": ("before",),
    "samples": (),
}
ENDS = ("fix", 3, RAN_MS)


def after(event: Event, run: LoopState = FULL) -> LoopState:
    return evolve(run, Entry(event, NOW_MS, RAN_MS, run.run, run.seq + 1))


def changes(event: Event, run: LoopState = FULL) -> dict[str, Any]:
    old, new = run._asdict(), after(event, run)._asdict()
    return {name: value for name, value in new.items() if value != old[name]}


def test_every_field_of_that_run_has_been_used():
    plain = LoopState("", "", "", "", "")._asdict()
    unused = [name for name, value in FULL._asdict().items() if value == plain[name]]
    # `test_children`, `test_worktrees` and `test_judges` have them.
    assert unused == ["children", "workspace", "train", "ruling", "veto", "result"]


ALWAYS = {"updated_at": NOW, "ran_ms": RAN_MS, "seq": 42, "owes": False}
AWAY = {**ALWAYS, "gate": None}
OWES = {**ALWAYS}
del OWES["owes"]


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        pytest.param(LoopStart("x", "y", (".",), 1), ALWAYS, id="a start"),
        pytest.param(SignalFound("fix", "stop", "now"), ALWAYS, id="a signal"),
        pytest.param(RunWarning("careful"), ALWAYS, id="a warning"),
        pytest.param(
            Forked("r1", "fix", 3, "p", {"who": "you"}),
            {
                **ALWAYS,
                "status": "interrupted",
                "reason": "fork",
                "error": None,
                "context": {**FULL.context, "who": "you"},
                "session_id": None,
                "spawns": False,
                "fork": Fork("r1", "fix", 3),
            },
            id="a fork",
        ),
        pytest.param(
            GateAnswered("fix", Answer(39, "rejected", "reject", "no")),
            {**OWES, "gate": 39, "answer": Answer(39, "rejected", "reject", "no")},
            id="a gate is answered",
        ),
        pytest.param(
            NoteReceived("n3", "be quick"),
            {**OWES, "notes": (*FULL.notes, Note("n3", "be quick"))},
            id="a note arrives",
        ),
        pytest.param(
            NoteDelivered("n1", "fix", 7),
            {**ALWAYS, "notes": FULL.notes[1:]},
            id="a note is delivered",
        ),
        pytest.param(Tree("fix", 7, 4, "after", "i", "p", "g"), ALWAYS, id="a snapshot"),
        pytest.param(Tampered("fix", 1, ("t",), "fail", "agent"), ALWAYS, id="tampering"),
        pytest.param(OutOfScope("fix", 1, ("o",), "report"), ALWAYS, id="out of scope"),
        pytest.param(Restored("fix", 1, ("t",), "protected"), ALWAYS, id="put back"),
        pytest.param(ReferenceMoved(1, ("t",), "user"), ALWAYS, id="the reference moved"),
        pytest.param(
            CheckResult("fix", "pass", "exit 0", "i", "i"),
            {**ALWAYS, "phase": "judged"},
            id="a check's result keeps the judgement",
        ),
        pytest.param(
            Recheck("test", "clean", "to confirm"),
            {
                **ALWAYS,
                "phase": "entered",
                "current_state": "test",
                "move": None,
                "judgement": None,
                "signal_line": None,
                "samples": (),
            },
            id="a check once more",
        ),
        pytest.param(
            Sampled("fix", 5.0, 3, "t"),
            {
                **ALWAYS,
                "phase": "entered",
                "judgement": None,
                "signal_line": None,
                "samples": (Sample(3.0, "t"), Sample(5.0, "t")),
            },
            id="one of several measurements",
        ),
        pytest.param(
            KeepBest("fix", "start", 7, 4, 5.0, 5.0, "t", "p", 7),
            {
                **ALWAYS,
                "phase": "entered",
                "judgement": None,
                "signal_line": None,
                "samples": (),
            },
            id="the first measurement of the start",
        ),
        pytest.param(
            KeepBest("fix", "put_back", 7, 4, 6.0, 5.0, "t", "p", 3),
            ALWAYS,
            id="a change is not kept",
        ),
        pytest.param(Report("two turns"), ALWAYS, id="a report"),
        pytest.param(UnknownEvent("tea", {"state": "x"}), ALWAYS, id="unreadable (newer version)"),
        pytest.param(
            HookRun("after", "fix", 7, 5),
            {**ALWAYS, "hooks_done": ("before_run", "before", "after")},
            id="a hook has run",
        ),
        pytest.param(
            HookRun("after_run", "fix", 7, 5, problem="exit 1"),
            {**ALWAYS, "hooks_done": ("before_run", "before", "after_run")},
            id="a hook has failed, and that does not matter",
        ),
        pytest.param(
            HookRun("before_state", "fix", 7, 5, True, "exit 1"),
            ALWAYS,
            id="a hook before an action has failed",
        ),
        pytest.param(
            HookRun("after", "fix", 7, 5, True, "exit 1"),
            {
                **ALWAYS,
                "hooks_done": ("before_run", "before", "after"),
                "phase": "judged",
                "judgement": Judgement("error", "hook after: exit 1"),
            },
            id="a hook after an action has failed",
        ),
        pytest.param(
            StateEnter("test", 4, 8, "next"),
            {
                **ALWAYS,
                "phase": "entered",
                "current_state": "test",
                "iteration": 4,
                "step": 8,
                "attempt": 0,
                "hooks_done": ("before_run",),
                "retries": 0,
                "visited": ("check", "fix", "test"),
                "at_limit": False,
                "entered_by": "next",
                "move": None,
                "wait": None,
                "judgement": None,
                "signal_line": None,
                "samples": (),
            },
            id="a state is entered",
        ),
        pytest.param(
            StateEnter("fix", 3, 7, "on_fail", at_limit=True),
            {
                **ALWAYS,
                "phase": "entered",
                "retries": 3,
                "move": None,
                "wait": None,
                "judgement": None,
                "signal_line": None,
                "samples": (),
            },
            id="a retry keeps its attempts",
        ),
        pytest.param(
            ActionStart("./x", "fix", 5, "shell", session_id="s-2"),
            {
                **ALWAYS,
                "notes": GIVEN,
                "attempt": 5,
                "session_id": "s-2",
                "wait": None,
                "spawns": False,
                "late": False,
            },
            id="an action starts",
        ),
        pytest.param(
            ActionComplete("fix", DONE),
            {
                **OWES,
                "notes": HEARD,
                **FROM_ZERO,
                "phase": "judging",
                "captured": {"check": Result(1, 5), "fix": DONE},
                "prev_state": "fix",
                "signal_line": None,
                "judgement": None,
            },
            id="an action ends",
        ),
        pytest.param(
            ActionComplete("fix", DONE, SignalLine("stop", ""), "fixed"),
            {
                **OWES,
                "notes": HEARD,
                **FROM_ZERO,
                "phase": "judging",
                "captured": {"check": Result(1, 5), "fix": DONE, "fixed": DONE},
                "prev_state": "fix",
                "signal_line": SignalLine("stop", ""),
                "judgement": None,
            },
            id="with a signal of another kind, and a name for the result",
        ),
        pytest.param(
            ActionComplete("fix", DONE, HANDOFF),
            {
                **OWES,
                "phase": "judging",
                "captured": {"check": Result(1, 5), "fix": DONE},
                "prev_state": "fix",
                "signal_line": HANDOFF,
                "judgement": None,
            },
            id="a handoff keeps the counts",
        ),
        pytest.param(
            ActionComplete("fix", WAITS),
            {
                **OWES,
                "phase": "judging",
                "captured": {"check": Result(1, 5), "fix": WAITS},
                "prev_state": "fix",
                "signal_line": None,
                "judgement": None,
            },
            id="a usage limit keeps the counts",
        ),
        pytest.param(
            ActionComplete("fix", DONE._replace(cut_by="action"), HANDOFF),
            {
                **OWES,
                "notes": HEARD,
                **FROM_ZERO,
                "phase": "judging",
                "captured": {"check": Result(1, 5), "fix": DONE._replace(cut_by="action")},
                "prev_state": "fix",
                "signal_line": HANDOFF,
                "judgement": None,
            },
            id="cut before its handoff counted",
        ),
        pytest.param(
            ActionInterrupted("fix", 4, "crash"), {**OWES, "phase": "interrupted"}, id="cut"
        ),
        pytest.param(
            ActionInterrupted("fix", 4, "stop", started=False),
            {**ALWAYS, "phase": "entered"},
            id="never begun",
        ),
        pytest.param(
            ConditionEval("exit_code", "pass", "exit 0"),
            {**ALWAYS, "phase": "judged", "judgement": Judgement("pass", "exit 0"), "samples": ()},
            id="a judgement",
        ),
        pytest.param(
            ConditionEval("convergence", "progress", "3", best=3.0, stalled=2),
            {
                **ALWAYS,
                "phase": "judged",
                "judgement": Judgement("progress", "3", Metric(3.0, 2)),
                "metrics": {"check": Metric(4.0, 1), "fix": Metric(3.0, 2)},
                "samples": (),
            },
            id="a measurement",
        ),
        pytest.param(
            ConditionEval("convergence", "progress", "3", best=3.0, value=3.0, min_gain=0.5),
            {
                **ALWAYS,
                "phase": "judged",
                "judgement": Judgement("progress", "3", Metric(3.0, 0, 0.5), 3.0),
                "metrics": {"check": Metric(4.0, 1), "fix": Metric(3.0, 0, 0.5)},
                "samples": (),
            },
            id="a measurement that says nothing of a stall",
        ),
        pytest.param(
            TransitionTaken("fix", "test", "on_pass", retry=True, loop_timeout="fix", passed=True),
            {
                **AWAY,
                "phase": "moving",
                "move": Move("test", "on_pass", True, True),
                "wait": None,
                "host_waits": 0,
                "host_waited_ms": 0,
                "hosts": TRIED_AGAIN,
                "timed_out_in": "fix",
                "resume_to": None,
            },
            id="a transition",
        ),
        pytest.param(
            Iteration(4, 500),
            {**ALWAYS, "iteration": 4, "visited": (), "wait": WaitFor("backoff", 5_500)},
            id="an iteration",
        ),
        pytest.param(
            Iteration(4),
            {**ALWAYS, "iteration": 4, "visited": (), "wait": None},
            id="an iteration at once",
        ),
        pytest.param(
            Cycle(3, 60_000),
            {
                **ALWAYS,
                "cycle": 3,
                "iteration": 1,
                "at_limit": False,
                "visited": (),
                "metrics": {},
                "wait": WaitFor("maintain", 65_000),
            },
            id="a cycle forgets its measurements",
        ),
        pytest.param(
            RetryWait("fix", 5, 700), {**ALWAYS, "wait": WaitFor("retry", 5_700)}, id="a retry"
        ),
        pytest.param(
            HostWait("fix", "limit", NOW_MS + 900, 900, 400),
            {
                **ALWAYS,
                "phase": "entered",
                "wait": WaitFor("host", 5_900, NOW_MS + 900, "limit", 5_400),
                "hosts": TRIED_AGAIN,
                "host_waits": 3,
                "host_waited_ms": 3_900,
            },
            id="a host",
        ),
        pytest.param(
            HostWait("fix", "limit", NOW_MS + 900),
            {
                **ALWAYS,
                "phase": "entered",
                "wait": WaitFor("host", None, NOW_MS + 900, "limit"),
                "hosts": TRIED_AGAIN,
                "host_waits": 3,
            },
            id="a host, as an earlier version wrote it",
        ),
        pytest.param(
            HostWait("fix", "limit", NOW_MS + 900, None, 400),
            {
                **ALWAYS,
                "phase": "entered",
                "wait": WaitFor("host", 5_000, NOW_MS + 900, "limit", 5_400),
                "hosts": TRIED_AGAIN,
                "host_waits": 3,
            },
            id="a host without a length",
        ),
        pytest.param(
            HostUnavailable("fix", "codex", "usage limit", NOW_MS + 900),
            {
                **ALWAYS,
                "phase": "entered",
                "signal_line": None,
                "hosts": HOSTS._replace(
                    limited={"claude": 90_000, "codex": NOW_MS + 900}, passed=("claude", "codex")
                ),
            },
            id="an agent that is not available",
        ),
        pytest.param(
            HostChosen("fix", 7, 5, "claude", 0),
            {**ALWAYS, "hosts": HOSTS._replace(attempt=5, fallback=0)},
            id="the agent of the next turn",
        ),
        pytest.param(
            HandoffDetected("fix", 3, "2 left", 4_000, spawn=False),
            {
                **ALWAYS,
                "phase": "entered",
                "continuation_prompt": "2 left",
                "continuations": 3,
                "spawns": False,
                "handoff_waits": 3,
                "wait": WaitFor("handoff", 9_000),
                "signal_line": None,
            },
            id="a quick handoff",
        ),
        pytest.param(
            HandoffDetected("fix", 3, "2 left", spawn=True),
            {
                **ALWAYS,
                "phase": "entered",
                "continuation_prompt": "2 left",
                "continuations": 3,
                "handoff_waits": 0,
                "wait": None,
                "signal_line": None,
            },
            id="a handoff after some time",
        ),
        pytest.param(
            HandoffDetected("fix", 3, "2 left", ends_run=True),
            ALWAYS,
            id="a handoff that ends the run",
        ),
        pytest.param(
            Cost("fix", 50, 0.25, 2),
            {**ALWAYS, "costs": {"fix": Spending(150, 0.75, 5, 0.25)}},
            id="a cost",
        ),
        pytest.param(
            Cost("test", 50, 0.25, 2, estimated=True),
            {
                **ALWAYS,
                "costs": {"fix": Spending(100, 0.5, 3, 0.25), "test": Spending(50, 0.25, 2, 0.25)},
            },
            id="an estimate, the first of its state",
        ),
        pytest.param(Resume("fix", 3, "failed"), {**OWES, **GOES_ON}, id="a resume"),
        pytest.param(
            AgentWait("fix", "slot", "all in use"),
            {**ALWAYS, "wait": WaitFor("slot", why="all in use")},
            id="a wait for a slot",
        ),
        pytest.param(
            AgentWait("fix", "launches", "too many", NOW_MS + 900),
            {**ALWAYS, "wait": WaitFor("budget", until_wall_ms=NOW_MS + 900, why="too many")},
            id="a wait for the budget",
        ),
        pytest.param(
            Resume("fix", 3, "failed", (), Limits(None, 90.0, 5), {"b": 3, "c": 4}),
            {
                **OWES,
                **GOES_ON,
                "limits": Limits(9, 90.0, 5),
                "context": {"a": 1, "b": 3, "c": 4},
                "continuations": 0,
                "handoff_waits": 0,
            },
            id="a resume with limits and values",
        ),
        pytest.param(
            Resume("fix", 3, "failed", to="test"),
            {**OWES, **GOES_ON, "resume_to": "test"},
            id="a resume that goes elsewhere",
        ),
        pytest.param(
            Resume("fix", 3, "failed", again=True),
            {
                **OWES,
                **GOES_ON,
                "phase": "entered",
                "judgement": None,
                "signal_line": None,
                "wait": None,
                "host_waits": 0,
                "host_waited_ms": 0,
            },
            id="a resume of the state that failed",
        ),
        pytest.param(
            LoopComplete("completed", "terminal", *ENDS),
            {
                **AWAY,
                "status": "completed",
                "reason": "terminal",
                "error": None,
                "phase": "ended",
            },
            id="completed",
        ),
        pytest.param(
            LoopComplete("stopped", "stop_signal", *ENDS, "enough"),
            {
                **AWAY,
                "status": "stopped",
                "reason": "stop_signal",
                "error": "enough",
                "phase": "ended",
            },
            id="stopped",
        ),
        pytest.param(
            LoopError("failed", "max_cost", *ENDS, "fix", "no money"),
            {**AWAY, "reason": "max_cost", "error": "no money"},
            id="failed",
        ),
        pytest.param(
            LoopError("failed", "unreadable (newer version)", *ENDS, "fix", "odd"),
            {**AWAY, "reason": "unreadable (newer version)", "error": "odd"},
            id="failed for a reason unreadable (newer version)",
        ),
        pytest.param(
            LoopTimeout("failed", "loop_timeout", *ENDS, "fix", RAN_MS),
            {**AWAY, "reason": "loop_timeout", "error": None, "phase": "ended"},
            id="out of time, after the state for that",
        ),
        pytest.param(
            LoopPaused("needs_review", "review", *ENDS, "look"),
            {
                **ALWAYS,
                "status": "needs_review",
                "reason": "review",
                "error": "look",
                "phase": "ended",
                "gate": 42,
            },
            id="paused",
        ),
        pytest.param(
            LoopInterrupted("interrupted", "signal", *ENDS, 15),
            {**AWAY, "status": "interrupted", "reason": "signal", "error": None},
            id="interrupted",
        ),
        pytest.param(
            Handoff("awaiting_continuation", "handoff", *ENDS),
            {
                **AWAY,
                "status": "awaiting_continuation",
                "reason": "handoff",
                "error": None,
                "wait": None,
                "spawns": False,
            },
            id="at rest after a handoff",
        ),
    ],
)
def test_an_event_changes_this_and_nothing_else(event, expected):
    assert changes(event) == expected


def test_out_of_time_without_a_state_for_that_the_action_can_be_continued():
    event = LoopTimeout("failed", "loop_timeout", *ENDS, "fix", RAN_MS)
    assert "phase" not in changes(event, FULL._replace(timed_out_in=None))


def test_waits_for_a_host_are_counted_from_zero_also_without_a_handoff():
    run = FULL._replace(continuation_prompt=None, continuations=0, handoff_waits=0)
    ended = after(ActionComplete("fix", DONE), run)
    assert (ended.host_waits, ended.host_waited_ms) == (0, 0)


def test_a_check_without_a_condition_is_judged_by_its_result():
    plain = FULL._replace(judgement=None)
    event = CheckResult("fix", "fail", "exit 1", "i", "i")
    assert changes(event, plain)["judgement"] == Judgement("fail", "exit 1")


def test_a_resume_before_an_action_is_settled_is_late():
    assert changes(Resume("fix", 3, "running"), FULL._replace(phase="judging", late=False))["late"]


def test_who_resumes_a_run_at_rest_waits_for_nothing():
    resting = FULL._replace(status="awaiting_continuation")
    assert changes(Resume("fix", 3, "awaiting_continuation"), resting)["wait"] is None


@pytest.mark.parametrize(
    ("event", "owes"),
    [
        pytest.param(ActionComplete("fix", DONE), True, id="a turn that ended"),
        pytest.param(ActionInterrupted("fix", 4, "crash"), True, id="a turn that was lost"),
        pytest.param(
            ActionInterrupted("fix", 4, "stop", started=False), False, id="a turn never begun"
        ),
    ],
)
@pytest.mark.parametrize(("session", "is_agent"), [("s-1", True), (None, False)])
def test_an_agents_turn_is_owed_until_it_is_paid_for(event, owes, session, is_agent):
    before = FULL._replace(session_id=session, owes=False)
    now = after(event, before)
    assert now.owes == (owes and is_agent)
    resumed = after(Resume("fix", 3, "running"), now)
    assert resumed.owes == now.owes
    assert not after(Cost("fix", 1, 0.1, 1), resumed).owes


def test_the_first_event_begins_a_run():
    start = LoopStart("l", "check", ("src", "docs"), 1, Limits(max_iterations=3))
    run = first_state(Entry(start, NOW_MS, 0, "run-1", 1), {"a": 1})
    assert run == LoopState(
        "run-1",
        "l",
        "check",
        NOW,
        NOW,
        scope=("src", "docs"),
        context={"a": 1},
        move=Move("check", "initial"),
        limits=Limits(max_iterations=3),
    )


def test_no_other_event_begins_one():
    with pytest.raises(WrongShape, match="the first event is not `loop_start`"):
        first_state(Entry(RunWarning("careful"), NOW_MS, 0), {})


@pytest.mark.parametrize(
    ("failed", "words"),
    [
        (("a: no permission",), "could not be restored: a: no permission"),
        (("a: x", "b: y"), "could not be restored: a: x and 1 more"),
    ],
)
def test_what_could_not_be_restored_is_a_finding(failed, words):
    trees = Trees(reference="r", restore=True)
    run = FULL._replace(trees=trees)
    after = evolve(run, Entry(Restored("fix", 1, (), "protected", failed), 1000, 5, "run-1", 1))
    assert after.trees is not None
    assert after.trees.finding == Finding("error", words)


def test_no_more_paths_are_told_than_fit_and_each_once():
    many = tuple(f"t{number:02}" for number in range(25))
    run = FULL._replace(trees=Trees(reference="r", blame="agent", restored=("t01", "x")))
    after = evolve(run, Entry(Restored("fix", 1, many, "protected"), 1000, 5, "run-1", 1))
    assert after.trees is not None
    assert after.trees.restored == ("t01", "x", "t00", *many[2:19])


def test_a_merge_train_ends_with_the_branches_of_its_state():
    train = Train("c0", "main")
    assert after(TransitionTaken("fix", "test", "next"), FULL._replace(train=train)).train is None


def test_a_run_that_resolves_a_branch_can_be_continued_after_an_interruption():
    under_way = Children("fix", 7, 4, ("a", "b"), ("running", "fail"), beside=Beside("a.resolve-1"))
    left = interrupted_children(under_way)
    assert left.stages == ("interrupted", "fail")
    assert left.beside == Beside("a.resolve-1", "interrupted")


def test_each_pass_of_the_runs_that_a_state_started_is_recorded():
    earlier = CheckRecord("pass", 6, 1, "t1", "t1", "t1")
    trees = Trees(tree="t2", before="t2", project="t2", checks={"fix": earlier})
    passed = FULL._replace(trees=trees, captured={"fix": Result(None, 5, verdict="pass")})
    left = after(TransitionTaken("fix", "test", "on_pass"), passed).trees
    assert left is not None
    assert (left.checks["fix"].step, left.checks["fix"].before) == (7, "t2")


@pytest.mark.parametrize("again", [False, True])
def test_a_finding_lasts_until_the_state_runs_again(again):
    found = Finding("tampered", "the agent changed tests/t")
    run = FULL._replace(trees=Trees(finding=found))
    left = after(Resume("fix", 3, "failed", again=again), run).trees
    assert left is not None
    assert left.finding == (None if again else found)
