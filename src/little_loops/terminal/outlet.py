"""Write to a reader that may be slow, suspended or gone, without blocking the run.

A suspended pager, a pipe that nobody reads, a terminal behind a dead connection: what they do not
take is kept, up to a limit, and written when they read again. Beyond the limit, it is dropped and
counted. A slow reader gets a moment before that.

Not here: what is written (`foreground`, `live`); the log of the run, which has all of it.
"""

from __future__ import annotations

import io
import os
import select
import time

from little_loops.light_typing import TextIO
from little_loops.system.stops import StopFlag

PATIENCE_S = 0.25
"""How long a write waits for a reader that has kept up so far."""
LAST_PATIENCE_S = 1.0
ROOM = 1 << 20
AT_ONCE = os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC


class Outlet(io.TextIOBase):
    """A text stream whose writes do not block; call `finish` after the last."""

    def __init__(self, stream: TextIO) -> None:
        """Flush the stream, and write to its file from now on; one without a file may block."""
        self._stream = stream
        self._descriptor = _descriptor(stream)
        self._held = bytearray()
        self.refused: OSError | None = None
        self.lost = 0
        self._poll = select.poll()
        if self._descriptor is not None:
            stream.flush()
            self._poll.register(self._descriptor, select.POLLOUT)

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding or "ascii"

    @property
    def is_behind(self) -> bool:
        """Whether the reader does not keep up, so that transient text need not be written."""
        return bool(self._held)

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def write(self, text: str) -> int:
        """Write a text, or keep or drop it if the reader does not keep up. Return its length.

        After an error, which is then in `refused`, nothing more is written.
        """
        data = text.encode(self.encoding, "backslashreplace")
        if self._descriptor is None:
            self._stream.write(data.decode(self.encoding))
            self._stream.flush()
        elif self._held and len(self._held) + len(data) > ROOM:
            self.lost += len(data)
        elif self.refused is None:
            patience_s = 0.0 if self._held else PATIENCE_S
            self._held += data
            self._push(patience_s)
        return len(text)

    def finish(self, stop: StopFlag) -> None:
        """Write what the reader has not read yet, until a stop is requested and one second more.

        What is left is counted as lost, and our own descriptor of a terminal is closed.
        """
        while self._held and not stop.count:
            self._push(PATIENCE_S)
        self._push(LAST_PATIENCE_S)
        self.lost += len(self._held)
        self._held.clear()
        if self._descriptor is not None and self._descriptor != self._stream.fileno():
            os.close(self._descriptor)
        self._descriptor = None

    def _push(self, seconds: float) -> None:
        """Write kept data for at most this many seconds."""
        assert self._descriptor is not None or not self._held, "held text has somewhere to go"
        until = time.monotonic() + seconds
        while self._held and self._poll.poll(max(until - time.monotonic(), 0) * 1000):
            try:
                # This much never blocks if `poll` has reported room.
                written = os.write(self._descriptor or 0, self._held[: select.PIPE_BUF])
            except BlockingIOError:
                return
            except OSError as error:  # closed, full, hung up: nothing more will be read there
                self.refused = error
                written = len(self._held)
            del self._held[:written]


def _descriptor(stream: TextIO) -> int | None:
    """Return the descriptor to write to; for a terminal, our own non-blocking one.

    Changing the given one would change it for everybody else who uses it.
    """
    try:
        given = stream.fileno()
    except (OSError, ValueError):  # a stream without a file, as in tests
        return None
    try:
        return os.open(os.ttyname(given), AT_ONCE)
    except OSError:  # not a terminal, or one we cannot open
        return given
