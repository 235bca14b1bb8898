"""Named pipes where a repository or a project has files: nothing waits for them, and a run says so.

Git opens its files without a look at what they are, so a pipe in the place of `.git/HEAD` would hold up
every one of its commands.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engine.test_evidence import PROTECTED, laid_out, run
from tests.project import Project

# What git reads: in any repository, and in one that has a work tree, an alternate or a graft.
READ_BY_GIT = (
    *("HEAD", "config", "config.worktree", "index", "packed-refs", "shallow", "commondir"),
    *("info/exclude", "info/attributes", "info/grafts", "info/sparse-checkout"),
    *("objects/info/alternates", "objects/info/commit-graph", "objects/pack/pack-a.idx"),
    *("refs/heads/main", "refs/replace/pipe", "sharedindex.1"),
)
IN_THE_PROJECT = (".gitignore", ".gitattributes", ".gitmodules", ".mailmap")
FIX = "#!/bin/sh\n{first}\necho right > src/value\necho finished\n"


def replaced(path: Path) -> None:
    """Put a pipe in the place of a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def refusal(path: Path) -> str:
    return f"`{path}` is not a regular file"


def asserts_refused(project: Project, path: Path) -> None:
    said = run(project)
    assert said.returncode == 2, said.stdout
    assert said.stderr == (
        "error: the evidence that this loop requires cannot be recorded:"
        f" {refusal(path)}\n"
        "   = help: repair the repository, or run the loop with `--no-evidence`\n"
    )
    assert not (project.home / "prompts").exists(), "no agent was started"


@pytest.mark.parametrize("name", READ_BY_GIT)
def test_a_pipe_in_the_repository_is_refused_before_the_run(project: Project, name: str):
    laid_out(project, more=PROTECTED)
    replaced(project.root / ".git" / name)
    asserts_refused(project, project.root / ".git" / name)


@pytest.mark.parametrize("name", IN_THE_PROJECT)
def test_a_pipe_that_git_would_read_in_the_project_is_refused(project: Project, name: str):
    laid_out(project, more=PROTECTED)
    replaced(project.root / name)
    asserts_refused(project, project.root / name)


def test_a_link_to_a_device_is_refused(project: Project):
    laid_out(project, more=PROTECTED)
    (project.root / ".git/HEAD").unlink()
    (project.root / ".git/HEAD").symlink_to("/dev/zero")
    asserts_refused(project, project.root / ".git/HEAD")


@pytest.mark.parametrize("name", READ_BY_GIT)
def test_a_pipe_that_an_agent_puts_into_the_repository_ends_the_run(project: Project, name: str):
    place = f".git/{name}"
    make = f"mkdir -p {os.path.dirname(place)}; rm -f {place}; mkfifo {place}"
    laid_out(project, FIX.format(first=make), PROTECTED)
    said = run(project)
    assert (said.returncode, refusal(project.root / place) in said.stdout) == (1, True), (
        said.stdout + said.stderr
    )
    assert "Loop failed" in said.stdout


def test_without_settings_that_need_it_the_run_goes_on_without_evidence(project: Project):
    laid_out(project, FIX.format(first=":"))
    replaced(project.root / ".git/HEAD")
    said = run(project)
    head = refusal(project.root / ".git/HEAD")
    warning = f"warning: no evidence is recorded of what agents change: {head}\n"
    assert (said.returncode, said.stderr) == (0, warning)


def test_the_user_may_do_without_evidence(project: Project):
    laid_out(project, FIX.format(first=":"), PROTECTED)
    replaced(project.root / ".git/HEAD")
    said = run(project, "--no-evidence")
    assert said.returncode == 0, said.stderr


def test_a_pipe_in_a_work_tree_or_in_what_it_shares_is_refused(project: Project):
    laid_out(project, more=PROTECTED)
    tree = project.root.parent / "tree"
    project.git("worktree", "add", "-q", str(tree))
    main, project.root = project.root, tree
    for path in (main / ".git/worktrees/tree/HEAD", main / ".git/packed-refs"):
        kept = path.read_bytes() if path.exists() else None
        replaced(path)
        asserts_refused(project, path)
        path.unlink()
        if kept is not None:
            path.write_bytes(kept)


def broken(project: Project) -> None:
    (project.root / ".git/HEAD").unlink()


def gone(project: Project) -> None:
    shutil.rmtree(project.root / ".git/objects")


@pytest.mark.parametrize("damage", [broken, gone])
def test_a_damaged_repository_does_not_switch_evidence_off(
    project: Project, damage: Callable[[Project], None]
):
    laid_out(project, more=PROTECTED)
    damage(project)
    said = run(project)
    assert said.returncode == 2, said.stdout
    assert said.stderr == (
        "error: the evidence that this loop requires cannot be recorded: not in a git repository\n"
        "   = help: repair the repository, or run the loop with `--no-evidence`\n"
    )


# ── our own reading ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", ["src/sub/.git", "tests/pipe", "src/pipe"])
def test_a_pipe_among_the_files_is_left_out_and_holds_nothing_up(project: Project, path: str):
    laid_out(project, FIX.format(first=":"), PROTECTED)
    replaced(project.root / path)
    said = run(project)
    assert said.returncode == 0, said.stdout + said.stderr


@pytest.mark.parametrize("name", [".gitignore", ".gitattributes"])
def test_a_pipe_that_keeps_git_from_adding_files_is_named(project: Project, name: str):
    laid_out(project, FIX.format(first=":"), PROTECTED)
    replaced(project.root / "src" / name)
    said = run(project)
    assert said.returncode == 1
    assert f"cannot make a clean copy: `src/{name}` is not a regular file" in said.stdout


def test_a_pipe_above_the_project_holds_nothing_up(project: Project):
    """The clean copy has the rest of the repository, too, whose ignore files are read."""
    laid_out(project, FIX.format(first=":"), PROTECTED)
    top = project.root.parent
    shutil.move(project.root / ".git", top / ".git")
    replaced(top / "beside/.gitignore")
    said = run(project)
    assert said.returncode == 0, said.stdout + said.stderr
