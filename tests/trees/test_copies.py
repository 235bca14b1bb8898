"""The clean copy has what is delivered, and nothing in it leads back into the project."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from little_loops.errors import StoreError
from little_loops.trees.copies import CleanCopy
from little_loops.trees.rules import Rules
from little_loops.trees.shadows import MAX_OPENED, NotClean
from little_loops.trees.store import TreeStore
from tests.project import until
from tests.trees.projects import Tree, fingerprint


class Laid:
    """A project, its store and its copy."""

    def __init__(self, tree: Tree, protect: tuple[str, ...] = ("tests/",)) -> None:
        self.tree = tree
        self.store: TreeStore = tree.store()
        self.rules: Rules = tree.rules(self.store, protect)
        self.start = self.store.snapshot(self.rules)
        self.copy = CleanCopy(self.store, self.rules, str(tree.state))

    def out(self, *, links: bool = True, existing_only: bool = False) -> Path:
        now = self.store.snapshot(self.rules, self.start.guard)
        with self.copy.held():
            return Path(
                self.copy.lay_out(
                    now.project, self.start.guard, links=links, existing_only=existing_only
                )
            )

    def is_settled(self) -> bool:
        """Whether what lies in the copy is old enough to be taken for unchanged."""
        before = self.copy._files._done
        self.out()
        return self.copy._files._done == before


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    made = Tree(tmp_path)
    made.write_all({"src/a.py": "a = 1\n", "tests/test_a.py": "assert 1\n", "run.sh": "true\n"})
    (made.root / "run.sh").chmod(0o750)
    made.write(".gitignore", "*.log\n.venv/\nnode_modules/\n.env\n__pycache__/\n")
    made.commit()
    made.write(".env", "SECRET=1\n", 0o600)
    made.write(".venv/lib/x.py", "x = 1\n")
    made.write("src/__pycache__/a.pyc", "compiled")
    return made


def files(root: Path) -> dict[str, tuple[str, str]]:
    found = fingerprint(root, skip=[".git"])
    return {path: one for path, one in found.items() if not one[0].startswith("d")}


def test_the_copy_is_the_snapshot_with_what_was_ignored_at_the_start(tree):
    laid = Laid(tree)
    tree.write("src/b.py", "b = 2\n")
    tree.write("src/made.log", "later, and ignored")
    tree.write(".env", "SECRET=changed\n", 0o600)
    tree.write("tests/test_a.py", "assert 0\n")
    tree.write("tests/test_new.py", "new")
    root = laid.out()
    found = files(root)
    assert sorted(found) == [
        ".env",
        ".gitignore",
        ".venv",
        "run.sh",
        "src/a.py",
        "src/b.py",
        "tests/test_a.py",
    ]
    assert (root / "tests/test_a.py").read_text() == "assert 1\n"
    assert (root / ".env").read_text() == "SECRET=1\n"
    assert found[".env"][0] == "-rw-------"
    assert found["run.sh"][0] == "-rwxr-x---"
    assert found[".venv"] == ("lrwxrwxrwx", str(tree.root / ".venv"))
    assert not root.is_relative_to(tree.root)


def test_new_protected_files_are_in_the_copy_where_they_are_allowed(tree):
    laid = Laid(tree)
    tree.write("tests/test_new.py", "new")
    tree.write("tests/test_a.py", "assert 0\n")
    root = laid.out(existing_only=True)
    assert (root / "tests/test_new.py").read_text() == "new"
    assert (root / "tests/test_a.py").read_text() == "assert 1\n"


def test_what_a_check_left_in_the_copy_is_gone_next_time_and_the_rest_is_not_written_again(tree):
    laid = Laid(tree)
    root = laid.out()
    first = files(root)
    kept = (root / "src/a.py").stat()
    (root / "left").mkdir()
    (root / "left/over.txt").write_text("left")
    (root / "tests/.git").mkdir()
    (root / "run.sh").write_text("false\n")
    (root / "src/__pycache__").mkdir()
    os.mkfifo(root / "pipe")
    (root / "tests/test_a.py").unlink()
    (root / "tests/test_a.py").mkdir()
    (root / ".git/hooks").mkdir()
    (root / ".git/hooks/pre-commit").write_text("false")
    assert laid.out() == root
    assert files(root) == first
    assert not (root / "left").exists()
    assert not (root / "tests/.git").exists()
    assert not (root / ".git/hooks").exists()
    assert (root / "src/a.py").stat() == kept


def test_what_a_check_has_built_is_there_for_the_next_check_of_the_same_files(tree):
    tree.write(".gitignore", "out/\n*.pyc\n__pycache__/\n")
    laid = Laid(tree)
    root = laid.out()
    built = {"out/leap": "built", "out/__pycache__/a.pyc": "cache", "src/b.pyc": "cache", "new": ""}
    for path, text in built.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    laid.out()
    assert [path for path in built if (root / path).exists()] == ["out/leap"]
    tree.write("src/a.py", "a = 2\n")
    laid.out()
    assert not (root / "out").exists()


def test_what_was_ignored_at_the_start_is_older_than_all_sources(tree):
    tree.write("src/a.log", "built from src/a.py")
    laid = Laid(tree)
    root = laid.out()

    def is_older() -> bool:
        built, source = (root / "src/a.log").stat(), (root / "src/a.py").stat()
        return built.st_mtime < source.st_mtime

    assert is_older()
    os.utime(root / "src/a.log")
    laid.out()
    assert is_older()
    (root / "src/a.log").write_text("built again")
    laid.out()
    assert is_older()
    assert (root / "src/a.log").read_text() == "built from src/a.py"


def test_what_differs_in_the_copy_is_what_is_delivered(tree):
    tree.write("src/a.log", "built from src/a.py")
    laid = Laid(tree)
    root = laid.out()
    assert laid.copy.differing() == frozenset()
    (root / "src/a.log").write_text("built again")
    (root / ".env").unlink()
    assert laid.copy.differing() == frozenset()
    (root / "src/a.py").write_text("a = 2\n")
    (root / "run.sh").unlink()
    assert laid.copy.differing() == {"src/a.py", "run.sh"}


def test_a_file_that_names_the_copy_where_it_named_the_project_does_not_differ(tree):
    tree.write("where.txt", f"{tree.root}/src\n")
    laid = Laid(tree)
    root = laid.out()
    (root / "where.txt").write_text(f"{root}/src\n")
    assert laid.copy.differing() == frozenset()
    (root / "where.txt").write_text(f"{root}/tests\n")
    assert laid.copy.differing() == {"where.txt"}


def test_a_protected_file_that_git_ignores_may_be_written_by_a_check(tree):
    tree.write("tests/test.log", "of the last run")
    laid = Laid(tree)
    root = laid.out()
    (root / "tests/test.log").write_text("of this run")
    assert laid.copy.differing() == frozenset()
    (root / "tests/test_a.py").write_text("assert 0\n")
    assert laid.copy.differing() == {"tests/test_a.py"}
    laid.out()
    assert (root / "tests/test.log").read_text() == "of the last run"


# ── a project inside a larger repository ───────────────────────────────────────────────────────


class Inside(Laid):
    """A project in `apps/one`, with a library and an environment beside it."""

    def __init__(self, place: Path, files: Mapping[str, str] = MappingProxyType({})) -> None:
        tree = Tree(place, below="apps/one")
        top = {
            "Makefile": "all:\n\t./lib/tool.sh\n",
            "lib/tool.sh": "#!/bin/sh\npwd\n",
            "apps/two/main.py": "two = 2\n",
            ".gitignore": ".venv/\n*.log\n",
            **files,
        }
        for path, text in top.items():
            tree.write(f"../../{path}", text, 0o755 if path.endswith(".sh") else 0o644)
        tree.write_all({"main.py": "one = 1\n", "tests/t.py": "assert 1\n"})
        tree.commit()
        tree.write("../../.venv/bin/tool", "tool")
        tree.write("../../made.log", "ignored")
        self.tree = tree
        self.store = tree.store()
        self.rules = self.store.rules("run", (".",), ("tests/",), around=True)
        self.start = self.store.snapshot(self.rules)
        self.copy = CleanCopy(self.store, self.rules, str(tree.state))


def test_the_copy_of_a_project_has_the_repository_around_it(tmp_path):
    laid = Inside(tmp_path)
    laid.tree.write("main.py", "one = 2\n")
    laid.tree.write("../two/main.py", "two = 3\n")  # not of this project: as it was at the start
    laid.tree.write("../three.py", "three")
    top = laid.out().parent.parent
    assert sorted(files(top)) == [
        ".gitignore",
        ".venv",
        "Makefile",
        "apps/one/main.py",
        "apps/one/tests/t.py",
        "apps/two/main.py",
        "lib/tool.sh",
        "made.log",
    ]
    assert (top / "apps/one/main.py").read_text() == "one = 2\n"
    assert (top / "apps/two/main.py").read_text() == "two = 2\n"
    assert os.access(top / "lib/tool.sh", os.X_OK)
    assert os.readlink(top / ".venv") == str(laid.tree.top / ".venv")
    assert laid.tree.git("status", "--short", cwd=top) == " M apps/one/main.py\n"


def test_what_a_check_left_around_the_project_is_gone_next_time(tmp_path):
    laid = Inside(tmp_path)
    top = laid.out().parent.parent
    first = files(top)
    (top / "apps/two/main.py").write_text("spoiled")
    (top / "lib/tool.sh").unlink()
    (top / "apps/left").mkdir()
    (top / "left.txt").write_text("left")
    laid.out()
    assert files(top) == first


def test_an_environment_of_the_repository_leads_to_the_copy(tmp_path):
    laid = Inside(tmp_path)
    top, pth = laid.tree.top, "lib/site-packages/lib.pth"
    laid.tree.write(f"../../.venv/{pth}", f"{top}/lib\n{laid.tree.root}\n")
    laid.tree.write(f".venv/{pth}", f"{top}/lib\n")
    laid.rules = laid.store.rules("again", (".",), (), around=True)
    laid.copy = CleanCopy(laid.store, laid.rules, str(laid.tree.state))
    root = laid.out()
    copy = root.parent.parent
    assert (copy / ".venv" / pth).read_text() == f"{copy}/lib\n{root}\n"
    assert (root / ".venv" / pth).read_text() == f"{copy}/lib\n"


def test_the_rest_of_a_repository_reads_back(tmp_path):
    rules = Inside(tmp_path).rules
    assert rules.around is not None
    assert Rules.from_json(json.loads(json.dumps(rules.to_json()))) == rules


@pytest.mark.parametrize("line", ["!*/", "!/apps/one", "!one/"])
def test_no_ignore_rule_brings_the_project_into_what_is_around_it(tmp_path, line):
    laid = Inside(tmp_path, {".gitignore": f"/.venv\n{line}\n"})
    assert laid.rules.around is not None
    inside = [p for p in laid.tree.paths(laid.store, laid.rules.around.tree) if "one/" in p]
    assert inside == []


def test_permission_bits_that_git_does_not_keep_are_those_of_the_project(tree):
    laid = Laid(tree)
    root = laid.out()
    (tree.root / "src/a.py").chmod(0o600)
    laid.out()
    assert files(root)["src/a.py"][0] == "-rw-------"


def test_a_file_that_comes_where_a_check_left_a_pipe_stays(tree):
    laid = Laid(tree)
    root = laid.out()
    until(laid.is_settled, "copy in which nothing is new")
    os.mkfifo(root / "pipe")
    laid.out()
    assert not (root / "pipe").exists()
    tree.write("pipe", "a file")
    for _ in range(3):
        laid.out()
        assert (root / "pipe").read_text() == "a file"
    tree.write("pipe", "changed")
    laid.out()
    assert (root / "pipe").read_text() == "changed"


def test_the_copy_has_a_repository_of_its_own(tree):
    tree.git("tag", "v1")
    tree.git("remote", "add", "origin", "https://example.org/x")
    tree.write(".git/hooks/pre-commit", "false", 0o755)
    before = fingerprint(tree.top / ".git")
    laid = Laid(tree)
    tree.write("src/a.py", "a = 2\n")
    root = laid.out()
    assert tree.git("log", "--format=%H", cwd=root) == tree.git("log", "--format=%H")
    assert tree.git("status", "--short", cwd=root) == " M src/a.py\n"
    assert tree.git("for-each-ref", "--format=%(refname)", cwd=root) == "refs/heads/main\n"
    assert tree.git("remote", cwd=root) == ""
    tree.git("commit", "-q", "-am", "in the copy", cwd=root)
    assert fingerprint(tree.top / ".git") == before


def test_a_repository_without_a_commit_has_a_copy_too(tmp_path):
    tree = Tree(tmp_path)
    tree.write("a.txt", "a")
    root = Laid(tree).out()
    assert sorted(files(root)) == ["a.txt"]
    assert tree.git("status", "--short", cwd=root) == "?? a.txt\n"


def test_a_project_inside_a_repository_lies_at_the_same_place_in_the_copy(tmp_path):
    tree = Tree(tmp_path, below="packages/one")
    tree.write("a.txt", "a")
    tree.commit()
    laid = Laid(tree)
    root = laid.out()
    assert sorted(files(root)) == ["a.txt"]
    assert tree.git("rev-parse", "--show-prefix", cwd=root) == "packages/one/\n"
    assert tree.git("status", "--short", cwd=root) == ""


def test_with_a_set_up_command_nothing_is_linked_and_what_it_made_stays(tree):
    laid = Laid(tree)
    root = laid.out()
    assert (root / ".venv").is_symlink()
    laid.out(links=False)
    assert not (root / ".venv").exists()
    (root / ".venv").mkdir()
    (root / ".venv/installed").write_text("by setup")
    (root / "left").write_text("by a check")
    laid.out(links=False)
    assert (root / ".venv/installed").read_text() == "by setup"
    assert not (root / "left").exists()
    assert (root / ".env").read_text() == "SECRET=1\n"


def test_a_set_up_command_changes_no_protected_path(tree):
    laid = Laid(tree)
    now = laid.store.snapshot(laid.rules, laid.start.guard)
    root = laid.out(links=False)
    for name in ("tests/test_a.py", "tests/conftest.py", "tests/__pycache__/test_a.pyc", "made"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("by the set-up command")
    (root / "src/a.py").unlink()
    with laid.copy.held():
        laid.copy.lay_out_again(now.project, laid.start.guard, (), existing_only=False)
    assert sorted(files(root)) == [".env", ".gitignore", "made", "run.sh", "tests/test_a.py"]
    assert (root / "tests/test_a.py").read_text() == "assert 1\n"


def test_a_set_up_command_changes_nothing_that_was_changed_in_the_run(tree):
    laid = Laid(tree)
    tree.write("src/a.py", "the agent's\n")
    now = laid.store.snapshot(laid.rules, laid.start.guard)
    root = laid.out(links=False)
    for name in ("src/a.py", "run.sh"):
        (root / name).write_text("by the set-up command")
    changed = laid.store.changed_paths(laid.start.project, now.project)
    with laid.copy.held():
        laid.copy.lay_out_again(now.project, laid.start.guard, changed, existing_only=False)
    assert (changed, (root / "src/a.py").read_text()) == (("src/a.py",), "the agent's\n")
    assert (root / "run.sh").read_text() == "by the set-up command"
    assert laid.store.changed_paths(None, now.project) == ()


def test_new_protected_files_of_a_set_up_command_stay_where_they_are_allowed(tree):
    laid = Laid(tree)
    now = laid.store.snapshot(laid.rules, laid.start.guard)
    root = laid.out(links=False, existing_only=True)
    (root / "tests/test_a.py").unlink()
    (root / "tests/made.json").write_text("{}")
    with laid.copy.held():
        laid.copy.lay_out_again(now.project, laid.start.guard, (), existing_only=True)
    assert (root / "tests/test_a.py").read_text() == "assert 1\n"
    assert (root / "tests/made.json").exists()


def test_a_protected_path_that_a_set_up_command_blocks_is_named(tree):
    laid = Laid(tree)
    now = laid.store.snapshot(laid.rules, laid.start.guard)
    root = laid.out(links=False)
    (root / "tests/test_a.py").unlink()
    (root / "tests/test_a.py").mkdir()
    (root / "tests/test_a.py/x").write_text("")
    with laid.copy.held(), pytest.raises(StoreError, match="cannot create"):
        laid.copy.lay_out_again(now.project, laid.start.guard, (), existing_only=True)


def test_no_cache_gets_into_the_copy_unless_it_was_tracked(tree):
    """Python runs a compiled file without looking at its source, if the file says so."""
    tree.write(".gitignore", "")
    tree.write_all({"data/x.pyc": "tracked", "data/__pycache__/y": "tracked", "src/a.py": "wrong"})
    tree.commit()
    laid = Laid(tree)
    caches = ("src/__pycache__/b.pyc", "src/c.pyc", ".mypy_cache/d", "tests/__pycache__/e.pyc")
    tree.write_all(dict.fromkeys((*caches, "data/__pycache__/z"), "right"))
    root = laid.out()
    left_out = (*caches, "data/__pycache__/z")
    assert [path for path in left_out if (root / path).exists()] == []
    assert (root / "data/x.pyc").read_text() == "tracked"
    assert (root / "data/__pycache__/y").read_text() == "tracked"


def test_paths_of_the_project_in_the_environment_are_those_of_the_copy(tree):
    copy = Laid(tree).copy
    project = str(tree.root)
    environ = {"PATH": f"{project}/.venv/bin:/bin", "X": f"{project}2"}
    assert copy.environment(environ) == {
        "PATH": f"{copy.path}/.venv/bin:/bin",
        "X": f"{project}2",
        "LL_CLEAN": "1",
    }


@pytest.mark.parametrize("before", ["", "/mine"])
def test_an_editable_install_outside_the_project_imports_the_copy(tree, before):
    site = tree.place / "home/.local/lib/python3.11/site-packages"
    site.mkdir(parents=True)
    (site / "a.pth").write_text(f"{tree.root}/src\n")
    copy = Laid(tree).copy
    environ = {"HOME": str(tree.place / "home"), "PATH": "", "PYTHONPATH": before}
    paths = copy.environment(environ)["PYTHONPATH"].split(":")
    assert paths == [*filter(None, [before]), f"{copy.path}/src"]


def test_the_environment_of_the_copy_has_the_users_git_settings_but_no_repository(tree):
    copy = Laid(tree).copy
    identity = {"GIT_AUTHOR_NAME": "a", "GIT_SSH_COMMAND": "ssh -q"}
    named = ("GIT_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_WORK_TREE", "GIT_PREFIX")
    environ = identity | dict.fromkeys(named, "x")
    assert copy.environment(environ) == {**identity, "LL_CLEAN": "1"}


# ── what leads back ────────────────────────────────────────────────────────────────────────────


def environment_with_pip(tree: Tree) -> Path:
    """A virtual environment with the tools of this one, so that nothing is fetched."""
    place = tree.root / ".venv"
    venv.create(place, with_pip=False, symlinks=True)
    return place


PROJECT_TOML = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "sample"
version = "1"
[tool.hatch.build]
dev-mode-dirs = ["src"]
[tool.hatch.build.targets.wheel]
packages = ["src/sample"]
"""


