"""Loops of the design, as they are printed there, carried to their end by a real agent.

The tools they call (`mypy`, `ruff`, `jq`) are stand-ins that count marks in a small project; what
the agent does to its files is real, and the figures are theirs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.live.agents import Stage
from tests.live.fake_model import Answer, Call, Rule, Say
from tests.live.fake_replies import Reply
from tests.live.scenes import bash

DESIGN = Path(__file__).parents[1] / "design"
MYPY = """\
#!/bin/sh
grep -rn wrong "$1" | sed 's/$/ error: wrong/'
! grep -rqn wrong "$1"
"""
RUFF = """\
#!/bin/sh
echo "{\\"count\\": $(grep -rc wrong src/app.py)}"
"""
JQ = f"""\
#!/bin/sh
exec {sys.executable} -c 'import json, sys; print(json.load(sys.stdin)["count"])'
"""


class ByTheFile(Rule):
    """An agent that runs the check and says what it saw."""

    def __init__(self, words: str, stage: Stage) -> None:
        super().__init__(words)
        self.stage = stage

    def reply(self, step: int) -> Reply:
        if step == 0:
            return bash("mypy src/")
        found = "wrong" in self.stage.file("src/app.py")
        return Answer({"verdict": "fail" if found else "pass", "reason": "by mypy"})


def set_the_stage(stage: Stage, name: str, errors: int) -> None:
    stage.write("src/app.py", "".join(f"x{n} = wrong\n" for n in range(1, errors + 1)))
    for tool, text in (("mypy", MYPY), ("ruff", RUFF), ("jq", JQ)):
        stage.write(f"../bin/{tool}", text).chmod(0o755)
    stage.loop(name, (DESIGN / f"{name}.yaml").read_text())


def mend() -> Call:
    """Mend the first wrong line."""
    first = """awk '!done && sub(/wrong/, "right") { done = 1 } 1' src/app.py"""
    return bash(f"{first} > mended && mv mended src/app.py")


def figures(stage: Stage, name: str) -> list[tuple[str, Any]]:
    ends = [event for event in stage.events(name) if event["event"] == "action_complete"]
    return [(event["state"], event["output"]) for event in ends]


def test_convergence_counts_down_to_its_target(stage: Stage):
    set_the_stage(stage, "create-loop", errors=2)
    stage.play(Rule("Manage an issue: bug fix", mend(), Say("One less.\nVERDICT: pass")))

    ran = stage.ll("run", "create-loop", "--allow-skip-permissions")

    assert ran.returncode == 0, ran.stdout + ran.stderr
    mended = ("apply", "One less.\nVERDICT: pass")
    assert figures(stage, "fix-type-errors") == [
        ("measure", "2"),
        mended,
        ("measure", "1"),
        mended,
        ("measure", "0\n0"),
    ]
    assert stage.file("src/app.py") == "x1 = right\nx2 = right\n"


def test_convergence_that_stalls_says_so(stage: Stage):
    set_the_stage(stage, "convergence", errors=2)
    stage.play(Rule("Check the code: fix", Say("I could not.\nVERDICT: fail")))

    ran = stage.ll("run", "convergence", "--allow-skip-permissions")

    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert stage.has_event("reduce-lint-errors", "condition_eval", result="stall")


def test_a_goal_is_checked_and_fixed_by_agents(stage: Stage):
    set_the_stage(stage, "goal", errors=1)
    stage.play(
        ByTheFile("Check the code: types", stage),
        Rule("Manage an issue: bug fix", mend(), Say("Mended.")),
    )

    ran = stage.ll("run", "goal", "--allow-skip-permissions")

    assert ran.returncode == 0, ran.stdout + ran.stderr
    events = stage.events("goal-no-type-errors")
    moves = [f"{e['from']} → {e['to']}" for e in events if e["event"] == "transition"]
    assert moves == ["evaluate → fix", "fix → evaluate", "evaluate → done"]
    costs = [event for event in events if event["event"] == "cost"]
    assert [event["state"] for event in costs] == ["evaluate", "fix", "evaluate"]
    assert all(event["tokens"] > 0 for event in costs)


RELAY = """
    paradigm: relay
    name: implement-886
    agent: /ll:implement-turn specs/886
    metadata: specs/886/.return-meta.json
    plan: specs/886/plan.md
    session: sess_123_abc
"""
LOG = """\
implement-886: phase 1 of 3 (turn 1)

Session: sess_123_abc_iter1


 src/parser.py | 1 +
 1 file changed, 1 insertion(+)
implement-886: phase 2 of 3 (turn 2)

Session: sess_123_abc_iter2


 specs/886/handoff.md | 1 +
 src/lexer.py         | 1 +
 2 files changed, 2 insertions(+)
implement-886: phase 3 of 3 (turn 3)

Session: sess_123_abc_iter3


 src/printer.py | 1 +
 1 file changed, 1 insertion(+)"""


def test_a_relay_hands_its_plan_from_agent_to_agent(stage: Stage):
    """Three turns; the second runs out of context and leaves a handoff file for the third."""
    stage.loop("implement-886", RELAY)
    stage.write("specs/886/plan.md", "# Plan\n1. parser\n2. lexer\n3. printer\n")
    stage.write("../home/.gitconfig", "[user]\nname = Ada\nemail = ada@example.org\n")
    stage.git("init", "--quiet", "--initial-branch=main")
    stage.git("add", ".")
    stage.git("commit", "--quiet", "--message=Begin")
    handoff = "specs/886/handoff.md"
    stage.play(
        Rule(
            "handoff_path: specs/886/handoff.md",
            bash(f"grep -q 'the printer is left' {handoff} && echo 'y = 3' > src/printer.py"),
            report(stage, "implemented", 3),
            Say("All done."),
        ),
        Rule(
            "resume_phase: 2",
            bash(f"echo 'y = 2' > src/lexer.py; echo 'the printer is left' > {handoff}"),
            report(stage, "partial", 2, handoff_path=handoff),
            Say("My context is full."),
        ),
        Rule(
            "resume_phase: 1",
            bash("mkdir -p src && echo 'y = 1' > src/parser.py"),
            report(stage, "partial", 1),
            Say("One phase done."),
        ),
    )

    ran = stage.ll("run", "implement-886", "--allow-skip-permissions")

    assert ran.returncode == 0, ran.stdout + ran.stderr
    said = [text for state, text in figures(stage, "implement-886") if state == "turn"]
    assert said == ["One phase done.", "My context is full.", "All done."]
    log = stage.git("log", "--reverse", "--stat", "--format=%B", "HEAD~3..HEAD")
    assert log == LOG


def report(stage: Stage, status: str, phases: int, **more: str) -> Call:
    progress = {"phases_completed": phases, "phases_total": 3, **more}
    content = json.dumps({"status": status, "partial_progress": progress})
    path = str(stage.root / "specs/886/.return-meta.json")
    return Call("Write", {"file_path": path, "content": content})
