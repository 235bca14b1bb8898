"""A real Claude Code as a judge: it reads, it answers, and it cannot write.

Only the model is a script.
"""

from __future__ import annotations

import pytest

from tests.live.agents import Stage
from tests.live.fake_model import Call, Rule, Say
from tests.live.fake_replies import Reply
from tests.live.scenes import bash

LOOP = """
    name: loop
    initial: check
    evidence: true
    states:
      check:
        action: echo 12 tests passed
        check: true
        condition: {type: judge, question: Are all tests still there?, host: claude, sees: [output]}
        on_pass: done
        on_fail: not_done
      done: {terminal: true}
      not_done: {terminal: true, outcome: failure}
    """


def says(verdict: str) -> Say:
    return Say(f"> 12 tests passed\nREASON: there were 14\nVERDICT: {verdict}")


def judged(stage: Stage, *replies: Reply) -> tuple[int, list[str]]:
    """The exit code, and what each turn of the judge came to."""
    stage.git("init", "-q")
    stage.write("app.py", "x = 1\n")
    stage.loop("loop", LOOP)
    stage.play(Rule("Are all tests still there?", *replies))
    code = stage.ll("run", "loop").returncode
    ends = [e for e in stage.events("loop") if e["event"] == "judge_complete"]
    return code, [end["verdict"] for end in ends]


@pytest.mark.parametrize(("verdict", "code"), [("pass", 0), ("fail", 1)])
def test_a_judge_agrees_or_vetoes(stage: Stage, verdict: str, code: int):
    assert judged(stage, says(verdict)) == (code, [verdict])


def test_a_judge_cannot_write_or_run_anything(stage: Stage):
    path = str(stage.root / "app.py")
    write = Call("Write", {"file_path": path, "content": "x = 2\n"})
    code, verdicts = judged(stage, write, bash("touch made.txt"), says("pass"))
    assert (stage.file("app.py"), (stage.root / "made.txt").exists()) == ("x = 1\n", False)
    assert (code, verdicts) == (0, ["pass"])
