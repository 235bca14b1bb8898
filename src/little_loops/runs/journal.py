"""The event log of a run: append to it, read it, read its end.

One JSON object per line. A batch of events is one write, so a crash can only tear the last line;
whoever opens the log for writing ends a torn line with a newline and keeps it as evidence. Readers
skip and count lines that are not events, hold at most one line in memory, and are not disturbed by
a concurrent writer: half a line at the end does not exist yet.

Not here: the meaning of events (`fsm.events`), whether they are complete (`storage`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from little_loops import light_json as json
from little_loops.errors import LostOwnership, StorageError
from little_loops.light_typing import TYPE_CHECKING, Any
from little_loops.system.files import Folder, failure, sync_data, to_json, write_all

if TYPE_CHECKING:
    from little_loops.runs.seals import SealWriter

Record = dict[str, Any]
Opened = Callable[[], int | None]
"""Opens a log for reading; None if there is no log."""

# A definition may be 1 MiB; escaped to ASCII, its context can have six times as many characters.
LONGEST_LINE = 4 << 20
CHUNK = 1 << 18
TAIL_START = 1 << 16
TAIL_MOST = 16 << 20


def line_of(record: Record) -> bytes:
    """Encode a record as a line. Raises `StorageError` if it is longer than `LONGEST_LINE`."""
    line = to_json(record) + b"\n"
    if len(line) > LONGEST_LINE:
        raise StorageError(
            f"event `{record.get('event')}` takes {len(line)} bytes;"
            f" a line of the log holds at most {LONGEST_LINE}"
        )
    return line


class Journal:
    """A log opened by its only writer.

    With a `seal`, data is sealed before it is written.
    """

    def __init__(self, folder: Folder, name: str) -> None:
        """Open or create the log, and end a torn last line. `offset` is its length from then on."""
        self.seal: SealWriter | None = None
        self._folder = folder
        self._name = name
        self._is_broken = False
        self._fd = folder.open(name, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            self.offset = self._end_torn_line()
        except BaseException:
            os.close(self._fd)
            raise

    @property
    def path(self) -> str:
        return self._folder.place(self._name)

    def append(self, records: Iterable[Record], *, sync: bool = False) -> int:
        """Write a batch, all of it or nothing; with `sync`, flush it to the disk. Return the offset
        after it.

        Raises `LostOwnership` if another process wrote to the log, and `StorageError` if a record
        is too long or the write fails; if that cannot be undone, all later calls fail.
        """
        data = b"".join([line_of(record) for record in records])
        if self._is_broken:
            raise StorageError(
                f"`{self.path}` could not be written earlier, so nothing more is written to it"
            )
        self._check_ours()
        if self.seal is not None:
            self.seal.extend(data)
        try:
            write_all(self._fd, data)
        except OSError as error:
            self._take_back()
            raise failure(error, "write", self.path) from error
        self.offset += len(data)
        if sync:
            self.sync()
        return self.offset

    def sync(self) -> None:
        """Flush the log to the disk. After a failure, which raises `StorageError`, nothing more is
        written."""
        try:
            sync_data(self._fd)
        except OSError as error:
            # Nobody can tell how much of it is on disk now; a resume will find out.
            self._is_broken = True
            raise failure(error, "sync", self.path) from error

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        os.close(self._fd)

    def _end_torn_line(self) -> int:
        """End an incomplete last line with a newline. Return the size of the file."""
        try:
            size = os.fstat(self._fd).st_size
            if size and os.pread(self._fd, 1, size - 1) != b"\n":
                write_all(self._fd, b"\n")
                size += 1
        except OSError as error:
            raise failure(error, "write", self.path) from error
        return size

    def _check_ours(self) -> None:
        """Raise `LostOwnership` if another process wrote to the log. If it was removed, write it
        again."""
        info = os.fstat(self._fd)
        if info.st_size != self.offset:
            raise LostOwnership(
                f"another process wrote to `{self.path}`",
                "find out which process it was before you resume",
            )
        if not info.st_nlink:
            self._write_again()

    def _write_again(self) -> None:
        """Write the log again after it was removed; it is still open, so nothing is lost.

        Raises `LostOwnership` if there is another file in its place.
        """
        try:
            copy = self._folder.open(self._name, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL)
        except FileExistsError as error:
            raise LostOwnership(f"another process replaced `{self.path}`") from error
        except FileNotFoundError as error:
            raise failure(error, "write", self.path) from error
        try:
            _copy(self._fd, copy)
        except OSError as error:
            os.close(copy)
            self._folder.remove(self._name)
            raise failure(error, "write", self.path) from error
        os.close(self._fd)
        self._fd = copy

    def _take_back(self) -> None:
        """Remove half a batch and its seal, so that a resume does not read it; if that fails,
        refuse all later writes."""
        if self.seal is not None:
            self.seal.take_back()
        try:
            os.ftruncate(self._fd, self.offset)
        except OSError:
            self._is_broken = True


def _copy(source: int, target: int) -> None:
    """Copy a file to an open descriptor and flush it to the disk."""
    position = 0
    while piece := os.pread(source, CHUNK, position):
        write_all(target, piece)
        position += len(piece)
    sync_data(target)


class Records:
    """The events of a log from an offset on, read lazily.

    `damaged` counts the skipped lines so far; `offset` is where to continue reading later. With
    `end`, nothing from there on is read.
    """

    def __init__(self, opened: Opened, offset: int = 0, end: int | None = None) -> None:
        self.damaged = 0
        self.offset = offset
        self._opened = opened
        self._end = end

    def __iter__(self) -> Iterator[Record]:
        """Yield the events from `offset` on; lines that are not events are counted in `damaged`.

        `offset` advances with each line, so a second iteration continues where the first one ended.
        """
        for line in self._lines():
            record = parse(line)
            if record is not None:
                yield record
            elif line:
                self.damaged += 1

    def _lines(self) -> Iterator[bytes]:
        """Yield complete lines and advance `offset`; a line too long for an event is replaced by
        `?`.

        The last line counts without its newline if it is a whole event.
        """
        descriptor = self._opened()
        if descriptor is None:
            return
        try:
            held, dropped = b"", 0
            while piece := self._piece(descriptor, self.offset + dropped + len(held)):
                *whole, held = (held + piece).split(b"\n")
                for line in whole:
                    self.offset += dropped + len(line) + 1
                    yield b"?" if dropped or len(line) > LONGEST_LINE else line
                    dropped = 0
                if dropped or len(held) > LONGEST_LINE:
                    dropped, held = dropped + len(held), b""
        except OSError as error:
            raise failure(error, "read", "the event log") from error
        finally:
            os.close(descriptor)
        if not dropped and parse(held) is not None:
            # Only its newline is missing: opening the log for writing would complete it.
            self.offset += len(held)
            yield held

    def _piece(self, descriptor: int, position: int) -> bytes:
        room = CHUNK if self._end is None else min(CHUNK, max(self._end - position, 0))
        return os.pread(descriptor, room, position)


def is_blank(opened: Opened) -> bool:
    """Return whether the log is missing or has no event; one damaged line, a torn first event, is
    allowed."""
    records = Records(opened)
    return next(iter(records), None) is None and records.damaged <= 1


def parse(line: bytes) -> Record | None:
    """Return the event on a line; None if it is not a JSON object with `event` and `seq`."""
    if not line:
        return None  # there is one after the last newline
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or not isinstance(record.get("event"), str):
        return None
    return record if type(record.get("seq")) is int else None


def offset_of(opened: Opened, is_before: Callable[[Record], bool | None]) -> int:
    """Return an offset at or before the first event that is not before the wanted one, at the start
    of a line; 0 if there is no log.

    Uses binary search, because events are in order. `is_before` returns None for an event that
    cannot be compared.
    """
    descriptor = opened()
    if descriptor is None:
        return 0
    try:
        low, high = 0, os.fstat(descriptor).st_size
        while high - low > TAIL_START:
            middle = (low + high) // 2
            found = _first_comparable(descriptor, middle, high, is_before)
            if found is None or not found[1]:
                high = middle
            else:
                low = found[0]
        return low
    except OSError as error:
        raise failure(error, "read", "the event log") from error
    finally:
        os.close(descriptor)


def _first_comparable(
    descriptor: int, start: int, end: int, is_before: Callable[[Record], bool | None]
) -> tuple[int, bool] | None:
    """Return the offset of the first line after `start` that can be compared, and whether it is
    before the wanted event; None if there is none in this chunk."""
    lines = os.pread(descriptor, min(end - start, CHUNK), start).split(b"\n")
    offset = start + len(lines[0]) + 1
    for line in lines[1:-1]:
        record = parse(line)
        before = None if record is None else is_before(record)
        if before is not None:
            return offset, before
        offset += len(line) + 1
    return None


def tail(opened: Opened, count: int, *, end: int | None = None) -> list[Record]:
    """Return the last `count` events, oldest first; fewer if the last `TAIL_MOST` bytes have fewer.

    With `end`, the last before that offset; none if no line of the log ends there.
    """
    descriptor = opened() if count > 0 else None
    if descriptor is None:
        return []
    try:
        size = os.fstat(descriptor).st_size
        if end is not None:
            if not 0 < end <= size or os.pread(descriptor, 1, end - 1) != b"\n":
                return []
            size = end
        piece = TAIL_START
        while True:
            records = _last_of(descriptor, size, piece, count)
            if len(records) == count or piece >= min(size, TAIL_MOST):
                return records
            piece *= 4
    except OSError as error:
        raise failure(error, "read", "the event log") from error
    finally:
        os.close(descriptor)


def _last_of(descriptor: int, size: int, length: int, count: int) -> list[Record]:
    """Return up to `count` events from the last `length` bytes before offset `size`, oldest
    first."""
    begin = max(size - length, 0)
    lines = os.pread(descriptor, size - begin, begin).split(b"\n")
    # The first of them began before this piece.
    whole = reversed(lines[1 if begin else 0 :])
    found = (record for line in whole if (record := parse(line)) is not None)
    return list(islice(found, count))[::-1]
