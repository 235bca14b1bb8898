"""`ll-loop init`: what it writes, that it writes nothing over, and how it asks."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from textwrap import dedent

import pexpect
import pytest

from little_loops.authoring.load import load
from little_loops.cli.setup.detect import read_environment
from little_loops.cli.setup.init import fill, main, render_loop
from little_loops.cli.setup.init_evidence import Written, protected
from little_loops.definitions.loop_templates import TEMPLATES
from little_loops.fsm.schema import Evidence
from tests.project import Project
from tests.stand_ins import PROJECTS, lay_out, no_modules, nothing

VALID = "   (valid; its first line is for your editor)"

# ── what it writes ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("agent", ["claude", "codex", "none"])
@pytest.mark.parametrize("kind", PROJECTS)
@pytest.mark.parametrize("name", TEMPLATES)
def test_every_template_is_valid_in_every_kind_of_project(tmp_path, name, kind, agent):
    found = read_environment(str(lay_out(tmp_path, PROJECTS[kind])), nothing, no_modules)
    agents = () if agent == "none" else (agent,)
    text = render_loop(name, found._replace(agents=agents))
    read = load(text, "x.yaml", "x")
    assert (read.problems, read.loop and read.loop.name) == ((), TEMPLATES[name].loop)
    assert read.loop is not None
    assert read.loop.host.name == ("codex" if agent == "codex" and "host:" in text else None)
    assert text.startswith("# yaml-language-server: $schema=./.schema.json\n")
    assert "@" not in text


@pytest.mark.parametrize(
    ("text", "values", "result"),
    [
        pytest.param("a @x@ b @x@\n", {"x": "1"}, "a 1 b 1\n", id="inside a line"),
        pytest.param("a:\n    @x@\n", {"x": "1\n 2"}, "a:\n    1\n     2\n", id="several lines"),
        pytest.param("a\n@x@\nb\n", {"x": ""}, "a\nb\n", id="nothing, no line"),
        pytest.param("me@x.org @y@\n", {"x": "1"}, "me@x.org @y@\n", id="not ours"),
    ],
)
def test_values_are_filled_in(text, values, result):
    assert fill(text, values) == result


def test_the_first_loop(project: Project):
    lay_out(project.root, {"test_x.py": "import unittest\n"})
    (project.root / ".loops").rmdir()
    done = project.ll("init", "--yes")
    assert (done.returncode, done.stdout) == (
        0,
        dedent("""\
            wrote .loops/fix-tests.yaml   (valid; its first line is for your editor)
            wrote .loops/.schema.json     (for your editor; commit it)
            wrote .loops/.gitignore       (keeps runs out of git)
            wrote .loops/tests/fix-tests.test.yaml   (its tests, for `ll-loop test`)
            """),
    )
    assert done.stderr.splitlines()[0].startswith("Found: python (test_x.py), unittest")
    assert done.stderr.splitlines()[1:3] == [
        "Trying `python3 -m unittest` (Ctrl-C skips this)",
        "  here: cannot be judged",
    ]
    last = "next: make the tests run, then ll-loop run fix-tests --dry-run"
    assert done.stderr.splitlines()[-1] == last
    assert project.file(".loops/.gitignore") == ".running/\n.history/\n"
    assert project.ll("validate", "--strict").returncode == 0


LEAP = {
    "leap.py": "def is_leap(year):\n    return year % 4 == 0\n",
    "tests/__init__.py": "",
    "tests/test_leap.py": "import unittest, leap\n\n\nclass Leap(unittest.TestCase):\n"
    "    def test_century(self):\n        self.assertFalse(leap.is_leap(1900))\n",
}


def test_in_git_the_tests_are_protected_and_the_clean_copy_is_proved(project: Project):
    lay_out(project.root, LEAP)
    project.git("init", "-q")
    project.git("add", "-A")
    done = project.ll("init", "--template", "tests")
    said = done.stderr.splitlines()
    assert said[1:6] == [
        "Trying `python3 -m unittest` here and in a clean copy (Ctrl-C skips this)",
        "  here: fails",
        "  in a clean copy: fails",
        "  with a syntax error in leap.py: fails",
        "Wrote `clean: true`: a pass counts only if a clean copy confirms it",
    ]
    loop = load(project.file(".loops/fix-tests.yaml"), "fix-tests.yaml", "fix-tests").loop
    assert loop is not None
    assert loop.evidence == Evidence(True, ("tests/",), clean=True)
    assert "Changes in tests/ will be reverted." in (loop.states["fix"].action or "")
    assert project.ll("validate", "--strict").returncode == 0


def test_the_loop_it_writes_is_a_check_and_a_fix(project: Project):
    lay_out(project.root, LEAP)
    assert project.ll("init", "--template", "tests", "--no-try").returncode == 0
    text = project.file(".loops/fix-tests.yaml")
    keys = [line.partition(":")[0] for line in text.splitlines() if re.match(r"\w+:", line)]
    assert keys == ["name", "description", "max_iterations", "max_cost_usd", "check", "fix"]


def test_without_a_try_nothing_is_run_or_proved(project: Project):
    lay_out(project.root, LEAP)
    project.git("init", "-q")
    done = project.ll("init", "--template", "tests", "--no-try")
    assert [line for line in done.stderr.splitlines() if line.startswith(("Trying", "  "))] == []
    loop = load(project.file(".loops/fix-tests.yaml"), "fix-tests.yaml", "fix-tests").loop
    assert loop is not None
    assert loop.evidence == Evidence(True, ("tests/",))


def test_a_check_that_passes_already_is_said_to_be_green(project: Project):
    lay_out(project.root, {**LEAP, "leap.py": "def is_leap(year):\n    return False\n"})
    done = project.ll("init", "--template", "tests")
    assert done.stderr.splitlines()[1:4] == [
        "Trying `python3 -m unittest` (Ctrl-C skips this)",
        "  here: passes",
        "It passes now, so there is nothing to fix yet",
    ]


@pytest.mark.parametrize(("answer", "is_tried"), [("\n", True), ("n\n", False)])
def test_at_a_terminal_it_asks_before_it_tries(project: Project, answer: str, is_tried: bool):
    lay_out(project.root, LEAP)
    argv = project.argv("init", "--template", "tests")
    env = project.environ(COLUMNS="200")
    child = pexpect.spawn(
        argv[0], argv[1:], cwd=str(project.root), env=env, encoding="utf-8", timeout=30, echo=False
    )
    child.expect_exact("Try it now, for at most 60 s? [Y/n] ")
    child.send(answer)
    child.expect(pexpect.EOF)
    child.close()
    assert (child.exitstatus, "here: fails" in (child.before or "")) == (0, is_tried)


def test_the_configuration_of_a_linter_is_protected(project: Project):
    lay_out(project.root, {"pyproject.toml": "[tool.ruff]\n", "ruff.toml": ""})
    project.git("init", "-q")
    assert project.ll("init", "--template", "lint", "--no-try").returncode == 0
    assert "  protect: [ruff.toml] " in project.file(".loops/fix-lint.yaml")


def test_where_the_clean_copy_is_not_proved_it_is_left_out_and_said_why(project: Project):
    lay_out(project.root, {**LEAP, "tests/test_leap.py": "import unittest\n"})
    project.git("init", "-q")
    done = project.ll("init", "--template", "tests")
    assert done.stderr.splitlines()[2:] == [
        "  here: cannot be judged",
        "warning: the tests cannot run yet: unittest found no tests (`clean: true` is left out)",
        "warning: no agent CLI found on PATH; install `claude`, or set `host` to the agent CLI you use",
        "next: make the tests run, then ll-loop run fix-tests --dry-run",
    ]
    loop = load(project.file(".loops/fix-tests.yaml"), "fix-tests.yaml", "fix-tests").loop
    assert loop is not None
    assert loop.evidence == Evidence(True, ("tests/",))


@pytest.mark.parametrize(
    ("files", "line"),
    [
        pytest.param(
            ("tests/test_a.py", "conftest.py"),
            "  protect: [tests/, conftest.py]",
            id="a place of their own",
        ),
        pytest.param(
            ("go.mod", "a.go", "a_test.go", "b/b_test.go", "vendor/x.test.js"),
            '  protect: ["*_test.go"]',
            id="beside the code",
        ),
        pytest.param(
            ("src/a.ts", "src/a.test.ts", "src/b.spec.ts"),
            '  protect: ["*.test.ts", "*.spec.ts"]',
            id="of two kinds",
        ),
        pytest.param(("lib.rs",), "", id="none to be seen"),
    ],
)
def test_tests_are_protected_where_they_lie(tmp_path, files, line):
    root = lay_out(tmp_path, dict.fromkeys(files, ""))
    written = Written(protected(str(root))).lines.partition("\n")[2]
    assert written.partition("   #")[0] == line


SRC_LAYOUT = {
    "pyproject.toml": "",
    "src/leap/__init__.py": LEAP["leap.py"],
    "tests/test_leap.py": LEAP["tests/test_leap.py"],
    ".gitignore": ".venv\n__pycache__\n",
}
COPY = ".venv/lib/python3.11/site-packages"


def with_installed_copy(project: Project, text: str, more: str = "") -> None:
    """A project that was installed into its environment, by copying it."""
    lay_out(project.root, {**SRC_LAYOUT, f"{COPY}/leap/__init__.py": text})
    (project.root / "src/leap/__init__.py").write_text(SRC_LAYOUT["src/leap/__init__.py"] + more)
    python = project.root / ".venv/bin/python3"
    python.parent.mkdir()
    copies = project.root / COPY
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{copies}" exec {sys.executable} -B "$@"\n'
    )
    python.chmod(0o755)
    project.git("init", "-q")
    project.git("add", "-A")


def test_tests_that_import_an_installed_copy_are_made_to_see_the_projects_files(project: Project):
    right = "def is_leap(year):\n    return year % 4 == 0 and year % 100 != 0\n"
    with_installed_copy(project, right)
    done = project.ll("init", "--template", "tests")
    command = "PYTHONPATH=src .venv/bin/python3 -m unittest discover -s tests"
    assert done.stderr.splitlines()[1:4] == [
        f"`{COPY}/leap` is a copy of this project: with PYTHONPATH=src the tests use yours",
        f"Trying `{command}` here and in a clean copy (Ctrl-C skips this)",
        "  here: fails",
    ]
    assert command in project.file(".loops/fix-tests.yaml")
    assert project.ll("check", "fix-tests").returncode == 1


def test_where_that_is_not_possible_it_says_how_to_install_the_project(project: Project):
    with_installed_copy(project, LEAP["leap.py"], "import not_built_yet\n")
    done = project.ll("init", "--template", "tests")
    assert done.stderr.splitlines()[-3] == (
        f"warning: tests import `leap` from {COPY}/leap, not from src, so they would not see a fix; "
        "`.venv/bin/python3 -m pip install -e .` changes that"
    )


def test_the_schema_beside_it_is_the_one_its_first_line_names(project: Project):
    import jsonschema
    import yaml

    for name in TEMPLATES:
        project.ll("init", "--template", name)
    schema = json.loads(project.file(".loops/.schema.json"))
    paths = sorted((project.root / ".loops").glob("*.yaml"))
    assert len(paths) == len(TEMPLATES)
    for path in paths:
        jsonschema.validate(yaml.safe_load(path.read_text()), schema)


def test_it_works_in_the_project_of_the_directory_it_is_run_in(project: Project):
    below = project.root / "a" / "b"
    below.mkdir(parents=True)
    done = project.ll("init", "--template", "empty", cwd=below)
    assert (done.returncode, done.stdout.splitlines()[0]) == (
        0,
        f"wrote {project.root}/.loops/my-loop.yaml{VALID}",
    )


@pytest.mark.parametrize(
    ("file", "text"),
    [
        pytest.param("my-loop.yaml", "theirs", id="the same file"),
        pytest.param("my-loop.yml", "theirs", id="the other suffix"),
        pytest.param(
            "other.yaml",
            "name: my-loop\ninitial: a\nstates: {a: {terminal: true}}\n",
            id="another file with that name in it",
        ),
    ],
)
def test_nothing_is_written_over(project: Project, file: str, text: str):
    lay_out(project.root, {f".loops/{file}": text})
    done = project.ll("init", "--yes", "-q")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: the loop `my-loop` already exists: `.loops/{file}`\n"
        "   = help: files are never overwritten; rename the file, or write a different loop: `--template NAME`"
        " with one of tests, lint, types, relay, deploy, empty\n"
    )
    assert {path.name for path in (project.root / ".loops").iterdir()} == {file}
    assert project.file(f".loops/{file}") == text


def test_what_lies_beside_loops_stays_as_it_is(project: Project):
    lay_out(project.root, {".loops/.gitignore": "mine\n", ".loops/.schema.json": "{}"})
    done = project.ll("init", "--template", "empty", "-q")
    assert done.stdout.splitlines() == [
        "wrote .loops/my-loop.yaml   (valid; its first line is for your editor)",
        "wrote .loops/tests/my-loop.test.yaml   (its tests, for `ll-loop test`)",
    ]
    assert (project.file(".loops/.gitignore"), project.file(".loops/.schema.json")) == (
        "mine\n",
        "{}",
    )


# ── asking ─────────────────────────────────────────────────────────────────────────────────────


def test_without_a_terminal_it_names_the_flags(project: Project):
    done = project.ll("init", "-q")
    assert done.returncode == 2
    assert done.stderr == (
        "error: cannot ask which loop to write, because there is no terminal\n"
        "   = help: `--yes` writes `empty`; `--template NAME` writes one of: empty, relay, deploy\n"
    )
    assert list((project.root / ".loops").iterdir()) == []


def test_an_unknown_template_gets_the_names_that_the_help_lists(project: Project):
    done = project.ll("init", "--template", "nope")
    names = "tests, lint, types, relay, deploy, empty"
    assert done.returncode == 2
    # Whether argparse quotes the names depends on the version of Python.
    assert done.stderr.replace("'", "") == (
        f"error: argument --template: invalid choice: nope (choose from {names})\n"
        "   = help: see `ll-loop init --help`\n"
    )
    told = " ".join(project.ll("init", "--help").stdout.split())
    assert f"which loop to write: {names} -y" in told


@pytest.mark.parametrize("name", ["deploy", "safe-deploy"])
def test_a_template_may_be_called_by_the_name_of_its_loop(project: Project, name: str):
    assert project.ll("init", "--template", name).returncode == 0
    assert (project.root / ".loops/safe-deploy.yaml").exists()


def asked(project: Project, *answers: str, **environ: str) -> tuple[int | None, str]:
    """What is said to somebody at a terminal who answers so."""
    child = pexpect.spawn(
        sys.executable,
        ["-m", "little_loops", "init"],
        cwd=str(project.root),
        env=project.environ(**environ),
        dimensions=(24, 80),
        encoding="utf-8",
        timeout=30,
        echo=False,
    )
    said = ""
    try:
        for answer in answers:
            child.expect_exact("[1] ")
            said += child.before or ""
            child.send(answer)
        child.expect(pexpect.EOF)
        said += child.before or ""
    finally:
        child.close(force=True)
    return child.exitstatus, said.replace("\r\n", "\n")


@pytest.fixture
def only(project: Project) -> Callable[..., str]:
    """A PATH that has these programs and no others; `python3` is the one that runs the tests."""

    def path(*names: str) -> str:
        place = project.home / "bin"
        place.mkdir()
        for name in names:
            program = sys.executable if name == "python3" else "true"
            (place / name).write_text(f'#!/bin/sh\nexec {program} "$@"\n')
            (place / name).chmod(0o755)
        return str(place)

    return path


def test_at_a_terminal_it_asks(project: Project, only: Callable[..., str]):
    lay_out(project.root, {"pyproject.toml": "[tool.ruff]\n[tool.mypy]\n[tool.pytest]\n"})
    project.loop("fix-lint", "name: fix-lint\ninitial: a\nstates: {a: {terminal: true}}\n")
    code, said = asked(project, "7\n", "2\n", PATH=only("python3", "claude"))
    assert code == 0
    assert said == dedent("""\
        Found: python (pyproject.toml), pytest, mypy · claude
        Not installed: ruff
        Which loop first?
          1) fix failing tests             python3 -m pytest -q
          2) type errors to zero           python3 -m mypy .
          3) lint until clean              already exists
          4) hand a plan to fresh agents
          5) deploy, roll back on failure
          6) empty, to edit
        enter a number from 1 to 6
        wrote .loops/fix-types.yaml   (valid; its first line is for your editor)
        wrote .loops/.schema.json     (for your editor; commit it)
        wrote .loops/.gitignore       (keeps runs out of git)
        wrote .loops/tests/fix-types.test.yaml   (its tests, for `ll-loop test`)
        next: ll-loop run fix-types --dry-run
        """)


def test_a_tool_that_is_missing_is_named_before_the_first_run(
    project: Project, only: Callable[..., str]
):
    lay_out(project.root, {"Cargo.toml": "[package]\n"})
    done = project.ll("init", "--yes", env=project.environ(PATH=only("codex")))
    assert (done.returncode, done.stderr) == (
        0,
        dedent("""\
            Found: rust (Cargo.toml) · codex
            Not installed: cargo, cargo-clippy
            warning: cargo is not installed; install it before you run the loop
            next: ll-loop run fix-tests --dry-run
            """),
    )


def test_an_empty_answer_takes_the_first(project: Project):
    code, _ = asked(project, "\n")
    assert (code, (project.root / ".loops" / "my-loop.yaml").exists()) == (0, True)


def test_who_does_not_answer_gets_nothing(project: Project):
    code, said = asked(project, "\x04")
    assert (code, said.splitlines()[-1]) == (2, "error: no loop was chosen; nothing was written")
    assert list((project.root / ".loops").iterdir()) == []


def test_it_says_what_to_do_before_the_first_run(project, capsys, monkeypatch):
    monkeypatch.chdir(project.root)
    monkeypatch.setenv("HOME", str(project.home))
    monkeypatch.setenv("PATH", os.fspath(project.home))
    said = []
    for name in ("relay", "lint", "deploy"):
        assert main(["--template", name]) == 0
        said += capsys.readouterr().err.splitlines()[1:]
    assert said == [
        "warning: no agent CLI found on PATH; install `claude`, or set `host` to the agent CLI you use",
        "next: write plan.md, then ll-loop run implement-plan --dry-run",
        "warning: no agent CLI found on PATH; install `claude`, or set `host` to the agent CLI you use",
        "next: put your command into .loops/fix-lint.yaml, then ll-loop run fix-lint --dry-run",
        "next: ll-loop run safe-deploy --dry-run",
    ]


@pytest.mark.parametrize(
    ("word", "loop"),
    [
        ("tests-green", "fix-tests"),
        ("lint-clean", "fix-lint"),
        ("types-to-zero", "fix-types"),
        ("safe-deploy", "safe-deploy"),
        ("implement-plan", "implement-plan"),
    ],
)
def test_a_template_has_the_names_people_have_for_it(project: Project, word: str, loop: str):
    assert project.ll("init", "--template", word).returncode == 0
    assert (project.root / ".loops" / f"{loop}.yaml").exists()
