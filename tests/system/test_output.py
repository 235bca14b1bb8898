"""What becomes of an action's output, and the signal lines in it."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.system.output import (
    EDGE,
    INLINE,
    MARKERS,
    PAYLOAD,
    LineScanner,
    LineSplitter,
    Output,
    Signal,
    SignalScanner,
    Stream,
    Trimmed,
    trim,
)


def fed(stream: Stream, data: bytes, size: int = 1 << 16) -> Output:
    for start in range(0, len(data), size):
        stream.feed(data[start : start + size])
    return stream.close()


def test_a_small_output_is_a_text_and_no_file(tmp_path):
    out = fed(Stream(str(tmp_path), "3.out"), b"x" * INLINE)
    assert out == Output("x" * INLINE, "x" * INLINE, "", INLINE, None, None, False)
    assert os.listdir(tmp_path) == []


def test_nothing_printed_is_an_empty_text(tmp_path):
    assert Stream(str(tmp_path), "3.out").close() == Output("", "", "", 0, None, None, False)


def test_one_byte_more_goes_to_a_file_of_its_owner(tmp_path):
    data = b"y" * (INLINE + 1)
    out = fed(Stream(str(tmp_path), "3.out"), data, size=100)
    digest = hashlib.sha256(data).hexdigest()
    assert out == Output(None, data.decode(), "", len(data), "3.out", digest, False)
    assert (tmp_path / "3.out").read_bytes() == data
    assert stat.S_IMODE((tmp_path / "3.out").stat().st_mode) == 0o600


def test_a_descriptor_of_the_directory_will_do(tmp_path):
    directory = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        out = fed(Stream(directory, "3.out"), b"z" * 5000)
    finally:
        os.close(directory)
    assert (out.path, (tmp_path / "3.out").stat().st_size) == ("3.out", 5000)


def test_a_secret_is_put_in_a_file_however_small(tmp_path):
    stream = Stream(str(tmp_path), "3.out")
    stream.feed(b"hunter")
    assert stream.inline == b"hunter"
    stream.spill()
    stream.feed(b"22")
    digest = hashlib.sha256(b"hunter22").hexdigest()
    assert stream.inline is None
    assert stream.close() == Output(None, "hunter22", "", 8, "3.out", digest, False)
    assert (tmp_path / "3.out").read_bytes() == b"hunter22"


def test_beyond_the_cap_bytes_are_counted_and_not_kept(tmp_path):
    data = bytes(range(256)) * 40
    out = fed(Stream(str(tmp_path), "3.out", cap=7000), data, size=999)
    assert (out.size, out.truncated) == (len(data), True)
    assert (tmp_path / "3.out").read_bytes() == data[:7000]
    assert out.sha256 == hashlib.sha256(data[:7000]).hexdigest()


@pytest.mark.parametrize("planted", ["file", "link", "dangling link"])
def test_what_lies_in_its_place_is_left_alone(tmp_path, planted):
    victim = tmp_path / "victim"
    if planted != "dangling link":
        victim.write_text("mine")
    runs = tmp_path / "run"
    runs.mkdir()
    place = runs / "3.out"
    place.write_text("mine") if planted == "file" else place.symlink_to(victim)
    out = fed(Stream(str(runs), "3.out"), b"z" * 5000)
    assert out.path == "3.out-2"
    assert (runs / "3.out-2").stat().st_size == 5000
    assert victim.exists() == (planted != "dangling link")
    assert planted == "dangling link" or place.read_text() == "mine"


@pytest.mark.parametrize("size", [2 * EDGE, 2 * EDGE + 1, 1_000_000], ids=str)
@pytest.mark.parametrize("chunk", [1000, 1 << 16, 300_000], ids=str)
def test_head_and_tail_are_all_or_the_two_ends(tmp_path, size, chunk):
    data = bytes(97 + i % 26 for i in range(size))
    out = fed(Stream(str(tmp_path), "3.out"), data, chunk)
    if size <= 2 * EDGE:
        assert (out.head, out.tail, out.omitted) == (data.decode(), "", 0)
    else:
        ends = (data[:EDGE].decode(), data[-EDGE:].decode(), size - 2 * EDGE)
        assert (out.head, out.tail, out.omitted) == ends


def test_a_cut_never_splits_a_character(tmp_path):
    out = fed(Stream(str(tmp_path), "3.out"), b"a" + "→".encode() * 100_000)
    assert set(out.head) == {"a", "→"}
    assert set(out.tail) == {"→"}


def test_bytes_that_are_no_text_stay_readable(tmp_path):
    assert (
        fed(Stream(str(tmp_path), "3.out"), b"a\0\xff\xfe caf\xc3").text
        == "a\0\ufffd\ufffd caf\ufffd"
    )


@given(data=st.binary(max_size=300), cuts=st.lists(st.integers(0, 300), max_size=8))
def test_pieces_make_no_difference_to_a_text(data, cuts):
    stream = Stream("/nonexistent", "3.out")
    for piece in pieces(data, cuts):
        stream.feed(piece)
    assert stream.close() == Output(
        text := data.decode("utf-8", "replace"), text, "", len(data), None, None, False
    )


def test_a_disk_that_is_full_is_said(tmp_path):
    script = (
        "import resource, signal, sys\n"
        "from little_loops.system.output import Stream\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))\n"
        "stream = Stream(sys.argv[1], '3.out')\n"
        "try: [stream.feed(b'x' * 999) for _ in range(99)]\n"
        "except OSError as error: print(error.strerror)\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True
    )
    assert said.stdout == "File too large\n"


# --- trimming ---


def test_the_oldest_outputs_go_first_and_links_are_not_counted(tmp_path):
    for at, name in enumerate(("1-1.out", "2-1.err", "3-1.jsonl")):
        (tmp_path / name).write_bytes(b"x" * 400)
        os.utime(tmp_path / name, (at, at))
    (tmp_path / "4-1.out").symlink_to("/etc/passwd")
    (tmp_path / "run.json").write_bytes(b"x" * 400)
    (tmp_path / "5-1.out").mkdir()
    assert trim(str(tmp_path), 1200) == Trimmed([], 1200)
    assert trim(str(tmp_path), 1199) == Trimmed(["1-1.out"], 800)
    left = ["2-1.err", "3-1.jsonl", "4-1.out", "5-1.out", "run.json"]
    assert sorted(os.listdir(tmp_path)) == left
    assert trim(str(tmp_path), 10) == Trimmed(["2-1.err", "3-1.jsonl"], 0)


# --- signals ---


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
