"""The event log: whole batches, readable at every cut, bounded in memory."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.errors import LostOwnership, StorageError
from little_loops.runs.journal import LONGEST_LINE, Journal, Records, tail
from little_loops.system.files import Folder
from tests.engine.faults import REFUSED, attempts, failing_with, outcome

LOG = "fix.events.jsonl"


def event(seq: int, **fields):
    return {"event": "state_enter", "seq": seq, **fields}


def opener(path):
    def opened() -> int | None:
        return os.open(path, os.O_RDONLY) if os.path.exists(path) else None

    return opened


def read(path, offset: int = 0):
    records = Records(opener(path), offset)
    return [record["seq"] for record in records], records.damaged


def folder_at(path: str) -> Folder:
    opened = Folder.at(path)
    assert opened is not None
    return opened


@pytest.fixture
def folder(tmp_path):
    with folder_at(str(tmp_path)) as opened:
        yield opened


@pytest.fixture
def journal(folder):
    opened = Journal(folder, LOG)
    yield opened
    opened.close()


def test_a_batch_is_appended_and_read_back(tmp_path, journal):
    assert journal.append([event(1, text="a\nb\x1b\udc80é"), event(2)]) == journal.offset
    behind = journal.append([event(3)], sync=True)
    assert os.path.getsize(tmp_path / LOG) == behind
    records = list(Records(opener(tmp_path / LOG)))
    assert records == [event(1, text="a\nb\x1b\udc80é"), event(2), event(3)]


def test_reading_goes_on_at_an_offset(tmp_path, journal):
    middle = journal.append([event(1), event(2)])
    journal.append([event(3)])
    assert read(tmp_path / LOG, middle) == ([3], 0)


def test_a_log_that_is_not_there_is_empty(tmp_path):
    assert read(tmp_path / LOG) == ([], 0)
    assert tail(opener(tmp_path / LOG), 5) == []


records_lists = st.lists(
    st.dictionaries(st.text(max_size=5), st.text(max_size=20) | st.integers(), max_size=3),
    max_size=5,
)


@given(records_lists, st.data())
def test_every_cut_of_a_log_reads_as_a_beginning_of_it(tmp_path_factory, payloads, data):
    place = tmp_path_factory.mktemp("cut")
    written = [{**fields, **event(seq)} for seq, fields in enumerate(payloads, 1)]
    with folder_at(str(place)) as folder:
        journal = Journal(folder, LOG)
        journal.append(written)
        journal.close()
        cut = data.draw(st.integers(0, journal.offset))
        os.truncate(place / LOG, cut)
        before = list(Records(opener(place / LOG)))
        assert before == written[: len(before)]
        # Whoever goes on writes behind it, and what was whole stays what it was.
        journal = Journal(folder, LOG)
        journal.append([event(len(before) + 1)])
        journal.close()
    after = Records(opener(place / LOG))
    assert list(after) == [*before, event(len(before) + 1)]
    assert after.damaged <= 1


def test_a_torn_tail_at_every_byte(tmp_path, folder):
    journal = Journal(folder, LOG)
    ends = [journal.append([event(seq, output="x" * seq)]) for seq in range(1, 4)]
    journal.close()
    whole = (tmp_path / LOG).read_bytes()
    for cut in range(len(whole) + 1):
        (tmp_path / LOG).write_bytes(whole[:cut])
        # A line that only lacks its newline is whole: opening the log would end it.
        expected = [seq for seq, end in enumerate(ends, 1) if end - 1 <= cut]
        assert read(tmp_path / LOG) == (expected, 0)
        assert [record["seq"] for record in tail(opener(tmp_path / LOG), 9)] == expected
        journal = Journal(folder, LOG)
        journal.append([event(len(expected) + 1)])
        journal.close()
        is_torn = cut not in (0, *ends, *(end - 1 for end in ends))
        assert read(tmp_path / LOG) == ([*expected, len(expected) + 1], int(is_torn))


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"garbage", id="garbage"),
        pytest.param(b"\0" * 5000, id="zeros"),
        pytest.param(b'{"event":"x"}', id="no number"),
        pytest.param(b'{"event":"x","seq":true}', id="a number that is none"),
        pytest.param(b'{"seq":7}', id="no event"),
        pytest.param(b"[]", id="no object"),
        pytest.param(b"[" * 100_000, id="nested too deeply"),
        pytest.param(b"\xff\xfe\xfa", id="not UTF-8"),
        pytest.param(b'{"event":"x","seq":' + b"9" * 6000 + b"}", id="a number too long"),
        pytest.param(b"x" * (10 << 20), id="10 MB"),
        pytest.param(b'{"event":"x","seq":7,"t":"' + b"x" * LONGEST_LINE + b'"}', id="too long"),
    ],
)
def test_a_damaged_line_is_counted_and_skipped(tmp_path, line):
    good = [json.dumps(event(seq)).encode() for seq in (1, 2, 3)]
    (tmp_path / LOG).write_bytes(b"\n".join([good[0], line, good[1], good[2], b""]))
    assert read(tmp_path / LOG) == ([1, 2, 3], 1)
    assert [record["seq"] for record in tail(opener(tmp_path / LOG), 2)] == [2, 3]


def test_memory_stays_flat_over_a_long_line(tmp_path):
    (tmp_path / LOG).write_bytes(b"x" * (200 << 20) + b"\n" + json.dumps(event(1)).encode() + b"\n")
    program = dedent(f"""\
        import os, resource
        from little_loops.runs.journal import Records
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        records = Records(lambda: os.open({str(tmp_path / LOG)!r}, os.O_RDONLY))
        print([record["seq"] for record in records], records.damaged)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40_000
        """)
    assert run_python(program) == "[1] 1\n"


def test_the_last_events_of_a_long_log(tmp_path, journal):
    for start in range(1, 20_001, 1000):
        journal.append([event(seq, output="x" * 40) for seq in range(start, start + 1000)])
    last = tail(opener(tmp_path / LOG), 3000)
    assert [record["seq"] for record in last] == list(range(17_001, 20_001))
    assert [record["seq"] for record in tail(opener(tmp_path / LOG), 2)] == [19_999, 20_000]
    assert tail(opener(tmp_path / LOG), 0) == []


def test_an_event_too_long_to_be_read_back_is_not_written(tmp_path, journal):
    with pytest.raises(StorageError) as caught:
        journal.append([event(1), event(2, output="x" * LONGEST_LINE)])
    assert caught.value.message == (
        f"event `state_enter` takes {LONGEST_LINE + 44} bytes;"
        f" a line of the log holds at most {LONGEST_LINE}"
    )
    assert read(tmp_path / LOG) == ([], 0)


def test_a_log_that_is_removed_is_written_again(tmp_path, journal):
    journal.append([event(1), event(2)])
    os.unlink(tmp_path / LOG)
    offset = journal.append([event(3)], sync=True)
    assert read(tmp_path / LOG) == ([1, 2, 3], 0)
    assert os.path.getsize(tmp_path / LOG) == offset == journal.offset


def test_a_log_that_is_removed_survives_a_fault_while_it_is_written_again(tmp_path):
    for number in attempts():
        place = tmp_path / str(number)
        place.mkdir()
        with folder_at(str(place)) as folder:
            journal = Journal(folder, LOG)
            journal.append([event(1)])
            os.unlink(place / LOG)
            ended = outcome(partial(journal.append, [event(2)]), number, failing_with(errno.ENOSPC))
            assert read(place / LOG) in [([], 0), ([1, 2], 0)]
            journal.close()
        if ended == 0:
            return
        assert ended == REFUSED


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_a_log_that_cannot_be_synced_is_not_written_any_more(tmp_path, journal):
    """Nobody can tell then what of it is on the disk."""
    journal.append([event(1)])
    with the_disk_gone(tmp_path / LOG):
        with pytest.raises(StorageError) as caught:
            journal.sync()
        assert caught.value.message == f"cannot sync `{tmp_path}/{LOG}`: invalid argument"
    with pytest.raises(StorageError) as caught:
        journal.append([event(2)])
    assert caught.value.message == (
        f"`{tmp_path}/{LOG}` could not be written earlier, so nothing more is written to it"
    )
    assert read(tmp_path / LOG) == ([1], 0)


@contextmanager
def the_disk_gone(path):
    """Whatever this process has open there cannot be synced for a while."""
    links = {name: f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")}
    [opened] = [
        int(name)
        for name, link in links.items()
        if os.path.lexists(link) and os.readlink(link) == str(path)
    ]
    kept, (reader, writer) = os.dup(opened), os.pipe()
    os.dup2(writer, opened)
    try:
        yield
    finally:
        os.dup2(kept, opened, inheritable=False)
        for descriptor in (kept, reader, writer):
            os.close(descriptor)


def test_a_log_that_is_replaced_is_no_longer_ours(tmp_path, journal):
    journal.append([event(1)])
    os.unlink(tmp_path / LOG)
    (tmp_path / LOG).write_text("")
    with pytest.raises(LostOwnership) as caught:
        journal.append([event(2)])
    assert caught.value.message == f"another process replaced `{tmp_path}/{LOG}`"


def test_a_second_writer_is_noticed(tmp_path, folder, journal):
    journal.append([event(1)])
    other = Journal(folder, LOG)
    other.append([event(2)])
    other.close()
    with pytest.raises(LostOwnership) as caught:
        journal.append([event(2)])
    assert caught.value.message == f"another process wrote to `{tmp_path}/{LOG}`"
    assert read(tmp_path / LOG) == ([1, 2], 0)


def test_the_log_of_a_project_that_is_moved_goes_along(tmp_path):
    (tmp_path / "here").mkdir()
    with folder_at(str(tmp_path / "here")) as folder:
        journal = Journal(folder, LOG)
        (tmp_path / "here").rename(tmp_path / "there")
        journal.append([event(1)], sync=True)
        journal.close()
    assert read(tmp_path / "there" / LOG) == ([1], 0)


def run_python(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


FULL = """\
import resource, sys
from little_loops.errors import StorageError
from little_loops.system.files import Folder
from little_loops.runs.journal import Journal
folder = Folder.at(sys.argv[1])
journal = Journal(folder, "fix.events.jsonl")
journal.append([{"event": "state_enter", "seq": 1}])
resource.setrlimit(resource.RLIMIT_FSIZE, (journal.offset + 300, -1))
batch = [{"event": "state_enter", "seq": seq, "t": "x" * 60} for seq in range(2, 9)]
for _ in range(2):
    try:
        journal.append(batch, sync=True)
    except StorageError as error:
        print(error.message)
