"""What a relay remembers, and its two files beside the metadata."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from little_loops.errors import StorageError
from little_loops.relay import record
from little_loops.relay.record import Pending, Relay, Task
from little_loops.relay.rules import RelayTurn

RELAY = Relay(
    session="sess_1",
    turns=(
        RelayTurn(
            1, "partial", "why", "mark", 1, 4, "h.md", True, ("e",), ("n",), ("a",), "s", "1a2b"
        ),
        RelayTurn(2, "invalid"),
    ),
    metadata="specs/886/.return-meta.json",
    task=Task("886", "state.json", "TODO.md"),
    prepared=2,
)


def test_saved_and_loaded(tmp_path):
    assert record.load(str(tmp_path)) == Relay()
    record.save(str(tmp_path), RELAY)
    assert record.load(str(tmp_path)) == RELAY
    assert os.listdir(tmp_path) == ["relay.json"]
    assert (tmp_path / "relay.json").stat().st_mode & 0o777 == 0o600
    assert json.loads((tmp_path / "relay.json").read_text())["format"] == 1


def test_what_version_one_kept_besides_is_not_needed(tmp_path):
    record.save(str(tmp_path), RELAY)
    kept = json.loads((tmp_path / "relay.json").read_text())
    more = {"run": "run-1", "number": 3, "started_ns": 7, "started": {}, "commits": True}
    waits = {"not_before_ms": 7, "wait_ms": 3}
    (tmp_path / "relay.json").write_text(json.dumps({**kept, **more, **waits}))
    assert record.load(str(tmp_path)) == RELAY


def test_the_turns_before_this_one():
    assert RELAY.before(2) == RELAY.turns[:1]


def test_marked_seen_and_unmarked(tmp_path):
    metadata = str(tmp_path / "specs" / "meta.json")
    assert record.pending_at(metadata) is None
    assert record.marked_at(metadata) is None
    started_ns = record.mark_pending(metadata, Pending("run-1", "sess_1", 2))
    assert started_ns == record.marked_at(metadata)
    assert started_ns == (tmp_path / "specs/.postflight-loop-guard").stat().st_mtime_ns
    assert record.pending_at(metadata) == Pending("run-1", "sess_1", 2)
    record.unmark(metadata)
    assert os.listdir(tmp_path / "specs") == []
    record.unmark(metadata)


@pytest.mark.parametrize(
    ("marker", "guard", "pending"),
    [
        pytest.param("run-1\nsess_1\n", None, Pending("run-1", "sess_1", 0), id="no guard"),
        pytest.param("run-1", "x\n", Pending("run-1", "", 0), id="odd contents"),
        pytest.param("", "3", Pending("", "", 3), id="an empty marker"),
        pytest.param("x" * 5000, "3", None, id="a huge marker"),
        pytest.param(None, "3", None, id="a guard alone"),
    ],
)
def test_what_others_left(tmp_path, marker, guard, pending):
    for name, text in ((".postflight-pending", marker), (".postflight-loop-guard", guard)):
        if text is not None:
            (tmp_path / name).write_text(text)
    assert record.pending_at(str(tmp_path / "meta.json")) == pending


def test_a_marker_that_cannot_be_removed(tmp_path):
    (tmp_path / ".postflight-pending").mkdir()
    with pytest.raises(StorageError) as caught:
        record.unmark(str(tmp_path / "meta.json"))
    assert caught.value.message == f"cannot remove `{tmp_path}/.postflight-pending`: is a directory"


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    path = str(tmp_path / "file")
    record.write_atomically(path, "old")
    (tmp_path / "file.ll-loop.tmp").write_text("left by a process that was killed")
    record.write_atomically(path, "new")
    assert Path(path).read_text() == "new"
    with pytest.raises(StorageError):
        record.write_atomically(str(tmp_path / "nowhere" / "file"), "x")
    assert os.listdir(tmp_path) == ["file"]
