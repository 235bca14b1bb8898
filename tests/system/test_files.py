"""Files that are safe to write: whole, private, and never somewhere else."""

from __future__ import annotations

import json
import math
import os
import stat

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from little_loops.errors import StorageError
from little_loops.system.files import FileStamp, Folder, failure, to_json


def folder_at(path: str) -> Folder:
    opened = Folder.at(path)
    assert opened is not None
    return opened


@pytest.fixture
def folder(tmp_path):
    with folder_at(str(tmp_path)) as opened:
        yield opened


@pytest.fixture(params=[0o000, 0o022, 0o077, 0o777], ids=lambda mask: f"umask {mask:03o}")
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def test_modes_do_not_depend_on_the_umask(tmp_path, folder, umask):
    with folder.make("private") as private:
        private.replace("state", b"x", ".tmp")
        os.close(private.open("log", os.O_WRONLY | os.O_CREAT))
    places = ("private", "private/state", "private/log")
    assert [mode(tmp_path / place) for place in places] == [0o700, 0o600, 0o600]


def test_a_folder_left_open_to_all_is_closed(tmp_path, folder):
    (tmp_path / "wide").mkdir()
    (tmp_path / "wide").chmod(0o777)
    folder.make("wide").close()
    assert mode(tmp_path / "wide") == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize(
    ("its_mode", "words"),
    [
        pytest.param(0o700, "cannot open `{}`: permission denied", id="closed"),
        pytest.param(0o777, "`{}` belongs to another user", id="open to all"),
    ],
)
def test_a_folder_of_another_user_is_refused(tmp_path, folder, its_mode, words):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs").chmod(its_mode)
    os.chown(tmp_path / "theirs", 12345, 12345)
    os.chown(tmp_path, 12346, 12346)
    os.seteuid(12346)
    try:
        with pytest.raises(StorageError) as caught:
            folder.make("theirs")
    finally:
        os.seteuid(0)
    assert caught.value.message == words.format(tmp_path / "theirs")


def test_what_is_replaced_is_replaced_whole(tmp_path, folder):
    first = folder.replace("state", b"old", ".tmp")
    second = folder.replace("state", b"newer", ".tmp", sync=True)
    assert (tmp_path / "state").read_bytes() == b"newer"
    assert folder.stamp("state") == second != first
    assert folder.names() == ["state"]
    assert isinstance(second, FileStamp)
    assert second.size == 5


def test_what_is_added_is_added_once(tmp_path, folder):
    assert folder.add("x", b"first", ".tmp")
    assert not folder.add("x", b"second", ".tmp")
    assert (tmp_path / "x").read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["x"]
    with pytest.raises(StorageError, match="cannot write"):
        folder.add("no/such/place", b"", ".tmp")


def test_a_link_in_the_place_of_a_file_is_replaced_not_followed(tmp_path, folder):
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "state").symlink_to("victim")
    folder.replace("state", b"ours", ".tmp")
    assert (tmp_path / "victim").read_text() == "precious"
    assert not (tmp_path / "state").is_symlink()


def test_a_temporary_name_that_is_taken_is_not_written_through(tmp_path, folder):
    (tmp_path / "victim").write_text("precious")
    (tmp_path / ".tmp").symlink_to("victim")
    with pytest.raises(StorageError):
        folder.replace("state", b"ours", ".tmp")
    assert (tmp_path / "victim").read_text() == "precious"


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY | os.O_CREAT], ids=["read", "write"])
@pytest.mark.parametrize("target", ["victim", "nowhere"])
def test_links_are_not_followed(tmp_path, folder, flags, target):
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "log").symlink_to(target)
    with pytest.raises(StorageError) as caught:
        folder.open("log", flags)
    assert caught.value.message == (
        f"`{tmp_path}/log` is a symbolic link, and links are not followed here"
    )
    assert not (tmp_path / "nowhere").exists()


def test_a_link_in_the_place_of_a_folder_is_not_followed(tmp_path, folder):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "private").symlink_to("elsewhere")
    for attempt in (folder.child, folder.make):
        with pytest.raises(
            StorageError, match="is a symbolic link, and links are not followed here"
        ):
            attempt("private")


