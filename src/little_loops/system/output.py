"""Keep what an action prints: little of it in memory, all of it in a file, signals found.

A small output stays a text.  Beyond that it goes to a file of the run, with its size and hash,
up to a limit; memory holds its beginning and its end.  Signal lines are found as the bytes
pass, however they are cut into pieces.

Not here: reading from the child (`process`), hiding secrets and escaping control characters
before anything is shown.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Protocol

from little_loops.fsm.signals import SIGNALS
from little_loops.records import NamedTuple
from little_loops.system.files import sync_all, write_all

if TYPE_CHECKING:
    from hashlib import _Hash

INLINE = 4096
EDGE = 64 << 10
STREAM_CAP = 64 << 20
RUN_CAP = 512 << 20
PAYLOAD = 8 << 10
LONGEST_LINE = 8 << 20


class Output(NamedTuple):
    """What became of a stream: a text if it is small, else a file; head and tail of either.

    The tail is empty when the head is everything.  The hash is that of the file.
    """

    text: str | None
    head: str
    tail: str
    size: int
    path: str | None
    sha256: str | None
    truncated: bool

    @property
    def omitted(self) -> int:
        """How many bytes lie between head and tail."""
        return self.size - 2 * EDGE if self.tail else 0


class Stream:
    """One stream of an action, fed as it is read."""

    def __init__(self, directory: str | int, name: str, *, cap: int = STREAM_CAP) -> None:
        """`directory` is the run's, as a path or a descriptor; a file of it may become `name`."""
        self.size = 0
        self._directory = directory
        self._name = name
        self._cap = cap
        self._head = bytearray()
        self._tail: bytes | bytearray = b""
        self._file: _File | None = None

    @property
    def inline(self) -> bytes | None:
        """All of it, as long as it is small and in no file."""
        return bytes(self._head) if self._file is None else None

    def feed(self, chunk: bytes) -> None:
        self.size += len(chunk)
        if self.size > INLINE:
            self.spill()
        if self._file is not None:
            self._file.write(chunk)
        if (room := EDGE - len(self._head)) > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        if len(chunk) >= EDGE:
            self._tail = chunk[-EDGE:]
        elif chunk:
            tail = self._tail if isinstance(self._tail, bytearray) else bytearray(self._tail)
            tail += chunk
            if len(tail) > 2 * EDGE:
                del tail[:-EDGE]
            self._tail = tail

    def spill(self) -> None:
        """Keep it in a file, small as it may be: what holds a secret is not for the events."""
        if self._file is None:
            self._file = _File(self._directory, self._name, self._cap)
            self._file.write(bytes(self._head))

    def close(self, *, sync: bool = True) -> Output:
        """End the stream; with `sync` its file outlives a power cut once this returns."""
        head, tail = self._edges()
        if self._file is None:
            return Output(head, head, "", self.size, None, None, False)
        self._file.close(sync)
        stored = self._file
        is_cut = stored.size < self.size
        return Output(None, head, tail, self.size, stored.name, stored.sha256(), is_cut)

    def _edges(self) -> tuple[str, str]:
        if self.size <= 2 * EDGE:
            return (self._head + self._tail).decode("utf-8", "replace"), ""
        tail = self._tail[-EDGE:]
        cut = next((i for i in range(4) if not 0x80 <= tail[i] < 0xC0), 0)
        return _decode_cut(self._head), tail[cut:].decode("utf-8", "replace")


def _decode_cut(data: bytes | bytearray) -> str:
    """Decode what may have been cut in the middle of a character, which is dropped."""
    return codecs.getincrementaldecoder("utf-8")("replace").decode(data)


class _File:
    """A file made for one stream, hashed on the way, not written beyond its limit."""

    def __init__(self, directory: str | int, name: str, cap: int) -> None:
        import hashlib  # slow, and most outputs are small

        self.size = 0
        self._room = cap
        self._hash: _Hash = hashlib.sha256()
        self._directory = directory
        self.name, self._fd = _create(directory, name)

    def write(self, chunk: bytes) -> None:
        chunk = chunk[: self._room]
        if not chunk:
            return
        self._hash.update(chunk)
        self._room -= len(chunk)
        self.size += len(chunk)
        write_all(self._fd, chunk)

    def close(self, sync: bool) -> None:
        try:
            if sync:
                sync_all(self._fd)
                _sync_names(self._directory)
        finally:
            os.close(self._fd)

    def sha256(self) -> str:
        return self._hash.hexdigest()


def _sync_names(directory: str | int) -> None:
    """What is in a file is safe only if its name is."""
    if isinstance(directory, int):
        sync_all(directory)
        return
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync_all(descriptor)
    finally:
        os.close(descriptor)


