"""Write to a reader who may be slow, asleep or gone, and never wait for it while a run goes on.

A pager that is stopped, a pipe into something that does not read, a terminal behind a dead
connection: what they do not take is kept, up to a limit, and given out when they read again.
Beyond the limit it is dropped and counted.  A reader that is merely slow is waited for a moment.

Not here: what is written (`foreground`, `live`); the log of the run, which has all of it.
"""

from __future__ import annotations

import io
import os
import select
import time
from typing import TextIO

from little_loops.system.stops import StopFlag

PATIENCE_S = 0.25
"""How long one write waits for a reader that has kept up so far."""
LAST_PATIENCE_S = 1.0
ROOM = 1 << 20
AT_ONCE = os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC


class Outlet(io.TextIOBase):
    """A stream for text whose writes do not block; `finish` comes after the last."""

    def __init__(self, stream: TextIO) -> None:
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
        """The reader does not keep up: what only matters now need not be written."""
        return bool(self._held)

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def write(self, text: str) -> int:
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
        """Nothing more will come: the reader gets what it has not read, unless a stop is asked."""
        while self._held and not stop.count:
            self._push(PATIENCE_S)
        self._push(LAST_PATIENCE_S)
        self.lost += len(self._held)
        self._held.clear()
        if self._descriptor is not None and self._descriptor != self._stream.fileno():
            os.close(self._descriptor)
        self._descriptor = None

    def _push(self, seconds: float) -> None:
        assert self._descriptor is not None or not self._held, "what is held has a place to go"
        until = time.monotonic() + seconds
        while self._held and self._poll.poll(max(until - time.monotonic(), 0) * 1000):
            try:
                # So much never blocks where the poll has said that there is room.
                written = os.write(self._descriptor or 0, self._held[: select.PIPE_BUF])
            except BlockingIOError:
                return
            except OSError as error:  # closed, full, hung up: nothing more will be read there
                self.refused = error
                written = len(self._held)
            del self._held[:written]


def _descriptor(stream: TextIO) -> int | None:
    """Where to write; of a terminal one of our own, which can refuse instead of blocking.

    To change the one we were given would change it for everybody else who has it.
    """
    try:
        given = stream.fileno()
    except (OSError, ValueError):  # a stream without a file, as tests have
        return None
    try:
        return os.open(os.ttyname(given), AT_ONCE)
    except OSError:  # no terminal, or one we may not open
        return given
