"""`ll-loop until` on large projects that we did not write, each with a defect in one of its files.

The agent searches the project and changes the file with the defect: once a stand-in, once the real
Claude Code with a model that only knows what to look for.  The projects come from package registries;
what cannot be fetched is skipped.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.live.agents import NotInstalled, Stage, package, results_in, wheel
from tests.live.fake_model import Call, Rule, Say
from tests.live.scenes import bash
from tests.project import Project

FIX = "Fix the code, not the tests."
MIN_FILES = 1000
DEADLINE_S = 600
GO_TOOLS = Path("/usr/share/gocode/src/golang.org/x/tools")
"""Debian's `golang-golang-x-tools-dev`."""
SEARCH_AND_FIX = """\
#!{python}
import pathlib
wrong, right = {wrong!r}, {right!r}
for path in pathlib.Path().rglob("*{suffix}"):
    text = path.read_bytes()
    if wrong in text:
        path.write_bytes(text.replace(wrong, right))
print({result!r})
"""
RESULT = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": "Fixed.",
    "total_cost_usd": 0.1,
}


class Large(NamedTuple):
    """A project whose `file` has `wrong` in the place of `right`, so that the check fails."""

    fetch: Callable[[Path], None]
    check: str
    file: str
    right: str
    wrong: str


def with_make(root: Path) -> None:
    unzip("django==4.2", root)
    test = "from django.utils.datastructures import OrderedSet as S; assert S([1]) and not S()"
    (root / "Makefile").write_text(f"test:\n\t@python3 -B -c '{test}'\n")


def with_pytest(root: Path) -> None:
    unzip("mpmath==1.3.0", root)
    unzip("sympy==1.12", root)


def with_npm(root: Path) -> None:
    with tarfile.open(package("lodash@4.17.21")) as packed:
        packed.extractall(root.parent, filter="data")
    (root.parent / "package").rename(root)
    package_json = json.loads((root / "package.json").read_text())
    test = """node -e 'require("assert").equal(require("./clamp")(-9, -5, 5), -5)'"""
    package_json["scripts"] = {"test": test}
    (root / "package.json").write_text(json.dumps(package_json))


def with_go(root: Path) -> None:
    if shutil.which("go") is None or not GO_TOOLS.is_dir():
        raise NotInstalled("go or golang-golang-x-tools-dev is missing")
    shutil.copytree(GO_TOOLS, root)
    # The package under test needs no other module, and none is fetched.
    (root / "go.mod").write_text("module golang.org/x/tools\n\ngo 1.18\n")


def unzip(requirement: str, root: Path) -> None:
    with zipfile.ZipFile(wheel(requirement)) as packed:
        packed.extractall(root)


PROJECTS = {
    "make": Large(
        with_make,
        "make -s test",
        "django/utils/datastructures.py",
        "return bool(self.dict)",
        "return len(self.dict) > 1",
    ),
    "pytest": Large(
        with_pytest,
        "python3 -B -m pytest -q -p no:cacheprovider sympy/ntheory/tests/test_digits.py",
        "sympy/ntheory/digits.py",
        "y.append(-b if n < 0 else b)",
        "y.append(-b if n > 0 else b)",
    ),
    "npm": Large(
        with_npm,
        "npm test --silent",
        "_baseClamp.js",
        "number = number >= lower ? number : lower;",
        "number = number >= lower ? lower : number;",
    ),
    "go": Large(
        with_go,
        "go test ./container/intsets/",
        "container/intsets/sparse.go",
        "return s.root.min(false)",
        "return s.root.min(true)",
    ),
}


def lay_out(project: Project, large: Large) -> str:
    """The text that the file had, and must have again."""
    shutil.rmtree(project.root)
    try:
        large.fetch(project.root)
    except NotInstalled as why:
        pytest.skip(str(why))
    file = project.root / large.file
    text = file.read_text()
    assert text.count(large.right) == 1
    file.write_text(text.replace(large.right, large.wrong))
    project.git("init", "-q")
    project.git("add", "-A")
    assert len(project.git("ls-files").splitlines()) >= MIN_FILES
    return text


def fix_with_one_command(project: Project, large: Large, text: str) -> None:
    """Run the command, and verify its receipt. The agent is on PATH, after this Python's programs."""
    own = project.environ()
    path = [os.path.dirname(sys.executable), str(project.home / "bin"), own["PATH"]]
    env = {**own, "PATH": os.pathsep.join([*path, os.environ["PATH"]]), "IS_SANDBOX": "1"}

    def ll(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            project.argv(*words),
            cwd=project.root,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )

    ran = ll("until", large.check, "--fix", FIX, "--allow-skip-permissions")

    assert ran.returncode == 0, ran.stderr + ran.stdout
    assert ran.stdout.splitlines()[0] == "at most 10 iterations, 2 h, $5"
    assert f"Files changed: {large.file} (+1 -1)" in ran.stdout.splitlines()
    assert (project.root / large.file).read_text() == text
    receipt = str(project.home / "receipt.json")
    assert ll("receipt", "-o", receipt).returncode == 0
    verified = ll("verify", receipt, "--rerun")
    assert (verified.returncode, verified.stdout.splitlines()[-1]) == (0, "verified")


@pytest.mark.soak
@pytest.mark.parametrize("tool", PROJECTS)
def test_one_command_fixes_one_file_of_a_thousand(tool: str, project: Project) -> None:
    large = PROJECTS[tool]
    text = lay_out(project, large)
    agent = project.home / "bin" / "claude"
    agent.parent.mkdir()
    agent.write_text(
        SEARCH_AND_FIX.format(
            python=sys.executable,
            wrong=large.wrong.encode(),
            right=large.right.encode(),
            suffix=Path(large.file).suffix,
            result=json.dumps(RESULT),
        )
    )
    agent.chmod(0o755)
    fix_with_one_command(project, large, text)


@pytest.mark.soak
@pytest.mark.parametrize("tool", PROJECTS)
def test_so_does_the_real_agent(tool: str, stage: Stage) -> None:
    large = PROJECTS[tool]
    text = lay_out(stage, large)
    path = str(stage.root / large.file)
    search = f"grep -rlF -e {shlex.quote(large.wrong)} ."
    edit = {"file_path": path, "old_string": large.wrong, "new_string": large.right}
    model = stage.play(
        Rule(
            FIX,
            bash(search),
            Call("Read", {"file_path": path}),
            Call("Edit", edit),
            Say("Fixed."),
        )
    )
    fix_with_one_command(stage, large, text)
    found = results_in(model.asked[1].body).split()
    assert large.file in [name.removeprefix("./") for name in found]
