"""Combine the two streams of an action into one log, in order of arrival.

A line is never split by the other stream: text without a newline waits for it. Colour codes are
removed. Only one chunk is held in memory, however long a stream or a line is.

Not here: recording that order (`arrival`), where the streams are (`output_files`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from little_loops.fsm.colour_codes import ColourFilter
from little_loops.light_typing import BinaryIO
from little_loops.records import NamedTuple
from little_loops.runs.arrival import StreamBytes, StreamName, parts

CHUNK = 1 << 16

Write = Callable[[bytes], object]


class StreamSource(NamedTuple):
    """A stream that can be read at any position."""

    file: BinaryIO
    size: int

    def read(self, start: int, end: int) -> Iterator[bytes]:
        """Yield the bytes from `start` to `end` in chunks; fewer if the file is shorter."""
        while start < end:
            self.file.seek(start)
            chunk = self.file.read(min(CHUNK, end - start))
            if not chunk:
                return
            yield chunk
            start += len(chunk)

    def after_last_newline(self, start: int, end: int) -> int | None:
        """Return the offset after the last newline between `start` and `end`, or None if there is
        none."""
        while start < end:
            begin = max(start, end - CHUNK)
            self.file.seek(begin)
            at = self.file.read(end - begin).rfind(b"\n")
            if at >= 0:
                return begin + at + 1
            end = begin
        return None


def combine(
    sources: dict[StreamName, StreamSource], pieces: Iterable[StreamBytes], write: Write
) -> None:
    """Write both streams in order of arrival, without colour codes.

    Text after the last newline of a stream comes at the end; if both have some, a newline separates
    it.
    """
    written: dict[StreamName, int] = dict.fromkeys(sources, 0)
    for stream, start, end in parts(pieces, {name: each.size for name, each in sources.items()}):
        stop = sources[stream].after_last_newline(start, end)
        if stop is not None:
            _copy(sources[stream].read(written[stream], stop), write)
            written[stream] = stop
    left = [name for name, source in sources.items() if written[name] < source.size]
    for number, name in enumerate(left, 1):
        _copy(sources[name].read(written[name], sources[name].size), write)
        if number < len(left):
            write(b"\n")


def _copy(chunks: Iterable[bytes], write: Write) -> None:
    """Write the chunks without colour codes, also those that are split between chunks."""
    uncoloured = ColourFilter()
    for chunk in chunks:
        write(uncoloured.feed(chunk))
    write(uncoloured.finish())
