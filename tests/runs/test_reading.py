"""What may be asked about the runs of a project, whatever is wrong with one of them."""

from __future__ import annotations

import json
import os

from little_loops.runs.claims import claim
from little_loops.runs.history import archive
from little_loops.runs.reading import Runs
from tests.runs.files import STARTED, STEM, contents, listed, ran

# ── what there is ──────────────────────────────────────────────────────────────────────────────


def test_a_clock_that_was_set_back_hides_no_run(tmp_path):
    ran(tmp_path, started="2031-01-01T00:00:00.000Z", status="failed")
    archive(str(tmp_path), "fix")
    ran(tmp_path, status="completed")
    archive(str(tmp_path), "fix")
    assert listed(tmp_path) == [
        ("fix", "2031-01-01T00-00-00-2", "completed"),
        ("fix", "2031-01-01T00-00-00", "failed"),
    ]
    found = Runs(str(tmp_path)).view("fix")
    assert found is not None
    assert found.status == "completed"


def test_current_runs_by_name_then_past_ones_newest_first(tmp_path):
    for name, day in [("b", 1), ("a", 2), ("a", 3)]:
        ran(tmp_path, name, f"2026-01-0{day}T00:00:00.000Z")
        archive(str(tmp_path), name)
    for name in ("b", "a", "a@2", "a.b"):
        ran(tmp_path, name, status="interrupted")
    assert listed(tmp_path) == [
        ("a", None, "interrupted"),
        ("a.b", None, "interrupted"),
        ("a@2", None, "interrupted"),
        ("b", None, "interrupted"),
        ("a", "2026-01-03T00-00-00", "failed"),
        ("a", "2026-01-02T00-00-00", "failed"),
        ("b", "2026-01-01T00-00-00", "failed"),
    ]
    newest = next(Runs(str(tmp_path)).past("a"))
    assert newest.files.stem == "2026-01-03T00-00-00"


def test_a_living_run_is_listed_with_who_carries_it(tmp_path):
    runs = Runs(str(tmp_path))
    held = claim(str(tmp_path), "fix", (str(tmp_path),), "r1", loop="fix", started_at=STARTED)
    with held:
        [only] = runs.list()
        assert (only.status, only.summary, only.damage) == ("running", None, None)
        assert only.holder == held.holder
        assert runs.view("fix") == only
        assert runs.alive() == (only,)
        ran(tmp_path, status="completed")
        [only] = runs.list()
        assert (only.status, only.is_alive) == ("running", True)
        assert only.summary is not None
        assert only.holder == held.holder
    [only] = runs.list()
    assert (only.status, only.holder) == ("completed", None)


def test_a_damaged_run_is_listed_as_such_and_breaks_nothing(tmp_path):
    running = tmp_path / ".loops/.running"
    for name in ("empty", "good", "link", "lost", "new", "pipe"):
        ran(tmp_path, name)
    (running / "empty.state.json").write_text("")
    (running / "lost.state.json").unlink()
    (running / "new.state.json").write_text(json.dumps({"format": 7, "seq": 1}))
    for name, plant in [("link", lambda path: path.symlink_to("/etc/passwd")), ("pipe", os.mkfifo)]:
        (running / f"{name}.state.json").unlink()
        plant(running / f"{name}.state.json")
    (running / "not a name.state.json").write_text("")
    ran(tmp_path, "old")
    archive(str(tmp_path), "old")
    (tmp_path / f".loops/.history/old/{STEM}.state.json").write_text("[")
    (tmp_path / ".loops/.history/old/unknown").mkdir()
    short = [(name, words.replace(str(running), "")) for name, _, words in listed(tmp_path)]
    assert short[:-1] == [
        ("empty", "`/empty.state.json` is damaged: not valid JSON at line 1, column 1"),
        ("good", "failed"),
        ("link", "`/link.state.json` is a symbolic link, and links are not followed here"),
        ("lost", "killed before its state was first saved; `resume` reads it from the log"),
        (
            "new",
            "`/new.state.json` was written by a newer version (format 7; this one reads 1)",
        ),
        ("pipe", "`/pipe.state.json` is not a file"),
    ]
    assert short[-1][0] == "old"
    assert short[-1][1].endswith("is damaged: not valid JSON at line 1, column 2")


def test_listing_makes_nothing(tmp_path):
    runs = Runs(str(tmp_path))
    assert (runs.list(), runs.alive(), [*runs.past()], runs.past_names()) == ((), (), [], ())
    assert (runs.view("fix"), runs.detail("fix"), runs.has("fix")) == (None, None, False)
    assert os.listdir(tmp_path) == []
    ran(tmp_path)
    before = contents(tmp_path)
    names = sorted(os.listdir(tmp_path / ".loops/.running"))
    assert len(runs.list()) == 1
    assert (runs.detail("fix") is not None, runs.has("fix")) == (True, True)
    assert contents(tmp_path) == before
    assert sorted(os.listdir(tmp_path / ".loops/.running")) == names