def test_an_editable_install_in_the_copy_is_that_of_the_copy(tree):
    """Installed by pip, run by the script that pip made, by `python` and by an activated shell."""
    tree.write("src/sample/__init__.py", "def main():\n    print('as it was')\n")
    tree.write("pyproject.toml", PROJECT_TOML + '[project.scripts]\nsample = "sample:main"\n')
    tree.commit()
    place = environment_with_pip(tree)
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(place / "bin/python"), "install", "-q",
         "--no-build-isolation", "--no-deps", "-e", str(tree.root)],
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if "site-packages" in p)},
    )  # fmt: skip
    laid = Laid(tree)
    laid.out()
    # The project is not what the copy may see.
    tree.write("src/sample/__init__.py", "def main():\n    print('changed later')\n")
    root = Path(laid.copy.path)
    for command in (
        [f"{root}/.venv/bin/sample"],
        [f"{root}/.venv/bin/python", "-c", "import sample; sample.main()"],
        ["sh", "-c", ". .venv/bin/activate && python -c 'import sample; sample.main()'"],
    ):
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr) == ("as it was\n", ""), command


EDITABLE = {
    "a path file": ("a.pth", "{project}/src\n", "{copy}/src\n"),
    "code in a path file": ("b.pth", "import x; x.f('{project}/src')\n", "import x; x.f('{copy}/src')\n"),
    "a finder": ("__editable___s_finder.py", "M = {{'s': '{project}/src/s'}}\n", "M = {{'s': '{copy}/src/s'}}\n"),
    "an egg link": ("s.egg-link", "{project}\n.", "{copy}\n."),
    "a direct address": ("s.dist-info/direct_url.json", '{{"url": "file://{project}"}}', '{{"url": "file://{copy}"}}'),
    "a relative path file": ("c.pth", "../../src\n", "../../src\n"),
    "a path file with a link": ("d.pth", "# mine\n{alias}/src\n/usr\nimport x\n", "# mine\n{copy}/src\n/usr\nimport x\n"),
    "start-up code": ("sitecustomize.py", "P = '{project}/src'\n", "P = '{copy}/src'\n"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "text", "rewritten"), EDITABLE.values(), ids=EDITABLE)
