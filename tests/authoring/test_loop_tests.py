"""Test files: what is read from a good one, and every problem of a wrong one with its place."""

from __future__ import annotations

from textwrap import dedent

import pytest

from little_loops.authoring.load import load
from little_loops.authoring.loop_tests import (
    AGENT_KINDS,
    STATUSES,
    Expectation,
    LoopTest,
    LoopTestFile,
    ScriptedOutcome,
    first_tests,
    load_tests,
)
from little_loops.errors import Place
from little_loops.fsm.schema import FSMLoop
from little_loops.terminal.problems import render_all

LOOP = """\
name: fix
initial: check
context: {who: agent}
states:
  check: {action: mypy src, on_pass: done, on_fail: fix, capture: report}
  fix: {action: "Fix it", action_type: prompt, next: again}
  again: {action: make, next: check}
  done: {terminal: true}
"""


def loop() -> FSMLoop:
    found = load(LOOP, "fix.yaml", "fix")
    assert found.loop is not None, found.problems
    return found.loop


def read(text: str) -> LoopTestFile:
    def find(name: str) -> FSMLoop | str:
        return loop() if name == "fix" else f"no loop named `{name}`"

    return load_tests(dedent(text), "fix.test.yaml", find)


def test_a_test_file_is_read_with_all_its_fields():
    text = """\
        loop: fix
        tests:
          - name: all of it
            kill: everywhere
            given:
              check: [1, {exit: 2, output: out, stderr: err}, {signal: 9}, {timeout: true, takes: 90s}]
              fix: {agent: auth, cost_usd: 0.5, verdict: pass, handoff: notes, changes: [src/a]}
            expect:
              status: failed
              reason: auth
              exit: 1
              state: fix
              path: [check, ..., done]
              iterations: 2
              visits: {fix: 2}
              cost_usd: 0.5
              captured: {report: out, check: out}
              rendered: {fix: Fix it}
              tampered: [tests/a]
        """
    found = read(text)
    expect = Expectation(
        status="failed",
        reason="auth",
        exit=1,
        state="fix",
        path=("check", "...", "done"),
        iterations=2,
        visits={"fix": 2},
        cost_usd=0.5,
        captured={"report": "out", "check": "out"},
        rendered={"fix": "Fix it"},
        tampered=("tests/a",),
    )
    given = {
        "check": (
            ScriptedOutcome(1),
            ScriptedOutcome(2, "out", "err"),
            ScriptedOutcome(signal=9),
            ScriptedOutcome(timeout=True, takes=90),
        ),
        "fix": (
            ScriptedOutcome(
                agent="auth", cost_usd=0.5, verdict="pass", handoff="notes", changes=("src/a",)
            ),
        ),
    }
    place = Place("fix.test.yaml", 3, 5, 4, "  - name: all of it")
    assert found == LoopTestFile(loop(), (LoopTest("all of it", given, expect, True, place),), ())


def test_every_kind_of_an_agents_ending_can_be_given_but_our_own_doing():
    assert "success" in AGENT_KINDS
    assert not {"cancelled", "timed_out"} & set(AGENT_KINDS)


