"""What becomes of an action's output: where it is while the action runs, and afterwards."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from little_loops.reporting.masking import Masker
from little_loops.runs.output_files import (
    INLINE,
    SHORT_ORDER,
    TAIL_BYTES,
    Output,
    PrintedStreams,
    RunOutput,
    Trimmed,
    rescue,
    trim,
)
from little_loops.system.files import Folder

SECRET = b"hunter22-is-secret"
NOTHING = Output("", "", "", 0)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    (tmp_path / "run").mkdir()
    found = Folder.at(str(tmp_path / "run"))
    assert found is not None
    with found:
        yield found


@pytest.fixture
def run(folder: Folder) -> Path:
    return Path(folder.path)


def printed(output: RunOutput, data: bytes, size: int = 1 << 16, **how: Any) -> PrintedStreams:
    action = output.action(3, 1)
    for start in range(0, len(data), size):
        action.stdout(data[start : start + size])
    return action.end(**how)


def files(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in run.iterdir()}


# ── one stream ─────────────────────────────────────────────────────────────────────────────────


def test_a_short_output_is_in_its_file_until_it_is_in_the_result(folder, run):
    output = RunOutput(folder)
    action = output.action(3, 1)
    action.stdout(b"x" * 100)
    assert files(run) == {"live.out": b"x" * 100}
    action.stdout(b"y" * (INLINE - 100))
    text = "x" * 100 + "y" * (INLINE - 100)
    assert action.end() == PrintedStreams(Output(text, text, text, INLINE), NOTHING)
    assert files(run) == {"live.out": b""}
    output.close()
    assert files(run) == {}


def test_nothing_printed_makes_no_file(folder, run):
    output = RunOutput(folder)
    assert output.action(1, 1).end() == PrintedStreams(NOTHING, NOTHING)
    output.close()
    assert files(run) == {}


def test_one_byte_more_stays_in_a_file_of_its_owner(folder, run):
    data = b"y" * (INLINE + 1)
    output = RunOutput(folder)
    out = printed(output, data, size=100).stdout
    digest = hashlib.sha256(data).hexdigest()
    assert (out.text, out.size, out.path, out.sha256) == (None, len(data), "00003-1.out", digest)
    assert files(run) == {"00003-1.out": data}
    assert stat.S_IMODE((run / "00003-1.out").stat().st_mode) == 0o600
    assert printed(output, b"next").stdout.text == "next"


def test_a_stream_that_is_always_kept(folder, run):
    out = printed(RunOutput(folder), b"{}\n", suffix="jsonl", always_kept=True).stdout
    digest = hashlib.sha256(b"{}\n").hexdigest()
    assert out == Output(None, "{}\n", "{}\n", 3, "00003-1.jsonl", digest)
    assert files(run) == {"00003-1.jsonl": b"{}\n"}


def test_a_stream_that_is_always_kept_may_be_empty(folder, run):
    out = printed(RunOutput(folder), b"", suffix="jsonl", always_kept=True).stdout
    assert (out.path, out.size, files(run)) == ("00003-1.jsonl", 0, {"00003-1.jsonl": b""})


def test_an_output_that_was_not_printed(folder, run):
    output = RunOutput(folder)
    assert output.keep(3, 1, b"short", "text") == Output("short", "short", "short", 5)
    assert files(run) == {}
    assert output.keep(3, 1, b"x" * 5000, "text").path == "00003-1.text"
    assert files(run) == {"00003-1.text": b"x" * 5000}


@pytest.mark.parametrize(
    "data", [pytest.param(b"caf\xe9\n", id="no text"), pytest.param(b"\n", id="one newline")]
)
def test_what_a_text_would_not_give_back_stays_in_its_file(data, folder, run):
    assert printed(RunOutput(folder), data).stdout.path == "00003-1.out"
    assert files(run) == {"00003-1.out": data}


def test_beyond_the_cap_bytes_are_counted_and_not_kept(folder, run):
    data = bytes(range(256)) * 40
    out = printed(RunOutput(folder, cap=7000), data, size=999).stdout
    assert (out.size, out.truncated) == (len(data), True)
    assert (run / "00003-1.out").read_bytes() == data[:7000]
    assert out.sha256 == hashlib.sha256(data[:7000]).hexdigest()


@pytest.mark.parametrize("planted", ["file", "link", "dangling link"])
def test_what_lies_in_its_place_is_left_alone(tmp_path, folder, run, planted):
    victim = tmp_path / "victim"
    if planted != "dangling link":
        victim.write_text("mine")
    place = run / "00003-1.out"
    place.write_text("mine") if planted == "file" else place.symlink_to(victim)
    (run / "live.out").symlink_to(victim)
    out = printed(RunOutput(folder), b"z" * 5000).stdout
    assert out.path == "00003-1.out-2"
    assert (run / "00003-1.out-2").read_bytes() == b"z" * 5000
    assert victim.exists() == (planted != "dangling link")
    assert planted == "dangling link" or victim.read_text() == "mine"


def test_a_file_that_the_action_itself_removes_is_written_again(folder, run):
    action = RunOutput(folder).action(3, 1)
    action.stdout(b"a" * 5000)
    os.unlink(run / "live.out")
    action.stdout(b"b")
    assert action.end().stdout.path == "00003-1.out"
    assert files(run) == {"00003-1.out": b"a" * 5000 + b"b"}


@pytest.mark.parametrize("chunk", [1000, 1 << 16, 300_000], ids=str)
def test_the_tail_is_the_end_whatever_the_pieces(folder, chunk):
    data = bytes(97 + i % 26 for i in range(1_000_000))
    out = printed(RunOutput(folder), data, chunk).stdout
    assert (out.head, out.tail) == (data[:INLINE].decode(), data[-TAIL_BYTES:].decode())


def test_a_tail_never_begins_in_the_middle_of_a_character(folder):
    out = printed(RunOutput(folder), b"a" + "→".encode() * 100_000).stdout
    assert set(out.tail) == {"→"}


def test_a_disk_that_is_full_is_said(tmp_path):
    script = (
        "import resource, signal, sys\n"
        "from little_loops.runs.output_files import RunOutput\n"
        "from little_loops.system.files import Folder\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))\n"
        "action = RunOutput(Folder.at(sys.argv[1])).action(1, 1)\n"
        "try: [action.stdout(b'x' * 999) for _ in range(99)]\n"
        "except OSError as error: print(error.strerror)\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True
    )
    assert said.stdout == "File too large\n"


# ── both streams ───────────────────────────────────────────────────────────────────────────────


def test_the_order_of_two_streams_is_kept(folder, run):
    action = RunOutput(folder).action(3, 1)
    action.stderr(b"a")
    action.stdout(b"bc")
    action.stdout(b"d")
    assert (run / "live.order").read_text() == "e 1\n"
    action.stderr(b"ef")
    assert (run / "live.order").read_text() == "e 1\no 3\n"
    ended = action.end()
    assert (ended.stdout.text, ended.stderr.text) == ("bcd", "aef")
    assert (ended.order, ended.order_file) == ((0, 1, 3, 2), None)
    assert files(run) == {"live.out": b"", "live.err": b"", "live.order": b""}


def test_a_long_order_stays_in_its_file(folder, run):
    output = RunOutput(folder)
    action = output.action(3, 1)
    for _ in range(SHORT_ORDER):
        action.stdout(b"o")
        action.stderr(b"e")
    ended = action.end()
    assert (ended.order, ended.order_file) == ((), "00003-1.order")
    assert (run / "00003-1.order").read_text() == "o 1\ne 1\n" * (SHORT_ORDER - 1) + "o 1\n"
    assert printed(output, b"x").order == ()


# ── secrets ────────────────────────────────────────────────────────────────────────────────────


def masked(folder: Folder) -> RunOutput:
    return RunOutput(folder, Masker({"API_TOKEN": SECRET.decode()}))


def test_a_secret_stays_in_a_file_however_short(folder, run):
    out = printed(masked(folder), b"it is " + SECRET + b"\n").stdout
    assert (out.text, out.path, out.has_secrets) == (None, "00003-1.out", True)
    assert files(run) == {
        "00003-1.out": b"it is " + SECRET + b"\n",
        "00003-1.out.secrets": b"6 24\n",
    }


def test_the_place_of_a_secret_is_known_before_the_secret_is_there(folder, run):
    action = masked(folder).action(3, 1)
    action.stdout(b"so " + SECRET[:9])
    assert files(run) == {"live.out": b"so "}
    action.stdout(SECRET[9:])
    assert files(run)["live.out.secrets"] == b"3 21\n"


def test_an_end_that_looked_like_a_secret_is_kept_too(folder):
    out = printed(masked(folder), b"so " + SECRET[:9]).stdout
    assert (out.text, out.has_secrets) == ("so hunter22-", False)


@settings(deadline=None)
@given(
    scraps=st.lists(st.sampled_from([SECRET, SECRET[:9], SECRET[9:], b"x", b"\n", b"hunt"])),
    cuts=st.lists(st.integers(0, 200), max_size=9),
)
def test_however_it_is_cut_the_file_is_raw_and_every_secret_is_listed(
    scraps, cuts, tmp_path_factory
):
    data = b"".join(scraps)
    found = Folder.at(str(tmp_path_factory.mktemp("run")))
    assert found is not None
    with found:
        action = masked(found).action(3, 1)
        for piece in pieces(data, cuts):
            action.stdout(piece)
            there = files(Path(found.path))
            spans = spans_in(there.get("live.out.secrets", b""))
            hidden = without(there.get("live.out", b""), spans)
            assert SECRET not in hidden
        out = action.end(always_kept=True).stdout
        kept = files(Path(found.path))
    assert kept["00003-1.out"] == data
    assert out.has_secrets == (SECRET in data)
    assert SECRET not in without(data, spans_in(kept.get("00003-1.out.secrets", b"")))


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(places)]


def spans_in(raw: bytes) -> list[tuple[int, int]]:
    return [(int(a), int(b)) for a, b in (line.split() for line in raw.splitlines())]


def without(data: bytes, spans: list[tuple[int, int]]) -> bytes:
    kept = bytearray(data)
    for start, end in spans:
        kept[start:end] = b"*" * len(kept[start:end])
    return bytes(kept)


# ── after a crash ──────────────────────────────────────────────────────────────────────────────


def test_what_a_killed_runner_left_is_put_away_under_the_name_of_its_action(folder, run):
    action = masked(folder).action(3, 2)
    action.stdout(b"a" + SECRET)
    action.stderr(b"b")
    rescue(folder, 3, 2)
    assert files(run) == {
        "00003-2.out": b"a" + SECRET,
        "00003-2.out.secrets": b"1 19\n",
        "00003-2.err": b"b",
        "00003-2.order": b"o 19\n",
    }


def test_what_is_there_already_is_not_overwritten(folder, run):
    (run / "00003-1.out").write_text("whole")
    (run / "live.out").write_text("stale")
    (run / "live.err").write_text("")
    rescue(folder, 3, 1)
    assert files(run) == {"00003-1.out": b"whole"}


# ── trimming ───────────────────────────────────────────────────────────────────────────────────


def test_the_oldest_outputs_go_first_and_links_are_not_counted(tmp_path):
    for at, name in enumerate(("1-1.out", "2-1.err", "3-1.jsonl")):
        (tmp_path / name).write_bytes(b"x" * 400)
        os.utime(tmp_path / name, (at, at))
    (tmp_path / "4-1.out").symlink_to("/etc/passwd")
    (tmp_path / "run.json").write_bytes(b"x" * 400)
    (tmp_path / "live.out").write_bytes(b"x" * 400)
    (tmp_path / "5-1.out").mkdir()
    assert trim(str(tmp_path), 1200) == Trimmed([], 1200)
    assert trim(str(tmp_path), 1199) == Trimmed(["1-1.out"], 800)
    left = ["2-1.err", "3-1.jsonl", "4-1.out", "5-1.out", "live.out", "run.json"]
    assert sorted(os.listdir(tmp_path)) == left
    assert trim(str(tmp_path), 10) == Trimmed(["2-1.err", "3-1.jsonl"], 0)
