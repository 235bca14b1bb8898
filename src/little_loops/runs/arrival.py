"""The order in which the two streams of an action arrived.

Recorded while the action runs, one line for each switch between the streams: `o 120` for 120 bytes
of stdout, `e 30` for 30 of stderr. Bytes after the last line belong to one stream. An action that
prints to only one stream has no such file.

Not here: the streams (`output_files`, `outputs`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from little_loops.light_typing import Final, Literal
from little_loops.records import NamedTuple

StreamName = Literal["stdout", "stderr"]

_CODES: Final[dict[StreamName, bytes]] = {"stdout": b"o", "stderr": b"e"}
_STREAMS: Final[dict[bytes, StreamName]] = {b"o": "stdout", b"e": "stderr"}


class StreamBytes(NamedTuple):
    """A number of bytes of one stream."""

    stream: StreamName
    size: int


def to_line(piece: StreamBytes) -> bytes:
    return b"%b %d\n" % (_CODES[piece.stream], piece.size)


def from_lines(data: bytes) -> tuple[StreamBytes, ...]:
    """Return the pieces recorded in a file; an incomplete last line and foreign lines are
    ignored."""
    words = (line.split() for line in data.split(b"\n")[:-1])
    return tuple(
        StreamBytes(_STREAMS[pair[0]], int(pair[1]))
        for pair in words
        if len(pair) == 2 and pair[0] in _STREAMS and pair[1].isdigit()
    )


def to_sizes(pieces: Iterable[StreamBytes]) -> tuple[int, ...]:
    """Return an order of pieces as a result stores it: sizes of stdout, stderr, stdout, … in turn.

    The first is 0 if stderr came first.
    """
    sizes: list[int] = []
    for stream, size in pieces:
        if (len(sizes) % 2 == 0) != (stream == "stdout"):
            sizes.append(0)
        sizes.append(size)
    return tuple(sizes)


def from_sizes(sizes: Iterable[int]) -> tuple[StreamBytes, ...]:
    streams: tuple[StreamName, StreamName] = ("stdout", "stderr")
    return tuple(StreamBytes(streams[at % 2], size) for at, size in enumerate(sizes) if size)


class StreamPart(NamedTuple):
    """Bytes `start` to `end` of one stream."""

    stream: StreamName
    start: int
    end: int


def parts(pieces: Iterable[StreamBytes], sizes: dict[StreamName, int]) -> Iterator[StreamPart]:
    """Yield the parts of streams of these sizes in the recorded order, then what no piece covers.

    Pieces beyond the end of a stream are cut.
    """
    done: dict[StreamName, int] = {"stdout": 0, "stderr": 0}
    rest = [StreamBytes(stream, size) for stream, size in sizes.items()]
    for stream, size in (*pieces, *rest):
        end = min(done[stream] + size, sizes[stream])
        if end > done[stream]:
            yield StreamPart(stream, done[stream], end)
            done[stream] = end
