"""Past runs: moved whole, found half-way, listed whatever is wrong with one of them."""

from __future__ import annotations

import errno
import os
import re
import shutil
from functools import partial

import pytest

from little_loops.errors import StorageError, UsageError
from little_loops.runs import history
from little_loops.runs.history import archive, delete_runs, old_runs, past_files, restore, settle
from little_loops.runs.layout import RunFiles
from little_loops.runs.reading import Runs
from little_loops.runs.storage import create, load
from little_loops.system.files import Folder
from tests.engine.faults import KILLED, REFUSED, SURVIVED, attempts, die, failing_with, outcome
from tests.runs.files import STEM, contents, listed, ran


def test_a_run_is_moved_with_all_its_files(tmp_path):
    ran(tmp_path)
    before = contents(tmp_path)
    past = archive(str(tmp_path), "fix")
    assert past == RunFiles(str(tmp_path), "fix", STEM)
    assert contents(tmp_path) == {
        re.sub(r"^\.running/fix", f".history/fix/{STEM}", place): text
        for place, text in before.items()
    }
    assert listed(tmp_path) == [("fix", STEM, "failed")]


def test_nothing_to_archive(tmp_path):
    assert archive(str(tmp_path), "fix") is None
    assert not (tmp_path / ".loops/.history").exists()


def test_a_run_of_somebody_else_in_a_directory_made_again_is_left_alone(tmp_path):
    ran(tmp_path)
    running = tmp_path / ".loops/.running"
    own = Folder.at(str(running))
    assert own is not None
    with own:
        assert own.is_in_place()
        shutil.rmtree(running)
        assert not own.is_in_place()
        ran(tmp_path)
        before = contents(tmp_path)
        with pytest.raises(StorageError) as caught:
            archive(str(tmp_path), "fix", own)
    assert caught.value.message == f"`{running}` was removed and created again in the meantime"
    assert contents(tmp_path) == before


def test_two_runs_of_the_same_second_are_kept_apart(tmp_path):
    for _ in range(12):
        ran(tmp_path)
        archive(str(tmp_path), "fix")
    stems = [files.stem for files in past_files(str(tmp_path))]
    assert stems == [f"{STEM}-{number}" for number in range(12, 1, -1)] + [STEM]


def test_a_fork_of_the_same_second_is_newer_than_its_parent(tmp_path):
    for name in ("fix@step2", "fix", "build"):
        ran(tmp_path, name)
        archive(str(tmp_path), name)
    assert [files.name for files in past_files(str(tmp_path))] == ["fix@step2", "fix", "build"]


def test_a_restored_run_is_the_one_that_was_archived(tmp_path):
    ran(tmp_path)
    before = contents(tmp_path)
    past = archive(str(tmp_path), "fix")
    assert past is not None
    assert restore(past) == RunFiles(str(tmp_path), "fix")
    assert contents(tmp_path) == before
    assert archive(str(tmp_path), "fix") == past


def test_a_run_is_not_restored_over_another(tmp_path):
    ran(tmp_path)
    past = archive(str(tmp_path), "fix")
    assert past is not None
    ran(tmp_path, started="2026-01-16T00:00:00.000Z")
    before = contents(tmp_path)
    with pytest.raises(StorageError) as caught:
        restore(past)
    assert caught.value.message == f"`{tmp_path}/.loops/.running/fix.state.json` already exists"
    assert contents(tmp_path) == before


def test_a_start_that_recorded_nothing_is_not_in_the_way(tmp_path):
    ran(tmp_path)
    past = archive(str(tmp_path), "fix")
    assert past is not None
    create(str(tmp_path), "fix", {"run": "never began"}).close()
    restore(past)
    assert listed(tmp_path) == [("fix", None, "failed")]
    loaded = load(RunFiles(str(tmp_path), "fix"))
    assert loaded is not None
    assert loaded.start is not None
    assert loaded.start.data["run"] == "r1"


def test_a_run_that_is_gone_is_not_restored(tmp_path):
    with pytest.raises(StorageError, match="is gone"):
        restore(RunFiles(str(tmp_path), "fix", STEM))


@pytest.mark.parametrize("raw", [None, "", '{"format":9,"seq":1}', '{"format":1,"seq":1}'])
def test_a_run_without_a_usable_state_is_archived_by_its_log(tmp_path, raw):
    ran(tmp_path)
    state = tmp_path / ".loops/.running/fix.state.json"
    state.unlink()
    if raw is not None:
        state.write_text(raw)
    past = archive(str(tmp_path), "fix")
    assert past is not None
    assert past.stem is not None
    if raw != '{"format":1,"seq":1}':
        assert past.stem == STEM
    assert len(past_files(str(tmp_path))) == 1


def test_a_start_time_that_is_none_becomes_no_path(tmp_path):
    ran(tmp_path, started="../../../2026")
    past = archive(str(tmp_path), "fix")
    assert past is not None
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d", past.stem or "")