def test_files_of_editable_installs_name_the_copy(tree, name, text, rewritten):
    laid = Laid(tree)
    alias = tree.place / "alias"
    alias.symlink_to(tree.root)
    names = {"project": str(tree.root), "copy": laid.copy.path, "alias": str(alias)}
    tree.write(f".venv/lib/{name}", text.format(**names))
    tree.write(".venv/lib/pkg/other.py", "1")
    root = laid.out()
    assert (root / ".venv/lib" / name).read_text() == rewritten.format(**names)
    assert not (root / ".venv/lib" / name).is_symlink()
    assert os.readlink(root / ".venv/lib/pkg") == str(tree.root / ".venv/lib/pkg")


def test_what_lies_beside_the_copy_is_removed(tree):
    laid = Laid(tree)
    root = laid.out()
    (root.parent / "left").mkdir()
    (root.parent / "left/years.py").write_text("from an earlier check")
    laid.out()
    assert os.listdir(root.parent) == [root.name]


def test_an_encoded_address_is_rewritten_as_well(tmp_path):
    place = tmp_path / "a b"
    place.mkdir()
    tree = Tree(place)
    tree.write(".gitignore", "lib/\n")
    tree.commit()
    address = str(tree.root).replace(" ", "%20")
    tree.write("lib/direct_url.json", f"file://{address}")
    laid = Laid(tree)
    copied = (laid.out() / "lib/direct_url.json").read_text()
    assert copied == f"file://{laid.copy.path.replace(' ', '%20')}"


