"""A run's files: written so that they can be read back whatever happens to them."""

from __future__ import annotations

import json
import os
import shutil
import stat

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from little_loops.errors import DamagedRun, LostOwnership, StorageError, UsageError
from little_loops.fsm.state import LoopState
from little_loops.runs.entries import entries, last_entries
from little_loops.runs.folders import find_folder, make_folder
from little_loops.runs.layout import RunFiles
from little_loops.runs.storage import Loaded, RunWriter, create, load, reopen
from tests.entries import whole as event_fields

RUN = {"run": "r1", "loop": {"name": "fix"}}


AT = "2026-01-15T10:30:00.000Z"


def event(seq: int, run: str = "r1"):
    return {"event": "x", "seq": seq, "run": run, "ts": AT, "ran_ms": 0}


def state(seq: int, **fields):
    return LoopState("r1", "fix", "a", AT, AT, phase="ended", seq=seq)._replace(**fields)


def begun(root, last: int, saved_at: int | None = None) -> RunFiles:
    """A run of so many events, with a snapshot taken after one of them."""
    writer = create(str(root), "fix", RUN)
    for seq in range(1, last + 1):
        writer.append([event(seq)])
        if seq == saved_at:
            writer.save(state(seq))
    writer.close()
    return RunFiles(str(root), "fix")


def story(files: RunFiles) -> tuple[int | None, list[int]]:
    """The number of the snapshot, and those of the events behind it."""
    loaded = load(files)
    assert loaded is not None
    at = None if loaded.snapshot is None else loaded.snapshot.seq
    return at, [entry.seq for entry in loaded.entries]


def reopened(root: str, loaded: Loaded) -> RunWriter:
    return reopen(root, "fix", loaded.stamps, has_snapshot=loaded.snapshot is not None)


def tree(root) -> dict[str, bytes]:
    """Everything below a directory, with what is in it."""
    found = {}
    for directory, folders, files in os.walk(root):
        for name in folders:
            found[os.path.join(directory, name)] = b"/"
        for name in files:
            with open(os.path.join(directory, name), "rb") as file:
                found[os.path.join(directory, name)] = file.read()
    return found


# ── layout ─────────────────────────────────────────────────────────────────────────────────────


def test_the_places_of_a_run():
    current, past = RunFiles("/p", "fix@2"), RunFiles("/p", "fix", "2026-01-15T10-30-00")
    assert [current.pid, current.state, current.events, current.log, current.run_json] == [
        "/p/.loops/.running/fix@2.pid",
        "/p/.loops/.running/fix@2.state.json",
        "/p/.loops/.running/fix@2.events.jsonl",
        "/p/.loops/.running/fix@2.log",
        "/p/.loops/.running/fix@2.d/run.json",
    ]
    assert [past.state, past.data, past.spawn] == [
        "/p/.loops/.history/fix/2026-01-15T10-30-00.state.json",
        "/p/.loops/.history/fix/2026-01-15T10-30-00.d",
        "/p/.loops/.history/fix/2026-01-15T10-30-00.spawn.json",
    ]


@pytest.mark.parametrize("mask", [0o000, 0o077], ids=lambda mask: f"umask {mask:03o}")
def test_files_are_their_owners_alone(tmp_path, mask):
    before = os.umask(mask)
    try:
        writer = create(str(tmp_path), "fix", RUN)
        writer.append([event(1)])
        writer.save(state(1))
        os.close(writer.open_log())
        writer.close()
    finally:
        os.umask(before)
    running = tmp_path / ".loops/.running"
    modes = {
        os.path.relpath(path, running): stat.S_IMODE(os.stat(path).st_mode)
        for path in [running, *running.rglob("*")]
    }
    assert modes == {
        ".": 0o700,
        ".gitignore": 0o600,
        "fix.d": 0o700,
        "fix.d/run.json": 0o600,
        "fix.events.jsonl": 0o600,
        "fix.state.json": 0o600,
        "fix.log": 0o600,
    }


