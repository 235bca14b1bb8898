"""Detect the checks of a Python project: runner, tests, linter, type checker."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from little_loops.cli.setup.detect import (
    Checks,
    DetectedCheck,
    Language,
    Which,
    count,
    names_in,
    need,
    read,
)
from little_loops.light_typing import Any
from little_loops.records import NamedTuple

MARKS = ("pyproject.toml", "setup.cfg", "setup.py", "requirements.txt", "Pipfile")
RUNNERS = {
    "uv.lock": "uv run",
    "poetry.lock": "poetry run",
    "pdm.lock": "pdm run",
    "Pipfile.lock": "pipenv run",
}
ENVIRONMENTS = (".venv", "venv")
CONFIGS = {
    "pytest": (
        "pytest.ini",
        ".pytest.ini",
        "pytest.toml",
        ".pytest.toml",
        "conftest.py",
        "tests/conftest.py",
    ),
    "ruff": ("ruff.toml", ".ruff.toml"),
    "mypy": ("mypy.ini", ".mypy.ini"),
}
MOST_TESTS = 50


def python(root: str, which: Which) -> Language | None:
    """Return the project's Python checks; None if it is not a Python project."""
    seen_by = next((mark for mark in MARKS if os.path.exists(os.path.join(root, mark))), None)
    if seen_by is None:
        scripts = [name for name in names_in(root) if name.endswith(".py")]
        if not scripts:
            return None
        seen_by = scripts[0]
    project = _toml(read(root, "pyproject.toml"))
    named = set(_named(root, project))
    place = PythonProject(root, _runner(root, which))
    checks = Checks(
        tests=_tests(place, "pytest" in named),
        lint=_ruff(place) if "ruff" in named else None,
        types=_mypy(place, project) if "mypy" in named else None,
    )
    return Language("python", seen_by, checks)


def _toml(text: str) -> dict[str, Any]:
    """Parse TOML; return {} if it is invalid."""
    import tomllib  # only for projects that have it

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return {}


def _named(root: str, project: dict[str, Any]) -> Iterator[str]:
    """Yield the tools that the project configures or depends on."""
    yield from (
        tool
        for tool, files in CONFIGS.items()
        if any(os.path.exists(os.path.join(root, file)) for file in files)
    )
    tools = project.get("tool")
    yield from tools if isinstance(tools, dict) else ()
    for requirement in _requirements(project, listed=False):
        yield _name(requirement)
    for text in _texts_with_requirements(root):
        # Sections of a setup.cfg or tox.ini, and lines that start with a requirement.
        yield from re.findall(r"^\s*\[?(?:tool:)?(pytest|ruff|mypy)\b", text, re.MULTILINE)


def _requirements(part: Any, *, listed: bool) -> Iterator[str]:
    """Yield every requirement in a part of a pyproject.toml, in the notation of any tool.

    `listed` says that the part is below a key for dependencies.
    """
    if isinstance(part, dict):
        for key, value in part.items():
            if listed:
                yield key
            yield from _requirements(value, listed=listed or "dependenc" in key)
    elif isinstance(part, list) and listed:
        yield from (item for item in part if isinstance(item, str))


def _name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement.strip())
    return found[0].lower() if found else ""


def _texts_with_requirements(root: str) -> Iterator[str]:
    """Yield the contents of `setup.cfg`, `tox.ini`, `Pipfile` and requirements files, which may name
    the project's tools. `pyproject.toml` is parsed instead."""
    for name in names_in(root):
        if name in ("setup.cfg", "tox.ini", "Pipfile") or re.fullmatch(
            r".*requirements.*\.txt", name
        ):
            yield read(root, name)
    for name in names_in(root, "requirements"):
        yield read(root, "requirements", name)


# ── the commands ───────────────────────────────────────────────────────────────────────────────