def cmake_cache(sources: object) -> str:
    return f"# This is the CMakeCache file.\nCMAKE_HOME_DIRECTORY:INTERNAL={sources}\nX:BOOL=ON\n"


def test_what_cmake_has_configured_for_the_project_is_left_out(tree):
    tree.write(".gitignore", "build/\nout/\nother/\nhalf/\n")
    tree.commit()
    tree.write("build/CMakeCache.txt", cmake_cache(tree.root))
    tree.write("build/a.o", "built")
    tree.write("build/tests/data", "as it was")
    tree.write("out/debug/CMakeCache.txt", cmake_cache(tree.root / "src"))
    tree.write("out/debug/a.o", "built")
    tree.write("out/notes.txt", "notes")
    tree.write("other/CMakeCache.txt", cmake_cache(tree.place / "elsewhere"))
    tree.write("half/CMakeCache.txt", "# nothing yet\n")
    laid = Laid(tree)
    tree.write("build/tests/data", "changed")
    root = laid.out()
    # Protected files are there all the same.
    assert sorted(files(root / "build")) == ["tests/data"]
    assert (root / "build/tests/data").read_text() == "as it was"
    assert sorted(files(root / "out")) == ["notes.txt"]
    for name in ("other", "half"):
        path = f"{name}/CMakeCache.txt"
        assert os.readlink(root / path) == str(tree.root / path)
    assert sorted(laid.copy.builds()) == ["build", "out/debug"]


