"""Runs as earlier versions left them: every version reads them, lists them and goes on from them.

The files in `v1/…` were written by the version that first had that format and are never changed;
`record.py` adds to them.  `story.json` says what the actions give back now, and how it must end.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from little_loops.fsm.state import FORMAT, LoopState
from little_loops.runs.layout import RunFiles
from little_loops.runs.reading import Runs
from little_loops.runs.stored_run import find, read_stored
from tests.entries import log_of
from tests.recorded.playing import NAME, lay_out, play, told
from tests.recorded.record import STORIES
from tests.simulation.child import in_child
from tests.simulation.histories import replayed

HERE = Path(__file__).parent
RECORDED = sorted(path.parent for path in HERE.glob("v*/*/story.json"))


@pytest.fixture
def root(tmp_path: Path) -> str:
    return os.path.realpath(tmp_path)


@pytest.mark.parametrize("story", RECORDED, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_recorded_run_is_resumed(root, story):
    lay_out(story, root)
    kept = json.loads((story / "story.json").read_text())
    ends = in_child(lambda: told(root, play(root, kept["then"], limits=kept["limits"])))
    assert ends == kept["ends"]


@pytest.mark.parametrize("story", RECORDED, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_recorded_run_is_read(root, story):
    lay_out(story, root)
    files = RunFiles(root, NAME)
    before = find(root, NAME)
    assert before.run == read_stored(files).run  # type: ignore[union-attr]
    assert [view.files for view in Runs(root).list()] == [files]
    assert LoopState.from_dict(json.loads(json.dumps(before.run.to_dict()))) == before.run


@pytest.mark.parametrize("story", RECORDED, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_recorded_snapshot_is_the_sum_of_its_log(root, story):
    """The events of an old log still add up to the run they added up to then."""
    lay_out(story, root)
    before = find(root, NAME)
    assert replayed(log_of(RunFiles(root, NAME)), before.loop) == before.run


def test_this_version_has_its_own_recordings():
    kept = {path.name for path in RECORDED if path.parent.name == f"v{FORMAT}"}
    assert kept == STORIES.keys(), "python -m tests.recorded.record"
