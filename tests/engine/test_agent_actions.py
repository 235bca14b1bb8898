"""Around an agent's turn: what is asked of its program before it starts."""

from __future__ import annotations

import signal

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