def test_what_meson_and_configure_have_prepared_for_the_project_is_left_out(tree):
    tree.write(".gitignore", "auto/\nmeson/\nother/\n")
    tree.commit()
    tree.write("auto/config.status", f"abs_srcdir='{tree.root}'\n")
    tree.write("meson/meson-private/coredata.dat", "")
    tree.write("other/config.status", "abs_srcdir='/elsewhere'\n")
    laid = Laid(tree)
    root = laid.out()
    assert not (root / "auto").exists()
    assert not (root / "meson").exists()
    assert (root / "other/config.status").is_symlink()
    assert sorted(laid.copy.builds()) == ["auto", "meson"]


def test_a_directory_with_build_products_is_a_directory_in_the_copy(tree):
    tree.write(".gitignore", "build/\n.venv/\n")
    tree.commit()
    tree.write("build/a.o", "built")
    tree.write("build/deep/b.o", "built")
    (tree.root / "build/empty").mkdir()
    laid = Laid(tree)
    root = laid.out()
    assert (root / ".venv").is_symlink()
    for path in ("build", "build/deep", "build/empty"):
        assert (root / path).is_dir()
        assert not (root / path).is_symlink()
    assert os.path.realpath(root / "build/deep/..") == str(root / "build")
    assert os.readlink(root / "build/deep/b.o") == str(tree.root / "build/deep/b.o")
    # A check may clean it up, and nothing is lost in the project.
    shutil.rmtree(root / "build")
    (root / "build").mkdir()
    assert laid.copy.differing() == frozenset()
    assert (tree.root / "build/a.o").read_text() == "built"
    assert (laid.out() / "build/deep/b.o").read_text() == "built"


