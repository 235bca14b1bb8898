"""Read what a run writes while it writes it, and know when nothing more will come.

A file is opened once and kept: at its end a run moves its files to the history, and the open file
moves along.  Whether a run is over is asked before its file is read to the end, so that nothing
written in between is missed.

Not here: what to show of it (`logs`, `attach`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Self

from little_loops.errors import UsageError
from little_loops.runs.claims import alive
from little_loops.runs.folders import open_file
from little_loops.runs.inspect import Seen, newest_seen
from little_loops.runs.journal import Record, Records
from little_loops.runs.layout import EVENTS, LOG
from little_loops.system.files import failure

CHUNK = 1 << 16
POLL_S = 0.05
LOOKS = 10


class Growing:
    """A file that somebody may be appending to, from an offset on."""

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor = descriptor
        self._path = path
        self.offset = 0

    def read(self) -> bytes:
        """The next piece; nothing where it ends for now."""
        try:
            piece = os.pread(self._descriptor, CHUNK, self.offset)
        except OSError as error:
            raise failure(error, "read", self._path) from error
        self.offset += len(piece)
        return piece

    def rest(self) -> Iterator[bytes]:
        while piece := self.read():
            yield piece

    def seek_last_lines(self, count: int) -> None:
        """Go to where the last so many lines begin, unless that was passed already."""
        end = os.fstat(self._descriptor).st_size
        place, seen = end, 0
        while place > 0:
            begin = max(place - CHUNK, 0)
            piece = os.pread(self._descriptor, place - begin, begin)
            # The newline at the very end closes the last line, it does not begin another.
            stop = len(piece) - 1 if place == end else len(piece)
            while (found := piece.rfind(b"\n", 0, stop)) >= 0:
                seen += 1
                if seen == count:
                    self.offset = max(self.offset, begin + found + 1)
                    return
                stop = found
            place = begin

    def seek_end(self, most: int) -> None:
        """Leave out all but so many bytes at the end."""
        self.offset = max(os.fstat(self._descriptor).st_size - most, self.offset)

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class GrowingEvents:
    """The events of a log, those there are and those to come."""

    def __init__(self, descriptor: int, most: int | None = None) -> None:
        self._descriptor = descriptor
        size = os.fstat(descriptor).st_size
        start = 0 if most is None else max(size - most, 0)
        self._records = Records(lambda: os.dup(descriptor), start)

    def rest(self) -> Iterator[Record]:
        return iter(self._records)

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_log(root: str, one: Seen) -> tuple[Seen, Growing]:
    """The log of a run for people; the run may be on its way to the history meanwhile."""
    one, descriptor = _open(root, one, LOG)
    return one, Growing(descriptor, one.files.log)


def open_events(root: str, one: Seen, most: int | None = None) -> tuple[Seen, GrowingEvents]:
    """Its events; with `most`, those in that many bytes at the end, and what comes after."""
    one, descriptor = _open(root, one, EVENTS)
    return one, GrowingEvents(descriptor, most)


def _open(root: str, one: Seen, suffix: str) -> tuple[Seen, int]:
    for _ in range(LOOKS):
        descriptor = open_file(one.files, suffix)
        if descriptor is not None:
            return one, descriptor
        # It has ended and moved, or has just begun and is about to write.
        again = newest_seen(root, one.name) or one
        if again.files == one.files:
            if not again.is_alive:
                break
            time.sleep(POLL_S)
        one = again
    raise UsageError(f"`{one.files.path(suffix)}` is missing")


def until_it_runs(root: str, name: str, one: Seen) -> Seen:
    """Wait while a run is in the queue; what it is after that."""
    while one.status == "queued":
        time.sleep(POLL_S)
        one = newest_seen(root, name) or one._replace(status="gone")
    if one.status == "gone":
        raise UsageError(f"`{name}` left the queue without running")
    return one


def over_when(root: str, one: Seen) -> Callable[[], bool]:
    """Asks whether this very run is no longer carried by a process; another may have its name."""
    run_id = one.holder.run_id if one.holder else None

    def is_over() -> bool:
        holder = None if run_id is None else alive(root, one.name)
        return holder is None or holder.run_id != run_id

    return is_over
