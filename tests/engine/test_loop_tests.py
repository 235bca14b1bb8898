"""Tests of loops: the real machine with given outcomes; nothing is started, no time passes."""

from __future__ import annotations

import json
from textwrap import dedent

import pytest

from little_loops.authoring.load import load
from little_loops.authoring.loop_tests import AGENT_KINDS, ENDS, load_tests
from little_loops.engine.loop_tests import LoopTestResult, Unmet, follows, never_taken, run_tests
from little_loops.fsm.schema import FSMLoop

FIX = """\
    name: fix
    evidence: {protect: [tests/], clean: true}
    scope: [src]
    max_iterations: 4
    initial: check
    states:
      check: {action: mypy src, check: true, timeout: 60, on_pass: done, on_fail: fix, on_timeout: slow}
      fix:
        action: "Fix ${prev.output}"
        action_type: prompt
        next: check
        on_error: give_up
      slow: {terminal: true, outcome: failure}
      give_up: {terminal: true}
      done: {terminal: true}
    """
ASKS = """\
    name: ask
    initial: judge
    states:
      judge:
        action: Is it good?
        action_type: prompt
        condition: {type: verdict, words: [good, bad]}
        on_good: done
        on_bad: again
      again: {action: "echo ${captured.judge.file}", next: judge}
      done: {terminal: true}
    """


def loop_of(text: str) -> FSMLoop:
    found = load(dedent(text), "x.yaml", "x")
    assert found.loop is not None, found.problems
    return found.loop


def run(loop: FSMLoop, given: str, expect: str, more: str = "") -> LoopTestResult:
    text = f"loop: x\ntests: [{{name: a, given: {given}, expect: {expect}{more}}}]"
    file = load_tests(text, "x.test.yaml", lambda _: loop)
    assert file.problems == ()
    [report] = run_tests(loop, file.tests, {})
    return report


def differences(report: LoopTestResult) -> list[tuple[object, ...]]:
    return [tuple(each) for each in report.differences]


@pytest.mark.parametrize(
    ("given", "expect"),
    [
        ("{check: 0}", "{status: completed, path: [check, done], iterations: 1, exit: 0}"),
        (
            "{check: [1, 0], fix: {agent: success, cost_usd: 0.4}}",
            "{status: completed, path: [check, fix, check, done], visits: {fix: 1}, cost_usd: 0.4}",
        ),
        ("{check: 1, fix: {agent: auth}}", "{status: failed, reason: auth, exit: 1, state: fix}"),
        ("{check: 1, fix: 1}", "{status: failed, state: give_up}"),
        ("{check: 1, fix: 0}", "{status: failed, reason: max_iterations, exit: 3}"),
        ("{check: 1, fix: {changes: []}}", "{status: failed, reason: max_iterations}"),
        ("{check: [1, 0], fix: {changes: []}}", "{status: completed, iterations: 2}"),
        ("{check: [1, 0, 1], fix: {changes: []}}", "{status: failed, reason: max_iterations}"),
        ("{check: {timeout: true}}", "{status: failed, path: [check, slow]}"),
        ("{check: {takes: 2m}}", "{status: failed, path: [check, slow]}"),
        ("{check: {signal: 9}}", "{status: failed, reason: error}"),
        (
            "{check: [1, 0], fix: {changes: [tests/a.py, src/b]}}",
            "{status: completed, tampered: [tests/a.py]}",
        ),
        (
            "{check: [1, 0], fix: {changes: [doc/a.md, src/b]}}",
            "{status: completed, tampered: []}",
        ),
        (
            "{check: [{exit: 1, output: '3 errors'}, 0], fix: 0}",
            "{rendered: {fix: Fix 3 errors, check: mypy src}}",
        ),
        ("{check: 1, fix: {handoff: half done}}", "{status: awaiting_continuation, exit: 4}"),
        (
            "{check: 1, fix: {agent: context_exhausted}}",
            "{status: awaiting_continuation, reason: handoff}",
        ),
        ("{check: 1, fix: {output: 'LOOP_STOP: enough'}}", "{status: stopped, exit: 6}"),
        ("{check: [1, 0], fix: [{agent: rate_limited}, 0]}", "{status: completed}"),
    ],
)
def test_a_run_ends_as_its_outcomes_say(given, expect):
    report = run(loop_of(FIX), given, expect)
    assert (differences(report), report.problem) == ([], None)