def test_of_a_large_directory_with_build_products_only_the_first_level_is_no_link(tree):
    tree.write(".gitignore", "build/\n")
    tree.commit()
    for number in range(MAX_OPENED + 1):
        tree.write(f"build/{number}/a.o", "built")
    root = Laid(tree).out()
    assert not (root / "build").is_symlink()
    assert (root / "build/7").is_symlink()


def test_an_ignored_text_that_names_the_project_names_the_copy(tree):
    tree.write(".gitignore", ".env\n*.bin\n")
    tree.commit()
    tree.write(".env", f"HOME_OF_APP={tree.root}/src\nOTHER={tree.root}-2\n")
    tree.write("a.bin", f"\0{tree.root}")
    root = Laid(tree).out()
    assert (root / ".env").read_text() == f"HOME_OF_APP={root}/src\nOTHER={tree.root}-2\n"
    assert (root / "a.bin").read_text() == f"\0{tree.root}"


@pytest.mark.parametrize("protect", ["tests/", "links/"])
def test_a_link_with_a_whole_path_into_the_project_leads_into_the_copy(tree, protect):
    (tree.place / "alias").symlink_to(tree.root)
    (tree.root / "links").mkdir()
    for name, text in {
        "file": f"{tree.root}/src/a.py",
        "folder": f"{tree.root}/src",
        "project": str(tree.root),
        "gone": f"{tree.root}/build/a.py",
        "alias": f"{tree.place}/alias/src/a.py",
        "up-and-down": "../../alias/src/a.py",
        "relative": "../src/a.py",
        "outside": "/usr",
        "alike": f"{tree.root}-other/a.py",
    }.items():
        (tree.root / "links" / name).symlink_to(text)
    root = Laid(tree, protect=(protect,)).out()
    assert {link.name: os.readlink(link) for link in (root / "links").iterdir()} == {
        "file": f"{root}/src/a.py",
        "folder": f"{root}/src",
        "project": str(root),
        "gone": f"{root}/build/a.py",
        "alias": f"{root}/src/a.py",
        "up-and-down": f"{root}/src/a.py",
        "relative": "../src/a.py",
        "outside": "/usr",
        "alike": f"{tree.root}-other/a.py",
    }