def test_git_is_told_to_leave_runs_alone(tmp_path):
    make_folder(str(tmp_path), ".running").close()
    assert (tmp_path / ".loops/.gitignore").read_text() == ".running/\n.history/\n"
    inside = tmp_path / ".loops/.running/.gitignore"
    assert inside.read_text() == "*\n"
    inside.write_text("")  # as a kill may leave it
    (tmp_path / ".loops/.gitignore").write_text("mine\n")
    make_folder(str(tmp_path), ".running").close()
    assert (tmp_path / ".loops/.gitignore").read_text() == "mine\n"
    assert inside.read_text() == "*\n"


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "a\n"])
def test_no_other_name_becomes_part_of_a_path(tmp_path, name):
    for attempt in (
        lambda: load(RunFiles(str(tmp_path), name)),
        lambda: create(str(tmp_path), name, RUN),
        lambda: list(entries(RunFiles(str(tmp_path), name))),
    ):
        with pytest.raises(UsageError):
            attempt()
    assert tree(tmp_path) == {}


def test_reading_makes_nothing(tmp_path):
    files = RunFiles(str(tmp_path), "fix")
    assert load(files) is None
    assert list(entries(files)) == last_entries(files, 5) == []
    assert find_folder(str(tmp_path), ".running") is None
    assert tree(tmp_path) == {}


# ── reading back ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("saved_at", [None, 1, 3, 5])
def test_a_run_is_its_snapshot_and_what_came_after(tmp_path, saved_at):
    files = begun(tmp_path, 5, saved_at)
    assert story(files) == (saved_at, list(range((saved_at or 0) + 1, 6)))
    loaded = load(files)
    assert loaded is not None
    assert loaded.start is not None
    assert loaded.start.is_as_written
    assert {**RUN, **loaded.start.data} == loaded.start.data
    assert not loaded.is_edited
    expected = None if saved_at else f"`{files.state}` is missing; its state was read from the log"
    assert loaded.damage == expected
    assert [entry.seq for entry in last_entries(files, 2)] == [4, 5]


def test_only_what_is_behind_the_snapshot_is_read(tmp_path):
    files = begun(tmp_path, 5, saved_at=4)
    with open(files.events, "r+b") as log:
        log.write(b"?")  # the beginning of the log is not looked at again
    assert story(files) == (4, [5])


def test_what_the_caller_saved_is_what_comes_back(tmp_path):
    writer = create(str(tmp_path), "fix", RUN)
    writer.append([event(1)])
    writer.save(state(1, error="é\udc80\x1b"), sync=True)
    writer.close()
    loaded = load(writer.files)
    assert loaded is not None
    assert loaded.snapshot == state(1, error="é\udc80\x1b")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(0, 6), st.integers(0, 6), st.floats(0, 1))
def test_a_log_cut_anywhere_gives_a_run_that_was(tmp_path_factory, last, saved_at, part):
    """A machine that lost power kept the snapshot and a beginning of the log, or neither."""
    root = tmp_path_factory.mktemp("cut")
    files = begun(root, last, saved_at if 0 < saved_at <= last else None)
    has_snapshot = os.path.exists(files.state)
    os.truncate(files.events, round(os.path.getsize(files.events) * part))
    whole = [entry.seq for entry in entries(files)]
    reached = max([saved_at if has_snapshot else 0, *whole])
    for _ in range(2):
        loaded = load(files)
        if loaded is None:
            assert not has_snapshot
            assert whole == []
            return
        at = 0 if loaded.snapshot is None else loaded.snapshot.seq
        seen = [entry.seq for entry in loaded.entries]
        assert seen == list(range(at + 1, reached + 1))
        # Going on from there and reading it again is no different.
        writer = reopened(str(root), loaded)
        reached += 1
        writer.append([event(reached)], sync=True)
        if reached % 2:
            writer.save(state(reached))
        writer.close()


def test_a_snapshot_that_is_ahead_of_its_log_is_used(tmp_path):
    files = begun(tmp_path, 3, saved_at=3)
    os.truncate(files.events, 0)
    assert story(files) == (3, [])
    os.unlink(files.events)
    loaded = load(files)
    assert loaded is not None
    assert (loaded.snapshot, loaded.damage) == (state(3), f"`{files.events}` is missing")


