"""An import that is killed anywhere leaves the whole run or nothing, and can be repeated."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from little_loops.errors import ConflictError
from little_loops.runs.child_paths import children_of
from little_loops.runs.history import settle
from little_loops.runs.layout import RunFiles
from little_loops.runs.reading import Runs
from little_loops.runs.stored_run import read_stored
from tests.cli.runs import crashed, held, ran
from tests.project import Project
from tests.receipts.kept_run import KeptProject
from tests.sharing.files import environ, imported
from tests.sharing.test_round_trip import GATE, INNER, LOOPS, content, outer
from tests.simulation.command import At, assert_in_words, command, dies, operations, projects

Make = Callable[[], Project]
SAMPLE = 7
FIXING = """\
    name: fixing
    initial: kid
    evidence: true
    states:
      kid: {loop: fix, on_pass: check, on_fail: bad}
      check: {action: sh tests/t.sh, check: true, on_pass: done, on_fail: bad}
      done: {terminal: true}
      bad: {terminal: true, outcome: failure}
"""
"""A loop with snapshots whose inner run has its own."""


def finished(home: Path) -> Project:
    project = Project(home)
    ran(project.root, LOOPS["context and files of its own"])
    return project


def killed(home: Path) -> Project:
    project = Project(home)
    crashed(project.root)
    return project


def with_inner_runs(home: Path) -> Project:
    project = Project(home)
    ran(project.root, outer(outer({**INNER, "states": {**INNER["states"], "end": GATE}})))
    return project


def with_snapshots_of_inner_runs(home: Path) -> Project:
    project = KeptProject(home)
    project.loop("fixing", FIXING)
    done = project.ll("run", "fixing")
    assert done.returncode == 0, done.stdout + done.stderr
    return project


SOURCES: dict[str, Callable[[Path], Project]] = {
    "own": finished,
    "crashed": killed,
    "fix": lambda home: KeptProject(home).fixed(),
    "outer": with_inner_runs,
    "fixing": with_snapshots_of_inner_runs,
}
"""Runs by name: finished, with files; killed; with snapshots; at a gate of a run inside another;
with snapshots of an inner run."""

WITH_INNER_RUNS = ("outer", "fixing")


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> dict[str, tuple[Path, str]]:
    """The run file and name of each."""
    top = tmp_path_factory.mktemp("sources")
    made = {}
    for name, source in SOURCES.items():
        home = top / name
        home.mkdir()
        project = source(home)
        done = project.ll("export", name, "-o", str(top / f"{name}.llrun"))
        assert done.returncode == 0, done.stderr
        made[name] = (top / f"{name}.llrun", name)
    return made


@pytest.fixture
def make():
    with projects() as make:
        yield make


def state_of(project: Project, name: str) -> tuple[object, ...] | None:
    """What there is of the run: all of it, or None. A move that was interrupted is finished first,
    as by every command that continues a run."""
    root = str(project.root)
    settle(root, name)
    view = Runs(root).view(name)
    if view is None:
        return None
    assert view.damage is None
    return whole(view.files)


def whole(files: RunFiles) -> tuple[object, ...]:
    """Everything of a run, and of the runs that it has started; fails if any of it is damaged."""
    stored = read_stored(files)
    assert stored is not None
    assert stored.damage is None
    inner = [(kid.path, whole(kid.files)) for kid in children_of(files)]
    return stored.run, stored.loop, content(files), inner


def sweep(make: Make, file: Path, name: str, rows: range) -> int:
    """Kill the import before one operation after the other."""
    whole = make()
    assert command(whole, "import", str(file)).code == 0
    wanted = state_of(whole, name)
    assert wanted is not None
    assert bool(wanted[-1]) == (name in WITH_INNER_RUNS)
    is_unfinished = RunFiles(str(whole.root), name).state
    is_unfinished_there = os.path.exists(is_unfinished)
    for number in rows:
        project = make()
        said = command(project, "import", str(file), at=At(number, dies))
        assert said.reached is not None
        assert state_of(project, name) in (None, wanted), f"killed at {number}, {said.reached}"
        again = command(project, "import", str(file))
        assert_in_words(again)
        assert again.code == 0, f"killed at {number}, {said.reached}: {again.err}"
        assert state_of(project, name) == wanted, f"killed at {number}, {said.reached}"
        there = os.path.exists(RunFiles(str(project.root), name).state)
        assert there == is_unfinished_there, f"killed at {number}, {said.reached}"
        assert not list((project.root / ".loops/.history").glob(".import-*"))
        shutil.rmtree(project.root)
    return len(rows)


@pytest.mark.parametrize("name", SOURCES)
def test_an_import_may_be_killed(make, sources, name, record_property):
    file, name = sources[name]
    points = len(operations(make(), "import", str(file)))
    each = SAMPLE * (1 + points // 100)
    swept = sweep(make, file, name, range(1 + len(name) % SAMPLE, points + 1, each))
    record_property("figure: kills of an import", swept)


@pytest.mark.soak
@pytest.mark.parametrize("name", SOURCES)
def test_an_import_may_be_killed_anywhere(make, sources, name, record_property):
    file, name = sources[name]
    points = len(operations(make(), "import", str(file)))
    swept = sweep(make, file, name, range(1, points + 1))
    record_property("figure: kills of an import, at every operation", swept)


def test_an_import_waits_for_nobody(make, sources):
    """Another run works on the same files: exit 5, and nothing is imported."""
    file, name = sources["own"]
    project = make()
    with held(project.root, "other"):
        with pytest.raises(ConflictError):
            imported(file, str(project.root), environ(project.home))
        done = project.ll("import", str(file))
        assert done.returncode == 5, done.stderr
    assert state_of(project, name) is None


def test_an_export_leaves_no_half_file(make, sources):
    """A full disk in the middle of an export: the old file stays, nothing else is left."""
    file, _ = sources["own"]
    project = make()
    assert command(project, "import", str(file)).code == 0
    target = project.root / "own.llrun"
    target.write_text("old")
    said = command(project, "export", "own", "-o", "own.llrun", at=At(1, dies))
    assert said.code != 0
    assert target.read_text() == "old"
    assert command(project, "export", "own", "-o", "own.llrun").code == 0
    assert target.read_bytes() == file.read_bytes()
