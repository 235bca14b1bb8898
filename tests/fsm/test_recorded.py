"""What the next events of a log say about what happened; most of it is tested by every story.

`tests.fsm.scripted` replays the log of each story. These rows are about logs that were cut off,
stopped, or do not fit the machine.
"""

from __future__ import annotations

from typing import Any

import pytest

from little_loops.engine.drive import new_run
from little_loops.fsm import endings
from little_loops.fsm.commands import (
    Admit,
    Command,
    EndLeftovers,
    Finish,
    Job,
    Judge,
    RestoreProtected,
    RunHook,
    RunShell,
    TakeSnapshot,
    Wait,
)
from little_loops.fsm.events import (
    Entry,
    KeepBest,
    OutOfScope,
    ReferenceMoved,
    RunWarning,
    Tampered,
    Tree,
)
from little_loops.fsm.happenings import (
    SETUP_FAILED,
    ActionEnded,
    Admitted,
    CannotContinue,
    Denied,
    HookEnded,
    Judged,
    LeftoversEnded,
    PathChange,
    Resumed,
    SnapshotCut,
    SnapshotTaken,
    StopAsked,
    StoreFailed,
)
from little_loops.fsm.recorded import NotRecorded, Recording, Unexpected
from little_loops.fsm.schema import ExitCode, FSMLoop, Hook
from little_loops.fsm.state import Answer, Counted, Finding, Judgement, LoopState, Trees, WaitFor
from little_loops.fsm.timestamps import Moment
from tests.entries import WALL_MS, event

LOOP = FSMLoop.from_dict(
    {
        "name": "fix",
        "initial": "check",
        "states": {
            "check": {"action": "x", "on_pass": "done", "on_fail": "check"},
            "done": {"terminal": True},
        },
    }
)
AT = Moment(WALL_MS, 0)
RUN = new_run(LOOP, "r", AT)
WITH_TREES = RUN._replace(trees=Trees(guard="g1", blame="agent"))
JOB = Job("check", 1, 1, 1, 10, {}, {}, None, 5.0, None, "action")
ACT = RunShell(JOB, "x", "sh")
SNAPSHOT = TakeSnapshot("check", 1, 1, "after", "p", "g1")
LAST = SNAPSHOT._replace(when="end", ending=endings.interrupted(2))
END = EndLeftovers(endings.COMPLETED)
STOPPED = event("loop_interrupted", signal=2)
TREE = event("tree", when="after")
HOOK = RunHook("after_run", Hook("x"), JOB, "r/1/after_run", {})
BUDGET = event("loop_paused", reason="budget", message="$5 of $5 is spent")


def recording(*events: Any) -> Recording:
    return Recording([Entry(each, WALL_MS, 0, "r", at) for at, each in enumerate(events, 1)])


def answer(command: Command, *events: Any, run: LoopState = RUN) -> Any:
    return recording(*events).answer(LOOP, run, command)


@pytest.mark.parametrize(
    ("command", "events"),
    [
        pytest.param(ACT, [event("state_enter")], id="an action"),
        pytest.param(Judge(ExitCode(), "check"), [event("state_enter")], id="a verdict"),
        pytest.param(SNAPSHOT, [event("state_enter")], id="a snapshot"),
        pytest.param(SNAPSHOT, [event("tree_unread"), TREE], id="a snapshot that was cut"),
        pytest.param(RestoreProtected("g1"), [event("state_enter")], id="restoring"),
        pytest.param(HOOK, [event("state_enter")], id="a hook"),
        pytest.param(Finish(endings.COMPLETED), [event("state_enter")], id="the end"),
    ],
)
def test_an_event_that_is_no_answer(command, events):
    with pytest.raises(Unexpected):
        answer(command, *events, run=WITH_TREES)


@pytest.mark.parametrize(
    ("command", "events"),
    [
        pytest.param(ACT, [], id="the log ends"),
        pytest.param(ACT, [event("resume")], id="the process was killed"),
        pytest.param(ACT, [event("note_received", id="n"), event("resume")], id="after a note"),
        pytest.param(
            LAST,
            [event("tampered", files=1, paths=["a"], tampering="fail", by="agent")],
            id="in a snapshot",
        ),
        pytest.param(
            LAST,
            [
                event("tampered", files=1, paths=["a"], tampering="fail", by="agent"),
                event("resume"),
            ],
            id="in a snapshot, by a kill",
        ),
    ],
)
def test_a_log_that_has_no_answer(command, events):
    with pytest.raises(NotRecorded):
        answer(command, *events, run=WITH_TREES)


