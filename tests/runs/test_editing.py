"""Consent while a loop is edited: what it covers, and what ends it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from little_loops.errors import StorageError
from little_loops.runs.editing import LONGEST_MS, allow, allowed, begin, end, is_allowed, revoke

NOW = 1_800_000_000_000
UNTIL = NOW + LONGEST_MS


class Stage:
    """A project with a loop file, and a user's state."""

    def __init__(self, place: Path) -> None:
        self.root = str(place / "project")
        self.file = place / "project" / "fix.yaml"
        self.file.parent.mkdir()
        self.file.write_text("one")
        self.environ = {"XDG_STATE_HOME": str(place / "state")}
        self.kept = place / "state" / "little-loops" / "editing.json"

    def allow(self, *under_way: str, loop: str = "fix") -> None:
        allow(self.root, loop, str(self.file), UNTIL, under_way, self.environ)

    def holds(self, now: int = NOW + 1, loop: str = "fix") -> bool:
        return is_allowed(self.root, loop, now, self.environ)

    def begin(self, run: str) -> None:
        begin(self.root, run, self.environ)

    def end(self, run: str, completed: str | None = None) -> None:
        end(self.root, run, completed, self.environ)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_it_covers_one_loop_of_one_project_whatever_its_file_says(stage: Stage) -> None:
    assert not stage.holds()
    stage.allow()
    stage.file.write_text("two")
    assert (stage.holds(), stage.holds(loop="other")) == (True, False)
    assert not is_allowed("/elsewhere", "fix", NOW + 1, stage.environ)


@pytest.mark.parametrize("now", [UNTIL, UNTIL + 1, NOW - 1])
def test_it_ends_after_eight_hours(stage: Stage, now: int) -> None:
    """Also where the clock was set back, before the moment it was given."""
    stage.allow()
    assert not stage.holds(now)
    assert not stage.holds(), "it is forgotten"


def test_it_outlives_runs_that_leave_the_file_alone(stage: Stage) -> None:
    stage.allow()
    stage.begin("a")
    assert stage.holds()
    stage.end("a")
    stage.file.write_text("edited between two runs")
    stage.begin("b")
    stage.end("b", completed="another-loop")
    assert stage.holds()


def test_it_ends_with_a_completed_run_of_the_loop(stage: Stage) -> None:
    stage.allow()
    stage.begin("a")
    stage.end("a", completed="fix")
    assert not stage.holds()


@pytest.mark.parametrize("is_seen", ["while it is under way", "at its end", "after it was killed"])
def test_it_ends_if_the_file_changes_during_a_run(stage: Stage, is_seen: str) -> None:
    stage.allow()
    stage.begin("a")
    stage.file.write_text("changed by somebody")
    if is_seen == "at its end":
        stage.end("a")
        stage.file.write_text("one")  # too late to hide it
    assert not stage.holds()


def test_it_ends_if_the_file_is_removed_during_a_run(stage: Stage) -> None:
    stage.allow()
    stage.begin("a")
    stage.file.unlink()
    assert not stage.holds()


def test_a_run_that_began_before_counts_too(stage: Stage) -> None:
    stage.allow("a")
    stage.file.write_text("changed by somebody")
    stage.end("a")
    assert not stage.holds()


def test_a_resume_does_not_hide_a_change(stage: Stage) -> None:
    stage.allow()
    stage.begin("a")
    stage.file.write_text("changed by somebody")
    stage.begin("a")
    assert not stage.holds()


def test_runs_of_other_projects_do_not_matter(stage: Stage) -> None:
    stage.allow()
    begin("/elsewhere", "a", stage.environ)
    stage.file.write_text("two")
    end("/elsewhere", "a", "fix", stage.environ)
    assert stage.holds()


def test_it_can_be_revoked(stage: Stage) -> None:
    assert revoke(stage.root, stage.environ) == 0
    stage.allow()
    stage.allow()
    stage.allow(loop="other")
    assert revoke("/elsewhere", stage.environ) == 0
    assert [each.loop for each in allowed(stage.root, NOW + 1, stage.environ)] == ["fix", "other"]
    assert revoke(stage.root, stage.environ) == 2
    assert not stage.holds()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"loops": [1]}', '{"loops": [{"loop": 1}]}'])
def test_a_damaged_file_is_no_consent(stage: Stage, text: str) -> None:
    stage.allow()
    stage.kept.write_text(text)
    assert not stage.holds()


def test_what_others_could_write_is_no_consent(stage: Stage) -> None:
    stage.allow()
    stage.kept.parent.chmod(0o777)
    with pytest.raises(StorageError):
        stage.holds()
    stage.end("a")  # a run ends all the same


def test_without_it_nothing_is_written(stage: Stage) -> None:
    stage.begin("a")
    stage.end("a")
    assert not stage.kept.parent.exists()
    stage.allow()
    assert json.loads(stage.kept.read_text())["loops"][0]["loop"] == "fix"
