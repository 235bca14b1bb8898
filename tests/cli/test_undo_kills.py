"""`ll-loop undo`, killed before any of its file operations: the same command finishes it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.test_undo import AGENT, files, users
from tests.receipts.kept_run import KeptProject
from tests.simulation.command import GONE, At, command, dies, in_memory, operations

UNDO = ("undo", "fix")
ORIGINAL = {"code.py": "x = 0\n", "notes.txt": "untracked\n"}
CHANGED = {"code.py": "x = 1\n", "new/file.py": "new\n"}
PATHS = ("code.py", "notes.txt", "new/file.py")


def ran(place: Path) -> KeptProject:
    """A run whose agent changed, made and deleted a file; the latter is not tracked."""
    place.mkdir()
    made = KeptProject(place)
    (place / "agent").write_text(AGENT)
    (made.root / "notes.txt").write_text(ORIGINAL["notes.txt"])
    return made.fixed()


def content(project: KeptProject) -> dict[str, str]:
    return {path: project.file(path) for path in PATHS if (project.root / path).exists()}


def killed_and_done_again(home: Path, each: int, *, redo: bool) -> int:
    """Kill an undo, or the undo of one, before one file operation after the other.

    Afterwards it is either done, and its user was told, or the same command does the rest. No file
    of the run, the user or git is lost in between.
    """
    project = begun(home / "here", redo=redo)
    shutil.copytree(home / "here", home / "kept", symlinks=True)
    count = len(operations(project, *UNDO))
    numbers = range(each, count + 1, each)
    for number in numbers:
        # The store knows the project by its path, so it has to be the same one.
        shutil.rmtree(home / "here")
        shutil.copytree(home / "kept", home / "here", symlinks=True)
        untouched, git = rest(project), users(project)
        killed = command(project, *UNDO, at=At(number, dies))
        try:
            assert killed.code in (0, GONE)
            finish(project, killed.out, redo=redo)
            assert content(project) == (CHANGED if redo else ORIGINAL)
            assert (rest(project), users(project)) == (untouched, git)
            assert command(project, *UNDO).code == 0
            assert content(project) == (ORIGINAL if redo else CHANGED)
            assert command(project, "status", "--json").code == 0
            assert (rest(project), users(project)) == (untouched, git)
        except AssertionError as error:
            raise AssertionError(f"killed at {number}: {killed.reached}") from error
    return len(numbers)


def begun(place: Path, *, redo: bool) -> KeptProject:
    project = ran(place)
    if redo:
        assert command(project, *UNDO).code == 0
        assert content(project) == ORIGINAL
    return project


def rest(project: KeptProject) -> dict[str, tuple[str, str]]:
    """All files that an undo has nothing to do with, and what it should not leave behind."""
    return {path: one for path, one in files(project).items() if path not in {*PATHS, "new", "."}}


def finish(project: KeptProject, told: str, *, redo: bool) -> None:
    """Do the rest, unless the user already knows that everything is done."""
    plan = command(project, *UNDO, "--dry-run", "--json")
    assert plan.code == 0, plan.err
    is_done = json.loads(plan.out)["doing"] == ("undo" if redo else "redo")
    if is_done and content(project) == (CHANGED if redo else ORIGINAL):
        assert told.startswith("restored 3 files as they were before")
        return
    again = command(project, *UNDO)
    assert again.code == 0, again.err


@pytest.mark.parametrize("redo", [False, True], ids=["undo", "redo"])
def test_an_undo_killed_at_an_operation_is_finished_by_the_same_command(redo, record_property):
    with in_memory() as home:
        reached = killed_and_done_again(home, 29, redo=redo)
    record_property("figure: kills of `undo`", reached)
    assert reached > 2


@pytest.mark.soak
@pytest.mark.parametrize("redo", [False, True], ids=["undo", "redo"])
def test_an_undo_killed_at_every_operation_is_finished_by_the_same_command(redo, record_property):
    with in_memory() as home:
        reached = killed_and_done_again(home, 1, redo=redo)
    record_property("figure: kills of `undo`, every operation", reached)
    assert reached > 30
