"""`ll-loop tell`: a note reaches the next agent of a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.project import Project, until

LOOP = """\
    initial: check
    evidence: false
    host: {name: command, command: [sh, ../agent, "{prompt}"]}
    states:
      check: {action: "touch started; while [ ! -e go ]; do sleep 0.01; done; false", on_pass: done, on_fail: fix}
      fix: {action: Fix it., action_type: prompt, next: last}
      last: {action: Look at it., action_type: prompt, next: done}
      done: {terminal: true}
    """


@pytest.fixture
def prompts(project: Project) -> Callable[[], list[str]]:
    """What each turn of the agent was sent."""
    agent = project.root.parent / "agent"
    agent.write_text('printf "%s\\036" "$1" >> ../prompts; echo done\n')
    sent = project.root.parent / "prompts"
    return lambda: sent.read_text().split("\036")[:-1] if sent.exists() else []


def begin(project: Project) -> None:
    project.loop("fix", LOOP)
    begun = project.ll("run", "fix", "--background", "--allow-skip-permissions")
    assert begun.returncode == 0, begun.stderr
    until((project.root / "started").exists, "check")


def finish(project: Project) -> list[str]:
    """Let the check end. Gives the log."""
    (project.root / "go").touch()
    assert project.ll("wait", "fix").returncode == 0
    return project.ll("logs", "fix").stdout.splitlines()


def test_the_next_agent_gets_it_and_the_one_after_does_not(project: Project, prompts):
    begin(project)
    for text in ("leave @legacy alone", "  be brief\n"):
        told = project.ll("tell", "fix", text)
        assert (told.returncode, told.stdout, told.stderr) == (
            0,
            "fix: the next agent turn will receive this note\n",
            "",
        )
    lines = finish(project)
    assert prompts() == ["Fix it.\n\nleave \\@legacy alone\n\nbe brief", "Look at it."]
    assert [line.strip() for line in lines if "note" in line] == [
        "note for the next agent: leave @legacy alone",
        "note for the next agent: be brief",
        "note delivered to fix",
        "note delivered to fix",
    ]
    (mail,) = project.root.glob(".loops/.history/fix/*.d/mail")
    assert list(mail.iterdir()) == []


def test_a_note_for_a_run_that_is_paused_waits_for_its_resume(project: Project, prompts):
    begin(project)
    assert project.ll("stop", "fix").returncode == 0
    told = project.ll("tell", "fix", "be brief", "--json")
    assert json.loads(told.stdout)["name"] == "fix"
    (project.root / "go").touch()
    assert project.ll("resume", "fix", "--allow-skip-permissions").returncode == 0
    assert prompts() == ["Fix it.\n\nbe brief", "Look at it."]


def test_a_run_that_ends_names_what_is_left(project: Project, prompts):
    begin(project)
    project.ll("tell", "fix", "be brief")
    assert project.ll("stop", "fix").returncode == 0
    assert 'warning: no agent received this note: "be brief"' in project.ll("logs", "fix").stdout


FAILS = """\
    initial: check
    max_iterations: 1
    evidence: false
    host: {name: command, command: [sh, ../agent, "{prompt}"]}
    states:
      check: {action: "test -e fixed", on_pass: done, on_fail: fix}
      fix: {action: Fix it., action_type: prompt, next: check}
      done: {terminal: true}
    """


def test_a_note_for_a_failed_run_waits_for_its_resume(project: Project, prompts):
    """Its files are in the history, and come back with the note."""
    project.loop("fix", FAILS)
    assert project.ll("run", "fix", "--allow-skip-permissions").returncode == 3
    told = project.ll("tell", "fix", "be brief")
    assert (told.returncode, told.stderr) == (0, "")
    resumed = project.ll("resume", "fix", "--max-iterations", "3", "--allow-skip-permissions")
    assert resumed.returncode == 3
    assert prompts() == ["Fix it.", "Fix it.\n\nbe brief", "Fix it."]
    events = [each["event"] for each in project.events("fix") if each["event"].startswith("note")]
    assert events == ["note_received", "note_delivered"]


def in_failure_state(project: Project) -> str:
    project.loop("bad", "initial: a\nstates:\n  a: {terminal: true, outcome: failure}\n")
    project.ll("run", "bad")
    return "bad"


def test_a_note_for_a_run_that_cannot_be_resumed_is_refused(project: Project):
    refused = project.ll("tell", in_failure_state(project), "hello")
    assert (refused.returncode, refused.stderr) == (
        2,
        (
            "error: `bad` has failed, so no agent would receive the note\n"
            "   = help: `ll-loop run bad` starts it again\n"
        ),
    )


def test_at_most_twenty_wait(project: Project, prompts):
    begin(project)
    mail = project.running("fix", ".d") / "mail"
    mail.mkdir(mode=0o700)
    for number in range(20):
        (mail / f"{number:013}-00000000.txt").write_text(f"note {number}")
    refused = project.ll("tell", "fix", "one more")
    assert (refused.returncode, refused.stderr) == (
        2,
        "error: 20 notes are already waiting for an agent of `fix`\n",
    )
    finish(project)
    assert prompts()[0] == "\n\n".join(["Fix it.", *(f"note {number}" for number in range(20))])


def test_what_is_no_note_is_left_alone(project: Project, prompts):
    begin(project)
    mail = project.running("fix", ".d") / "mail"
    mail.mkdir(mode=0o700)
    (mail / "0000000000001-00000000.txt").write_text("x" * 9000)
    (mail / "0000000000002-00000000.txt").symlink_to("/etc/passwd")
    (mail / "README").write_text("hello")
    finish(project)
    assert prompts() == ["Fix it.", "Look at it."]


def ended(project: Project) -> str:
    project.loop("done", "initial: a\nstates:\n  a: {terminal: true}\n")
    project.ll("run", "done")
    return "done"


def never_ran(project: Project) -> str:
    project.loop("new", "initial: a\nstates:\n  a: {terminal: true}\n")
    return "new"


def without_an_agent(project: Project) -> str:
    project.loop("ask", "initial: a\nstates:\n  a: {terminal: true, outcome: review}\n")
    project.ll("run", "ask")
    return "ask"


@pytest.mark.parametrize(
    ("prepare", "text", "expected"),
    [
        pytest.param(ended, " ", "error: the note is empty\n", id="nothing"),
        pytest.param(
            ended,
            "x" * 8193,
            "error: the note is longer than 8192 bytes\n"
            "   = help: put it in a file in the project, and send the name of the file\n",
            id="too much",
        ),
        pytest.param(
            ended,
            "hello",
            "error: `done` has completed, so no agent would receive the note\n"
            "   = help: `ll-loop run done` starts it again\n",
            id="a run that has ended",
        ),
        pytest.param(
            never_ran,
            "hello",
            "error: `new` has not run yet\n   = help: `ll-loop run new` starts it\n",
            id="a loop that has not run",
        ),
        pytest.param(
            without_an_agent,
            "hello",
            "error: `ask` has no agent that could receive the note\n",
            id="a loop without an agent",
        ),
    ],
)
def test_what_is_refused(project: Project, prepare, text, expected):
    refused = project.ll("tell", prepare(project), text)
    assert (refused.returncode, refused.stdout, refused.stderr) == (2, "", expected)


def test_a_slash_command_that_runs_a_shell_on_its_arguments_gets_a_file(
    project: Project, tmp_path: Path
):
    """The note never becomes a part of that shell."""
    commands = project.root / ".claude" / "commands"
    commands.mkdir(parents=True)
    (commands / "grep.md").write_text("!`grep $ARGUMENTS src`\n")
    claude = tmp_path / "bin" / "claude"
    claude.parent.mkdir()
    claude.write_text("#!/bin/sh\ncat >> ../prompts; echo done\n")
    claude.chmod(0o755)
    project.loop(
        "fix",
        LOOP.replace('host: {name: command, command: [sh, ../agent, "{prompt}"]}', "").replace(
            "fix: {action: Fix it., action_type: prompt", "fix: {action: /grep x"
        ),
    )
    path = {"PATH": f"{claude.parent}:{project.environ()['PATH']}", "IS_SANDBOX": "1"}
    begun = project.ll("run", "fix", "--background", "--allow-skip-permissions", env=path)
    assert begun.returncode == 0, begun.stderr
    until((project.root / "started").exists, "check")
    project.ll("tell", "fix", "; touch hit")
    (project.root / "go").touch()
    project.ll("wait", "fix")
    sent = (project.root.parent / "prompts").read_text()
    assert "touch hit" not in sent
    (notes,) = project.root.glob(".loops/.history/fix/*.d/notes.md")
    assert notes.read_text() == "; touch hit\n"
    assert sent.startswith("/grep x\n\nA note for you is in ")
