"""Editable installs of the project in environments outside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from little_loops.system.user_state import key_of
from little_loops.trees.python_paths import StandIn, editable_paths, point_back

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
        pytest.param(
            {"_editable_impl_one_py": "F.map_module('one', '@/src/one/__init__.py')"},
            ("src",),
            id="a module",
        ),
        pytest.param(
            {"__editable___o_py": "M = {'src.one': '@/src/one'}"}, ("",), id="in a namespace"
        ),
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


# ── worktrees ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def place(project: Path, tmp_path: Path) -> Path:
    """The project in a worktree, without `lib`."""
    made = tmp_path / "cache/worktrees" / key_of(str(project)) / "one"
    (made / "src/one").mkdir(parents=True)
    return made


def test_variables_name_what_a_worktree_has(project, place):
    (place / ".venv/bin").mkdir(parents=True)
    before = {"PATH": f"{project}/.venv/bin:{project}/own:/bin:bin", "PYTHONPATH": f"{project}/src", "X": f"{project}/src"}  # fmt: skip
    assert StandIn.of(str(project), str(place)).environment(before) == {
        "PATH": f"{place}/.venv/bin:{project}/own:/bin:bin",
        "PYTHONPATH": f"{place}/src",
        "X": f"{project}/src",
    }


@pytest.mark.parametrize("where", ["inside", "outside", "in another worktree"])
def test_python_imports_the_worktree(where, project, place, tmp_path):
    root = project / ".venv" if where == "inside" else tmp_path / "environment"
    named = place.parent / "two" if where == "in another worktree" else project
    (named / "src").mkdir(parents=True, exist_ok=True)
    environ = {**installed(root, one_pth=f"{named}/src\n"), "PYTHONPATH": "/mine"}
    (root / "pyvenv.cfg").write_text("")
    stand_in = StandIn.of(str(project), str(place))
    found = stand_in.environment(environ)
    assert found == {**environ, "PYTHONPATH": f"/mine:{place}/src"}
    assert stand_in.leads_back(found) is None


def test_a_project_below_the_top_of_its_repository(project, tmp_path):
    home = tmp_path / "cache/worktrees" / key_of(str(project / "src"))
    environ = installed(tmp_path / "environment", one_pth=f"{project}/src/one\n{project}/lib\n")
    found = StandIn.of(str(project / "src"), str(home / "one/src")).environment(environ)
    assert found["PYTHONPATH"] == f"{home}/one/src/one:{home}/one/lib"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("one_pth", "@/lib\n", id="not in the worktree"),
        pytest.param("one_pth", "import x; x.f('@/src')\n", id="code"),
        pytest.param("__editable___one_py", "M = {'other': '@/src/one'}", id="by another name"),
        pytest.param("_one_editable_py", "sys.meta_path.insert(0, f({'one': '@/src/one'}))", id="a finder that comes first"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("where", ["inside", "outside"])
def test_what_cannot_be_redirected_is_named(name, text, where, project, place, tmp_path):
    root = project / ".venv" if where == "inside" else tmp_path / "environment"
    environ = installed(root, **{name: text.replace("@", str(project))})
    (root / "pyvenv.cfg").write_text("")
    stand_in = StandIn.of(str(project), str(place))
    file = (
        root / "lib/python3.11/site-packages" / name.replace("_pth", ".pth").replace("_py", ".py")
    )
    found = stand_in.leads_back(stand_in.environment(environ))
    assert found == f"`{file}` makes Python import the project's own files"
    (root / "lib/python3.11/site-packages/own").mkdir()
    file.write_text(f"{root}/lib/python3.11/site-packages/own\n")
    assert stand_in.leads_back(stand_in.environment(environ)) is None


def test_an_environment_that_a_link_in_the_project_leads_to(project, tmp_path):
    installed(tmp_path / "env", one_pth=f"{project}/src\n")
    (tmp_path / "env/pyvenv.cfg").write_text("")
    (project / ".venv").symlink_to(tmp_path / "env")
    assert editable_paths(str(project), {"PATH": ""}) == (f"{project}/src",)


def test_a_finder_behind_a_link_in_the_project_leads_back(project, tmp_path):
    text = "sys.meta_path.insert(0, F)\n" + FINDER.replace("@", str(project))
    installed(tmp_path / "env", __editable___finder_py=text)
    (tmp_path / "env/pyvenv.cfg").write_text("")
    copy = tmp_path / "copy"
    for root in (project, copy):
        root.mkdir(exist_ok=True)
        (root / ".venv").symlink_to(tmp_path / "env")
    why = StandIn(str(project), str(copy)).leads_back({"PATH": ""})
    assert why is not None
    assert why.endswith("makes Python import the project's own files")


def test_an_environment_in_which_the_copy_was_installed_names_the_project_again(project, tmp_path):
    copy = tmp_path / "copy"
    environ = installed(tmp_path / "env", one_pth=f"{copy}/src\n", two_pth=f"{copy}-2/src\n")
    site = tmp_path / "env/lib/python3.11/site-packages"
    (site / "one.dist-info").mkdir()
    (site / "one.dist-info/direct_url.json").write_text(f'{{"url": "file://{copy}"}}')
    (site / "one.pth").chmod(0o640)
    changed = point_back(environ, str(copy), str(project))
    assert changed == (str(site / "one.pth"), str(site / "one.dist-info/direct_url.json"))
    assert (site / "one.pth").read_text() == f"{project}/src\n"
    assert (site / "one.pth").stat().st_mode & 0o777 == 0o640
    assert (site / "two.pth").read_text() == f"{copy}-2/src\n"
    assert (site / "one.dist-info/direct_url.json").read_text() == f'{{"url": "file://{project}"}}'
    assert point_back(environ, str(copy), str(project)) == ()


def test_an_environment_in_the_copy_itself_keeps_its_paths(project, tmp_path):
    copy = tmp_path / "copy"
    environ = installed(copy / ".venv", one_pth=f"{copy}/src\n")
    assert point_back(environ, str(copy), str(project)) == ()
