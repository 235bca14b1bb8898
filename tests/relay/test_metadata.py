"""The metadata file in a hostile directory: what counts, what does not, and what is kept."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from little_loops.errors import StorageError, UsageError
from little_loops.relay.metadata import LARGEST, move_away, read_metadata, was_printed
from little_loops.relay.rules import Metadata, UnusableMetadata

GOOD = '{"status": "implemented"}'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / ".return-meta.json"


def error(file: Path, started_ns: int = 0) -> str:
    end = read_metadata(str(file), started_ns)
    assert isinstance(end, UnusableMetadata)
    return end.error


def test_a_good_file(file):
    file.write_text(GOOD)
    assert read_metadata(str(file), 0) == Metadata("implemented")
    file.write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert read_metadata(str(file), 0) == Metadata("implemented")


def test_no_file(file):
    assert error(file) == "the agent wrote no metadata file"


def test_a_half_written_file(file):
    file.write_text(GOOD[:-3])
    assert error(file).startswith("the metadata file is not valid JSON: Unterminated string")


def test_an_empty_file(file):
    file.write_text("")
    assert error(file).startswith("the metadata file is not valid JSON: Expecting value")


def test_a_stale_file(file):
    file.write_text(GOOD)
    written_ns = file.stat().st_mtime_ns
    assert read_metadata(str(file), written_ns) == Metadata("implemented")
    assert error(file, written_ns + 1) == "the metadata file is older than the turn"


def test_a_link_is_not_followed(file, tmp_path):
    (tmp_path / "elsewhere.json").write_text(GOOD)
    file.symlink_to(tmp_path / "elsewhere.json")
    link = "the metadata file cannot be read: it is a symbolic link, and links are not followed"
    assert error(file) == link
    (tmp_path / "elsewhere.json").unlink()
    assert error(file) == link


def test_what_is_no_file(file):
    file.mkdir()
    assert error(file) == "the metadata file cannot be read: it is not a regular file"
    file.rmdir()
    os.mkfifo(file)
    assert error(file) == "the metadata file cannot be read: it is not a regular file"


def test_a_directory_that_is_none(tmp_path):
    (tmp_path / "specs").write_text("")
    assert error(tmp_path / "specs" / "meta.json") == (
        "the metadata file cannot be read: not a directory"
    )


def test_an_oversized_file(file):
    padding = " " * (LARGEST - len(GOOD))
    file.write_text(GOOD + padding)
    assert read_metadata(str(file), 0) == Metadata("implemented")
    file.write_text(GOOD + padding + " ")
    assert error(file) == "the metadata file is larger than 1024 KiB"


def test_bytes_that_are_no_text(file):
    file.write_bytes(b'{"status": "implemented\xff"}')
    assert error(file) == "the metadata file is not UTF-8"


# ── out of the way ─────────────────────────────────────────────────────────────────────────────


def test_an_old_file_is_moved_away_and_kept(file, tmp_path):
    target = tmp_path / "kept.json"
    assert move_away(str(file), str(target)) is False
    file.write_text(GOOD)
    assert move_away(str(file), str(target)) is True
    assert not file.exists()
    assert target.read_text() == GOOD


def test_a_link_is_moved_itself(file, tmp_path):
    (tmp_path / "elsewhere.json").write_text(GOOD)
    file.symlink_to("elsewhere.json")
    assert move_away(str(file), str(tmp_path / "kept.json")) is True
    assert (tmp_path / "elsewhere.json").read_text() == GOOD
    assert (tmp_path / "kept.json").is_symlink()


def test_a_directory_stays_where_it_is(file, tmp_path):
    file.mkdir()
    with pytest.raises(UsageError) as caught:
        move_away(str(file), str(tmp_path / "kept.json"))
    assert caught.value.message == f"`{file}` is a directory"
    assert file.is_dir()


def test_what_cannot_be_moved(file, tmp_path):
    file.write_text(GOOD)
    with pytest.raises(StorageError) as caught:
        move_away(str(file), str(tmp_path / "nowhere" / "kept.json"))
    assert caught.value.message == f"cannot move `{file}` away: no such file or directory"
    with pytest.raises(StorageError) as caught:
        move_away(str(file / "x"), str(tmp_path / "kept.json"))
    assert caught.value.message == f"cannot read `{file / 'x'}`: not a directory"


SHARED_MEMORY = Path("/dev/shm")


@pytest.mark.skipif(
    not SHARED_MEMORY.is_dir() or SHARED_MEMORY.stat().st_dev == Path("/tmp").stat().st_dev,
    reason="wants a second file system",
)
def test_to_another_file_system(file, request):
    far = SHARED_MEMORY / f"little-loops-relay-{os.getpid()}"
    far.mkdir()
    request.addfinalizer(lambda: shutil.rmtree(far))
    (far / "kept.json").write_text("older")
    file.write_text(GOOD)
    assert move_away(str(file), str(far / "kept.json")) is True
    assert (far / "kept.json").read_text() == GOOD
    file.symlink_to("gone.json")
    assert move_away(str(file), str(far / "kept.json")) is True
    assert not os.path.lexists(file)
    file.write_text(GOOD)
    with pytest.raises(StorageError, match="away"):
        move_away(str(file), str(far / "nowhere" / "kept.json"))
    assert file.read_text() == GOOD


# ── the console ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("printed", "is_metadata"),
    [
        pytest.param(GOOD, True, id="only that"),
        pytest.param(f"Done!\n```json\n{GOOD}\n```\nBye", True, id="in a fence"),
        pytest.param('{\n  "status": "partial",\n  "x": {}\n}\nlast words', True, id="over lines"),
        pytest.param("all is implemented", False, id="prose"),
        pytest.param('see {"status": "implemented"} there', False, id="inside a line"),
        pytest.param('{"status": "ok"}', False, id="another status"),
        pytest.param('{"status": ["implemented"]}', False, id="another type"),
        pytest.param("{\n" * 200 + GOOD, True, id="after much else"),
        pytest.param("{" * 100_000, False, id="deep"),
        pytest.param("", False, id="nothing"),
    ],
)
def test_metadata_on_the_console_is_seen(tmp_path, printed, is_metadata):
    (tmp_path / "output").write_text(printed)
    assert was_printed(str(tmp_path / "output")) is is_metadata


def test_no_console(tmp_path):
    assert was_printed(str(tmp_path / "output")) is False
