"""Around an agent's turn: what its program is asked before, and where its answer is kept."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from tests.project import DEADLINE_S, Project, until

LOOP = """\
name: tidy
initial: work
host: {permission_mode: plan}
states:
  work: {action: "/ll:check_code lint", timeout: 30m, next: done}
  done: {terminal: true}
"""
CLAUDE = """\
#!/bin/sh
# `plugin list` never answers; the agent itself only notes that it was started.
[ "$1" = plugin ] || {{ touch {home}/agent; exit 1; }}
trap 'touch {home}/ended; exit 1' TERM
touch {home}/asked
while :; do sleep 0.1; done
"""


@pytest.fixture
def silent(project: Project) -> dict[str, str]:
    """The environment of a project whose `claude plugin list` never answers."""
    project.loop("tidy", LOOP)
    program = project.home / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(CLAUDE.format(home=project.home))
    program.chmod(0o755)
    return {"PATH": f"{program.parent}:{project.environ()['PATH']}"}


def test_a_stop_ends_a_question_for_plugins_that_is_not_answered(project, silent):
    """It is ended as an action is, by TERM; and no agent is started, which would cost money."""
    with project.started("run", "tidy", "--no-evidence", env=silent) as child:
        until((project.home / "asked").exists, "question for plugins")
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=DEADLINE_S)
    assert child.returncode == 130
    assert (project.home / "ended").exists()
    assert not (project.home / "agent").exists()
    [cut] = [each for each in project.events("tidy") if each["event"] == "action_interrupted"]
    assert (cut["state"], cut["cause"]) == ("work", "stop")
    assert not project.has_event("tidy", "cost")


def test_a_question_for_plugins_takes_no_longer_than_the_action_may(project, silent):
    project.loop("tidy", LOOP.replace("30m", "1s"))
    said = project.ll("run", "tidy", "--no-evidence", env=silent)
    assert said.returncode == 1
    assert (project.home / "ended").exists()


# ── a long structured answer ───────────────────────────────────────────────────────────────────

SURVEY = """\
name: survey
initial: look
host: {permission_mode: plan}
states:
  look: {action: survey it, action_type: prompt, on_pass: use, on_fail: failed}
  use:
    action: |
      echo ${captured.look.structured.count:int} "${captured.look.structured.first.name}" > named
      cp "${captured.look.structured_file}" whole
    next: too_much
  too_much: {action: 'echo "${prev.state} ${captured.look.structured}"', next: done, on_error: named}
  named: {action: 'cp "${captured.look.structured_file}" again', next: done}
  done: {terminal: true}
  failed: {terminal: true}
"""
LONG_ANSWER = {
    "verdict": "pass",
    "count": 30_000,
    "first": {"name": "a b"},
    "found": [f"src/module_{number}.py: {'x' * 80}" for number in range(30_000)],
}
MOST_IN_A_LOG = 64 << 10


def stand_in(project: Project, events: list[dict[str, Any]]) -> dict[str, str]:
    """The environment of a project whose `claude` prints these events."""
    (project.home / "stream").write_text("".join(json.dumps(each) + "\n" for each in events))
    program = project.home / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ncat > /dev/null\ncat {project.home}/stream\n")
    program.chmod(0o755)
    return {"PATH": f"{program.parent}:{project.environ()['PATH']}"}


def test_a_long_structured_answer_is_kept_in_a_file(project: Project):
    """Three megabytes are neither in the log nor in the state, and can be used all the same."""
    events: list[dict[str, Any]] = [
        {"type": "system", "subtype": "init", "session_id": "s"},
        {
            "type": "result",
            "subtype": "success",
            "is_error": False,
            "num_turns": 1,
            "result": "",
            "structured_output": LONG_ANSWER,
            "session_id": "s" * 3_000_000,
        },
    ]
    env = stand_in(project, events)
    project.loop("survey", SURVEY)
    said = project.ll("run", "survey", "--no-evidence", env=env)
    assert said.returncode == 0, said.stdout + said.stderr
    assert project.file("named") == "30000 a b\n"
    for copy in ("whole", "again"):
        assert json.loads(project.file(copy)) == LONG_ANSWER
    assert project.past("survey").stat().st_size < MOST_IN_A_LOG
    assert project.past("survey", ".state.json").stat().st_size < MOST_IN_A_LOG
    [kept] = [
        event["structured_file"]
        for event in project.events("survey")
        if event["event"] == "action_complete" and event["state"] == "look"
    ]
    assert kept["size"] > 3_000_000
    error = "but a shell action accepts less than 128 KiB: read it from the file"
    assert f"{error} `${{captured.look.structured_file}}`" in project.log("survey")


# ── a mistyped slash command ───────────────────────────────────────────────────────────────────

TYPO = """\
name: typo
initial: work
host: {permission_mode: plan}
states:
  work: {action: "/prot it", next: done}
  done: {terminal: true}
"""


def test_a_mistyped_slash_command_that_the_model_got_as_text_is_no_success(project: Project):
    """The program knows no such command, sends it as a prompt, and ends its turn well."""
    events: list[dict[str, Any]] = [
        {"type": "system", "subtype": "init", "session_id": "s", "slash_commands": ["port"]},
        {
            "type": "result",
            "subtype": "success",
            "is_error": False,
            "num_turns": 2,
            "result": "I do not know what to do.",
            "session_id": "s",
        },
    ]
    env = stand_in(project, events)
    project.loop("typo", TYPO)
    said = project.ll("run", "typo", "--no-evidence", env=env)
    assert said.returncode == 1
    assert "completed" not in said.stdout
    assert "/prot" in said.stdout
    assert "/port" in said.stdout
