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


PIPES = """\
name: pipes
initial: work
timeout: 30
states:
  work:
    action: |
      mkdir -p .claude
      rm -f "$LL_RUN_DIR/continue.md"
      mkfifo "$LL_RUN_DIR/continue.md" .claude/ll-continue-prompt.md
      echo "CONTEXT_HANDOFF: Ready for fresh session"
    next: done
  done: {terminal: true}
"""
CANNOT_BE_READ = "warning: the notes in `{place}` cannot be read: not a regular file\n"


def test_notes_that_are_pipes_are_refused_in_words_and_written_over_by_the_next_session(project):
    project.loop("pipes", PIPES)
    ran = project.ll("run", "pipes")
    notes = project.running("pipes", ".d") / "continue.md"
    both = (notes, project.root / ".claude/ll-continue-prompt.md")
    warnings = "".join(CANNOT_BE_READ.format(place=place) for place in both)
    assert (ran.returncode, ran.stderr) == (4, f"{warnings}next: ll-loop resume pipes\n")
    ran = project.ll("resume", "pipes")
    assert ran.returncode == 4, ran.stdout + ran.stderr
    assert project.state("pipes")["continuation_prompt"] == "Ready for fresh session"