journal.append(batch[:1], sync=True)
"""


def test_on_a_full_disk_a_batch_is_written_whole_or_not_at_all(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout == f"cannot write `{tmp_path}/{LOG}`: file too large\n" * 2
    assert read(tmp_path / LOG) == ([1, 2], 0)


WRITER = """\
import sys
from little_loops.system.files import Folder
from little_loops.runs.journal import Journal
journal = Journal(Folder.at(sys.argv[1]), "fix.events.jsonl")
for start in range(1, 6001, 3):
    batch = [{"event": "x", "seq": seq, "t": "y" * (seq % 3000)} for seq in range(start, start + 3)]
    journal.append(batch)
"""


def test_a_reader_is_not_disturbed_by_a_writer(tmp_path):
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)])
    try:
        records = Records(opener(tmp_path / LOG))
        seen: list[int] = []
        until = time.monotonic() + 30
        while len(seen) < 6000 and time.monotonic() < until:
            seen += [record["seq"] for record in records]
            last = tail(opener(tmp_path / LOG), 3)
            assert [record["seq"] for record in last] == list(
                range(last[-1]["seq"] - len(last) + 1, last[-1]["seq"] + 1) if last else []
            )
    finally:
        writer.kill()
        writer.wait()
    assert seen == list(range(1, 6001))
    assert records.damaged == 0
