"""Snapshots of old runs make room for new ones; those of a run that can continue stay."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from little_loops.engine.tree_space import USUAL_CAP, cap_of, read_cap
from little_loops.errors import UsageError
from tests.project import Project

MAKES_A_FILE = """\
    name: {name}
    initial: make
    evidence: {evidence}
    states:
      make: {{action: head -c 200000 /dev/urandom > big.bin, next: check}}
      check: {{action: test -f big.bin, check: true, on_pass: {then}, on_fail: make}}
      done: {{terminal: true}}
      review: {{terminal: true, outcome: review, next: done}}
    """


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path)
    made.git("init", "-q")
    (made.root / "a.txt").write_text("a\n")
    made.git("add", "a.txt")
    made.git("-c", "user.name=A", "-c", "user.email=a@example.invalid", "commit", "-qm", "start")
    yield made
    made.end_actions()


def ran(project: Project, name: str, then: str = "done", evidence: str = "true") -> str:
    project.loop(name, MAKES_A_FILE.format(name=name, then=then, evidence=evidence))
    done = project.ll("run", name)
    assert done.returncode == (0 if then == "done" else 4), done.stderr
    return name


def recorded(project: Project) -> set[str]:
    [store] = (project.home / ".local/state/little-loops/trees").iterdir()
    return {path.name for path in (store / "runs").iterdir()}


def test_old_runs_make_room_but_not_those_that_can_continue(project):
    (project.root / ".loops").mkdir(exist_ok=True)
    (project.root / ".loops/.config.yaml").write_text("trees: 1MB\n")
    paused = ran(project, "waits", then="review")
    first = recorded(project)
    for number in range(6):
        ran(project, f"run{number}")
    left = recorded(project)
    assert first < left
    assert 2 < len(left) < 7
    assert project.ll("undo", "run0").stderr == (
        "error: the snapshots of `run0` were deleted to save space\n"
        "   = help: the limit is `trees` in `.loops/.config.yaml`; the oldest runs lose theirs first\n"
    )
    assert project.ll("undo", "run5").returncode == 0
    assert project.ll("approve", paused).returncode == 0


def test_deleting_runs_deletes_their_snapshots_and_the_clean_copies(project):
    ran(project, "old")
    was = recorded(project)
    paused = ran(project, "waits", then="review")
    done = project.ll("history", "--prune", "--keep", "0")
    assert (done.returncode, done.stderr) == (0, "")
    deleted, freed = done.stdout.splitlines()
    assert deleted == "deleted 1 run: 1 of old"
    assert freed.startswith("freed ")
    assert freed.endswith(" kB of snapshots and clean copies")
    assert not was & recorded(project)
    assert recorded(project)
    assert project.ll("approve", paused).returncode == 0


def disk_use(project: Project) -> str:
    checks = json.loads(project.ll("doctor", "--json").stdout)["checks"]
    [text] = [each["text"] for each in checks if each["id"] == "snapshots"]
    return re.sub(r"\d+(\.\d+)? k?B", "SIZE", text)


def test_the_disk_space_of_snapshots_and_clean_copies_is_shown_and_freed(project):
    ran(project, "old", evidence="{clean: true}")
    copies = project.home / ".local/state/little-loops/copies"
    assert list(copies.glob("*/*/work/*/big.bin"))
    assert disk_use(project) == "snapshots use SIZE of at most 500 MB, clean copies SIZE"
    assert project.ll("history", "--prune", "--keep", "0").returncode == 0
    assert list(copies.glob("*/*/work")) == []
    assert disk_use(project) == "snapshots use SIZE of at most 500 MB"


@pytest.mark.parametrize(
    ("written", "size"),
    [("500MB", 500 << 20), ("2 GB", 2 << 30), ("1.5MB", 3 << 19), ("64kB", 64 << 10)],
)
def test_a_size(written, size):
    assert read_cap({"trees": written}, "config") == size


@pytest.mark.parametrize("written", ["500", "many", "-1MB", "1TB", None, True, ["1MB"]])
def test_no_size(written):
    with pytest.raises(UsageError) as caught:
        read_cap({"trees": written}, "config")
    assert caught.value.message == "`config`: `trees` is not a size"
    assert caught.value.help == "write, for example, `trees: 500MB`"


def test_the_project_decides_before_the_user(tmp_path):
    home, project = tmp_path / "home", tmp_path / "project"
    (home / ".config/little-loops").mkdir(parents=True)
    (project / ".loops").mkdir(parents=True)
    environ = {"HOME": str(home)}
    assert cap_of(str(project), environ) == USUAL_CAP
    (home / ".config/little-loops/config.yaml").write_text("trees: 2GB\n")
    assert cap_of(str(project), environ) == 2 << 30
    (project / ".loops/.config.yaml").write_text("max_iterations: 3\ntrees: 1GB\n")
    assert cap_of(str(project), environ) == 1 << 30
