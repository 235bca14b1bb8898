"""Hooks: when each runs, what it is told, what its failure does, and what a crash repeats."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.fsm.commands import RunHook, RunShell
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import Answer, Limits, SignalLine
from tests.fsm.scripted import (
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

ALL = {"before_run": "up", "before_state": "lease", "after_state": "trace", "after_run": "down"}
STATES: dict[str, Any] = {
    "check": {"action": "check", "on_pass": "done", "on_fail": "fix"},
    "fix": {"action": "fix", "next": "check"},
    "done": {"terminal": True},
}


def world(script: Any, hooks: Any = ALL, states: Any = STATES, **fields: Any) -> ScriptedWorld:
    loop = {"name": "l", "initial": next(iter(states)), "states": states, "hooks": hooks}
    return ScriptedWorld(FSMLoop.from_dict(loop | fields), script)


def ran(of: ScriptedWorld) -> list[str]:
    """The hooks that were started and the actions, in order."""
    return [
        f"{each.name} {each.job.state}" if isinstance(each, RunHook) else each.script
        for each in of.commands
        if isinstance(each, RunHook | RunShell)
    ]


def story(of: ScriptedWorld) -> str:
    begin(of)
    return told(of)


def test_they_run_around_the_run_and_each_state_with_an_action():
    assert story(world([1, 0, 0])) == dedent("""\
        before_run of check
        before_state of check
        after_state of check
        check -> fix (on_fail)
        before_state of fix
        after_state of fix
        fix -> check (next)
        iteration 2
        before_state of check
        after_state of check
        check -> done (on_pass)
        after_run of done
        loop_complete: completed, terminal""")


def test_those_of_a_state_are_inside_those_of_the_loop():
    states = STATES | {"check": {**STATES["check"], "before": "warm", "after": {"action": "cool"}}}
    hooked = world([0], {"before_state": "lease", "after_state": "trace"}, states)
    begin(hooked)
    assert ran(hooked) == [
        "before_state check",
        "before check",
        "check",
        "after check",
        "after_state check",
    ]


def test_a_hook_can_be_for_some_states_only():
    hooked = world([1, 0, 0], {"before_state": {"action": "lease", "states": ["fix"]}})
    begin(hooked)
    assert ran(hooked) == ["check", "before_state fix", "fix", "check"]


def test_a_state_that_decides_has_none():
    states = {
        "count": {"action": "count", "next": "decide"},
        "decide": {
            "condition": {"type": "exit_code", "source": "count"},
            "on_pass": "done",
            "on_fail": "done",
        },
        "done": {"terminal": True},
    }
    hooked = world([0], {"before_state": "lease", "after_state": "trace"}, states)
    begin(hooked)
    assert ran(hooked) == ["before_state count", "count", "after_state count"]


def test_a_retry_is_no_entry():
    check = {"action": "check", "on_pass": "done", "on_fail": "$current", "retry": {"max": 3}}
    hooked = world([1, 1, 0], states=STATES | {"check": check})
    begin(hooked)
    assert ran(hooked) == [
        "before_run check",
        "before_state check",
        *("check", "check", "check"),
        "after_state check",
        "after_run done",
    ]


def test_the_action_of_a_terminal_state_has_hooks():
    hooked = world([0, 0], states=STATES | {"done": {"terminal": True, "action": "report"}})
    begin(hooked)
    assert ran(hooked)[-4:] == ["before_state done", "report", "after_state done", "after_run done"]


def test_the_state_for_the_timeout_has_hooks():
    states = STATES | {"late": {"action": "report", "next": "done"}}
    hooked = world([Says(takes_ms=9000), 0], states=states, timeout=2, on_timeout="late")
    begin(hooked)
    assert ran(hooked)[-4:] == ["before_state late", "report", "after_state late", "after_run late"]


def test_a_confirmation_of_a_check_is_no_entry():
    states = STATES | {
        "check": {**STATES["check"], "check": True},
        "fix": {"action": "/fix", "next": "format"},
        "format": {"action": "format", "next": "check"},
        "check_docs": {"action": "docs", "next": "done"},
    }
    states["check"] = {**states["check"], "on_pass": "check_docs"}
    hooked = world([0, Says(writes={"src/a": "1"}), 0], states=states, evidence=True)
    begin(hooked, evidence="on")
    assert ran(hooked) == [
        "before_run check",
        *("before_state check", "check", "after_state check"),
        *("before_state check_docs", "docs", "after_state check_docs"),
        "check",
        "after_run done",
    ]


# ── what a hook is told ────────────────────────────────────────────────────────────────────────


def about(of: ScriptedWorld) -> list[dict[str, Any]]:
    common = ("ts", "run", "loop", "iteration")
    return [
        {name: value for name, value in each.about.items() if name not in common}
        for each in of.commands
        if isinstance(each, RunHook)
    ]


def test_it_is_told_what_it_is_about():
    hooked = world([Says(2, takes_ms=7)], context={"dir": "src"}, on_error="done")
    begin(hooked)
    where = {"state": "check", "step": 1, "context": {"dir": "src"}}
    how = {"exit_code": 2, "duration_ms": 7}
    assert about(hooked) == [
        {"event": "before_run", **where, "step": 0, "resumed": False},
        {"event": "before_state", **where},
        {"event": "after_state", **where, **how, "verdict": "error", "reason": "exit 2"},
        {
            "event": "after_run",
            **where,
            "state": "done",
            "step": 2,
            "status": "failed",
            "reason": "terminal",
            "message": "entered by `on_error`",
        },
    ]


def test_it_is_told_which_run_it_is_about():
    hooked = world([0])
    run, _ = begin(hooked)
    first = next(each.about for each in hooked.commands if isinstance(each, RunHook))
    assert (first["run"], first["loop"], first["iteration"]) == (run.run, run.loop, 1)


def test_after_the_action_of_a_last_state_there_is_no_verdict():
    hooked = world([0, 0], states=STATES | {"done": {"terminal": True, "action": "report"}})
    begin(hooked)
    assert about(hooked)[-2]["verdict"] is None


def test_it_gets_the_environment_and_directory_of_actions_and_its_own_time():
    hooks = {"before_run": {"action": "up", "timeout": 5, "env": {"LEVEL": "1"}}}
    hooked = world([0], hooks, env={"A": "b"}, cwd="web", shell="bash", kill_grace=1)
    begin(hooked)
    hook = hooked.commands[0]
    assert isinstance(hook, RunHook)
    assert (hook.job.env, hook.job.cwd, hook.shell) == ({"A": "b"}, "web", "bash")
    assert (hook.job.deadline_ms, hook.job.deadline_of, hook.job.kill_grace_s) == (
        5000,
        "action",
        1,
    )
    assert hook.hook.env == {"LEVEL": "1"}
    assert (hook.job.iteration, hook.job.iteration_limit, hook.job.attempt) == (1, 50, 0)


def ids(of: ScriptedWorld) -> list[str]:
    return [each.event_id for each in of.commands if isinstance(each, RunHook)]


def test_its_id_is_the_same_if_it_runs_again():
    hooked = world([0])
    hooked.hooks = {"before_state": [Crash]}
    crash_and_go_on(hooked, [0])
    assert ids(hooked) == [
        "run-1/1/before_run",
        "run-1/1/before_state",
        "run-1/4/before_run",
        "run-1/1/before_state",
        "run-1/1/after_state",
        "run-1/11/after_run",
    ]


# ── when a hook fails ──────────────────────────────────────────────────────────────────────────


def test_a_run_whose_first_hook_fails_ends_and_a_resume_tries_again():
    hooked = world([0], on_error="fix")
    hooked.hooks = {"before_run": ["exit 1: no lease"]}
    begin(hooked)
    go_on(hooked, [0])
    assert told(hooked) == dedent("""\
        before_run of check: exit 1: no lease
        after_run of check
        loop_error: failed, hook
        resume in check
        before_run of check
        before_state of check
        after_state of check
        check -> done (on_pass)
        after_run of done
        loop_complete: completed, terminal""")
    assert hooked.log[3]["error"] == "hook before_run: exit 1: no lease"


@pytest.mark.parametrize("name", ["before_state", "before"])
def test_without_its_hook_an_action_does_not_run(name):
    states = STATES | {"check": {**STATES["check"], "before": "warm"}}
    hooked = world([], {"before_state": "lease"}, states)
    hooked.hooks = {name: ["exit 1"]}
    begin(hooked)
    assert "check" not in ran(hooked)
    assert hooked.log[-1]["error"] == f"hook {name}: exit 1"
    assert hooked.log[-1]["reason"] == "error"


def test_a_failed_hook_is_an_error_of_its_state_and_runs_again_with_it():
    check = {**STATES["check"], "on_error": "$current"}
    hooked = world([0], {"before_state": "lease"}, STATES | {"check": check})
    hooked.hooks = {"before_state": ["exit 1", "took longer than 30s"]}
    assert story(hooked) == dedent("""\
        before_state of check: exit 1
        check -> check (on_error)
        iteration 2
        retry 1, after 1000 ms
        before_state of check: took longer than 30s
        check -> check (on_error)
        iteration 3
        retry 1, after 2000 ms
        before_state of check
        check -> done (on_pass)
        loop_complete: completed, terminal""")


@pytest.mark.parametrize(
    ("name", "required", "reason"),
    [
        pytest.param("before_run", False, "terminal", id="a hook before the run that may fail"),
        pytest.param("before_state", False, "terminal", id="one before a state that may fail"),
        pytest.param("after_state", None, "terminal", id="one after a state may fail"),
        pytest.param("after_run", None, "terminal", id="one after the run may fail"),
        pytest.param("after_state", True, "error", id="one after a state that must not fail"),
    ],
)
def test_whether_a_failure_counts(name, required, reason):
    hook = {"action": "x"} if required is None else {"action": "x", "required": required}
    hooked = world([0], {name: hook})
    hooked.hooks = {name: ["exit 1"]}
    begin(hooked)
    assert hooked.log[-1]["reason"] == reason
    assert sum(each["event"] == "hook" for each in hooked.log) == 1


def test_a_required_hook_after_an_action_decides_once_and_the_others_still_run():
    states = STATES | {
        "check": {
            **STATES["check"],
            "on_error": "fix",
            "after": {"action": "cool", "required": True},
        }
    }
    hooked = world([0, 0, 0], {"after_state": "trace"}, states)
    hooked.hooks = {"after": ["exit 1"]}
    assert story(hooked) == dedent("""\
        after of check: exit 1
        after_state of check
        check -> fix (on_error)
        after_state of fix
        fix -> check (next)
        iteration 2
        after of check
        after_state of check
        check -> done (on_pass)
        loop_complete: completed, terminal""")


@pytest.mark.parametrize("name", ["before_state", "after_state"])
def test_in_a_terminal_state_a_failure_is_a_warning(name):
    hooks = {name: {"action": "x", "required": True, "states": ["done"]}}
    hooked = world([0, 0], hooks, STATES | {"done": {"terminal": True, "action": "report"}})
    hooked.hooks = {name: ["exit 1"]}
    begin(hooked)
    assert hooked.log[-1]["status"] == "completed"
    assert "report" in ran(hooked)


def test_an_action_that_could_not_start_has_nothing_after_it():
    states = STATES | {"check": {"action": "echo ${context.x}", "next": "done"}}
    hooked = world([], {"before_state": "lease", "after_state": "trace"}, states)
    begin(hooked)
    assert ran(hooked) == ["before_state check"]


# ── stops, crashes, resumes ────────────────────────────────────────────────────────────────────


def test_a_stop_during_a_hook_interrupts_the_run_and_the_hook_runs_again():
    hooked = world([0])
    hooked.hooks = {"before_state": [Stop(15)]}
    begin(hooked)
    go_on(hooked, [0])
    assert told(hooked) == dedent("""\
        before_run of check
        after_run of check
        loop_interrupted: interrupted, signal
        resume in check
        before_run of check
        before_state of check
        after_state of check
        check -> done (on_pass)
        after_run of done
        loop_complete: completed, terminal""")


def test_an_interrupted_action_is_no_new_entry():
    hooked = world([Crash])
    crash_and_go_on(hooked, [0])
    assert ran(hooked) == [
        *("before_run check", "before_state check", "check"),
        *("before_run check", "check", "after_state check", "after_run done"),
    ]


@pytest.mark.parametrize(
    ("resumed", "ending"),
    [
        pytest.param({"from_state": "fix"}, "check -> fix (resume)", id="to a state"),
        pytest.param({}, "check -> done (on_pass)", id="where it was"),
    ],
)
def test_a_resume_goes_where_it_was_told_after_its_hook(resumed, ending):
    hooked = world([Crash])
    with pytest.raises(Crash):
        begin(hooked)
    go_on(hooked, [0, 0, 0], **resumed)
    assert ending in told(hooked)


def test_an_answer_to_a_gate_is_followed_after_the_hook():
    states = STATES | {
        "check": {"action": "check", "next": "look"},
        "look": {"terminal": True, "outcome": "review", "next": "done"},
    }
    hooked = world([0], states=states)
    begin(hooked)
    go_on(hooked, [])
    assert told(hooked).splitlines()[-5:] == [
        "resume in look",
        "before_run of look",
        "look -> done (next)",
        "after_run of done",
        "loop_complete: completed, terminal",
    ]


def test_a_rejection_without_a_transition_ends_the_run_after_the_hook():
    states = STATES | {
        "check": {"action": "check", "next": "look"},
        "look": {"terminal": True, "outcome": "review"},
    }
    hooked = world([0], states=states)
    begin(hooked)
    gate = hooked.log[-1]["seq"]
    go_on(hooked, [], answer=Answer(gate, "rejected", "reject", "no"))
    assert hooked.log[-1]["reason"] == "rejected"


def test_more_time_for_a_run_continues_it_after_the_hook():
    states = STATES | {"late": {"action": "report", "next": "done"}}
    hooked = world([Says(takes_ms=9000), 0], states=states, timeout=2, on_timeout="late")
    begin(hooked)
    go_on(hooked, [0], limits=Limits(timeout=60))
    assert told(hooked).splitlines()[-1] == "loop_complete: completed, terminal"


@pytest.mark.parametrize("line", ["stop", "handoff"])
def test_a_run_that_pauses_or_stops_is_left_by_its_hook(line):
    hooked = world([Says(line=SignalLine(line, "later"))])
    begin(hooked)
    assert ran(hooked)[-1] == "after_run check"
    assert "after_state check" not in ran(hooked)


# ── evidence ───────────────────────────────────────────────────────────────────────────────────

PROVED = STATES | {
    "check": {**STATES["check"], "check": True},
    "fix": {"action": "/fix", "next": "check"},
}
PROTECT = {"protect": ["tests/"]}
FIX = Says(agent="success", writes={"src/a": "1"})


def proved(script: Any, hooks: Any) -> ScriptedWorld:
    return world(script, hooks, PROVED, evidence=PROTECT)


def test_what_a_hook_changes_after_a_check_is_checked_again():
    hooked = proved([0, 0], {"after_state": {"action": "x", "states": ["check"]}})
    hooked.hook_writes = {"after_state": {"src/b": "2"}}
    begin(hooked, evidence="on")
    assert "recheck check here" in told(hooked)
    assert hooked.log[-1]["evidence"] == "verified"


def test_a_hook_may_change_protected_files_and_is_named():
    hooked = proved([1, FIX, 0], {"before_state": {"action": "x", "states": ["fix"]}})
    hooked.hook_writes = {"before_state": {"tests/t": "2"}}
    begin(hooked, evidence="on")
    assert "reference moved: tests/t (`before_state`)" in told(hooked)


def test_a_hook_after_the_run_does_not_hide_what_an_agent_did():
    """The agent is interrupted: its changes are found before the hook runs."""
    cheat = Says(None, agent="error", stop=15, writes={"tests/t": "1"})
    hooked = proved([1, cheat], {"after_run": "down"})
    hooked.hook_writes = {"after_run": {"logs/x": "1"}}
    begin(hooked, evidence="on")
    assert told(hooked).splitlines()[-4:] == [
        "tampered by agent: tests/t (restore)",
        "restored: tests/t",
        "after_run of fix",
        "loop_interrupted: interrupted, signal",
    ]


def test_a_hook_before_a_resumed_run_does_not_hide_what_a_killed_agent_did():
    hooked = proved([1, Crash], {"before_run": "up"})
    with pytest.raises(Crash):
        begin(hooked, evidence="on")
    hooked.trees.write({"tests/t": "1"})
    go_on(hooked, [FIX, 0])
    assert "tampered by agent: tests/t (restore)" in told(hooked)


# ── laws ───────────────────────────────────────────────────────────────────────────────────────


def path(of: ScriptedWorld) -> list[Any]:
    """The log without hooks and without what hooks take: time and numbers of events."""
    left_out = ("seq", "ts", "ran_ms", "duration_ms", "elapsed_ms")
    return [
        {name: value for name, value in each.items() if name not in left_out}
        for each in of.log
        if each["event"] != "hook"
    ]


SCRIPTS = st.lists(st.sampled_from([0, 1, 2]), min_size=1, max_size=6).map(
    lambda codes: [*codes, *([0] * 12)]
)


@given(SCRIPTS)
def test_hooks_that_succeed_change_nothing_else(script):
    states = STATES | {"check": {**STATES["check"], "on_error": "$current", "retry": {"max": 2}}}
    plain, hooked = world(script, {}, states), world(script, ALL, states)
    begin(plain)
    begin(hooked)
    assert path(hooked) == path(plain)


@given(SCRIPTS, st.data())
def test_a_run_can_be_cut_anywhere_and_no_action_runs_without_its_hook(script, data):
    hooked = world(script)
    begin(hooked)
    ending = hooked.log[-1]["status"]
    at = data.draw(st.integers(1, len(hooked.log) - 1))
    left = script[sum(each["event"] == "action_complete" for each in hooked.log[:at]) :]
    cut(hooked, at)
    go_on(hooked, left)
    assert hooked.log[-1]["status"] == ending
    leased = {each["step"] for each in hooked.log if each.get("hook") == "before_state"}
    entered = {each["step"]: each["state"] for each in hooked.log if each["event"] == "state_enter"}
    assert leased >= {step for step, state in entered.items() if state != "done"}


def test_a_required_hook_after_a_run_that_ended_at_a_limit_does_not_change_that():
    hooks = {"after_run": {"action": "x", "required": True}}
    hooked = world([1, 0, 1], hooks, max_iterations=1)
    hooked.hooks = {"after_run": ["exit 1"]}
    begin(hooked)
    (ran,) = [each for each in hooked.log if each["event"] == "hook"]
    assert "required" not in ran or ran["required"] is False
    assert hooked.log[-1]["reason"] == "max_iterations"


def test_a_hook_that_is_not_due_needs_no_snapshot():
    hooks = {"after_run": "down"}
    hooked = proved([1, FIX, 0], hooks)
    plain = world([1, FIX, 0], {}, PROVED, evidence=PROTECT)
    for each in (hooked, plain):
        begin(each, evidence="on")
    assert [line for line in told(hooked).splitlines() if not line.startswith("after_run")] == told(
        plain
    ).splitlines()