DAMAGES = {
    "empty": (b"", "not valid JSON at line 1, column 1"),
    "zeros": (b"\0\0\0\0", "not valid JSON at line 1, column 1"),
    "torn": (b'{"format":1,"seq":3,"ru', "not valid JSON at line 1, column 21"),
    "no object": (b"[1]", "not a JSON object"),
    "no format": (b"{}", "`format` is missing"),
    "a field is missing": (b'{"format":1}', "`run` is missing"),
    "a wrong field": (b'{"format":1,"run":1}', "`run` cannot be 1"),
    "nested": (b"[" * 100_000, "nested too deeply"),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_snapshot_is_made_again_from_the_log(tmp_path, kind):
    raw, words = DAMAGES[kind]
    files = begun(tmp_path, 3, saved_at=2)
    with open(files.state, "wb") as file:
        file.write(raw)
    before = tree(tmp_path)
    loaded = load(files)
    assert loaded is not None
    assert loaded.damage == f"`{files.state}` is damaged: {words}; its state was read from the log"
    assert loaded.snapshot is None
    assert [entry.seq for entry in loaded.entries] == [1, 2, 3]
    assert tree(tmp_path) == before
    # Only a writer that takes over puts it aside, and keeps it.
    writer = reopened(str(tmp_path), loaded)
    writer.save(state(3))
    writer.close()
    with open(f"{files.state}.damaged-1", "rb") as file:
        assert file.read() == raw
    assert story(files) == (3, [])


def test_damaged_files_are_kept_apart(tmp_path):
    files = begun(tmp_path, 1)
    for text in ("one", "two"):
        with open(files.state, "w") as file:
            file.write(text)
        loaded = load(files)
        assert loaded is not None
        reopened(str(tmp_path), loaded).close()
    kept = sorted(name for name in os.listdir(files.directory) if "damaged" in name)
    assert kept == ["fix.state.json.damaged-1", "fix.state.json.damaged-2"]


def ruin(files: RunFiles, raw: bytes) -> None:
    with open(files.state, "wb") as file:
        file.write(raw)


def test_a_newer_format_is_refused_and_left_alone(tmp_path):
    files = begun(tmp_path, 3, saved_at=2)
    ruin(files, json.dumps(state(2).to_dict() | {"format": 2}).encode())
    before = tree(tmp_path)
    with pytest.raises(DamagedRun) as caught:
        load(files)
    assert caught.value.message == (
        f"`{files.state}` was written by a newer version (format 2; this one reads 1)"
    )
    assert tree(tmp_path) == before


def test_a_log_of_a_newer_format_is_refused(tmp_path):
    writer = create(str(tmp_path), "fix", RUN)
    writer.append([event(1) | event_fields("loop_start", format=2)])
    writer.close()
    with pytest.raises(DamagedRun, match=r"newer version \(format 2; this one reads 1\)"):
        load(writer.files)


def test_neither_snapshot_nor_log(tmp_path):
    files = begun(tmp_path, 0)
    ruin(files, b"?")
    before = tree(tmp_path)
    with pytest.raises(DamagedRun) as caught:
        load(files)
    assert caught.value.message == (
        f"`{files.state}` is damaged: not valid JSON at line 1, column 1,"
        f" and `{files.events}` has no events"
    )
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        pytest.param([2, 3], "event 2 follows event 0", id="no beginning"),
        pytest.param([1, 2, 4], "event 4 follows event 2", id="one is missing"),
        pytest.param([1, 2, 2], "event 2 follows event 2", id="two writers"),
        pytest.param([1, 2, 1], "event 1 follows event 2", id="begun again"),
    ],
)
def test_a_log_with_a_hole_is_no_whole_story(tmp_path, numbers, words):
    writer = create(str(tmp_path), "fix", RUN)
    writer.append([event(seq) for seq in numbers])
    writer.close()
    with pytest.raises(DamagedRun, match=f"has a gap or repeat: {words}"):
        story(writer.files)


def test_a_hole_behind_the_snapshot(tmp_path):
    files = begun(tmp_path, 2, saved_at=2)
    with open(files.events, "ab") as log:
        log.write(json.dumps(event(4)).encode() + b"\n")
    with pytest.raises(DamagedRun) as caught:
        story(files)
    assert caught.value.message == f"`{files.events}` has a gap or repeat: event 4 follows event 2"


def test_events_of_another_run_are_no_part_of_the_story(tmp_path):
    files = begun(tmp_path, 1)
    with open(files.events, "ab") as log:
        log.write(json.dumps(event(2, run="r2")).encode() + b"\n")
    with pytest.raises(DamagedRun, match="contains events of two runs"):
        story(files)


def test_a_snapshot_edited_by_hand_is_honoured_and_said(tmp_path):
    files = begun(tmp_path, 3, saved_at=2)
    with open(files.state) as file:
        text = file.read()
    ruin(files, text.replace('"current_state":"a"', '"current_state":"done"').encode())
    loaded = load(files)
    assert loaded is not None
    assert loaded.is_edited
    assert loaded.snapshot == state(2, current_state="done")
    assert [entry.seq for entry in loaded.entries] == [3]