@pytest.mark.parametrize(
    ("changes", "expect"),
    [
        ("[src/a]", "{status: completed}"),
        ("[doc/a, src/a]", "{status: failed, reason: out_of_scope, tampered: []}"),
        ("[tests/a]", "{status: failed, reason: out_of_scope, tampered: [tests/a]}"),
    ],
)
def test_changes_outside_the_scope_count(changes, expect):
    loop = loop_of(FIX)._replace(scope_writes="enforce")
    report = run(loop, f"{{check: [1, 0], fix: {{changes: {changes}}}}}", expect)
    assert differences(report) == []


@pytest.mark.parametrize(
    ("expect", "found"),
    [
        ("{status: failed}", [("status", "failed", "completed")]),
        ("{reason: auth, exit: 1}", [("reason", "auth", "terminal"), ("exit", 1, 0)]),
        ("{state: fix, iterations: 3}", [("state", "fix", "done"), ("iterations", 3, 2)]),
        ("{cost_usd: 1}", [("cost_usd", 1, 0)]),
        ("{tampered: [tests/a]}", [("tampered", ("tests/a",), ())]),
        (
            "{path: [check, done]}",
            [("path", ("check", "done"), ("check", "fix", "check", "done"))],
        ),
        ("{visits: {fix: 2, slow: 1}}", [("visits.fix", 2, 1), ("visits.slow", 1, 0)]),
        (
            "{captured: {check: all, give_up: x}}",
            [("captured.check", "all", ""), ("captured.give_up", "x", None)],
        ),
        (
            "{rendered: {fix: Mend ..., give_up: x}}",
            [("rendered.fix", "Mend ...", "Fix "), ("rendered.give_up", "x", None)],
        ),
    ],
)
def test_each_difference_is_reported(expect, found):
    report = run(loop_of(FIX), "{check: [1, 0], fix: 0}", expect)
    assert differences(report) == found
    assert not report.passed


def test_a_state_without_an_outcome_fails_the_test_with_the_line_to_add():
    report = run(loop_of(FIX), "{check: 1}", "{status: completed}")
    assert (
        report.problem == "the run reaches `fix`, but `given` has no outcome for it; add `fix: 0`"
    )


def test_a_verdict_of_an_agent_is_given_in_words():
    loop = loop_of(ASKS)
    assert run(loop, "{judge: {verdict: good}}", "{path: [judge, done]}").passed
    assert run(loop, "{judge: 0}", "{path: [judge, done]}").passed
    report = run(
        loop,
        "{judge: [{verdict: bad}, {verdict: good}], again: 0}",
        "{path: [judge, again, judge, done], rendered: {again: '... is judge.file'}}",
    )
    assert differences(report) == []


def test_an_action_that_cannot_be_filled_in_fails_as_in_a_run():
    loop = loop_of(ASKS)
    again = loop.states["again"]._replace(action="echo ${captured.gone.output}")
    loop = loop._replace(states={**loop.states, "again": again})
    report = run(loop, "{judge: {verdict: bad}}", "{status: failed, reason: error, state: again}")
    assert report.passed


KINDS = """\
    name: kinds
    initial: work
    states:
      work: {WORK, on_pass: good, on_fail: bad, on_error: broken, on_timeout: late}
      good: {terminal: true}
      bad: {terminal: true, outcome: failure}
      broken: {terminal: true, outcome: failure}
      late: {terminal: true, outcome: failure}
    """
TURN = "action: Work, action_type: prompt"
CHILD = "loop: {initial: a, states: {a: {action: pwd, next: b}, b: {terminal: true}}}"
BAD, BROKEN = ("failed", "bad", 1), ("failed", "broken", 1)
AGENTS = {
    **dict.fromkeys(("limit_reached", "cost_limit_reached", "refused", "failed"), BAD),
    **dict.fromkeys(("bad_output", "permission_denied"), BAD),
    **dict.fromkeys(("not_started", "unknown_command", "command_failed"), BROKEN),
    **dict.fromkeys(("truncated", "no_verdict"), BROKEN),
    **dict.fromkeys(("rate_limited", "overloaded"), BROKEN),  # after the last of its waits
    **dict.fromkeys(("auth", "billing"), ("failed", "work", 1)),
    "context_exhausted": ("awaiting_continuation", "work", 4),
    "success": ("completed", "good", 0),
}
CHILDREN = {
    "completed": ("completed", "good", 0),
    **dict.fromkeys(("failed", "stop_signal", "max_iterations", "max_cost", "max_tokens"), BAD),
    **dict.fromkeys(("stalled", "tampered", "flaky", "out_of_scope", "stale_evidence"), BAD),
    **dict.fromkeys(("conflict", "rejected", "signal"), BAD),
    **dict.fromkeys(("error", "timeout", "no_transition", "storage", "hook", "consent"), BROKEN),
    **dict.fromkeys(("auth", "billing"), ("failed", "work", 1)),
    **dict.fromkeys(("review", "budget"), ("needs_review", "work", 4)),
    "loop_timeout": ("failed", "late", 1),
    "handoff": ("awaiting_continuation", "work", 4),
}


