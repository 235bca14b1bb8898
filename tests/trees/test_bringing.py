"""What is brought into a worktree: nothing that is linked there leads back into the project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from little_loops.trees.bringing import bring, still_the_same
from little_loops.trees.copy_plan import CopyRoot
from little_loops.trees.git import find_git
from little_loops.trees.shadows import NotClean


@pytest.fixture(params=["", "app/"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> CopyRoot:
    """A project with packages of its own and of others, at the top of its repository or below."""
    project = tmp_path / "real" / request.param
    for path, text in {
        "packages/tool/index.js": "tool",
        "node_modules/react/index.js": "react",
        "node_modules/@own/keep.txt": "x",
        ".venv/lib/own.pth": f"{project}/src\n",
        ".venv/lib/other.py": "other",
        "plain/a.txt": "a",
    }.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(text)
    (project / "node_modules/tool").symlink_to("../packages/tool")
    (project / "node_modules/@own/tool").symlink_to(project / "packages/tool")
    place = tmp_path / "worktree" / request.param
    (place / "packages/tool").mkdir(parents=True)
    (place / "packages/tool/index.js").write_text("changed")
    return CopyRoot(str(tmp_path / "real"), str(tmp_path / "worktree"), request.param)


def place(where: CopyRoot) -> Path:
    return Path(where.copy, where.prefix)


def test_linked_directories_lead_into_the_worktree(where):
    git = find_git(where.real, os.environ)
    for _ in range(2):  # done again, it is the same
        assert bring(git, where, (), ("node_modules", ".venv", "plain/", "gone")) == ("gone",)
    here, there = place(where), Path(where.real, where.prefix)
    for path in ("tool", "@own/tool"):
        assert (here / "node_modules" / path / "index.js").read_text() == "changed", path
    assert (here / "node_modules/react/index.js").read_text() == "react"
    assert (here / ".venv/lib/own.pth").read_text() == f"{here}/src\n"
    assert (there / ".venv/lib/own.pth").read_text() == f"{there}/src\n"
    assert os.readlink(here / "plain/a.txt") == str(there / "plain/a.txt")


def test_what_was_linked_is_no_work_of_the_run(where):
    git = find_git(where.real, os.environ)
    links = ("node_modules", ".venv", "plain")
    bring(git, where, (), links)
    brought = (
        ".venv/lib/other.py",
        ".venv/lib/own.pth",
        "node_modules/@own/keep.txt",
        "node_modules/@own/tool",
        "node_modules/react",
        "node_modules/tool",
        "plain/a.txt",
    )
    assert still_the_same(where, (), links) == brought
    (place(where) / ".venv/lib/own.pth").write_text("changed\n")
    (place(where) / "plain/new.txt").write_text("new\n")
    assert still_the_same(where, (), links) == tuple(
        path for path in brought if path != ".venv/lib/own.pth"
    )


def test_what_cannot_be_rewritten_is_named(where):
    (Path(where.real, where.prefix) / ".venv/lib/huge.pth").write_text("x" * (1 << 20) + "/")
    with pytest.raises(NotClean) as caught:
        bring(find_git(where.real, os.environ), where, (), [".venv"])
    huge = f"{where.prefix}.venv/lib/huge.pth"
    assert (caught.value.message, caught.value.help) == (
        f"`{huge}` may point back into the project: it is too large to rewrite",
        "write `setup:` with the command that installs what the check needs",
    )