def test_a_snapshot_written_out_by_a_pretty_printer_is_honoured_too(tmp_path):
    files = begun(tmp_path, 3, saved_at=2)
    ruin(files, json.dumps(state(2).to_dict(), indent=2).encode())
    loaded = load(files)
    assert loaded is not None
    assert loaded.is_edited
    assert [entry.seq for entry in loaded.entries] == [3]


def test_what_the_run_was_started_with_may_be_lost(tmp_path):
    files = begun(tmp_path, 1, saved_at=1)
    for break_it in (lambda: ruin_run_json(files), lambda: shutil.rmtree(files.data)):
        break_it()
        loaded = load(files)
        assert loaded is not None
        assert loaded.start is None


def ruin_run_json(files: RunFiles) -> None:
    with open(files.run_json, "w") as file:
        file.write("{")


# ── writing ────────────────────────────────────────────────────────────────────────────────────


def test_a_run_is_not_begun_over_another(tmp_path):
    files = begun(tmp_path, 1)
    with pytest.raises(StorageError) as caught:
        create(str(tmp_path), "fix", RUN)
    assert caught.value.message == f"`{files.events}` contains the events of another run"


def test_a_start_that_recorded_nothing_is_begun_anew(tmp_path):
    files = begun(tmp_path, 0)
    with open(files.events, "wb") as log:
        log.write(b'{"event":"loop_st')
    assert load(files) is None
    writer = create(str(tmp_path), "fix", RUN)
    writer.append([event(1)])
    writer.close()
    assert story(files) == (None, [1])


def change(path: str) -> None:
    with open(path, "a") as file:
        file.write(" ")


def replace(path: str) -> None:
    with open(f"{path}.other", "w") as file:
        file.write("{}")
    os.rename(f"{path}.other", path)


@pytest.mark.parametrize("what", [change, replace, os.unlink], ids=["change", "replace", "remove"])
def test_a_snapshot_somebody_else_wrote_stops_the_writer(tmp_path, what):
    writer = create(str(tmp_path), "fix", RUN)
    writer.append([event(1)])
    writer.save(state(1))
    writer.save(state(1))
    what(writer.files.state)
    before = tree(tmp_path)
    with pytest.raises(LostOwnership) as caught:
        writer.save(state(2))
    writer.close()
    assert caught.value.message == f"another process wrote `{writer.files.state}`"
    assert tree(tmp_path) == before


def test_a_project_that_is_moved_takes_its_run_along(tmp_path):
    (tmp_path / "here").mkdir()
    writer = create(str(tmp_path / "here"), "fix", RUN)
    (tmp_path / "here").rename(tmp_path / "there")
    writer.append([event(1)], sync=True)
    writer.save(state(1), sync=True)
    writer.close()
    assert story(RunFiles(str(tmp_path / "there"), "fix")) == (1, [])


def test_what_a_killed_writer_left_half_written_is_swept(tmp_path):
    files = begun(tmp_path, 1)
    mine, other = (f".{name}.tmp-0123456789abcdef" for name in ("fix", "fix.x"))
    for name in (mine, other):
        (tmp_path / ".loops/.running" / name).write_text("half")
    loaded = load(files)
    assert loaded is not None
    reopened(str(tmp_path), loaded).close()
    left = sorted(name for name in os.listdir(files.directory) if name.startswith("."))
    assert left == [other, ".gitignore"]


@pytest.mark.parametrize("planted", [".loops", ".loops/.running"])
def test_a_link_in_the_place_of_a_directory_is_not_followed(tmp_path, planted):
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (project / planted).parent.mkdir(parents=True, exist_ok=True)
    (project / planted).symlink_to(elsewhere)
    for attempt in (
        lambda: create(str(project), "fix", RUN),
        lambda: load(RunFiles(str(project), "fix")),
    ):
        with pytest.raises(StorageError) as caught:
            attempt()
        assert caught.value.message == (
            f"`{project}/{planted}` is a symbolic link, and links are not followed here"
        )
    assert tree(elsewhere) == {}


@pytest.mark.parametrize("suffix", [".events.jsonl", ".d", ".log"])
def test_a_link_in_the_place_of_a_file_is_not_followed(tmp_path, suffix):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    make_folder(str(tmp_path), ".running").close()
    (tmp_path / f".loops/.running/fix{suffix}").symlink_to(victim)
    with pytest.raises(StorageError, match="is a symbolic link, and links are not followed here"):
        create(str(tmp_path), "fix", RUN).open_log()
    assert victim.read_text() == "precious"
