"""What an agent hands over: the text of its line, or the notes it wrote while it worked."""

from __future__ import annotations

import shlex

import pytest

from tests.project import Project

LOOP = """\
name: port
initial: work
host: {{name: command, command: [sh, -c, {script}, agent, "{{prompt}}"]}}
states:
  work: {{action: port it, action_type: prompt, next: done}}
  done: {{terminal: true}}
"""
NOTES = "next: port cli.py"


@pytest.mark.parametrize(
    ("line", "continuation"),
    [
        pytest.param("Ready for fresh session", NOTES, id="the words of the manual"),
        pytest.param("Ready for fresh session.", NOTES, id="with a full stop"),
        pytest.param("**Ready for fresh session**", NOTES, id="in bold"),
        pytest.param("ready for fresh session!", NOTES, id="in other letters"),
        pytest.param("", NOTES, id="no words at all"),
        pytest.param("cli.py is left", "cli.py is left", id="words of its own"),
        pytest.param(
            "Ready for fresh session: cli.py", "Ready for fresh session: cli.py", id="and more"
        ),
    ],
)
def test_where_the_continuation_is_read(project: Project, line: str, continuation: str):
    script = f'echo "{NOTES}" > "$LL_RUN_DIR/continue.md"; echo {shlex.quote("CONTEXT_HANDOFF: " + line)}'
    quoted = "'" + script.replace("'", "''") + "'"
    project.loop("port", LOOP.format(script=quoted))
    ran = project.ll("run", "port")
    assert ran.returncode == 4, ran.stdout + ran.stderr
    assert project.state("port")["continuation_prompt"] == continuation


@pytest.mark.parametrize("line", ["Ready for fresh session.", "Ready for fresh session"])
def test_notes_that_were_not_written_are_not_missed(project: Project, line: str):
    project.loop("port", LOOP.format(script=f"'echo CONTEXT_HANDOFF: {line}'"))
    assert project.ll("run", "port").returncode == 4
    assert project.state("port")["continuation_prompt"] == "Ready for fresh session"
