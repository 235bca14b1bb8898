"""Whether tests in Python see the project's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from little_loops.cli.setup.detect import DetectedCheck
from little_loops.cli.setup.python_sources import ProjectTests, with_sources_on_path
from tests.stand_ins import lay_out

CHECK = DetectedCheck(
    "pytest", "python3 -m pytest -q", "probe\npython3 -m pytest -q", needs="python3"
)
WITH_PATH = CHECK._replace(
    command="PYTHONPATH=src python3 -m pytest -q",
    script="probe\nPYTHONPATH=src python3 -m pytest -q",
)
SRC = {"src/leap/__init__.py": "", "src/my-data/__init__.py": "", "src/leap.egg-info/PKG-INFO": ""}
COPY = {"venv/lib/python3.12/site-packages/leap/__init__.py": ""}
COPIED = "venv/lib/python3.12/site-packages/leap"
BLIND = (
    f"tests import `leap` from {COPIED}, not from src, so they would not see a fix; "
    "`venv/bin/python3 -m pip install -e .` changes that"
)


def yes(root: str, python: str, package: str) -> bool:
    return package == "leap"


def no(root: str, python: str, package: str) -> bool:
    return False


@pytest.mark.parametrize(
    ("files", "check", "can_import", "tests"),
    [
        pytest.param({"leap/__init__.py": ""}, CHECK, yes, ProjectTests(CHECK), id="no src"),
        pytest.param(SRC, CHECK, yes, ProjectTests(WITH_PATH), id="src"),
        pytest.param(
            SRC | COPY, CHECK, yes, ProjectTests(WITH_PATH, COPIED), id="src and a copy of it"
        ),
        pytest.param(SRC, CHECK, no, ProjectTests(CHECK), id="cannot be imported"),
        pytest.param(
            SRC | COPY, CHECK, no, ProjectTests(CHECK, COPIED, BLIND), id="only the copy works"
        ),
        pytest.param(
            SRC | {"pytest.ini": "[pytest]\npythonpath = src\n"},
            *(CHECK, yes, ProjectTests(CHECK)),
            id="pytest is told where",
        ),
        pytest.param(
            SRC | {"tests/conftest.py": "import sys\nsys.path.insert(0, 'src')\n"},
            *(CHECK, yes, ProjectTests(CHECK)),
            id="the tests say it themselves",
        ),
        pytest.param(
            SRC,
            *(CHECK._replace(needs="uv"), yes, ProjectTests(CHECK._replace(needs="uv"))),
            id="a runner sees to it",
        ),
        pytest.param(
            SRC,
            CHECK._replace(is_installed=False),
            *(yes, ProjectTests(CHECK._replace(is_installed=False))),
            id="not installed",
        ),
        pytest.param(
            SRC,
            CHECK._replace(tool="mypy"),
            yes,
            ProjectTests(CHECK._replace(tool="mypy")),
            id="no tests",
        ),
    ],
)
def test_what_the_tests_see(tmp_path: Path, files, check, can_import, tests):
    root = lay_out(tmp_path, files)
    assert with_sources_on_path(check, str(root), {}, can_import) == tests


def test_the_environment_that_is_active_counts(tmp_path: Path):
    root = lay_out(tmp_path / "project", SRC)
    lay_out(tmp_path, COPY)
    environ = {"VIRTUAL_ENV": str(tmp_path / "venv")}
    assert with_sources_on_path(CHECK, str(root), environ, no).installed == f"../{COPIED}"
