"""The composite action and the hook: their words are right, and their scripts do what they say."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.project import Project
from tools.pages import ROOT

ACTION = yaml.safe_load(Path(ROOT, "action.yml").read_text())
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
HOOKS = yaml.safe_load(Path(ROOT, ".pre-commit-hooks.yaml").read_text())

GOOD = """\
name: good
initial: a
states:
  a: {action: "true", next: done}
  done: {terminal: true}
"""


def programs(project: Project) -> Path:
    """A directory with `ll-loop`, for PATH."""
    path = project.root.parent / "bin"
    path.mkdir(exist_ok=True)
    ll_loop = path / "ll-loop"
    ll_loop.write_text(f'#!/bin/sh\nexec {" ".join(project.argv())} "$@"\n')
    ll_loop.chmod(0o755)
    return path


def run(project: Project, step: str, **env: str) -> Any:
    path = programs(project)
    venv = project.root.parent / "little-loops" / "bin"
    venv.mkdir(parents=True, exist_ok=True)
    if not (venv / "python").exists():
        (venv / "python").symlink_to(sys.executable)
    own = {"RUNNER_TEMP": str(project.root.parent), "GITHUB_ACTION_PATH": str(ROOT)}
    environment = project.environ(**own, **env)
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", STEPS[step]["run"]],
        cwd=project.root,
        env={**environment, "PATH": f"{path}{os.pathsep}{environment['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_a_caller_gives_never_stands_in_a_script() -> None:
    assert [step for step in STEPS.values() if "${{" in step.get("run", "")] == []
    given = " ".join(str(step.get("env", "")) + str(step.get("if", "")) for step in STEPS.values())
    where = " ".join(str(step.get("working-directory", "")) for step in STEPS.values())
    used = set(re.findall(r"inputs\.([\w-]+)", given + where))
    assert used == set(ACTION["inputs"])


@pytest.mark.parametrize("name", [name for name, step in STEPS.items() if "run" in step])
def test_scripts_have_no_mistakes_of_grammar(name: str) -> None:
    subprocess.run(["bash", "-n"], input=STEPS[name]["run"], text=True, check=True)


def test_good_loops_pass_and_run(project: Project) -> None:
    project.loop("good", GOOD)
    assert run(project, "Act", STRICT="true").returncode == 0
    ran = run(project, "Act", LOOP="good", ARGUMENTS="--max-iterations 3 -q")
    assert ran.returncode == 0
    assert ran.stdout.splitlines()[-1].startswith("Loop completed: done (")
    assert run(project, "Act", LOOP="good", ARGUMENTS="").returncode == 0


def test_a_mistake_is_told_beside_its_line(project: Project) -> None:
    project.loop("bad", GOOD.replace("next: done", "next: dnoe"))
    told = run(project, "Act", STRICT="false")
    assert told.returncode == 2
    assert told.stdout.startswith("::error file=.loops/bad.yaml,line=4,")


def test_warnings_are_errors_where_that_is_wanted(project: Project) -> None:
    project.loop("odd", GOOD + "  stray: {terminal: true}\n")
    assert run(project, "Act", STRICT="false").returncode == 0
    assert run(project, "Act", STRICT="true").returncode == 2


@pytest.mark.parametrize(
    ("path", "is_loop"),
    [
        (".loops/fix.yaml", True),
        ("web/.loops/fix.yml", True),
        (".loops/.config.yaml", False),
        (".loops/.history/fix/x.yaml", False),
        ("loops/fix.yaml", False),
    ],
)
def test_the_hook_looks_at_loop_files(path: str, is_loop: bool) -> None:
    (hook,) = HOOKS
    assert (re.search(hook["files"], path) is not None) is is_loop
    assert hook["entry"].split() == ["ll-loop", "validate"]


def hooked(project: Project) -> Any:
    """Start the hook as pre-commit does: in the root of the repository, with the staged files that
    it asks for. The real pre-commit does this in `tests/live`."""
    (hook,) = HOOKS
    staged = project.git("diff", "--cached", "--name-only", "--diff-filter=ACMRTUXB").splitlines()
    wanted = [path for path in staged if re.search(hook["files"], path)]
    environment = project.environ()
    return wanted, subprocess.run(
        [*shlex.split(hook["entry"]), *wanted],
        cwd=project.root,
        env={**environment, "PATH": f"{programs(project)}{os.pathsep}{environment['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_hook_checks_the_loops_that_are_committed_and_no_others(project: Project) -> None:
    inner = project.root / "web" / ".loops"
    inner.mkdir(parents=True)
    project.git("init", "-q")
    project.loop("committed", GOOD)
    project.loop("not-added", GOOD.replace("next: done", "next: dnoe"))
    (inner / "fix.yml").write_text(GOOD)
    (project.root / "notes.yaml").write_text("not: [a loop\n")
    project.git("add", "notes.yaml", "web", ".loops/committed.yaml")
    wanted, passed = hooked(project)
    assert wanted == [".loops/committed.yaml", "web/.loops/fix.yml"]
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert passed.stdout.splitlines()[-1] == "checked 2 loops: no problems"

    (inner / "fix.yml").write_text(GOOD.replace("next: done", "next: dnoe"))
    project.git("add", "web")
    _, refused = hooked(project)
    assert refused.returncode == 2
    assert " --> web/.loops/fix.yml:4:" in refused.stdout


def test_a_run_is_kept_for_the_next_job_of_the_same_pull_request() -> None:
    restored, saved = STEPS["Restore the run"], STEPS["Save the run"]
    assert restored["with"]["key"] == saved["with"]["key"]
    assert restored["with"]["path"] == saved["with"]["path"]
    assert restored["with"]["key"].startswith(restored["with"]["restore-keys"])
    assert "pull_request.number" in restored["with"]["restore-keys"]
    assert restored["if"] == "inputs.mode == 'repair'"
    for step in (saved, STEPS["Upload the receipt and the report"]):
        assert step["if"] == "always() && inputs.mode == 'repair'"
