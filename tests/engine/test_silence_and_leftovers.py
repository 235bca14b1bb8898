"""What a run does with an action that hangs, and with what actions leave running."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.project import Project, until

AGENT = """\
#!/bin/sh
sleep 600 &
echo $! > left
echo done
"""
LOOP = """\
initial: serve
host: {name: command, command: [./agent.sh, "{prompt}"]}
states:
  serve: {action: "sleep 601 & echo $! > served", next: work}
  work: {action: Do it, action_type: prompt, next: look}
  look: {action: "kill -0 $(cat served) && ! kill -0 $(cat left)", on_pass: done, on_fail: failed}
  done: {terminal: true}
  failed: {terminal: true}
"""
HANGING = """\
initial: hang
states:
  hang:
    action: "%s"
    next: done
    on_timeout: caught
    idle_timeout: %s
  done: {terminal: true}
  caught: {terminal: true}
"""


@pytest.fixture
def agent(project: Project) -> Path:
    path = project.root / "agent.sh"
    path.write_text(AGENT)
    path.chmod(0o755)
    return path


def test_what_an_agent_left_running_is_ended_and_what_a_shell_left_is_not(project, agent):
    project.loop("work", LOOP)
    said = project.ll("run", "work")
    assert said.returncode == 0, said.stdout
    left = (project.root / "left").read_text().strip()
    warnings = [event["message"] for event in project.events("work") if event["event"] == "warning"]
    assert f"ended processes that the agent had left running: sleep 600 (pid {left})" in warnings
    served = int((project.root / "served").read_text())
    until(lambda: not _lives(served), "the server is ended with the run")


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_an_action_that_hangs_is_cut_and_has_timed_out(project):
    project.loop("hang", HANGING % ("sleep 600", "0.3"))
    said = project.ll("run", "hang")
    assert "✗ silent, ended after" in said.stdout
    assert "→ caught (on_timeout)" in said.stdout


def test_a_run_that_ends_because_of_it_says_how_long_it_was_silent(project):
    text = HANGING.replace("    on_timeout: caught\n", "") % ("sleep 600", "0.3")
    project.loop("hang", text)
    said = project.ll("run", "hang")
    assert said.returncode == 1
    assert "silent for 0.3s" in said.stdout + said.stderr


def test_an_action_at_work_is_not_cut(project):
    busy = "i=0; while [ $i -lt 2000000 ]; do i=$((i+1)); done"
    project.loop("hang", HANGING % (busy, "0.4"))
    assert "→ done" in project.ll("run", "hang").stdout
