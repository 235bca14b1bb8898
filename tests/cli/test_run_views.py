"""The run that a command means when nobody names one."""

from __future__ import annotations

from pathlib import Path

import pytest

from little_loops.cli.run_views import view_of
from little_loops.errors import UsageError
from little_loops.fsm.timestamps import timestamp
from little_loops.runs.reading import Runs
from tests.cli.runs import NOW, past, saved, state


def _started(ms: int):
    return state(started_at=timestamp(NOW + ms), status="completed", reason="terminal")


@pytest.mark.parametrize(
    ("runs", "last"),
    [
        pytest.param((("alpha", 100), ("omega", 300)), "omega", id="the last name in the alphabet"),
        pytest.param((("omega", 100), ("alpha", 300)), "alpha", id="the first name"),
        pytest.param(
            (("alpha", 100), ("alpha", 200), ("omega", 300)), "omega", id="a name with two runs"
        ),
        pytest.param((("alpha", 100), ("alpha", 900), ("omega", 300)), "alpha", id="its second"),
        pytest.param((("alpha", 1100), ("omega", 300)), "alpha", id="seconds apart"),
    ],
)
def test_the_last_run_is_the_one_that_started_last_also_within_a_second(runs, last, tmp_path):
    for name, ms in runs:
        past(tmp_path, name, _started(ms))
    assert view_of(Runs(str(tmp_path)), None).name == last


def test_a_run_that_has_not_ended_may_be_the_last_one(tmp_path):
    past(tmp_path, "alpha", _started(100))
    saved(tmp_path, "omega", _started(300)._replace(status="running", reason=None))
    assert view_of(Runs(str(tmp_path)), None).name == "omega"


def test_a_project_without_runs_has_no_last_one(tmp_path: Path):
    with pytest.raises(UsageError, match="this project has no runs yet"):
        view_of(Runs(str(tmp_path)), None)
