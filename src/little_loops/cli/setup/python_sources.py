"""Find out whether a Python project's tests import the project's files or an installed copy.

Python finds a package below `src` only if it is installed, or if `PYTHONPATH` names `src`. If pip
has installed a copy, tests import that copy: they pass or fail whatever is changed in `src`.

Not here: which command runs the tests (`detect_python`), what is printed about it (`init`,
`doctor`).
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterator, Mapping

from little_loops.cli.setup.detect import DetectedCheck, names_in, read
from little_loops.cli.setup.detect_python import ENVIRONMENTS
from little_loops.fsm.schema import FSMLoop
from little_loops.records import NamedTuple

SOURCES = "src"
TOOLS = ("pytest", "unittest")
PATH = f"PYTHONPATH={SOURCES} "
PYTEST = ("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml")
CONFIGS = ("pyproject.toml", *PYTEST, "setup.cfg", "tox.ini")
_OWN_PATH = re.compile(r"^\s*(?:pythonpath\s*=|.*\bsys\.path\b)", re.MULTILINE)

CanImport = Callable[[str, str, str], bool]
"""Returns whether a project's Python can import a package from `src`."""


class ProjectTests(NamedTuple):
    """A check that runs tests, and a warning if it does not see the project's files."""

    check: DetectedCheck
    installed: str | None = None
    warning: str | None = None


def packages(root: str) -> list[str]:
    """Return the packages below `src`."""
    return [
        name
        for name in names_in(root, SOURCES)
        if name.isidentifier() and os.path.isfile(os.path.join(root, SOURCES, name, "__init__.py"))
    ]


def installed_copy(root: str, environ: Mapping[str, str]) -> str | None:
    """Return the path of a project package that is installed as a copy, relative to the project.

    None if there is none in its environments or in `VIRTUAL_ENV`.
    """
    for environment in _environments(root, environ):
        for package in packages(root):
            pattern = os.path.join("lib", "python*", "site-packages", package, "__init__.py")
            found = glob.glob(os.path.join(glob.escape(environment), pattern))
            if found:
                return os.path.relpath(os.path.dirname(found[0]), root)
    return None


def _environments(root: str, environ: Mapping[str, str]) -> Iterator[str]:
    yield from (os.path.join(root, name) for name in ENVIRONMENTS)
    if environ.get("VIRTUAL_ENV"):
        yield environ["VIRTUAL_ENV"]


def with_sources_on_path(
    check: DetectedCheck, root: str, environ: Mapping[str, str], can_import: CanImport
) -> ProjectTests:
    """Return the check with `PYTHONPATH=src` before it, if it runs tests and Python can import the
    packages from `src`.

    Otherwise it is unchanged, with a warning if the tests would import an installed copy; it is also
    unchanged if the project sets its own path.
    """
    names = packages(root)
    if check.tool not in TOOLS or not names or has_own_path(root):
        return ProjectTests(check)
    python, copy = check.needs, installed_copy(root, environ)
    # A runner such as `uv run` installs the project in editable form.
    if not os.path.basename(python).startswith("python") or not check.is_installed:
        return ProjectTests(check)
    if all(can_import(root, python, name) for name in names):
        command = PATH + check.command
        script = check.script.replace(check.command, command)
        return ProjectTests(check._replace(command=command, script=script), copy)
    if copy is None:
        return ProjectTests(check)
    why = f"{imports_copy(copy)}, so they would not see a fix; `{editable(copy)}` changes that"
    return ProjectTests(check, copy, why)


def copy_tested_by(loop: FSMLoop, root: str, environ: Mapping[str, str]) -> str | None:
    """Return the installed copy that the loop's tests import instead of the project's files, else
    None."""
    actions = [state.action or "" for state in loop.states.values()]
    runs_tests = any(f"-m {tool}" in action for tool in TOOLS for action in actions)
    if not runs_tests or any(PATH in action for action in actions) or has_own_path(root):
        return None
    return installed_copy(root, environ)


def imports_copy(copy: str) -> str:
    """Return the message that tests import an installed copy."""
    return f"tests import `{os.path.basename(copy)}` from {copy}, not from {SOURCES}"


def editable(copy: str) -> str:
    """Return the command that makes an environment import the project's own files."""
    python = os.path.join(copy.partition(f"{os.sep}lib{os.sep}")[0], "bin", "python3")
    return f"{python} -m pip install -e ."


def has_own_path(root: str) -> bool:
    """Return whether the project itself configures where its tests find it."""
    texts = [read(root, name) for name in CONFIGS]
    texts += [read(root, folder, "conftest.py") for folder in ("", "tests", "test", "testing")]
    return any(_OWN_PATH.search(text) for text in texts)