class PythonProject(NamedTuple):
    """A project, and the command that runs its programs (`uv run`), if it has one."""

    root: str
    runner: str | None

    def program(self, name: str) -> str:
        """Return how to call a program of the project's environment from its directory."""
        if self.runner is not None:
            return f"{self.runner} {name}"
        for environment in ENVIRONMENTS:
            if os.path.exists(os.path.join(self.root, environment, "bin", name)):
                return f"{environment}/bin/{name}"
        return name

    @property
    def python(self) -> str:
        return self.program("python" if self.runner else "python3")

    def lacks(self, module: str) -> str:
        """Return why a module cannot be imported."""
        if self.runner is not None:
            return f"{self.runner} cannot import {module}, see the log"
        return f"{module} is not installed for {self.python}"

    def needs(self, module: str) -> dict[str, Any]:
        """Return the program and module that a check needs.

        A runner installs missing modules itself, so they are not checked.
        """
        if self.runner is not None:
            return {"needs": self.runner.split()[0]}
        return {"needs": self.python, "module": module}


def _runner(root: str, which: Which) -> str | None:
    """Return the runner for the project's lock file, if it is installed; else None."""
    for lock, runner in RUNNERS.items():
        if os.path.exists(os.path.join(root, lock)) and which(runner.split()[0]) is not None:
            return runner
    return None


def _tests(place: PythonProject, has_pytest: bool) -> DetectedCheck | None:
    """Return the check for tests, with pytest or unittest; None if there are none."""
    python = place.python
    files = list(_test_files(place.root))
    if has_pytest or any(_is_for_pytest(text) for _, text in files):
        command = f"{python} -m pytest -q"
        missing = need(f"{python} -c 'import pytest'", place.lacks("pytest"))
        # 2: a test file cannot be imported; 5: there are no tests.
        script = f"{missing}\n{command}"
        return DetectedCheck("pytest", command, script, (1, 2, 5), **place.needs("pytest"))
    if not files:
        return None
    below = "tests" if all(folder for folder, _ in files) else ""
    packaged = not below or os.path.exists(os.path.join(place.root, below, "__init__.py"))
    command = f"{python} -m unittest" + ("" if packaged else f" discover -s {below}")
    script = _unittest(python, command, "" if packaged else below)
    return DetectedCheck("unittest", command, script, **place.needs(""))


def _test_files(root: str) -> Iterator[tuple[str, str]]:
    """Yield the directory (empty or `tests`) and text of each test file, at most 50 for each."""
    for folder in ("", "tests"):
        names = [name for name in names_in(root, folder) if re.fullmatch(r"test.*\.py", name)]
        for name in names[:MOST_TESTS]:
            yield folder, read(root, folder, name)


def _is_for_pytest(text: str) -> bool:
    return bool(re.search(r"^(import pytest|from pytest|(async )?def test)", text, re.MULTILINE))


def _unittest(python: str, command: str, below: str) -> str:
    """Return the script that runs unittest, and fails if there are no tests."""
    # Before Python 3.12, unittest succeeds without any tests.
    count = f'unittest.TestLoader().discover("{below or "."}").countTestCases()'
    probe = f"{python} -c 'import sys, unittest; sys.exit({count} == 0)'"
    return f"{need(probe, 'unittest found no tests')}\n{command}"


def _ruff(place: PythonProject) -> DetectedCheck:
    """Return the check that fixes what ruff can fix, and fails if something is left."""
    ruff = place.program("ruff")
    command = f"{ruff} check --fix ."
    missing = need(f"{ruff} --version > /dev/null", "ruff is not installed")
    return DetectedCheck("ruff", command, f"{missing}\n{command}", needs=ruff.split()[0])


def _mypy(place: PythonProject, project: dict[str, Any]) -> DetectedCheck:
    """Return the check that counts type errors with mypy."""
    python = place.python
    command = f"{python} -m mypy{_target(place.root, project)}"
    missing = need(f"{python} -c 'import mypy'", place.lacks("mypy"))
    script = count(command, "mypy", ": error:", "1")
    return DetectedCheck(
        "mypy", command, f"{missing}\n{script}", counts=True, **place.needs("mypy")
    )


def _target(root: str, project: dict[str, Any]) -> str:
    """Return what mypy should check, after a space; empty if its settings say so."""
    tools = project.get("tool")
    own = tools.get("mypy") if isinstance(tools, dict) else None
    if isinstance(own, dict) and own.keys() & {"files", "packages", "modules"}:
        return ""
    for name in (*CONFIGS["mypy"], "setup.cfg"):
        if re.search(r"^(files|packages|modules)\s*=", read(root, name), re.MULTILINE):
            return ""
    return " src" if os.path.isdir(os.path.join(root, "src")) else " ."
