"""The command line before any page: verbs, mistyped verbs, versions."""

from __future__ import annotations

import pytest

from little_loops import __version__
from tests.project import Project

SLOW = """\
name: slow
initial: a
states:
  a: {action: "true", next: done}
  done: {terminal: true}
"""

LOOPS = "available: `slow`"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        pytest.param(
            ("rnu", "slow"),
            "error: unknown command `rnu`\n   = help: did you mean `ll-loop run`?\n",
            id="a mistyped verb with a loop",
        ),
        pytest.param(
            ("resme", "slow", "--background"),
            "error: unknown command `resme`\n   = help: did you mean `ll-loop resume`?\n",
            id="a mistyped verb with options",
        ),
        pytest.param(
            ("stauts",),
            f"error: no loop named `stauts`\n   = help: did you mean `ll-loop status`? {LOOPS}\n",
            id="a mistyped verb alone",
        ),
        pytest.param(
            ("nothing",),
            f"error: no loop named `nothing`\n   = help: {LOOPS}\n",
            id="no verb at all",
        ),
        pytest.param(
            ("--foo",),
            "error: unknown option `--foo`\n   = help: see `ll-loop --help`\n",
            id="an unknown option",
        ),
    ],
)
def test_a_mistyped_command_line_names_what_was_probably_meant(project: Project, words, error):
    project.loop("slow", SLOW)
    said = project.ll(*words)
    assert (said.returncode, said.stdout, said.stderr) == (2, "", error)


@pytest.mark.parametrize("word", ["--version", "-V", "version"])
def test_the_version_is_printed(project: Project, word: str):
    assert project.ll(word).stdout == f"ll-loop {__version__}\n"


def test_a_loop_called_version_can_still_be_run(project: Project):
    project.loop("version", SLOW.replace("slow", "version"))
    assert project.ll("run", "version").returncode == 0