@pytest.mark.parametrize(
    ("work", "outcome", "ending"),
    [
        *((TURN, f"agent: {kind}", ending) for kind, ending in AGENTS.items()),
        *((CHILD, f"ends: {word}", ending) for word, ending in CHILDREN.items()),
        (CHILD, "exit: 0", ("completed", "good", 0)),
        (CHILD, "exit: 1", BAD),
        (CHILD, "exit: 2", BROKEN),
        (CHILD, "signal: 9", BROKEN),
        (CHILD, "timeout: true", ("failed", "late", 1)),
    ],
)
def test_every_way_in_which_a_turn_or_another_loop_can_end(work, outcome, ending):
    status, state, code = ending
    loop = loop_of(KINDS.replace("WORK", work))
    expect = f"{{status: {status}, state: {state}, exit: {code}}}"
    report = run(loop, f"{{work: {{{outcome}}}}}", expect)
    assert (differences(report), report.problem) == ([], None)


def test_no_way_is_forgotten():
    assert sorted(AGENTS) == sorted(AGENT_KINDS)
    assert sorted(CHILDREN) == sorted(ENDS)


def test_both_outputs_can_be_given():
    again = (
        loop_of(ASKS)
        .states["again"]
        ._replace(action="echo ${captured.judge.output} ${captured.judge.stderr}")
    )
    loop = loop_of(ASKS)
    loop = loop._replace(states={**loop.states, "again": again})
    report = run(
        loop,
        "{judge: [{verdict: bad, output: one, stderr: two}, {verdict: good, output: x}], again: 0}",
        "{captured: {judge: x}, rendered: {again: '...is one...is two'}}",
    )
    assert differences(report) == []


WAITS = """\
    name: wait
    timeout: 1h
    initial: check
    states:
      check: {action: make, on_pass: done, on_fail: wait}
      wait: {action: sleep 3000, next: check}
      done: {terminal: true}
    """


def test_waits_pass_at_once_and_count():
    loop = loop_of(WAITS)._replace(backoff=3000.0)
    report = run(loop, "{check: 1, wait: 0}", "{reason: loop_timeout, exit: 3, iterations: 3}")
    assert differences(report) == []


PATTERN = """\
    name: pattern
    initial: check
    states:
      check:
        action: make
        condition: {type: output_contains, pattern: "^ok$", regex: true}
        on_pass: done
        on_fail: $current
      done: {terminal: true}
    """


def test_a_condition_judges_the_given_output():
    report = run(
        loop_of(PATTERN), "{check: [{output: not yet}, {output: ok}]}", "{visits: {check: 2}}"
    )
    assert report.passed


ASKED = """\
    name: asked
    initial: ask
    states:
      ask:
        for_each: [x, y]
        action: "Is ${branch.item} ${context.what}?"
        action_type: prompt
        MORE
        on_pass: done
        on_fail: bad
      done: {terminal: true}
      bad: {terminal: true, outcome: failure}
    context: {what: fine}
    """


@pytest.mark.parametrize(
    ("given", "expect"),
    [
        ("0", "{state: done, cost_usd: 0, rendered: {ask: '...Is y fine?...'}}"),
        ("[0, 1]", "{state: bad}"),
        ("[{exit: 2}, 0]", "{state: bad}"),
        ("{verdict: fail}", "{state: bad}"),
        ("[{agent: success, cost_usd: 0.4}, {agent: success, verdict: fail}]", "{cost_usd: 0.4}"),
        ("[0, {agent: failed}]", "{state: bad}"),
        ("[0, {agent: no_verdict}]", "{state: bad}"),
        ("{agent: no_verdict}", "{status: failed, reason: error, state: ask}"),
        ("{agent: truncated}", "{status: failed, reason: error, state: ask}"),
        ("[0, {agent: auth}]", "{status: failed, reason: auth}"),
        ("[0, {signal: 9}]", "{state: bad}"),
        ("{timeout: true}", "{status: failed, reason: error, state: ask}"),
        ("[0, {handoff: half done}]", "{status: awaiting_continuation}"),
        ("[0, {ends: max_iterations}]", "{state: bad}"),
    ],
)
def test_an_agent_in_a_branch_is_judged_as_in_a_run(given, expect):
    loop = loop_of(ASKED.replace("MORE", "max_parallel: 2"))
    report = run(loop, f"{{ask: {given}}}", expect)
    assert (differences(report), report.problem) == ([], None)


