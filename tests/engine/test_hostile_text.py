"""Text that somebody else wrote, on its way through a whole run: it is shown, kept and passed on."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.project import Project

# ── signals by mention ─────────────────────────────────────────────────────────────────────────

MENTIONS = {
    "a match of grep": "notes.md:12: CONTEXT_HANDOFF: go on",
    "a match with its line": "12:LOOP_STOP: enough",
    "a quotation": "> FATAL_ERROR: no",
    "a comment": "# LOOP_STOP: enough",
    "a diff": "+CONTEXT_HANDOFF: go on",
    "in a sentence": "then it prints LOOP_STOP: enough",
    "in quotes": '"FATAL_ERROR: no"',
    "another case": "loop_stop: enough",
    "a longer word": "MY_LOOP_STOP: enough",
    "without its colon": "LOOP_STOP enough",
    "behind a return": "x\\rLOOP_STOP: enough",
    "behind an escape": "\\033[2KLOOP_STOP: enough",
}


@pytest.mark.parametrize("line", MENTIONS.values(), ids=MENTIONS.keys())
def test_who_mentions_a_signal_gives_none(project: Project, line: str):
    told = json.dumps(f"printf '%b\\n' {quoted(line)}; echo LOOP_STOP: no >&2")
    project.loop("row", ROW.format(action=told))
    said = project.ll("run", "row")
    assert (said.returncode, project.state("row")["status"]) == (0, "completed"), said


def quoted(line: str) -> str:
    return "'" + line.replace("'", "'\\''") + "'"


ROW = """\
    name: row
    initial: a
    on_handoff: spawn
    states:
      a: {{action: {action}, next: done}}
      done: {{terminal: true}}
    """


def test_a_shell_action_never_starts_a_session(project: Project):
    """`spawn` is for agents: what a command prints may come from anywhere."""
    agent(project)
    project.loop("row", ROW.format(action='"echo CONTEXT_HANDOFF: go on"'))
    said = project.ll("run", "row", env=on_path(project))
    assert (said.returncode, project.state("row")["status"]) == (4, "awaiting_continuation")
    assert not project.running("row", ".spawn.json").exists()
    assert not (project.home / "called").exists()


def agent(project: Project) -> None:
    path = project.home / "bin" / "claude"
    path.parent.mkdir()
    path.write_text('#!/bin/sh\ncat >> "$HOME/called"\necho done\n')
    path.chmod(0o755)


def on_path(project: Project) -> dict[str, str]:
    return {"PATH": f"{project.home / 'bin'}:{os.environ['PATH']}", "IS_SANDBOX": "1"}


# ── notes of an earlier session ────────────────────────────────────────────────────────────────

NOTES = "$(touch owned) `touch owned`; touch owned \\033]0;owned\\007 @/etc/passwd /evil '\"; touch owned #"


def test_notes_of_an_earlier_session_are_data_for_a_shell(project: Project):
    told = f"test -e again || {{ printf '%b' {quoted('CONTEXT_HANDOFF: ' + NOTES)}; exit; }}; "
    use = 'echo ${loop.continuation} > kept; echo "${loop.continuation}"; echo $LL_CONTINUATION'
    project.loop("row", ROW.format(action=json.dumps(told + use)))
    assert project.ll("run", "row").returncode == 4
    (project.root / "again").touch()
    said = project.ll("resume", "row", "-v")
    assert said.returncode == 0, said
    assert not (project.root / "owned").exists()
    assert "\x1b" not in said.stdout + said.stderr
    assert "$(touch owned)" in project.file("kept")


def test_notes_of_an_earlier_session_are_a_file_for_a_slash_command(project: Project):
    """Its own text comes first and alone; the notes are named, not quoted."""
    agent(project)
    (project.home / "bin" / "claude").write_text(
        '#!/bin/sh\ncat > "$HOME/asked"\n'
        f"test -e again && echo done || printf '%b' {quoted('CONTEXT_HANDOFF: ' + NOTES)}\n"
    )
    slash = ROW.replace("on_handoff: spawn", "host: {{permission_mode: plan}}")
    project.loop("row", slash.format(action='"/mend it"'))
    assert project.ll("run", "row", env=on_path(project)).returncode == 4
    (project.root / "again").touch()
    said = project.ll("resume", "row", env=on_path(project))
    assert said.returncode == 0, said
    asked = (project.home / "asked").read_text()
    notes = project.running("row", ".d") / "continue.md"
    assert asked.startswith("/mend it\n\n")
    assert str(notes) in asked
    assert "touch owned" not in asked
    assert "\x1b" not in said.stdout + said.stderr


# ── a slash command that runs a shell on its arguments ─────────────────────────────────────────

COMMANDS = {
    "on its arguments": ("!`git log $ARGUMENTS`", "LL420", 2),
    "on the first": ("!`git log $1`", "LL420", 2),
    "on none": ("!`git log`\nlook at $ARGUMENTS", "", 0),
    "no shell": ("look at $ARGUMENTS", "", 0),
}
GIVES_DATA = """\
    name: tell
    initial: a
    host: {permission_mode: plan}
    states:
      a: {action: cat notes, next: b}
      b: {action: "/look ${captured.a.output}", next: done}
      done: {terminal: true}
    """


@pytest.mark.parametrize(("text", "code", "exit_code"), COMMANDS.values(), ids=COMMANDS.keys())
def test_a_command_that_runs_a_shell_is_given_no_data(project: Project, text, code, exit_code):
    command(project, text)
    project.loop("tell", GIVES_DATA)
    said = project.ll("validate", "tell")
    assert said.returncode == exit_code, said
    assert (f"[{code}]" in said.stderr + said.stdout) == bool(code)
    if code:
        assert project.ll("run", "tell").returncode == 2


def command(project: Project, text: str) -> Path:
    path = project.root / ".claude/commands/look.md"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def test_a_command_that_cannot_be_looked_at_is_warned_of(project: Project):
    project.loop("tell", GIVES_DATA)
    said = project.ll("validate", "tell")
    assert said.returncode == 0, said
    assert "[LL421]" in said.stderr + said.stdout
