"""The order in which two streams arrived, written down and read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.runs.arrival import (
    StreamBytes,
    StreamPart,
    from_lines,
    from_sizes,
    parts,
    to_line,
    to_sizes,
)

sizes = st.integers(1, 5)


@st.composite
def alternating(draw: st.DrawFn) -> tuple[StreamBytes, ...]:
    first = draw(st.booleans())
    given = draw(st.lists(sizes))
    return tuple(
        StreamBytes("stdout" if (at % 2 == 0) == first else "stderr", size)
        for at, size in enumerate(given)
    )


@given(alternating())
def test_an_order_comes_back_as_it_was(pieces):
    assert from_lines(b"".join(map(to_line, pieces))) == pieces
    assert from_sizes(to_sizes(pieces)) == pieces


@pytest.mark.parametrize(
    ("data", "pieces"),
    [
        pytest.param(b"o 12\ne 3", (StreamBytes("stdout", 12),), id="a line that is not whole"),
        pytest.param(b"x 1\no\no 1 2\no -1\ne 7\n", (StreamBytes("stderr", 7),), id="not ours"),
        pytest.param(b"", (), id="nothing"),
    ],
)
def test_what_is_no_line_of_ours_says_nothing(data, pieces):
    assert from_lines(data) == pieces


@given(alternating(), st.integers(0, 20), st.integers(0, 20))
def test_every_byte_comes_once_and_in_its_stream_s_order(pieces, out, err):
    done = {"stdout": 0, "stderr": 0}
    for stream, start, end in parts(pieces, {"stdout": out, "stderr": err}):
        assert start == done[stream] < end
        done[stream] = end
    assert done == {"stdout": out, "stderr": err}


def test_of_what_no_line_tells_stdout_comes_first():
    pieces = (StreamBytes("stderr", 2), StreamBytes("stdout", 1))
    assert list(parts(pieces, {"stdout": 5, "stderr": 3})) == [
        StreamPart("stderr", 0, 2),
        StreamPart("stdout", 0, 1),
        StreamPart("stdout", 1, 5),
        StreamPart("stderr", 2, 3),
    ]
