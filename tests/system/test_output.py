"""The signal lines in an action's output, and its lines."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.system.output import (
    MARKERS,
    PAYLOAD,
    LineScanner,
    LineSplitter,
    Signal,
    SignalScanner,
)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(places)]


def scanned(*chunks: bytes) -> Signal | None:
    scanner = SignalScanner()
    for chunk in chunks:
        scanner.feed(chunk)
    return scanner.found


@pytest.mark.parametrize(
    ("output", "found"),
    [
        pytest.param(b"CONTEXT_HANDOFF: go on\n", Signal("CONTEXT_HANDOFF", "go on"), id="first line"),
        pytest.param(b"a\nb\nFATAL_ERROR: x\nc", Signal("FATAL_ERROR", "x"), id="in the middle"),
        pytest.param(b" \t LOOP_STOP:\tx\n", Signal("LOOP_STOP", "x"), id="blanks before and after"),
        pytest.param(b"a\r\nLOOP_STOP: x \r\nb", Signal("LOOP_STOP", "x"), id="carriage returns"),
        pytest.param(b"LOOP_STOP:\nnext", Signal("LOOP_STOP", ""), id="never the next line"),
        pytest.param(b"LOOP_STOP: no newline", Signal("LOOP_STOP", "no newline"), id="at the end"),
        pytest.param(b"LOOP_STOP:", Signal("LOOP_STOP", ""), id="nothing more"),
        pytest.param(b"LOOP_STOP: a\nFATAL_ERROR: b\n", Signal("LOOP_STOP", "a"), id="the earliest"),
        pytest.param(b"x FATAL_ERROR: a\n FATAL_ERROR: b", Signal("FATAL_ERROR", "b"), id="after a mention"),
        pytest.param(b"LOOP_STOP: LOOP_STOP: x", Signal("LOOP_STOP", "LOOP_STOP: x"), id="in its payload"),
        pytest.param(b"LOOP_STOP: caf\xc3\xa9 \xff", Signal("LOOP_STOP", "café \ufffd"), id="broken text"),
        pytest.param(b"\0\nLOOP_STOP: x", Signal("LOOP_STOP", "x"), id="after NUL"),
        pytest.param(b"file:12: CONTEXT_HANDOFF: x\n", None, id="grep"),
        pytest.param(b"> CONTEXT_HANDOFF: x\n", None, id="quoted"),
        pytest.param(b"\x0cLOOP_STOP: x\n", None, id="another kind of blank"),
        pytest.param(b"50%\rLOOP_STOP: x\n", None, id="a line drawn anew"),
        pytest.param(b"LOOP_STOP x\nLOOP_STOPS: x\nXLOOP_STOP: x\n", None, id="alike"),
        pytest.param(b"loop_stop: x\n", None, id="lower case"),
        pytest.param(b"", None, id="nothing"),
    ],
)  # fmt: skip
def test_a_line_is_a_signal_only_if_it_begins_with_a_marker(output, found):
    assert scanned(output) == found
    assert scanned(*(output[i : i + 1] for i in range(len(output)))) == found


@pytest.mark.parametrize("blanks", [0, 3, 200_000], ids=str)
def test_a_signal_is_found_in_output_of_any_size(blanks):
    scanner = SignalScanner()
    for _ in range(100):
        scanner.feed(b"x" * 65_536)
    scanner.feed(b"\n" + b" " * blanks)
    scanner.feed(b"CONTEXT_HAN")
    scanner.feed(b"DOFF: on")
    for _ in range(100):
        scanner.feed(b"y" * 65_536)
    assert scanner.found == Signal("CONTEXT_HANDOFF", "on" + "y" * (PAYLOAD - 2))


def test_a_payload_is_cut_between_characters():
    assert scanned(b"LOOP_STOP:a" + "é".encode() * PAYLOAD) == Signal(
        "LOOP_STOP", "a" + "é" * ((PAYLOAD - 1) // 2)
    )


def test_markers_of_ones_own_need_not_have_anything_in_common():
    scanner = SignalScanner([b"STOP", b"go:"])
    scanner.feed(b"no STOP\n go: on")
    assert scanner.found == Signal("go", "on")


SCRAPS = [
    *MARKERS,
    b"LOOP_",
    b"STOP:",
    b"FATAL",
    b"\n",
    b"\n",
    b" ",
    b"\t",
    b"\r\n",
    b"x",
    b"\xc3",
    b"\xa9",
]


def as_one(output: bytes) -> Signal | None:
    """The law by which the scanner is judged: one look at the whole."""
    markers = rb"CONTEXT_HANDOFF|FATAL_ERROR|LOOP_STOP"
    hit = re.search(rb"^[ \t]*(%b):[ \t]*([^\n]*)" % markers, output, re.MULTILINE)
    if hit is None:
        return None
    text = hit[2][:PAYLOAD].decode("utf-8", "replace")
    return Signal(hit[1].decode(), text.strip())


@given(
    scraps=st.lists(st.sampled_from(SCRAPS), max_size=30),
    cuts=st.lists(st.integers(0, 200), max_size=12),
)
def test_any_pieces_give_the_signal_of_the_whole(scraps, cuts):
    output = b"".join(scraps)
    assert scanned(*pieces(output, cuts)) == as_one(output)


# --- lines ---


@given(
    lines=st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"")), min_size=1),
    cuts=st.lists(st.integers(0, 200), max_size=12),
    limit=st.integers(1, 25),
)
def test_any_pieces_give_the_same_lines(lines, cuts, limit):
    splitter = LineSplitter(limit)
    output = b"\n".join(lines)
    got = [line for piece in pieces(output, cuts) for line in splitter.feed(piece)]
    rest = [lines[-1][:limit]] if lines[-1] else []
    assert got + splitter.close() == [line[:limit] for line in lines[:-1]] + rest
    assert splitter.close() == []


@given(
    lines=st.lists(st.sampled_from([b"", b"x", b"go: one", b"so go: two", b"\xff"])),
    cuts=st.lists(st.integers(0, 60), max_size=12),
)
def test_a_search_by_line_finds_the_first_whatever_the_pieces(lines, cuts):
    def search(line: str) -> Signal | None:
        return Signal("go", line[3:]) if line.startswith("go:") else None

    scanner = LineScanner(search)
    for piece in pieces(b"\n".join(lines), cuts):
        scanner.feed(piece)
    assert scanner.found == (Signal("go", " one") if b"go: one" in lines else None)