def test_a_link_in_a_shadow_does_not_lead_around_it(tree):
    """As some programs make environments: `lib64` is a link to `lib` by its whole path."""
    tree.write(".venv/lib/a.pth", f"{tree.root}/src\n")
    (tree.root / ".venv/lib64").symlink_to(tree.root / ".venv/lib")
    root = Laid(tree).out()
    assert (root / ".venv/lib64/a.pth").read_text() == f"{root}/src\n"


def test_another_project_whose_name_begins_alike_is_left_alone(tree):
    tree.write(".venv/lib/a.pth", f"{tree.root}-other/src\n")
    assert (Laid(tree).out() / ".venv").is_symlink()


def test_workspaces_are_those_of_the_copy(tree):
    """As npm links them: packages of the repository, and their programs."""
    tree.write("packages/tool/index.js", "here")
    tree.write("packages/tool/cli.js", "cli")
    tree.write("node_modules/react/index.js", "react")
    tree.write("node_modules/react/cli.js", "react cli")
    tree.write("node_modules/@own/keep.txt", "x")
    (tree.root / "node_modules/.bin").mkdir()
    for link, text in {
        "tool": "../packages/tool",
        "@own/tool": "../../packages/tool",
        "absolute": f"{tree.root}/packages/tool",
        ".bin/tool": "../tool/cli.js",
        ".bin/react": "../react/cli.js",
        "elsewhere": "/usr",
    }.items():
        os.symlink(text, tree.root / "node_modules" / link)
    tree.commit()
    root = Laid(tree).out()
    for path in ("tool", "@own/tool", "absolute", ".bin/tool"):
        assert os.path.realpath(root / "node_modules" / path).startswith(f"{root}/packages/"), path
    assert os.readlink(root / "node_modules/react") == str(tree.root / "node_modules/react")
    assert (root / "node_modules/.bin/react").read_text() == "react cli"
    assert os.readlink(root / "node_modules/elsewhere") == "/usr"


def test_a_protected_file_in_a_linked_directory_is_that_of_the_reference(tree):
    tree.write("node_modules/x/conftest.py", "as it was")
    tree.write("node_modules/x/other.py", "1")
    laid = Laid(tree, protect=("node_modules/x/conftest.py",))
    tree.write("node_modules/x/conftest.py", "changed")
    root = laid.out()
    assert (root / "node_modules/x/conftest.py").read_text() == "as it was"
    assert os.readlink(root / "node_modules/x/other.py") == str(
        tree.root / "node_modules/x/other.py"
    )
    assert (tree.root / "node_modules/x/conftest.py").read_text() == "changed"


def test_what_cannot_be_rewritten_is_named(tree):
    tree.write(".venv/lib/huge.pth", "x" * (1 << 20) + str(tree.root))
    with pytest.raises(NotClean) as caught:
        Laid(tree).out()
    assert (caught.value.message, caught.value.help) == (
        "`.venv/lib/huge.pth` may point back into the project: it is too large to rewrite",
        "write `setup:` with the command that installs what the check needs",
    )


# ── repositories of other kinds ────────────────────────────────────────────────────────────────


def test_a_worktree_and_a_shallow_clone_have_copies(tree):
    tree.write("src/a.py", "a = 2\n")
    tree.commit("second")
    tree.git("worktree", "add", "-q", "-b", "other", str(tree.place / "w/p"))
    tree.git("clone", "-q", "--depth=1", f"file://{tree.top}", str(tree.place / "s/p"))
    for name, branch in (("w", "other"), ("s", "main")):
        there = Tree(tree.place / name)
        laid = Laid(there)
        there.write("src/a.py", "a = 3\n")
        root = laid.out()
        assert there.git("status", "--short", "--branch", cwd=root) == f"## {branch}\n M src/a.py\n"
        assert there.git("log", "--format=%s", cwd=root) == there.git("log", "--format=%s")


def test_a_detached_head_and_a_later_commit_are_those_of_the_copy(tree):
    laid = Laid(tree)
    root = laid.out()
    tree.write("src/a.py", "a = 2\n")
    tree.git("commit", "-q", "-am", "second")
    laid.out()
    assert tree.git("status", "--short", cwd=root) == ""
    tree.git("pack-refs", "--all")
    tree.git("checkout", "-q", "--detach", "HEAD^")
    laid.out()
    assert tree.git("rev-parse", "HEAD", cwd=root) == tree.git("rev-parse", "HEAD")
    assert tree.git("for-each-ref", cwd=root) == ""


