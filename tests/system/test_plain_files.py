"""Files are opened without waiting for anybody; what is not a regular file is refused."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from little_loops.system.plain_files import (
    open_nonblocking,
    open_plain,
    read_plain,
    reading,
    writing,
)


def listen(path: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as server:
        server.bind(str(path))


ODD: dict[str, tuple[Callable[[Path], object], str]] = {
    "a pipe": (os.mkfifo, "not a regular file"),
    "a device": (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
    "a socket": (listen, "not a regular file"),
    "a directory": (Path.mkdir, "Is a directory"),
    "nothing": (lambda path: None, "No such file or directory"),
}


@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_file_is_not_read(tmp_path, kind):
    put, why = ODD[kind]
    path = tmp_path / "odd"
    put(path)
    for attempt in (reading, read_plain, open_plain):
        with pytest.raises(OSError, match="odd") as caught:
            attempt(str(path))
        assert caught.value.strerror == why


@pytest.mark.parametrize("kind", ["a pipe", "a socket", "a directory"])
def test_what_takes_nothing_is_not_written(tmp_path, kind):
    put, why = ODD[kind]
    path = tmp_path / "odd"
    put(path)
    for attempt in (writing, lambda path: open_plain(path, os.O_WRONLY)):
        with pytest.raises(OSError, match="odd") as caught:
            attempt(str(path))
        assert caught.value.strerror == why


def test_a_file_is_read_whole_or_to_a_limit_also_by_a_link(tmp_path):
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("file")
    assert read_plain(str(tmp_path / "link")) == b"12345"
    assert read_plain(str(tmp_path / "file"), 3) == b"123"
    with pytest.raises(OSError, match="link"):
        open_plain(str(tmp_path / "link"), os.O_RDONLY | os.O_NOFOLLOW)


def test_a_file_named_for_output_is_emptied(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    with writing(str(path)) as stream:
        stream.write(b"new")
    assert path.read_bytes() == b"new"


def test_a_pipe_that_somebody_reads_takes_more_than_it_holds(tmp_path):
    """As with `-o >(gzip)`: what is written waits for the reader, and all of it arrives."""
    path, size = str(tmp_path / "pipe"), 1 << 20
    os.mkfifo(path)
    reader = open_nonblocking(path, os.O_RDONLY)
    os.set_blocking(reader, True)
    with writing(path) as stream, Popen(["wc", "-c"], stdin=reader, stdout=PIPE) as count:
        os.close(reader)
        stream.write(b"x" * size)
        stream.close()
        assert count.communicate(timeout=60)[0].split() == [b"%d" % size]