# ── crashes ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("fault", "code"), [(die, KILLED), (failing_with(errno.EIO), REFUSED)], ids=["killed", "failed"]
)
@pytest.mark.parametrize("direction", ["archive", "restore"])
def test_a_move_cut_short_anywhere_is_found_and_finished(tmp_path, fault, code, direction):
    """Before it is finished the run is listed once; after it, all of it is in one place."""
    for number in attempts():
        root = tmp_path / str(number)
        root.mkdir()
        ran(root)
        whole = contents(root)
        if direction == "restore":
            archive(str(root), "fix")
        begin = archive_it if direction == "archive" else restore_it
        ended = outcome(partial(begin, root), number, fault)
        assert [(name, status) for name, _, status in listed(root)] == [("fix", "failed")]
        found = the_run(root)
        assert loaded_status(found) == "failed"
        settle(str(root), "fix")
        if the_run(root).stem is not None:
            restore_it(root)
        assert contents(root) == whole
        if ended == 0:
            return
        assert ended in (code, SURVIVED)


def the_run(root) -> RunFiles:
    found = Runs(str(root)).view("fix")
    assert found is not None
    return found.files


def loaded_status(files: RunFiles) -> str:
    loaded = load(files)
    assert loaded is not None
    assert loaded.snapshot is not None
    return loaded.snapshot.status


def archive_it(root) -> None:
    archive(str(root), "fix")


def restore_it(root) -> None:
    restore(RunFiles(str(root), "fix", STEM))


@pytest.mark.parametrize(
    "words", ["nonsense", "archive:../../etc", "archive:2026", "steal:" + STEM]
)
def test_a_link_somebody_planted_moves_nothing(tmp_path, words):
    ran(tmp_path)
    os.symlink(words, tmp_path / ".loops/.running/fix.moving")
    before = contents(tmp_path)
    settle(str(tmp_path), "fix")
    assert contents(tmp_path) == before
    assert archive(str(tmp_path), "fix") == RunFiles(str(tmp_path), "fix", STEM)
    assert not os.path.lexists(tmp_path / ".loops/.running/fix.moving")


# ── pruning ────────────────────────────────────────────────────────────────────────────────────


def prune(root: str, **limits):
    return delete_runs(root, old_runs(root, **limits))


def days(found) -> list[str]:
    return sorted(f"{files.name} {(files.stem or '')[8:10]}" for files in found)


@pytest.fixture
def five_days(tmp_path):
    for name, day in [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 4)]:
        ran(tmp_path, name, f"2026-01-0{day}T00:00:00.000Z")
        archive(str(tmp_path), name)
    return tmp_path


THIRD = 1_767_398_400_000  # 2026-01-03


@pytest.mark.parametrize(
    ("asked", "gone"),
    [
        pytest.param({"keep": 1}, ["a 01", "a 02", "b 01"], id="all but the newest"),
        pytest.param({"keep": 0}, ["a 01", "a 02", "a 03", "b 01", "b 04"], id="all"),
        pytest.param({"before_ms": THIRD}, ["a 01", "a 02", "b 01"], id="by age"),
        pytest.param({"before_ms": THIRD, "keep": 2}, ["a 01"], id="by age, but keep some"),
        pytest.param({"keep": 0, "name": "b"}, ["b 01", "b 04"], id="of one name"),
    ],
)
def test_what_is_pruned_is_gone(five_days, asked, gone):
    before = days(past_files(str(five_days)))
    assert days(prune(str(five_days), **asked)) == gone
    after = days(past_files(str(five_days)))
    assert after == [each for each in before if each not in gone]
    left = {place.split("/")[1] for place in contents(five_days) if place.startswith(".history")}
    assert left == {each.split()[0] for each in after}


def test_pruning_wants_to_know_what(five_days):
    with pytest.raises(UsageError):
        prune(str(five_days))


def test_a_current_run_is_never_pruned(tmp_path):
    ran(tmp_path)
    assert prune(str(tmp_path), keep=0) == []
    assert listed(tmp_path) == [("fix", None, "failed")]


def test_a_run_on_its_way_is_not_pruned(tmp_path):
    ran(tmp_path)
    archive(str(tmp_path), "fix")
    os.symlink(f"restore:{STEM}", tmp_path / ".loops/.running/fix.moving")
    assert prune(str(tmp_path), keep=0) == []
    settle(str(tmp_path), "fix")
    assert listed(tmp_path) == [("fix", None, "failed")]


def test_what_an_interrupted_prune_left_is_deleted_by_the_next(five_days):
    left = five_days / f".loops/.history/{history.PRUNED}0123"
    shutil.copytree(five_days / ".loops/.history/a", left)
    assert len(past_files(str(five_days))) == 5
    prune(str(five_days), keep=1)
    assert not left.exists()


def test_pruning_follows_no_links_out(five_days):
    outside = five_days / "outside"
    outside.mkdir()
    (outside / "precious").write_text("")
    (five_days / ".loops/.history/a/2026-01-01T00-00-00.d/link").symlink_to(outside)
    prune(str(five_days), keep=0)
    assert (outside / "precious").exists()
