"""The mailbox of a run: notes arrive whole, in order, and are read once."""

from __future__ import annotations

import os

import pytest

from little_loops.errors import UsageError
from little_loops.fsm.state import Note
from little_loops.runs.mailbox import MAX_NOTE_BYTES, discard, post, posted, take_back, unread
from little_loops.system.files import Folder


@pytest.fixture
def data(tmp_path):
    folder = Folder.at(str(tmp_path))
    assert folder is not None
    with folder:
        yield folder


def put(tmp_path, name: str, text: str) -> None:
    (tmp_path / "mail").mkdir(mode=0o700, exist_ok=True)
    (tmp_path / "mail" / name).write_text(text)


def test_a_run_without_a_mailbox(data):
    assert (posted(data), unread(data, ())) == ([], ())
    discard(data, [Note("0000000000001-00000000", "x")])
    assert not take_back(data, "0000000000001-00000000")


def test_a_note_is_read_until_it_is_discarded(data, tmp_path):
    note = post(data, "be brief")
    assert posted(data) == [note]
    assert unread(data, ()) == unread(data, ()) == (Note(note, "be brief"),)
    assert (tmp_path / "mail" / f"{note}.txt").stat().st_mode & 0o777 == 0o600
    discard(data, [Note(note, "be brief")])
    assert (posted(data), unread(data, ())) == ([], ())


def test_the_longest_note_is_delivered_and_a_longer_or_empty_one_refused(data):
    longest = "x" * MAX_NOTE_BYTES
    note = post(data, longest)
    for text in (longest + "x", " \n"):
        with pytest.raises(UsageError, match="the note is "):
            post(data, text)
    assert unread(data, ()) == (Note(note, longest),)


def test_a_note_that_is_recorded_already_is_removed_and_not_read_again(data):
    note = post(data, "be brief")
    assert unread(data, [Note(note, "be brief", 3, True)]) == ()
    assert posted(data) == []


def test_notes_come_in_the_order_of_their_names(data, tmp_path):
    for number in (3, 1, 2):
        put(tmp_path, f"{number:013}-00000000.txt", f"note {number}")
    assert [note.text for note in unread(data, ())] == ["note 1", "note 2", "note 3"]


def test_no_more_than_twenty_wait(data, tmp_path):
    for number in range(30):
        put(tmp_path, f"{number:013}-00000000.txt", "x")
    known = [Note(f"9{number:012}-00000000", "y") for number in range(15)]
    assert [note.id[:13] for note in unread(data, known)] == [f"{n:013}" for n in range(5)]


def test_what_is_no_note_is_left_where_it_is(data, tmp_path):
    put(tmp_path, "0000000000001-00000000.txt", "x" * 9000)
    put(tmp_path, "README.txt", "hello")
    (tmp_path / "mail" / "0000000000002-00000000.txt").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "mail" / "0000000000003-00000000.txt")
    put(tmp_path, "0000000000004-00000000.txt", "good")
    assert [note.text for note in unread(data, ())] == ["good"]
    assert len(os.listdir(tmp_path / "mail")) == 5


def test_a_note_can_be_taken_back_until_it_is_read(data):
    note = post(data, "never mind")
    assert take_back(data, note)
    assert not take_back(data, note)
    assert posted(data) == []
