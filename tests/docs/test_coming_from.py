"""The page for those who come from another tool: each has its section, with the same loop in it,
and its loops do what the page says."""

from __future__ import annotations

import re

import pytest

from little_loops.authoring.load import load
from little_loops.cli.options import args_of
from little_loops.fsm.schema import FSMLoop
from tests.engine.test_fallback import CLAUDE_WORKS, environ, stage, turns
from tests.project import Project
from tools.pages import read_page

PAGE = read_page("docs/coming-from.md")
SECTIONS = {
    part.partition("\n")[0]: part.partition("\n")[2] for part in PAGE.text.split("\n## ")[1:]
}
LOOPS = {block.file: block.text for block in PAGE.blocks if block.language == "yaml"}


def loop(name: str) -> FSMLoop:
    read = load(LOOPS[f".loops/{name}.yaml"], name, name)
    assert (read.loop is not None, read.problems) == (True, ())
    assert read.loop is not None
    return read.loop


def test_each_tool_has_its_section_and_its_column():
    assert list(SECTIONS) == [
        *("From a ralph loop", "From `/goal`", "From GitHub Actions", "From dagu")
    ]
    head = next(line for line in PAGE.text.splitlines() if line.startswith("| here"))
    assert [each.strip() for each in head.strip("|").split("|")] == [
        *("here", "ralph loop", "`/goal` in Claude Code", "GitHub Actions", "dagu")
    ]


@pytest.mark.parametrize("section", SECTIONS)
def test_each_section_has_the_check(section: str):
    assert "pytest -q" in SECTIONS[section]


def test_the_loops_are_the_same():
    one, other = loop("ralph"), loop("fix-tests")
    assert one.states.keys() == other.states.keys()
    assert one.states["evaluate"] == other.states["evaluate"]
    same = ("host", "evidence", "max_iterations", "max_cost_usd")
    assert [getattr(one, field) for field in same] == [getattr(other, field) for field in same]


def test_the_one_liner_has_options_that_exist():
    line = re.search(r"^ll-loop until .*$", SECTIONS["From `/goal`"], re.MULTILINE)
    assert line is not None
    known = {flag for option in args_of("until").table.values() for flag in option.flags}
    assert set(re.findall(r"--[a-z-]+", line[0])) <= known


# ── the loops, played ──────────────────────────────────────────────────────────────────────────


def written(project: Project, name: str, text: str = "") -> None:
    """A project with a loop of the page, a test, and stand-ins for its programs."""
    project.loop(name, text or LOOPS[f".loops/{name}.yaml"])
    (project.root / "tests").mkdir()
    (project.root / "tests" / "test_a.py").write_text("def test_a(): assert fixed()\n")
    stage(
        project, "claude", f"cd {project.root}; echo > tests/test_a.py; touch fixed\n{CLAUDE_WORKS}"
    )


def program(project: Project, name: str, script: str) -> None:
    path = project.home / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_protected_files_need_a_repository_and_any_will_do(project: Project):
    written(project, "ralph")
    refused = project.ll("validate", "ralph", env=environ(project))
    assert refused.returncode == 2
    assert "`evidence` needs a git repository" in refused.stdout
    project.git("init", "-q")
    assert project.ll("validate", "ralph", env=environ(project)).returncode == 0


@pytest.mark.parametrize(
    ("name", "told"),
    [
        pytest.param("codex", "checked 1 loop: no problems\n", id="codex"),
        pytest.param(
            "command", "0 errors, 1 warning in 1 file\n", id="a program that counts nothing"
        ),
    ],
)
def test_another_agent_is_named_as_the_page_says(project: Project, name: str, told: str):
    hosts = re.findall(r"`host: (\{.*?\})`", PAGE.text)
    (host,) = (each for each in hosts if f"name: {name}," in each)
    text = re.sub(r"host: .*", f"host: {host}", LOOPS[".loops/ralph.yaml"])
    written(project, "ralph", text.replace("max_cost_usd: 5", "max_tokens: 5000000"))
    project.git("init", "-q")
    assert project.ll("validate", "ralph", env=environ(project)).stdout.endswith(told)


@pytest.mark.parametrize("code", [1, 2, 101, 125])
def test_a_check_that_fails_leads_to_the_agent_whose_edit_of_a_test_is_undone(
    project: Project, code: int
):
    written(project, "ralph")
    project.git("init", "-q")
    program(project, "pytest", f"test -e fixed || exit {code}")
    done = project.ll("run", "ralph", env=environ(project))
    assert (done.returncode, turns(project)) == (0, ["claude"]), done.stdout + done.stderr
    assert "tests/test_a.py was changed by the agent: restored" in done.stdout
    assert "assert fixed()" in project.file("tests/test_a.py")


@pytest.mark.parametrize("script", ["exit 126", "exit 127", "kill -9 $$"])
def test_a_check_that_cannot_run_starts_no_agent(project: Project, script: str):
    written(project, "ralph")
    project.git("init", "-q")
    program(project, "pytest", script)
    done = project.ll("run", "ralph", env=environ(project))
    assert (done.returncode, turns(project)) == (1, [])


def test_a_fix_that_is_text_is_a_shell_command(project: Project):
    written(project, "lint")
    program(project, "ruff", 'case "$*" in *--fix*) touch tidy;; *) test -e tidy;; esac')
    done = project.ll("run", "lint", env=environ(project))
    assert (done.returncode, turns(project)) == (0, []), done.stdout + done.stderr


def test_an_agent_in_a_shell_command_is_not_known_to_be_one(project: Project):
    """So the page advises against it: what it changes is not restored."""
    text = LOOPS[".loops/ralph.yaml"]
    prompt = re.search(r"fix:\n  action: .*\n  action_type: prompt\n", text)
    assert prompt is not None
    written(project, "ralph", text.replace(prompt[0], "fix: claude -p < /dev/null\n"))
    project.git("init", "-q")
    program(project, "pytest", "test -e fixed")
    assert "warning[LL325]" in project.ll("validate", "ralph", env=environ(project)).stdout
    assert project.ll("run", "ralph", env=environ(project)).returncode == 0
    assert project.file("tests/test_a.py") == "\n"


# ── the README ─────────────────────────────────────────────────────────────────────────────────


def test_the_readme_begins_with_what_hurts_then_a_kill_then_one_line():
    text = read_page("README.md").text
    parts = ["was changed by the agent: restored", "Killed\n$ ll-loop resume", "ll-loop until '"]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert places[0] < text.index("## ") < places[2]
    assert re.findall(r"paradigm|FSM|durable", text, re.IGNORECASE) == []


def test_the_readme_says_how_to_get_the_plugin():
    text = read_page("README.md").text
    section = text.partition("## In Claude Code")[2].partition("\n## ")[0]
    for words in ("claude plugin marketplace add .", "claude plugin install ll@little-loops"):
        assert words in section
    assert re.search(r"^> /ll:create-loop ", section, re.MULTILINE)