SHELLS = """\
    name: shells
    initial: all
    states:
      all:
        branches:
          one: {action: make one, condition: {type: output_contains, pattern: ok}}
          two: {action: make two}
        condition: {type: output_json, path: ".[1].result.output", target: two}
        on_pass: done
        on_fail: bad
      done: {terminal: true}
      bad: {terminal: true, outcome: failure}
    """


@pytest.mark.parametrize(
    ("given", "verdicts", "state"),
    [
        ('[{output: ok}, {output: "two\\n"}]', ["pass", "pass"], "done"),
        ("[{output: bad}, {output: two}]", ["fail", "pass"], "done"),
        ("[{exit: 3, output: ok}, {exit: 3, output: other}]", ["pass", "error"], "bad"),
    ],
)
def test_a_branch_is_judged_by_its_condition_and_its_output_is_in_the_result(
    given, verdicts, state
):
    loop = loop_of(SHELLS)
    report = run(loop, f"{{all: {given}}}", f"{{state: {state}}}", ", kill: everywhere")
    assert (differences(report), report.problem) == ([], None)
    [shown] = run(loop, f"{{all: {given}}}", "{captured: {all: x}}").differences
    assert isinstance(shown.got, str)
    assert [each["verdict"] for each in json.loads(shown.got)] == verdicts


# ── kills ──────────────────────────────────────────────────────────────────────────────────────


def test_a_run_that_is_killed_anywhere_ends_the_same():
    given = "{check: [1, 1, 0], fix: [{changes: [tests/a, src/b]}, {changes: [doc/c, src/b]}]}"
    report = run(loop_of(FIX), given, "{status: completed}", ", kill: everywhere")
    assert (report.problem, report.differences) == (None, ())


FRAGILE = """\
    name: fragile
    on_interrupt: broken
    initial: work
    states:
      work: {action: make, next: done}
      broken: {terminal: true, outcome: failure}
      done: {terminal: true}
    """


def test_a_loop_that_does_not_survive_a_kill_is_told_where():
    report = run(loop_of(FRAGILE), "{work: 0}", "{status: completed}", ", kill: everywhere")
    assert report.problem == (
        "killed after event 3 (`action_start`) and resumed, the run ends as failed (terminal) "
        "in `broken`, not as completed (terminal) in `done`"
    )


# ── coverage and paths ─────────────────────────────────────────────────────────────────────────


def test_transitions_that_no_test_takes_are_listed():
    loop = loop_of(FIX)
    reports = [run(loop, "{check: [1, 0], fix: 0}", "{status: completed}")]
    assert [tuple(each) for each in never_taken(loop, reports)] == [
        ("check", "on_timeout", "slow"),
        ("fix", "on_error", "give_up"),
    ]
    retries = loop_of(PATTERN)
    once = [run(retries, "{check: {output: ok}}", "{status: completed}")]
    assert [tuple(each) for each in never_taken(retries, once)] == [("check", "on_fail", "check")]
    assert len(never_taken(retries, [])) == 2


@pytest.mark.parametrize(
    ("path", "expected", "fits"),
    [
        ("a b c", "a b c", True),
        ("a b c", "a b", False),
        ("a b", "a b c", False),
        ("a b c", "...", True),
        ("", "...", True),
        ("", "", True),
        ("a b c d", "a ... d", True),
        ("a d", "a ... d", True),
        ("a b c", "a ... d", False),
        ("a b a b c", "... a b c", True),
        ("a b a b c", "a ... b ...", True),
        ("a b", "... b a", False),
    ],
)
def test_dots_in_a_path_stand_for_any_states(path, expected, fits):
    assert follows(path.split(), expected.split()) is fits


def test_a_difference_has_a_name():
    assert Unmet("status", "a", "b").what == "status"