def test_a_pipe_in_the_place_of_a_file_does_not_hold_us_up(tmp_path, folder):
    os.mkfifo(tmp_path / "log")
    for flags in (os.O_RDONLY, os.O_RDWR | os.O_CREAT):
        with pytest.raises(StorageError) as caught:
            folder.open("log", flags)
        assert caught.value.message == f"`{tmp_path}/log` is not a file"


def test_a_folder_in_the_place_of_a_file(tmp_path, folder):
    (tmp_path / "state").mkdir()
    with pytest.raises(StorageError, match="cannot write"):
        folder.replace("state", b"", ".tmp")
    assert folder.names() == ["state"]
    with pytest.raises(StorageError, match="is not a file"):
        folder.read("state", 10)


def test_what_is_not_there(tmp_path, folder):
    assert folder.read("none", 10) is None
    assert folder.child("none") is None
    assert folder.stamp("none") is None
    folder.remove("none")
    folder.move("none", folder, "other")
    assert Folder.at(str(tmp_path / "none")) is None
    with pytest.raises(FileNotFoundError):
        folder.open("none", os.O_RDONLY)


def test_reading_is_bounded(tmp_path, folder):
    (tmp_path / "state").write_bytes(b"x" * 100)
    assert folder.read("state", 100) == b"x" * 100
    with pytest.raises(StorageError) as caught:
        folder.read("state", 99)
    assert caught.value.message == f"`{tmp_path}/state` is larger than 99 bytes"


def test_a_folder_that_is_moved_takes_its_files_along(tmp_path):
    (tmp_path / "here").mkdir()
    with folder_at(str(tmp_path / "here")) as folder:
        (tmp_path / "here").rename(tmp_path / "there")
        folder.replace("state", b"x", ".tmp", sync=True)
    assert (tmp_path / "there/state").read_bytes() == b"x"


def test_a_folder_that_is_gone_is_an_error_in_words(tmp_path):
    (tmp_path / "here").mkdir()
    with folder_at(str(tmp_path / "here")) as folder:
        (tmp_path / "here").rmdir()
        with pytest.raises(StorageError) as caught:
            folder.replace("state", b"x", ".tmp")
    assert caught.value.message == (
        f"cannot write `{tmp_path}/here/state`: no such file or directory"
    )


def test_a_file_in_the_place_of_a_project_is_an_error_in_words(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError) as caught:
        Folder.at(str(tmp_path / "file"))
    assert caught.value.message == f"cannot open `{tmp_path}/file`: not a directory"


def test_a_folder_is_not_moved_over_another(tmp_path, folder):
    for name in ("one", "other"):
        (tmp_path / name / "full").mkdir(parents=True)
    with pytest.raises(StorageError) as caught:
        folder.move("one", folder, "other")
    assert caught.value.message == f"cannot move `{tmp_path}/one`: directory not empty"


def test_a_folder_is_not_removed_as_a_file(tmp_path, folder):
    (tmp_path / "one").mkdir()
    with pytest.raises(StorageError, match=f"cannot remove `{tmp_path}/one`: "):
        folder.remove("one")


def test_a_failure_names_the_file_and_the_way_out():
    error = failure(OSError(28, "No space left on device"), "write", "/x/state")
    assert error.message == "cannot write `/x/state`: no space left on device"
    assert error.help == "free some space on that disk"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda items: st.lists(items) | st.dictionaries(st.text(), items),
    max_leaves=10,
)


@given(json_values)
@example({"a": [math.nan, (math.inf, -math.inf)], "b": 1.5})
def test_anything_becomes_one_line_of_strict_json(value):
    raw = to_json(value)
    assert raw.isascii()
    assert all(byte >= 0x20 for byte in raw)
    assert_same(json.loads(raw, parse_constant=pytest.fail), value)


def assert_same(read, written):
    if isinstance(written, dict):
        assert read.keys() == written.keys()
        for name in written:
            assert_same(read[name], written[name])
    elif isinstance(written, list | tuple):
        assert len(read) == len(written)
        for one, other in zip(read, written, strict=True):
            assert_same(one, other)
    elif isinstance(written, float) and not math.isfinite(written):
        assert read is None
    else:
        assert read == written


def test_half_a_surrogate_survives():
    assert json.loads(to_json("bad \udc80 byte")) == "bad \udc80 byte"