def _create(directory: str | int, name: str) -> tuple[str, int]:
    """A new file of its owner alone; what is already there is neither followed nor changed."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    for attempt in range(1, 100):
        chosen = name if attempt == 1 else f"{name}-{attempt}"
        try:
            if isinstance(directory, int):
                return chosen, os.open(chosen, flags, 0o600, dir_fd=directory)
            return chosen, os.open(os.path.join(directory, chosen), flags, 0o600)
        except FileExistsError:
            continue
    raise FileExistsError(f"`{name}` and {attempt} like it exist")


OUTPUT_NAME = re.compile(r"\d+-\d+\.(out|err|text|jsonl)(-\d+)?")
"""What outputs are called; other files of the run are not ours to drop."""


class Trimmed(NamedTuple):
    dropped: list[str]
    size: int


def trim(directory: str, cap: int = RUN_CAP) -> Trimmed:
    """Drop the oldest output files where all together exceed `cap`; what is left, in bytes.

    An eighth more than needed goes, so that the directory is not read for every action.
    """
    with os.scandir(directory) as entries:
        files = [
            (stat.st_mtime_ns, entry.name, stat.st_size)
            for entry in entries
            if OUTPUT_NAME.fullmatch(entry.name)
            and entry.is_file(follow_symlinks=False)
            and (stat := entry.stat(follow_symlinks=False)) is not None
        ]
    size = sum(file[2] for file in files)
    dropped: list[str] = []
    if size > cap:
        for _, name, length in sorted(files):
            if size <= cap - cap // 8:
                break
            os.unlink(os.path.join(directory, name))
            dropped.append(name)
            size -= length
    return Trimmed(dropped, size)


# --- signals and lines ---

MARKERS = tuple(f"{marker}:".encode() for marker in SIGNALS)


class Signal(NamedTuple):
    """A line that is meant for the loop; `kind` is its marker without the colon."""

    kind: str
    payload: str


class Scanner(Protocol):
    """Looks for the first signal in a stream, fed as it is read."""

    @property
    def found(self) -> Signal | None: ...

    def feed(self, chunk: bytes) -> None: ...


@cache
def _traits(markers: tuple[bytes, ...]) -> tuple[int, bytes]:
    """The longest marker's length, and a byte that all of them have and most output has not.

    One look for that byte is thirty times cheaper than one for each marker.
    """
    shared = next((one for one in (b"_", b":") if all(one in marker for marker in markers)), b"")
    return max(map(len, markers)), shared


class SignalScanner:
    """Find the first line that begins with a marker, blanks before it allowed."""

    def __init__(self, markers: Sequence[bytes] = MARKERS) -> None:
        self._markers = tuple(markers)
        self._longest, self._shared = _traits(self._markers)
        self._is_line_blank = True
        self._carry = b""
        self._marker: bytes | None = None
        self._payload = bytearray()
        self._is_complete = False

    @property
    def found(self) -> Signal | None:
        if self._marker is None:
            return None
        kind = self._marker.rstrip(b":").decode()
        is_cut = len(self._payload) == PAYLOAD
        text = _decode_cut(self._payload) if is_cut else self._payload.decode("utf-8", "replace")
        return Signal(kind, text.strip())

    def feed(self, chunk: bytes) -> None:
        if self._marker is not None:
            self._take(chunk)
            return
        data = self._carry + chunk if self._carry else chunk
        hits: list[tuple[int, bytes]] = []
        if self._shared in data:
            hits = [(at, one) for one in self._markers if (at := self._first(one, data)) >= 0]
        if hits:
            at, self._marker = min(hits)
            self._take(data[at + len(self._marker) :])
        else:
            self._remember_line(data)

    def _first(self, marker: bytes, data: bytes) -> int:
        at = data.find(marker)
        while at >= 0 and not self._opens_line(data, at):
            # The line has something before it: no marker on it counts.
            end = data.find(b"\n", at)
            at = data.find(marker, end) if end >= 0 else -1
        return at

    def _opens_line(self, data: bytes, at: int) -> bool:
        while at and data[at - 1] in b" \t":
            at -= 1
        return data[at - 1] == 0x0A if at else self._is_line_blank

    def _remember_line(self, data: bytes) -> None:
        """Keep of an unfinished line what may still become a marker."""
        begins = data.rfind(b"\n") + 1
        if begins == 0 and not self._is_line_blank:
            return
        line = data[begins:].lstrip(b" \t")
        may_become = len(line) < self._longest and any(m.startswith(line) for m in self._markers)
        self._carry = line if may_become else b""
        self._is_line_blank = may_become

    def _take(self, chunk: bytes) -> None:
        """Collect the payload up to the end of its line, or as much as is allowed."""
        if self._is_complete:
            return
        end = chunk.find(b"\n")
        piece = chunk if end < 0 else chunk[:end]
        if not self._payload:
            piece = piece.lstrip(b" \t")
        self._payload += piece[: PAYLOAD - len(self._payload)]
        self._is_complete = end >= 0 or len(self._payload) == PAYLOAD


class LineSplitter:
    """Cut a stream into lines, without their `\\n`; of a longer one the beginning is kept."""

    def __init__(self, limit: int = LONGEST_LINE) -> None:
        self._limit = limit
        self._held = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        first, *others = chunk.split(b"\n")
        self._hold(first)
        if not others:
            return []
        lines = [bytes(self._held), *(line[: self._limit] for line in others[:-1])]
        self._held.clear()
        self._hold(others[-1])
        return lines

    def close(self) -> list[bytes]:
        """The last line, if no newline ended it."""
        lines = [bytes(self._held)] if self._held else []
        self._held.clear()
        return lines

    def _hold(self, piece: bytes) -> None:
        self._held += piece[: self._limit - len(self._held)]


class LineScanner:
    """Find the first line that `search` takes for a signal; of a long line it sees the beginning."""

    def __init__(self, search: Callable[[str], Signal | None]) -> None:
        self._search = search
        self._lines = LineSplitter(EDGE)
        self._found: Signal | None = None

    @property
    def found(self) -> Signal | None:
        self._look(self._lines.close())
        return self._found

    def feed(self, chunk: bytes) -> None:
        if self._found is None:
            self._look(self._lines.feed(chunk))

    def _look(self, lines: Sequence[bytes]) -> None:
        for line in lines:
            if self._found is None:
                self._found = self._search(line.decode("utf-8", "replace"))
