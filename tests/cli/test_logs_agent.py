"""`ll-loop logs --agent`, `--failed` and `--timestamps`: what happened, told again afterwards."""

from __future__ import annotations

import json
import re
from textwrap import dedent
from typing import Any

import pexpect
import pytest

from tests.project import Project

LOOP = """\
name: row
initial: check
max_iterations: 3
states:
  check: {action: "echo looking; test -e fixed", on_pass: done, on_fail: fix}
  fix: {action: "Fix ${prev.output}", action_type: prompt, next: check}
  done: {terminal: true}
"""


def used(ident: str, name: str, **given: str) -> dict[str, Any]:
    block = {"type": "tool_use", "id": ident, "name": name, "input": given}
    return {"type": "assistant", "message": {"id": f"m{ident}", "content": [block]}}


def ended(ident: str, content: str, **more: bool) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": ident, "content": content, **more}
    return {"type": "user", "message": {"content": [block]}}


@pytest.fixture
def fixed(project: Project) -> Project:
    """A project in which an agent has worked once."""
    root = str(project.root)
    stream = [
        {"type": "system", "subtype": "init", "session_id": "s"},
        used("1", "Read", file_path=f"{root}/leap.py"),
        ended("1", "def leap(): ..."),
        used("2", "Bash", command="python3 -m unittest"),
        ended("2", "Exit code 1\nFAILED", is_error=True),
        used("3", "Edit", file_path=f"{root}/leap.py"),
        ended("3", "The file has been updated"),
        used("4", "Write", file_path=f"{root}/tests/test_leap.py"),
        ended("4", "denied", is_error=True),
        used("5", "Bash", command="touch fixed"),
        ended("5", ""),
        {
            "type": "assistant",
            "message": {"id": "m6", "content": [{"type": "text", "text": "Done."}]},
        },
        {
            "type": "result",
            "subtype": "success",
            "is_error": False,
            "num_turns": 4,
            "result": "Done.",
        },
    ]
    programs = project.home / "bin"
    programs.mkdir()
    (programs / "stream").write_text("".join(json.dumps(each) + "\n" for each in stream))
    agent = programs / "claude"
    agent.write_text('#!/bin/sh\ncat > /dev/null; touch fixed; cat "$HOME/bin/stream"\n')
    agent.chmod(0o755)
    project.loop("row", LOOP)
    path = f"{programs}:{project.environ()['PATH']}"
    env = {"PATH": path, "IS_SANDBOX": "1", "LL_ALLOW_SKIP_PERMISSIONS": "1"}
    ran = project.ll("run", "row", env=env)
    assert ran.returncode == 0, ran
    assert "Files changed (as reported by the agents): leap.py\n" in ran.stdout
    return project


def shown(project: Project, *words: str) -> str:
    printed = project.ll("logs", "row", *words)
    assert printed.returncode == 0, printed
    return re.sub(r"\d+\.\ds", "T", printed.stdout)


def test_what_an_agent_ran_and_changed(fixed: Project):
    assert shown(fixed, "--agent") == dedent("""\
        [1/3] fix → running "Fix looking"...
               - Reading leap.py
               - Running python3 -m unittest (exit 1)
               - Editing leap.py
               - Writing tests/test_leap.py (failed)
               - Running touch fixed (exit 0)
               ✓ Done.
               → check

        Loop completed: done (2 iterations, T)
        Files changed (as reported by the agents): leap.py
        """)


def test_the_last_failure_only(fixed: Project):
    assert shown(fixed, "--failed") == dedent("""\
        [1/3] check → running echo looking; test -e fixed...
               | looking
               ✗ looking (exit 1)
               → fix (on_fail)
        """)


def test_no_failure_is_said(project: Project):
    project.loop("row", "name: row\ninitial: a\nstates:\n  a: {action: echo a, terminal: true}\n")
    project.ll("run", "row")
    none = project.ll("logs", "row", "--failed")
    assert (none.returncode, none.stdout, none.stderr) == (0, "", "no action failed\n")


def test_each_line_can_have_its_time(fixed: Project):
    lines = shown(fixed, "--timestamps", "--state", "check").splitlines()
    assert [line[10:] for line in lines] == shown(fixed, "--state", "check").splitlines()
    assert all(re.fullmatch(r"\d\d:\d\d:\d\d  ", line[:10]) for line in lines)


def test_a_terminal_gets_the_log_by_a_pager(fixed: Project):
    env = fixed.environ(PAGER="sed s/^/paged:/", TERM="xterm")
    child = pexpect.spawn(
        fixed.argv("logs", "row")[0],
        fixed.argv("logs", "row")[1:],
        cwd=str(fixed.root),
        env=env,
        encoding="utf-8",
        timeout=60,
    )
    child.expect(pexpect.EOF)
    lines = (child.before or "").splitlines()
    assert lines[0] == "paged:\x1b[1m[1/3] check\x1b[0m → running echo looking; test -e fixed..."
    assert all(line.startswith("paged:") for line in lines)
    child.close()
    assert child.exitstatus == 0
