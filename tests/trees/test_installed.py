"""What is installed beside the sources, and repositories among them: a change there is noticed, and
use is no change."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from little_loops.trees import installed
from little_loops.trees.rules import Rules
from little_loops.trees.start import MAX_COPIED_BYTES
from tests.trees.projects import Tree

PACKAGE = ".venv/lib/site-packages/pytest/main.py"


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    made = Tree(tmp_path)
    made.write_all({"a.py": "a", ".gitignore": ".venv/\nnode_modules/\nenv/\ntarget/\n"})
    made.commit()
    made.write_all({PACKAGE: "def main(): ...\n", "web/node_modules/x/index.js": "x"})
    made.write_all({"env/pyvenv.cfg": "", "env/lib/y.py": "y", "target/debug/a": "built"})
    return made


def rewrite(path: Path) -> None:
    """The same size, and the time is put back."""
    info, text = path.stat(), path.read_bytes()
    path.write_bytes(text[::-1])
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))


def here(tree: Tree, path: str) -> Path:
    return tree.root / path


TAIL = "and the check in the clean copy ran with it; `setup` can install it there again"
CHANGES: dict[str, tuple[Callable[[Tree], object], list[str]]] = {
    "nothing": (lambda tree: None, []),
    "a library is edited": (
        lambda tree: rewrite(here(tree, PACKAGE)),
        ["`.venv` was changed during the run (in .venv/lib/site-packages/pytest), " + TAIL],
    ),
    "a package is installed": (
        lambda tree: tree.write_all(
            {".venv/lib/site-packages/z/a.py": "", ".venv/lib/site-packages/z/b/c.py": ""}
        ),
        [
            "`.venv` was changed during the run (in .venv/lib/site-packages/z and 1 more directory), "
            + TAIL
        ],
    ),
    "packages of two tools": (
        lambda tree: (
            tree.write("web/node_modules/x/index.js", "xx"),
            here(tree, "env/lib/y.py").rename(tree.place / "y.py"),
        ),
        [
            f"`env` was changed during the run (in env/lib), {TAIL}",
            f"`web/node_modules` was changed during the run (in web/node_modules/x), {TAIL}",
        ],
    ),
    "caches of using it": (
        lambda tree: (
            tree.write(".venv/lib/site-packages/pytest/__pycache__/main.pyc", ""),
            tree.write("web/node_modules/.cache/babel/x.json", ""),
        ),
        [],
    ),
    "what is built": (lambda tree: tree.write("target/debug/a", "built again"), []),
}


def looked(tree: Tree, rules: Rules) -> installed.Stamps:
    raw = installed.to_bytes(installed.look(rules, tree.found_git()))
    return installed.from_bytes(raw)


@pytest.mark.parametrize("change", CHANGES)
def test_what_counts_as_a_change(tree, change):
    act, words = CHANGES[change]
    rules = tree.rules(tree.store())
    before = looked(tree, rules)
    act(tree)
    assert list(installed.changes(before, looked(tree, rules))) == words


REPOSITORY = "it is a separate git repository, so its files were not verified"


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("library", id="untracked"),
        pytest.param("env", id="ignored"),
    ],
)
def test_a_repository_in_the_project_counts(tree, path):
    tree.write(f"{path}/x.py", "x = 1\n")
    tree.git("init", "-q", path)
    rules = tree.rules(tree.store())
    before = looked(tree, rules)
    tree.git("-C", path, "status")
    assert list(installed.changes(before, looked(tree, rules))) == []
    rewrite(here(tree, f"{path}/x.py"))
    after, repositories = looked(tree, rules), installed.repositories_in(rules)
    (words,) = installed.changes(before, after, repositories)
    assert words == (
        f"`{path}` was changed during the run (in {path}), and the check in the clean copy ran with"
        f" it; {REPOSITORY}"
    )


def test_a_large_ignored_file_counts(tree):
    """The clean copy links it, too."""
    tree.write(".gitignore", "*.db\n")
    data = tree.write("large.db", "x" * (MAX_COPIED_BYTES + 1))
    small = tree.write("small.db", "x")
    rules = tree.rules(tree.store())
    before = looked(tree, rules)
    rewrite(small)
    assert list(installed.changes(before, looked(tree, rules))) == []
    words = (
        "`large.db` was changed during the run, and the check in the clean copy ran with it; git"
        " ignores it, so it is not delivered"
    )
    rewrite(data)
    assert list(installed.changes(before, looked(tree, rules))) == [words]
    data.unlink()
    assert list(installed.changes(before, looked(tree, rules))) == [words]


def test_a_file_that_another_project_shares_is_not_changed_by_that(tree):
    """uv and pnpm give one file of their cache many names."""
    rules = tree.rules(tree.store())
    os.link(here(tree, PACKAGE), tree.place / "cached")
    before = looked(tree, rules)
    os.link(tree.place / "cached", tree.place / "another project")
    assert list(installed.changes(before, looked(tree, rules))) == []


def test_the_environment_of_the_whole_repository_counts(tmp_path):
    tree = Tree(tmp_path, below="apps/one")
    tree.write_all({"a.py": "a", "../../.gitignore": ".venv/\n"})
    tree.commit()
    library = tree.write("../../.venv/lib/x.py", "x = 1\n")
    rules = tree.store().rules("run", (".",), (), around=True)
    before = looked(tree, rules)
    rewrite(library)
    (words,) = installed.changes(before, looked(tree, rules))
    assert words.startswith("`../../.venv` was changed during the run (in ../../.venv/lib)")


def test_damage_accuses_nobody():
    assert installed.from_bytes(b"") == {}
    assert installed.from_bytes(installed.to_bytes({})[:-2]) == {}
