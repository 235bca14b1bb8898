"""Editable installs of the project in environments outside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from little_loops.trees.editables import editable_paths

FINDER = """\
MAPPING: dict[str, str] = {'one': '@/src/one', "two": "@/lib/two.py", 'x': '/elsewhere/x'}
NAMESPACES = {}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for folder in ("src/one", "lib", "home"):
        (tmp_path / "project" / folder).mkdir(parents=True)
    return tmp_path / "project"


def installed(root: Path, **files: str) -> dict[str, str]:
    """An environment with these files in its packages; return the variables that select it."""
    (root / "bin").mkdir(parents=True)
    (root / "bin/python3").write_text("")
    (root / "bin/python3").chmod(0o755)
    site = root / "lib/python3.11/site-packages"
    site.mkdir(parents=True)
    for name, text in files.items():
        (site / name.replace("_pth", ".pth").replace("_py", ".py")).write_text(text)
    return {"PATH": str(root / "bin")}


@pytest.mark.parametrize(
    ("files", "paths"),
    [
        pytest.param({"one_pth": "@/src\n"}, ("src",), id="a path"),
        pytest.param({"one_pth": "@\n\n# x\n@/lib\n"}, ("", "lib"), id="two paths"),
        pytest.param({"__editable___one_finder_py": FINDER}, ("src", "lib"), id="a finder"),
        pytest.param({"one_pth": "@/gone\n@2/src\n/\nimport one\nsrc\n"}, (), id="nothing here"),
        pytest.param({"one_py": "'@/src/one'"}, (), id="no editable install"),
        pytest.param({}, (), id="no packages"),
    ],
)
def test_what_an_environment_outside_imports(files, paths, project, tmp_path):
    texts = {name: text.replace("@", str(project)) for name, text in files.items()}
    environ = installed(tmp_path / "environment [1]", **texts)
    expected = tuple(str(project / path) for path in paths)
    assert editable_paths(str(project), environ) == expected


def test_the_users_own_packages_count(project, tmp_path):
    installed(tmp_path / "home/.local", one_pth=f"{project}/src\n")
    environ = {"PATH": "", "HOME": str(tmp_path / "home")}
    assert editable_paths(str(project), environ) == (str(project / "src"),)


def test_an_environment_in_the_project_does_not_count(project):
    environ = installed(project / ".venv", one_pth=f"{project}/src\n")
    assert editable_paths(str(project), environ) == ()


def test_what_cannot_be_read_is_passed_over(project, tmp_path):
    environ = installed(tmp_path / "environment")
    site = tmp_path / "environment/lib/python3.11/site-packages"
    (site / "a.pth").mkdir()
    assert editable_paths(str(project), environ) == ()
    (site / "a.pth").rmdir()
    site.rmdir()
    site.write_text("")
    assert editable_paths(str(project), environ) == ()