def one(given: str, expect: str = "{status: completed}") -> str:
    return f"loop: fix\ntests:\n  - name: a\n    given: {given}\n    expect: {expect}\n"


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("", "LL501 a test file is a mapping with `loop` and `tests`"),
        ("[]", "LL501 a test file is a mapping with `loop` and `tests`"),
        ("{", "LL020 this is not YAML: did not find expected node content"),
        ("loop: fix\n", "LL101 the test file has no `tests`"),
        ("loop: 3\ntests: []\n", "LL121 YAML reads the value of `loop` as a number, not as text\nLL111 `tests` is empty"),
        ("loop: other\ntests: [{name: a, expect: {state: x}}]\n", "LL503 no loop named `other`"),
        ("tests: [{name: a, expect: {state: x}}]\n", "LL101 the test file has no `loop`"),
        ("loop: fix\ntests: [{name: a}]\n", "LL101 the test has no `expect`"),
        ("loop: fix\ntests: [3]\n", "LL103 the test must be a mapping of fields, not a number"),
        ("loop: fix\ntests: [{expect: {}}]\n",
         "LL101 the test has no `name`\nLL111 `expect` is empty, so the test cannot fail"),
        ("loop: fix\ntests: [{name: a, expect: {exit: 0}}, {name: a, expect: {exit: 0}}]\n",
         "LL504 two tests are named `a`"),
        (one("3"), "LL103 `given` must be a mapping of states to outcomes, not a number"),
        (one("{chek: 1}"), "LL502 loop `fix` has no state named `chek` that runs an action"),
        (one("{done: 1}"), "LL502 loop `fix` has no state named `done` that runs an action"),
        (one("{check: []}"), "LL111 `check` is empty"),
        (one("{check: soon}"), "LL103 `check` must be an exit code, or a mapping such as `{exit: 1}`, not text"),
        (one("{check: 300}"), "LL104 `check` must be at most 255"),
        (one("{check: {exit: 1, signal: 9}}"), "LL505 an action can end in only one way; it cannot have both `exit` and `signal`"),
        (one("{fix: {agent: auth, ends: failed}}"), "LL505 an action can end in only one way; it cannot have both `agent` and `ends`"),
        (
            one("{check: {exit: 1, signal: 9, timeout: true}}"),
            "LL505 an action can end in only one way; it cannot have `exit`, `signal` and `timeout`",
        ),
        (one("{check: {agent: auth}}"), "LL505 `agent` is for agents, but `check` runs none"),
        (one("{check: {verdict: a}}"), "LL505 `verdict` is for agents, but `check` runs none"),
        (one("{check: {cost_usd: 1}}"), "LL505 `cost_usd` is for agents, but `check` runs none"),
        (one("{check: 1}", "{exit: -1}"), "LL104 `exit` must be at least 0, not `-1`"),
        (one("{fix: {agent: aut}}").replace("aut}", "asleep}"),
         "LL105 `agent` must be " + ", ".join(f"`{kind}`" for kind in AGENT_KINDS[:-1])
         + " or `success`, not `asleep`"),
        (one("{check: {exits: 1}}"), "LL102 unknown key `exits` in an outcome"),
        (one("{check: 1}", "{path: done}"), "LL103 `path` must be a list of states, not text"),
        (one("{check: 1}", "{path: [{}]}"), "LL103 `path` must be a list of states, not a list"),
        (one("{check: 1}", "{path: [dne]}"), "LL502 loop `fix` has no state named `dne`"),
        (one("{check: 1}", "{state: dne}"), "LL502 loop `fix` has no state named `dne`"),
        (one("{check: 1}", "{state: [dne]}"), "LL103 `state` must be text, not a list"),
        (one("{check: 1}", "{visits: 3}"), "LL103 `visits` must be a mapping of states, not a number"),
        (one("{check: 1}", "{visits: {check: many}}"), "LL103 `check` must be a whole number, not text"),
        (one("{check: 1}", "{captured: {gone: a}}"), "LL502 loop `fix` has no state named `gone`"),
        (one("{check: 1}", "{status: running}"),
         "LL105 `status` must be " + ", ".join(f"`{status}`" for status in STATUSES[:-1])
         + f" or `{STATUSES[-1]}`, not `running`"),
        (one("{check: 1}", "3"), "LL103 `expect` must be a mapping of fields, not a number"),
    ],
)  # fmt: skip
def test_every_problem_is_reported(text, problems):
    found = read(text)
    assert "\n".join(f"{each.code} {each.message}" for each in found.problems) == problems
    assert found.tests == ()


def test_a_state_whose_action_is_unknown_until_it_runs_may_have_any_outcome():
    unknown = loop().states["again"]._replace(action="${context.gone}")
    changed = loop()._replace(states={**loop().states, "again": unknown})
    found = load_tests(one("{again: {agent: auth}}"), "fix.test.yaml", lambda _: changed)
    assert found.problems == ()


def test_a_loop_without_actions_has_nothing_to_give():
    bare = loop()._replace(states={"done": loop().states["done"]})
    found = load_tests(one("{x: 1}"), "fix.test.yaml", lambda _: bare)
    assert render_all(found.problems) == dedent("""\
        error[LL502]: loop `fix` has no state named `x` that runs an action
          --> fix.test.yaml:4:13
           |
         4 |     given: {x: 1}
           |             ^
           = help: it has none""")


def test_the_first_tests_of_a_loop_are_valid():
    short = load("check: make\nfix: make fix\n", "short.yaml", "short").loop
    assert short is not None
    found = load_tests(first_tests("short"), "short.test.yaml", lambda _: short)
    assert (len(found.tests), found.problems) == (3, ())


def test_an_outcome_has_nothing_that_is_not_written():
    found = read(one("{check: [1, {exit: 1, takes: 0}]}"))
    assert found.problems == ()
    bare = (1, "", "", None, False, None, None, None, None, None, 0, None, False, None)
    assert [tuple(each) for each in found.tests[0].given["check"]] == [bare, bare]


JUDGED = FSMLoop.from_dict(
    {
        "name": "judged",
        "initial": "check",
        "states": {
            "check": {"action": "make", "next": "fix"}
            | {"condition": {"type": "judge", "question": "Is it fixed?"}},
            "fix": {"action": "make fix", "next": "check"},
        },
    }
)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("check: {judge: pass}", "pass"),
        ("check: {judge: error}", "error"),
        ("check: {judge: {fail: a test was removed}}", "fail: a test was removed"),
        ("check: {judge: {because: x}}", None),
        ("check: {judge: maybe}", None),
        ("fix: {judge: pass}", None),
    ],
)
def test_what_a_judge_answers_in_a_test(given, said):
    text = f"loop: judged\ntests: [{{name: a, given: {{{given}}}, expect: {{status: failed}}}}]\n"
    found = load_tests(text, "a.test.yaml", lambda name: JUDGED)
    if said is None:
        assert found.problems
    else:
        assert found.tests[0].given["check"][0].judge == said


def test_only_work_in_a_worktree_can_be_in_conflict():
    [problem] = read(one("{check: {conflict: true}}")).problems
    assert problem.message == "`check` has no `worktree`, so nothing is merged"
    assert problem.help == "remove `conflict`"
