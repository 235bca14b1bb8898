"""Two streams put together again: every line whole, in the order in which they arrived."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.runs import combined_log
from little_loops.runs.arrival import StreamBytes, StreamName
from little_loops.runs.combined_log import StreamSource, combine

Arrived = list[tuple[StreamName, bytes]]


def combined(arrived: Arrived) -> bytes:
    whole: dict[StreamName, bytes] = {"stdout": b"", "stderr": b""}
    for stream, data in arrived:
        whole[stream] += data
    sources = {name: StreamSource(io.BytesIO(data), len(data)) for name, data in whole.items()}
    log = io.BytesIO()
    combine(sources, [StreamBytes(stream, len(data)) for stream, data in arrived], log.write)
    return log.getvalue()


@pytest.mark.parametrize(
    ("arrived", "log"),
    [
        pytest.param([], b"", id="nothing"),
        pytest.param([("stdout", b"a\nb")], b"a\nb", id="one stream"),
        pytest.param(
            [("stdout", b"one\n"), ("stderr", b"two\n"), ("stdout", b"three\n")],
            b"one\ntwo\nthree\n",
            id="in turn",
        ),
        pytest.param(
            [("stdout", b"on"), ("stderr", b"two\n"), ("stdout", b"e\n")],
            b"two\none\n",
            id="a line waits for it to finish",
        ),
        pytest.param(
            [("stdout", b"half"), ("stderr", b"end")], b"half\nend", id="ends without newlines"
        ),
        pytest.param(
            [("stderr", b"\x1b[31mred\x1b[0m\n"), ("stdout", b"\x1b[2Jx\n")],
            b"red\n\x1b[2Jx\n",
            id="colours only are left out",
        ),
    ],
)
def test_streams_are_put_together(arrived, log):
    assert combined(arrived) == log


def test_chunks_make_no_difference(monkeypatch):
    text = b"\x1b[1;32m" + b"x" * 200_000 + b"\x1b[0m\nlast"
    log = combined([("stdout", text), ("stderr", b"aside\n")])
    assert log == b"x" * 200_000 + b"\naside\nlast"
    assert combined_log.CHUNK < 200_000


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["stdout", "stderr"]),
            st.lists(st.sampled_from([b"a", b"b", b"\n"]), max_size=5).map(b"".join),
        )
    )
)
def test_each_stream_is_whole_and_no_line_is_split(arrived):
    marked: Arrived = [
        (stream, data.translate(bytes.maketrans(b"ab", b"oo" if stream == "stdout" else b"ee")))
        for stream, data in arrived
    ]
    log = combined(marked)
    for line in log.split(b"\n"):
        assert not (b"o" in line and b"e" in line)
    for stream, letter in (("stdout", b"o"), ("stderr", b"e")):
        given = b"".join(data for name, data in marked if name == stream)
        lines = [line for line in given.split(b"\n") if line]
        assert [line for line in log.split(b"\n") if letter in line] == lines