@pytest.mark.parametrize(
    ("events", "signal"),
    [
        pytest.param([STOPPED], 2, id="known"),
        pytest.param([event("warning"), event("report"), STOPPED], 2, id="after a warning"),
        pytest.param([event("tree", when="end")], 15, id="the end was not written"),
        pytest.param([event("tree", when="end"), event("resume")], 15, id="then killed"),
    ],
)
def test_a_stop_instead_of_an_answer(events, signal):
    wait = Wait(WaitFor("backoff", 1000))
    assert answer(wait, *events) == StopAsked(AT, signal)
    assert answer(SNAPSHOT, *events, run=WITH_TREES) == StopAsked(AT, signal)
    assert answer(HOOK, *events) == StopAsked(AT, signal)


def test_a_hook_at_the_end_that_was_cut_by_another_stop():
    last = HOOK._replace(ending=END.ending)
    log = recording(STOPPED)
    assert log.answer(LOOP, RUN, last) == HookEnded(AT, "after_run", stop=15, ending=END.ending)
    with pytest.raises(Unexpected):  # it is cut once: the log lacks its end
        log.answer(LOOP, RUN, last)
    ran = event("hook", hook="after_run", state="check", step=1, problem="exit 1")
    assert answer(last, ran) == HookEnded(AT, "after_run", 2300, "exit 1", ending=END.ending)
    failed = event("loop_error", reason="storage", error="it is damaged")
    assert answer(LAST, ran, failed, run=WITH_TREES) == StoreFailed(AT, "it is damaged")
    assert answer(Wait(WaitFor("backoff", 1000)), ran, STOPPED) == StopAsked(AT, 2)


@pytest.mark.parametrize(
    ("rest", "signal"),
    [
        pytest.param([STOPPED], 2, id="known"),
        pytest.param([], 15, id="the end was not written"),
        pytest.param([event("resume")], 15, id="then killed"),
    ],
)
def test_an_action_that_a_stop_ended(rest, signal):
    cut = event("action_interrupted", cause="stop", attempt=1)
    found = answer(ACT, cut, *rest)
    assert isinstance(found, ActionEnded)
    assert (found.stop, found.result.cut_by, found.result.agent) == (signal, "stop", None)
    never = event("action_interrupted", cause="stop", attempt=1, started=False)
    assert answer(ACT, never, *rest) == StopAsked(AT, signal)


@pytest.mark.parametrize(
    ("reason", "why"),
    [
        pytest.param("consent", "not here", id="agents may not work there"),
        pytest.param("error", f"{SETUP_FAILED} on `a-1`: exit 7", id="its preparation failed"),
    ],
)
def test_nobody_who_could_carry_out_the_command(reason, why):
    end = event("loop_error", reason=reason, error=why)
    refused = CannotContinue(AT, reason, why)
    never = event("action_interrupted", cause="stop", attempt=1, started=False)
    assert answer(ACT, never, event("report"), end) == refused
    assert answer(Wait(WaitFor("backoff", 1000)), end) == refused
    assert answer(HOOK, end) == refused


def test_an_error_that_nobody_refused():
    end = event("loop_error", reason="error", error="exit 7")
    with pytest.raises(Unexpected):
        answer(ACT, end)
    with pytest.raises(Unexpected):
        answer(ACT, event("warning", message="slow", state="check"))


def test_a_measurement_that_did_not_count():
    again = KeepBest("check", "again", 1, 1)
    found = answer(Judge(ExitCode(), "check"), again)
    assert found == Judged(AT, Judgement("progress", value=0.0))


def test_the_warnings_of_an_action_end_with_the_log():
    ended, warning = event("action_complete"), event("warning", message="slow", state="check")
    assert answer(ACT, ended, warning).warnings == ("slow",)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param([event("action_start")], Admitted(AT), id="admitted"),
        pytest.param(
            [event("tree", when="end"), BUDGET],
            Denied(AT, "budget", "$5 of $5 is spent"),
            id="a budget pauses",
        ),
        pytest.param(
            [
                event("warning", message="other", state="check"),
                event("warning", message="`check` did not run: spent", state="check"),
                event("loop_timeout", final_state="check"),
            ],
            Denied(AT, "budget", "spent", WALL_MS),
            id="the timeout leaves no time",
        ),
        pytest.param([event("warning"), event("loop_timeout")], Admitted(AT), id="another end"),
    ],
)
def test_admission(events, expected):
    assert answer(Admit("check", 1, 1), *events) == expected


def test_a_refusal_whose_end_was_not_written_counts_as_a_stop():
    warning = event("warning", message="`check` did not run: spent", state="check")
    assert answer(Admit("check", 1, 1), warning) == StopAsked(AT, 15)