def test_what_a_commit_of_the_run_untracks_is_tracked_in_the_copy_if_it_is_there(tree):
    tree.write("gone.py", "gone = 1\n")
    tree.git("add", "-A")
    tree.git("commit", "-q", "-m", "first")
    before = tree.git("ls-files")
    laid = Laid(tree)
    tree.git("rm", "-q", "--cached", "src/a.py")
    tree.git("rm", "-q", "gone.py")
    tree.git("commit", "-q", "-m", "second")
    root = laid.out()
    assert "src/a.py\n" in before
    assert tree.git("ls-files", cwd=root) == before.replace("gone.py\n", "")
    assert tree.git("diff", "--name-only", cwd=root) == ""
    (tree.top / "src/a.py").unlink()
    laid.out()
    assert "src/a.py" not in tree.git("ls-files", cwd=root)


def test_a_repository_with_long_ids_has_a_copy(tmp_path):
    tree = Tree(tmp_path)
    (tmp_path / "p/.git").rename(tmp_path / "sha1")
    tree.git("init", "-q", "-b", "main", "--object-format=sha256")
    tree.write("a.txt", "a")
    tree.commit()
    laid = Laid(tree, protect=("a.txt",))
    root = laid.out()
    assert tree.git("status", "--short", cwd=root) == ""
    tree.write("a.txt", "b")
    tree.commit()
    assert laid.store.committed(laid.rules, laid.start.guard) == ("a.txt",)
    tree.write("a.txt", "a")
    tree.commit()
    assert laid.store.committed(laid.rules, laid.start.guard) == ()
    shutil.rmtree(tree.top / ".git")  # and without the commit that was there at the start
    tree.git("init", "-q", "-b", "main", "--object-format=sha256")
    tree.write("a.txt", "b")
    tree.commit()
    assert laid.store.committed(laid.rules, laid.start.guard) == ("a.txt",)
    tree.write("a.txt", "a")
    tree.commit()
    assert laid.store.committed(laid.rules, laid.start.guard) == ()


def test_a_submodule_is_there_in_the_copy(tree, tmp_path):
    other = Tree(tmp_path / "other")
    other.write("lib.py", "lib")
    other.commit()
    tree.git("submodule", "add", "-q", str(other.top), "lib")
    tree.git("commit", "-q", "-m", "lib")
    assert (Laid(tree).out() / "lib/lib.py").read_text() == "lib"


def test_a_file_that_was_too_large_for_the_store_is_in_the_copy(tree):
    with open(tree.root / "large.bin", "wb") as file:
        file.truncate(60 << 20)
    laid = Laid(tree)
    root = laid.out()
    assert (root / "large.bin").stat().st_size == 60 << 20
    kept = (root / "large.bin").stat()
    laid.out()
    assert (root / "large.bin").stat() == kept


def test_what_setup_made_is_kept_until_the_files_change(tree):
    tree.write(".gitignore", "made/\n")
    tree.commit()
    laid = Laid(tree)
    root = laid.out(links=False)
    (root / "made").mkdir()
    (root / "made/a").write_text("from the first files")
    (root / "src/made.txt").write_text("beside them")
    laid.out(links=False)
    assert (root / "made/a").exists()
    tree.write("src/a.py", "a = 2\n")
    laid.out(links=False)
    assert not (root / "made").exists()
    assert not (root / "src/made.txt").exists()
    assert (root / ".git").is_dir()


def test_a_check_may_compile_caches_that_git_tracks(tree):
    tree.write(".gitignore", "")
    tree.commit()
    laid = Laid(tree)
    root = laid.out()
    (root / "src/__pycache__/a.pyc").write_text("compiled again")
    assert laid.copy.differing() == frozenset()


def test_a_module_that_a_path_file_imports_names_the_copy(tree):
    site = ".venv/lib/python3.11/site-packages"
    tree.write(f"{site}/x.pth", "import finder, pack; finder.install()\n")
    tree.write(f"{site}/finder.py", f"WHERE = '{tree.root}/src'\n")
    tree.write(f"{site}/pack/__init__.py", f"WHERE = '{tree.root}/src'\n")
    tree.write(f"{site}/other.py", f"WHERE = '{tree.root}/src'\n")
    root = Laid(tree).out()
    for path in ("finder.py", "pack/__init__.py"):
        assert (root / site / path).read_text() == f"WHERE = '{root}/src'\n"
    assert (root / site / "other.py").read_text() == f"WHERE = '{tree.root}/src'\n"


def test_a_variable_that_leads_into_the_project_by_a_link_leads_into_the_copy(tree):
    (tree.place / "alias").symlink_to(tree.root)
    laid = Laid(tree)
    root = laid.out()
    given = {"ROOT": f"{tree.place}/alias", "SEARCH": f"{tree.place}/alias/src:/usr:a b", "X": "x"}
    found = laid.copy.environment(given)
    assert {name: found[name] for name in given} == {
        "ROOT": str(root),
        "SEARCH": f"{root}/src:/usr:a b",
        "X": "x",
    }
