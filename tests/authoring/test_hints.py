"""What `validate` says about a loop that is valid, but could do better."""

from __future__ import annotations

import pytest

from little_loops.authoring.hints import hints
from little_loops.authoring.load import load

LOOP = """\
initial: test
states:
  test: {action: pytest, on_pass: done, on_fail: fix}
  fix: {action: /fix, next: test}
  done: {terminal: true}
"""
JUDGED_LATER = """\
initial: test
states:
  test: {action: pytest, capture_exit: true, next: fix}
  fix: {action: /fix, next: decide}
  decide: {condition: {type: exit_code, source: test}, on_pass: done, on_fail: test}
  done: {terminal: true}
"""
METRIC = """\
initial: count
context: {target: 0}
states:
  count: {action: count, on_target: done, on_progress: fix, on_stall: done}
  fix: {action: /fix, next: count}
  done: {terminal: true}
"""
HINT = (
    "`%s` decides success: mark it `check: true`, so that its pass counts only for the files it "
    "was run on"
)


@pytest.mark.parametrize(
    ("text", "unmarked"),
    [
        pytest.param(LOOP, ["test"], id="unmarked"),
        pytest.param(JUDGED_LATER, ["test"], id="judged later"),
        pytest.param(METRIC, ["count"], id="a number"),
        pytest.param(LOOP.replace("on_pass", "check: true, on_pass"), [], id="marked"),
        pytest.param("evidence: false\n" + LOOP, [], id="no evidence wanted"),
        pytest.param(LOOP.replace("/fix", "make"), [], id="no agents"),
        pytest.param("evidence: true\n" + LOOP.replace("/fix", "make"), ["test"], id="asked for"),
        pytest.param(LOOP.replace("pytest", "/review"), [], id="an agent decides"),
        pytest.param(LOOP.replace("{action: pytest, on_pass: done, on_fail: fix}",
                                  "{action: pytest, next: done}"), [], id="decides nothing"),
        pytest.param(LOOP.replace("on_pass: done", "on_pass: fix"), [], id="the same either way"),
        pytest.param(LOOP.replace("on_pass: done", "on_pass: test"), [], id="leads elsewhere"),
        pytest.param(LOOP.replace("done: {terminal: true}", "done: {terminal: true, outcome: failure}"),
                     [], id="a failure"),
    ],
)  # fmt: skip
def test_a_state_that_decides_about_success_should_be_a_check(text, unmarked):
    loop = load(text, "x.yaml", "x").loop
    assert loop is not None
    assert hints(loop) == [HINT % name for name in unmarked]
