"""The guard: one decides, many may look, and nobody waits for ever."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from little_loops.errors import StorageError
from little_loops.system.files import Folder
from little_loops.system.lock_files import GUARD, guarded, guarded_shared, held, hold


def folder_at(path: str) -> Folder:
    opened = Folder.at(path)
    assert opened is not None
    return opened


@pytest.fixture
def folder(tmp_path):
    with folder_at(str(tmp_path)) as opened:
        yield opened


def test_the_guard_is_held_by_one_at_a_time(tmp_path, folder):
    words = f"`{tmp_path}/{GUARD}` has been held for 0.05 s"
    with guarded(folder):
        for attempt in (guarded, guarded_shared):
            with pytest.raises(StorageError) as caught, attempt(folder, 0.05):
                pass
            assert caught.value.message == words
    with guarded(folder, 0.05):
        pass


def test_many_may_look_at_once(folder):
    with guarded(folder):
        pass
    with guarded_shared(folder), guarded_shared(folder, 0.05):
        pass


def test_looking_makes_no_guard(tmp_path, folder):
    with guarded_shared(folder):
        pass
    assert os.listdir(tmp_path) == []


def test_a_guard_that_is_removed_meanwhile_guards_nothing(tmp_path, folder):
    with guarded(folder):
        os.unlink(tmp_path / GUARD)
        with guarded(folder, 0.05):
            assert os.listdir(tmp_path) == [GUARD]


def test_a_directory_that_is_removed_is_an_error_in_words(tmp_path):
    (tmp_path / "gone").mkdir()
    with folder_at(str(tmp_path / "gone")) as folder:
        (tmp_path / "gone").rmdir()
        with pytest.raises(StorageError) as caught, guarded(folder):
            pass
    assert caught.value.message == f"`{tmp_path}/gone` was removed"


def test_a_guard_whose_holder_is_killed_is_free(tmp_path, folder):
    program = (
        "import sys, time\n"
        "from little_loops.system.files import Folder\n"
        "from little_loops.system.lock_files import guarded\n"
        "with guarded(Folder.at(sys.argv[1])):\n"
        "    print('mine', flush=True)\n"
        "    time.sleep(60)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=-1)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"mine\n"
        with pytest.raises(StorageError), guarded(folder, 0.05):
            pass
    finally:
        child.kill()
        child.communicate()
    with guarded(folder, 0.5):
        pass


def test_what_a_held_file_says(tmp_path, folder):
    (tmp_path / "fix.pid").write_text("12\n")
    assert held(folder, "fix.pid") is None
    descriptor = os.open(tmp_path / "fix.pid", os.O_RDWR)
    assert hold(descriptor)
    assert held(folder, "fix.pid") == b"12\n"
    second = os.open(tmp_path / "fix.pid", os.O_RDWR)
    assert not hold(second)
    os.close(second)
    os.close(descriptor)
    assert held(folder, "fix.pid") is None
    assert held(folder, "none.pid") is None


def test_a_link_is_held_by_nobody(tmp_path, folder):
    (tmp_path / "victim").write_text("")
    (tmp_path / "fix.pid").symlink_to("victim")
    assert held(folder, "fix.pid") is None


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs /proc")
def test_a_file_that_cannot_be_locked_is_an_error_in_words():
    descriptor = os.open("/proc/self", os.O_PATH)
    try:
        with pytest.raises(StorageError, match="this file system cannot lock files: "):
            hold(descriptor)
    finally:
        os.close(descriptor)
