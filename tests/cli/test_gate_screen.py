"""What a person sees before they answer a gate."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.project import Project

LOOP = """\
    initial: work
    host: {name: command, command: [sh, -c, "%s", sh, "{prompt}"]}
    states:
      work: {action: Do the work., action_type: prompt, next: test}
      test: {action: test -s a.txt, check: true, on_pass: look, on_fail: work}
      look: {action: "printf 'Is it good?\\\\nShip it?\\\\n'", terminal: true, outcome: review, choices: [done, work]}
      done: {terminal: true}
    """


def at_the_gate(project: Project, work: str) -> str:
    """The screen of the gate, without what every status has."""
    project.git("init", "-q")
    project.git(
        "-c", "user.name=x", "-c", "user.email=x", "commit", "-q", "--allow-empty", "-m", "x"
    )
    project.loop("ship", LOOP % work)
    assert project.ll("run", "ship").returncode == 4
    shown = project.ll("status", "ship")
    assert shown.stderr == "next: ll-loop approve ship   or   ll-loop reject ship -m TEXT\n"
    lines = shown.stdout.splitlines()
    return "\n".join(lines[lines.index("The gate asks:") :])


def test_what_it_asks_the_diff_and_the_evidence(project: Project):
    shown = at_the_gate(project, "echo hello >> a.txt; echo done")
    shown = re.sub(r"tree [0-9a-f]{6}", "tree 123456", shown)
    assert re.sub(r"index [0-9a-f.]+", "index 0..1", shown) == (
        "The gate asks:\n"
        "  Is it good?\n"
        "  Ship it?\n"
        "Changed since the start: a.txt (+1 -0)\n"
        "  diff --git a/a.txt b/a.txt\n"
        "  new file mode 100644\n"
        "  index 0..1\n"
        "  --- /dev/null\n"
        "  +++ b/a.txt\n"
        "  @@ -0,0 +1 @@\n"
        "  +hello\n"
        "Checks:\n"
        "  ✓ test: exit 0 (tree 123456)\n"
        "Choices: ll-loop approve ship --to done|work"
    )


def test_a_long_diff_is_cut_and_cannot_drive_the_terminal(project: Project):
    work = "printf '\\\\033[2J\\\\n' > a.txt; seq 99 >> a.txt; echo done"
    lines = at_the_gate(project, work).splitlines()
    assert "  +\\x1b[2J" in lines
    assert "  … 46 more lines: ll-loop diff ship" in lines


def test_without_evidence_there_is_only_the_question(project: Project):
    project.loop(
        "ask",
        """\
        initial: look
        states:
          look: {action: echo Ship it?, terminal: true, outcome: review, next: done}
          done: {terminal: true}
        """,
    )
    project.ll("run", "ask")
    assert project.ll("status", "ask").stdout.endswith("The gate asks:\n  Ship it?\n")
    project.ll("approve", "ask")
    assert "The gate asks" not in project.ll("status", "ask").stdout


def as_json(project: Project, *words: str) -> Any:
    return json.loads(project.ll(*words, "--json").stdout)


def test_a_program_reads_the_same(project: Project):
    at_the_gate(project, "echo hello >> a.txt; echo done")
    gate = as_json(project, "status", "ship")["gate"]
    seq = next(each["seq"] for each in project.events("ship") if each["event"] == "loop_paused")
    tree = gate["checks"][0].pop("tree")
    assert re.fullmatch("[0-9a-f]{40,64}", tree)
    assert gate == {
        "state": "look",
        "seq": seq,
        "asks": "Is it good?\nShip it?",
        "choices": ["done", "work"],
        "changed": {"files": 1, "paths": ["a.txt"], "added": 1, "removed": 0},
        "checks": [{"state": "test", "verdict": "pass", "reason": "exit 0", "is_current": True}],
        "answer": None,
    }
    listed = {"state": "look", "seq": seq}
    assert as_json(project, "status")["runs"][0]["gate"] == listed
    assert as_json(project, "list")["loops"][0]["last_run"]["gate"] == listed


def test_an_answer_that_is_stored_and_not_used_yet(project: Project):
    at_the_gate(project, "echo hello >> a.txt; echo done")
    project.ll("approve", "ship", "--to", "done", "-m", "well done", "--no-resume")
    gate = as_json(project, "status", "ship")["gate"]
    assert gate["answer"] == {
        "gate": gate["seq"],
        "verdict": "approved",
        "by": "approve",
        "text": "well done",
        "to": "done",
    }
    shown = project.ll("status", "ship")
    assert shown.stdout.endswith("\nAnswer: approved, with the message 'well done'\n")
    assert shown.stderr == "next: ll-loop resume ship\n"
    assert project.ll("resume", "ship").returncode == 0
    assert as_json(project, "status", "ship")["gate"] is None


def test_a_gate_without_evidence_has_no_changes(project: Project):
    project.loop(
        "ask",
        """\
        initial: look
        states:
          look: {terminal: true, outcome: review, next: done}
          done: {terminal: true}
        """,
    )
    project.ll("run", "ask")
    gate = as_json(project, "status", "ask")["gate"]
    assert gate == {
        "state": "look",
        "seq": gate["seq"],
        "asks": "",
        "choices": [],
        "changed": None,
        "checks": [],
        "answer": None,
    }
