"""The mailbox of a run: notes that people send with `ll-loop tell`.

    NAME.d/mail/1768473000000-0a1b2c3d.txt

A note is a file that is renamed into place. The runner of the run, the only writer of its log,
records the note first and removes the file then. Killed between the two, the next runner finds a
note that is recorded already, and removes it. Names sort by time.

Not here: the notes that an agent hands to the next one (`engine.action_process`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

from little_loops.errors import StorageError, UsageError
from little_loops.fsm.state import Note
from little_loops.runs.layout import MAIL
from little_loops.system.clock import wall_ms
from little_loops.system.files import Folder

MAX_NOTE_BYTES = 8192
MOST_WAITING = 20
_NAME = re.compile(r"([0-9]{13}-[0-9a-f]{8})\.txt")


def checked_note(text: str) -> str:
    """Return the note without surrounding blanks; raise `UsageError` if it is empty or too long."""
    if not text.strip():
        raise UsageError("the note is empty")
    if len(text.encode("utf-8", "replace")) > MAX_NOTE_BYTES:
        raise UsageError(
            f"the note is longer than {MAX_NOTE_BYTES} bytes",
            "put it in a file in the project, and send the name of the file",
        )
    return text.strip()


def post(data: Folder, text: str) -> str:
    """Put a note into the mailbox, flushed to the disk. Return its id. Raises `UsageError` if it is
    one that no runner would deliver."""
    text = checked_note(text)
    note = f"{wall_ms():013}-{os.urandom(4).hex()}"
    with data.make(MAIL) as mail:
        mail.replace(_file(note), text.encode("utf-8", "replace"), f".{note}.tmp", sync=True)
    return note


def posted(data: Folder) -> list[str]:
    """Return the ids of the notes in the mailbox, in order of arrival."""
    mail = data.child(MAIL)
    if mail is None:
        return []
    with mail:
        return sorted(_ids(mail))


def unread(data: Folder, known: Iterable[Note]) -> tuple[Note, ...]:
    """Return the notes that are not recorded yet, in order of arrival; remove the files of those
    that are.

    `known` are the recorded notes. At most `MOST_WAITING` of both together; the rest waits.
    """
    recorded = {note.id for note in known}
    mail = data.child(MAIL)
    if mail is None:
        return ()
    with mail:
        ids = sorted(_ids(mail))
        _remove(mail, [note for note in ids if note in recorded])
        new = [note for note in ids if note not in recorded]
        room = MOST_WAITING - len(recorded)
        return tuple(_notes(mail, new[: max(room, 0)]))


def discard(data: Folder, notes: Iterable[Note]) -> None:
    """Remove the files of notes that are recorded; missing ones are ignored."""
    mail = data.child(MAIL)
    if mail is not None:
        with mail:
            _remove(mail, [note.id for note in notes])


def take_back(data: Folder, note: str) -> bool:
    """Remove a note that nobody has read. Return whether it was there."""
    mail = data.child(MAIL)
    if mail is None:
        return False
    with mail:
        if mail.stamp(_file(note)) is None:
            return False
        _remove(mail, [note])
        return True


def _remove(mail: Folder, ids: list[str]) -> None:
    """Remove the files of these notes, and sync the folder."""
    for note in ids:
        mail.remove(_file(note))
    if ids:
        mail.sync()  # after a power cut, a note that was delivered must not be there again


def _notes(mail: Folder, ids: list[str]) -> Iterator[Note]:
    """Yield these notes; those that are gone or cannot be read are skipped."""
    for note in ids:
        with suppress(StorageError):  # too large, or no file: not from `tell`
            raw = mail.read(_file(note), MAX_NOTE_BYTES)
            if raw is not None:
                yield Note(note, raw.decode("utf-8", "replace"))


def _ids(mail: Folder) -> Iterator[str]:
    for name in mail.names():
        if found := _NAME.fullmatch(name):
            yield found[1]


def _file(note: str) -> str:
    return f"{note}.txt"
