"""The index of the history: one line for each run that ends, and files for what it lacks."""

from __future__ import annotations

import json
import shutil

import pytest

from little_loops.runs.past_runs import PastRuns, reindex
from tests.cli.runs import QUICK, ran
from tests.project import Project


@pytest.fixture
def root(tmp_path):
    for name in ("quick", "quick", "other"):
        ran(tmp_path, QUICK, name)
    return tmp_path


def index(root):
    return root / ".loops/.history/index.jsonl"


def listed(root) -> list[tuple[str, str]]:
    return [(run.name, run.status) for run in PastRuns(str(root)).all()]


def test_a_run_that_ends_adds_its_line(root):
    lines = [json.loads(line) for line in index(root).read_text().splitlines()]
    assert [(line["name"], line["status"], line["state"]) for line in lines] == [
        ("quick", "completed", "done"),
        ("quick", "completed", "done"),
        ("other", "completed", "done"),
    ]


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda path: None, id="whole"),
        pytest.param(lambda path: path.unlink(), id="gone"),
        pytest.param(lambda path: path.write_text("{}\nnot json\n[1]\n"), id="damaged"),
        pytest.param(lambda path: path.write_text(path.read_text()[:-20]), id="torn"),
        pytest.param(lambda path: path.write_text(path.read_text() * 2), id="twice"),
        pytest.param(
            lambda path: path.write_text(path.read_text().replace('"other"', '"nobody"')),
            id="of a run that does not exist",
        ),
        pytest.param(lambda path: (path.unlink(), path.mkdir()), id="a directory"),
    ],
)
def test_every_run_is_listed_once_whatever_the_index_says(root, damage):
    damage(index(root))
    assert sorted(listed(root)) == [
        ("other", "completed"),
        ("quick", "completed"),
        ("quick", "completed"),
    ]


def test_what_is_kept_in_memory_follows_the_files(root):
    past = PastRuns(str(root))
    assert len(past.all()) == 3
    ran(root, QUICK, "third")
    assert sorted(run.name for run in past.all()) == ["other", "quick", "quick", "third"]
    shutil.rmtree(root / ".loops/.history/other")
    assert sorted(run.name for run in past.all()) == ["quick", "quick", "third"]
    index(root).unlink()
    assert len(past.all()) == 3


def test_the_index_is_written_again(root):
    before = PastRuns(str(root)).all()
    index(root).unlink()
    assert reindex(str(root)) == 3
    assert PastRuns(str(root)).all() == before
    assert len(index(root).read_text().splitlines()) == 3


def test_history_writes_the_index_and_pruning_shortens_it(root, tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("project"))
    shutil.copytree(root / ".loops", project.root / ".loops", dirs_exist_ok=True)
    index(project.root).unlink()
    assert project.ll("history", "--reindex").stdout == "indexed 3 runs\n"
    assert project.ll("history", "--prune", "--keep", "1").stdout == "deleted 1 run: 1 of quick\n"
    assert len(index(project.root).read_text().splitlines()) == 2
    refused = project.ll("history", "other", "--reindex")
    assert (refused.returncode, refused.stderr) == (
        2,
        "error: `--reindex` always covers all past runs\n   = help: leave out the name\n",
    )
