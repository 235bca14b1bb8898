"""Find signal lines in an action's output, and split it into lines, as it is read.

The result does not depend on how the output is cut into chunks, and memory use is constant.

Not here: reading from the child (`process`), storing the output (`runs.output_files`), masking and
escaping before display (`reporting`).
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from functools import cache

from little_loops.fsm.colour_codes import ColourFilter, without_colours
from little_loops.fsm.signals import SIGNALS
from little_loops.light_typing import Protocol
from little_loops.records import NamedTuple

EDGE = 64 << 10
PAYLOAD = 8 << 10
LONGEST_LINE = 8 << 20


MARKERS = tuple(f"{marker}:".encode() for marker in SIGNALS)


class Signal(NamedTuple):
    """A line that is meant for the loop; `kind` is its marker without the colon."""

    kind: str
    payload: str


class Scanner(Protocol):
    """Finds the first signal in a stream."""

    @property
    def found(self) -> Signal | None: ...

    def feed(self, chunk: bytes) -> None: ...


def _decode_cut(data: bytes | bytearray) -> str:
    """Decode text that may end in the middle of a character, which is dropped."""
    return codecs.getincrementaldecoder("utf-8")("replace").decode(data)


@cache
def _traits(markers: tuple[bytes, ...]) -> tuple[int, bytes]:
    """Return the length of the longest marker, and a byte that all markers contain and most output
    does not.

    Searching for that byte first is thirty times cheaper than searching for each marker.
    """
    shared = next((one for one in (b"_", b":") if all(one in marker for marker in markers)), b"")
    return max(map(len, markers)), shared


class SignalScanner:
    """Finds the first line that begins with a marker, after optional blanks."""

    def __init__(self, markers: Sequence[bytes] = MARKERS) -> None:
        """Search for lines that begin with one of these markers, which end with a colon."""
        self._markers = tuple(markers)
        self._longest, self._shared = _traits(self._markers)
        self._is_line_blank = True
        self._carry = b""
        self._marker: bytes | None = None
        self._payload = bytearray()
        self._is_complete = False
        self._uncoloured = ColourFilter()

    @property
    def found(self) -> Signal | None:
        """The first signal so far, with at most `PAYLOAD` bytes of its line; None if there is
        none."""
        if self._marker is None:
            return None
        kind = self._marker.rstrip(b":").decode()
        is_cut = len(self._payload) == PAYLOAD
        text = _decode_cut(self._payload) if is_cut else self._payload.decode("utf-8", "replace")
        return Signal(kind, text.strip())

    def feed(self, chunk: bytes) -> None:
        """Search the next chunk of output; colour codes are ignored."""
        chunk = self._uncoloured.feed(chunk)
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
        """Return the position of the first marker at the start of a line; -1 if there is none."""
        at = data.find(marker)
        while at >= 0 and not self._opens_line(data, at):
            # There is text before it on the line, so no marker on this line counts.
            end = data.find(b"\n", at)
            at = data.find(marker, end) if end >= 0 else -1
        return at

    def _opens_line(self, data: bytes, at: int) -> bool:
        """Return whether only blanks precede this position on its line."""
        while at and data[at - 1] in b" \t":
            at -= 1
        return data[at - 1] == 0x0A if at else self._is_line_blank

    def _remember_line(self, data: bytes) -> None:
        """Keep the part of an unfinished line that may still become a marker."""
        begins = data.rfind(b"\n") + 1
        if begins == 0 and not self._is_line_blank:
            return
        line = data[begins:].lstrip(b" \t")
        may_become = len(line) < self._longest and any(m.startswith(line) for m in self._markers)
        self._carry = line if may_become else b""
        self._is_line_blank = may_become

    def _take(self, chunk: bytes) -> None:
        """Collect the payload up to the end of its line, or up to the maximum length."""
        if self._is_complete:
            return
        end = chunk.find(b"\n")
        piece = chunk if end < 0 else chunk[:end]
        if not self._payload:
            piece = piece.lstrip(b" \t")
        self._payload += piece[: PAYLOAD - len(self._payload)]
        self._is_complete = end >= 0 or len(self._payload) == PAYLOAD


class LineSplitter:
    r"""Splits a stream into lines without their `\\n`; keeps only the beginning of a long line."""

    def __init__(self, limit: int = LONGEST_LINE) -> None:
        self._limit = limit
        self._held = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take a chunk. Return the lines that are complete, cut at the limit."""
        first, *others = chunk.split(b"\n")
        self._hold(first)
        if not others:
            return []
        lines = [bytes(self._held), *(line[: self._limit] for line in others[:-1])]
        self._held.clear()
        self._hold(others[-1])
        return lines

    def close(self) -> list[bytes]:
        """Return the last line, if it has no newline."""
        lines = [bytes(self._held)] if self._held else []
        self._held.clear()
        return lines

    def _hold(self, piece: bytes) -> None:
        self._held += piece[: self._limit - len(self._held)]


class LineScanner:
    """Finds the first line for which `search` returns a signal; passes only the start of long
    lines."""

    def __init__(self, search: Callable[[str], Signal | None]) -> None:
        self._search = search
        self._lines = LineSplitter(EDGE)
        self._found: Signal | None = None

    @property
    def found(self) -> Signal | None:
        self._search_lines(self._lines.close())
        return self._found

    def feed(self, chunk: bytes) -> None:
        if self._found is None:
            self._search_lines(self._lines.feed(chunk))

    def _search_lines(self, lines: Sequence[bytes]) -> None:
        for line in lines:
            if self._found is None:
                self._found = self._search(without_colours(line).decode("utf-8", "replace"))
