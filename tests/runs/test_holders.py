"""Who a `.pid` file speaks of, and that nobody else is ever signalled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from little_loops.errors import UsageError
from little_loops.runs.holders import (
    Holder,
    from_bytes,
    send,
    still_same,
    this_process,
    to_bytes,
    unknown,
)
from little_loops.system.process_table import SYSTEM


def me(**other) -> Holder:
    holder = this_process(
        "fix@2", ("/p/src", "/p/tests"), "r1", loop="fix", started_at="2026-01-15T10:30:00.000Z"
    )
    return holder._replace(**other)


@pytest.fixture
def stranger():
    """A process that would die of a signal."""
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=-1)
    yield child
    child.kill()
    child.communicate()


def test_the_first_line_is_the_pid():
    first, second, rest = to_bytes(me()).split(b"\n")
    assert int(first) == os.getpid()
    assert second.startswith(b'{"name":"fix@2",')
    assert rest == b""


def test_what_is_written_is_read_back():
    assert from_bytes(to_bytes(me(outer=("a", "b"))), "fix@2", "/p") == me(outer=("a", "b"))


@pytest.mark.parametrize(
    "raw",
    [b"", b"12\n", b"12\n{\n", b"12\n[]\n", b"12\nnull\n", b'12\n{"pid":12}\n', b"\xff\n\xff\n"],
)
def test_a_file_that_says_nothing_useful_is_held_by_somebody(raw):
    assert from_bytes(raw, "fix", "/p") == unknown("fix", "/p")
    assert from_bytes(raw, "fix", "/p").scope == ("/p",)


def test_this_process_is_itself():
    assert still_same(me())


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"created": 1.0}, id="begun at another time"),
        pytest.param({"boot": "another"}, id="before a reboot"),
        pytest.param({"host": "elsewhere"}, id="on another machine"),
        pytest.param({"pid": 0}, id="nobody"),
        pytest.param({"pid": -1}, id="everybody"),
        pytest.param({"pid": 2**22 + 1}, id="no such process"),
    ],
)
def test_a_number_that_changed_hands_is_not_the_same(other):
    assert not still_same(me(**other))
    assert not send(me(**other), signal.SIGKILL)


def test_a_stranger_who_got_the_number_is_not_signalled(stranger):
    assert not send(me(pid=stranger.pid), signal.SIGKILL)
    assert stranger.poll() is None


def test_the_process_itself_is_signalled(stranger):
    seen = SYSTEM.look(stranger.pid)
    assert seen is not None
    holder = me(pid=stranger.pid, created=seen.created)
    assert send(holder, signal.SIGTERM)
    assert stranger.wait(10) == -signal.SIGTERM
    assert not send(holder, signal.SIGTERM)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_process_of_another_user_is_said_to_be(stranger):
    seen = SYSTEM.look(stranger.pid)
    assert seen is not None
    holder = me(pid=stranger.pid, created=seen.created)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setresuid(12345, 12345, 12345)
            send(holder, signal.SIGKILL)
        except UsageError as error:
            os.write(writer, error.message.encode())
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(reader, 200).decode() == f"`fix@2` (pid {stranger.pid}) belongs to another user"
    assert stranger.poll() is None
    os.close(reader)
    os.close(writer)


def test_a_process_that_has_ended_and_is_not_waited_for_yet_is_gone(stranger):
    seen = SYSTEM.look(stranger.pid)
    assert seen is not None
    stranger.kill()
    os.waitid(os.P_PID, stranger.pid, os.WEXITED | os.WNOWAIT)
    assert not still_same(me(pid=stranger.pid, created=seen.created))