@pytest.mark.parametrize(
    "before", [[], [event("warning"), event("report")]], ids=["at once", "after a warning"]
)
def test_a_store_that_failed(before):
    failed = event("loop_error", reason="storage", error="it is damaged")
    assert answer(LAST, *before, failed, run=WITH_TREES) == StoreFailed(AT, "it is damaged")


def test_a_snapshot_of_which_only_a_warning_was_written():
    with pytest.raises(NotRecorded):
        answer(LAST, event("warning"), run=WITH_TREES)


@pytest.mark.parametrize(
    ("events", "protected", "watched"),
    [
        pytest.param([("report", "agent")], [], ["a"], id="watched only"),
        pytest.param([("report", "check")], ["a"], [], id="a check never watches"),
        pytest.param([("report", "agent"), ("fail", "agent")], ["a"], ["a"], id="both"),
    ],
)
def test_which_rule_a_change_broke(events, protected, watched):
    told = [event("tampered", files=1, paths=["a"], tampering=then, by=by) for then, by in events]
    found = answer(SNAPSHOT, *told, event("tree", when="after", guard="g1"), run=WITH_TREES)
    assert isinstance(found, SnapshotTaken)
    assert found.tampered == tuple(PathChange(path, "changed") for path in protected)
    assert found.watched == tuple(watched)


def test_a_change_after_a_finding_is_only_watched():
    assert WITH_TREES.trees is not None
    run = WITH_TREES._replace(trees=WITH_TREES.trees._replace(finding=Finding("tampered", "t")))
    changed = Tampered("fix", 1, ("a",), "report", "agent")
    found = answer(SNAPSHOT, changed, event("tree", when="after", guard="g9"), run=run)
    assert isinstance(found, SnapshotTaken)
    assert (found.tampered, found.watched) == ((), ("a",))


def test_what_changed_beside_worktrees():
    beside = OutOfScope("fix", 1, ("a",), "report", "tree", "p")
    project = OutOfScope("fix", 1, ("b",), "report", "project", "p")
    protected = Tampered("fix", 1, ("t",), "fail", "apart")
    moved = ReferenceMoved(2, ("t", "u"), "`fix`")
    tree = Tree("fix", 1, 1, "after", "t", "p", "g2", original="o")
    found = answer(SNAPSHOT, protected, moved, beside, project, tree, run=WITH_TREES)
    assert (found.outside, found.strayed, found.landed) == (("a",), ("b",), ("u",))
    assert [each.path for each in found.tampered] == ["t", "u"]
    assert (found.original, found.patch) == ("o", "p")


def test_more_paths_than_an_event_names():
    told = event("tampered", files=3, paths=["a"], tampering="fail", by="agent")
    cut = event("tree_unread", when="end", guard="g2")
    found = answer(LAST, told, cut, run=WITH_TREES)
    assert isinstance(found, SnapshotCut)
    assert [each.path for each in found.tampered] == ["a", "(2)", "(3)"]


def test_the_leftovers_of_a_log_that_ends():
    left = "ended processes that the actions had left running: "
    names, more = RunWarning(f"{left}a (pid 1)"), RunWarning(f"{left}b (pid 2)")
    found = answer(END, names, more, event("report", text="r"))
    assert found == LeftoversEnded(AT, END.ending, ("a (pid 1)",), "r", (more.message,))


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param(
            [event("gate_answered", gate=3, verdict="approved", by="approve")],
            Resumed(AT, answer=Answer(3, "approved", "approve")),
            id="only its answer",
        ),
        pytest.param([event("resume")], Resumed(AT), id="alone"),
        pytest.param([event("resume", to="done")], Resumed(AT, from_state="done"), id="elsewhere"),
        pytest.param([event("resume"), event("resume")], Resumed(AT), id="twice"),
        pytest.param(
            [event("resume"), event("cost", cost_usd=1.0), event("cost", cost_usd=2.0)],
            1.0,
            id="one cost is that of the lost turn",
        ),
        pytest.param(
            [event("resume"), event("cost", tokens=3, cost_usd=1.0, turns=2, child="kid")],
            Resumed(AT, used={"kid": Counted(3, 1.0, 2)}),
            id="what a child has used",
        ),
    ],
)
def test_a_resume_that_was_cut_off(events, expected):
    found = recording(*events).resumed(RUN)
    if isinstance(expected, float):
        assert found.lost is not None
        assert found.lost.cost_usd == expected
    else:
        assert found == expected


def test_the_end_of_a_log_has_the_time_of_its_last_event():
    found = recording(STOPPED)
    found.position = 1
    assert (found.is_over, found.is_at_resume, found.at) == (True, False, AT)
    assert found.notes() == ()
