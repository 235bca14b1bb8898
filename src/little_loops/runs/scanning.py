"""Look through a whole event log without decoding every event: a run may have a million of them.

A line begins with the kind of its event, and a quote inside a text is always escaped. So a pattern
over the raw bytes finds the events of some kinds, and nothing else.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from little_loops.fsm.events import Entry
from little_loops.records import NamedTuple
from little_loops.runs.entries import readable
from little_loops.runs.folders import event_log
from little_loops.runs.journal import LONGEST_LINE, parse
from little_loops.runs.layout import RunFiles

CHUNK = 4 << 20
# A line break is found five times as fast as the beginning of a line.
_TAKEN = re.compile(
    rb'\n\{"event":"(?:transition","from":"([\w-]+)","to":"([\w-]+)"|state_enter","state":"([\w-]+)")'
)


class Counts(NamedTuple):
    """How often a run has entered each state and taken each transition, up to an offset of its
    log."""

    inode: int = 0
    offset: int = 0
    visits: Mapping[str, int] = {}
    taken: Mapping[tuple[str, str], int] = {}


def counts_of(files: RunFiles, before: Counts | None = None) -> Counts:
    """Count the states and transitions of a run; with `before`, only what was added since then."""
    descriptor = event_log(files)()
    if descriptor is None:
        return Counts()
    try:
        inode = os.fstat(descriptor).st_ino
        if before is None or before.inode != inode:
            before = Counts(inode)
        visits, taken, offset = Counter(before.visits), Counter(before.taken), before.offset
        for piece in _whole_lines(descriptor, offset):
            offset += len(piece)
            for source, target, state in _TAKEN.findall(b"\n" + piece):
                if state:
                    visits[state.decode()] += 1
                else:
                    taken[source.decode(), target.decode()] += 1
        return Counts(inode, offset, visits, taken)
    finally:
        os.close(descriptor)


def entries_of_kinds(files: RunFiles, kinds: Iterable[str], most: int) -> Iterator[Entry]:
    """Yield the events of these kinds that are in the last `most` bytes of the log."""
    wanted = _lines_of(kinds)
    descriptor = event_log(files)()
    if descriptor is None:
        return
    try:
        start = max(os.fstat(descriptor).st_size - most, 0)
        for piece in _whole_lines(descriptor, start):
            yield from readable(filter(None, map(parse, wanted.findall(piece))))
    finally:
        os.close(descriptor)


def _lines_of(kinds: Iterable[str]) -> re.Pattern[bytes]:
    """Return the pattern of the lines that have events of these kinds."""
    names = "|".join(map(re.escape, kinds)).encode()
    return re.compile(rb'^\{"event":"(?:%s)"[^\n]*' % names, re.MULTILINE)


class FirstEvents(NamedTuple):
    """Events of some kinds; `is_all`: there are no others of these kinds in the log."""

    entries: Sequence[Entry]
    is_all: bool


def first_events(files: RunFiles, kinds: Iterable[str]) -> FirstEvents:
    """Return the events of these kinds that are in the first `CHUNK` bytes of the log."""
    descriptor = event_log(files)()
    if descriptor is None:
        return FirstEvents((), True)
    try:
        piece = next(_whole_lines(descriptor, 0), b"")
        found = tuple(readable(filter(None, map(parse, _lines_of(kinds).findall(piece)))))
        return FirstEvents(found, len(piece) == os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)


def _whole_lines(descriptor: int, offset: int) -> Iterator[bytes]:
    """Yield the log from an offset on, in pieces that end with a line."""
    room = CHUNK
    while piece := os.pread(descriptor, room, offset):
        end = piece.rfind(b"\n") + 1
        if not end:
            if len(piece) < room or room > LONGEST_LINE:
                return  # half a line, which does not count yet
            room *= 2
            continue
        yield piece[:end]
        offset += end
        room = CHUNK
