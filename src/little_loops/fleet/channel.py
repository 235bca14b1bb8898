"""Lines of JSON between a worker and the process that holds a run.

The worker sends orders and signs of life. When those stop, because it was killed or is suspended,
the run's process must end: whoever claims the run next may be at work already.

Not here: what is sent (`seat`, `worker`).
"""

from __future__ import annotations

import json
import os
import queue
import threading
from collections.abc import Callable, Mapping
from select import select

from little_loops.light_typing import Any

MOST_READ = 1 << 16


class WorkerGone(Exception):
    """Nobody sends orders any more."""


class Channel:
    """The connection of a run's process to its worker; `alone` is called once it is gone."""

    def __init__(self, reading: int, writing: int, silence_s: float) -> None:
        self._reading = reading
        self._writing = writing
        self._silence_s = silence_s
        self._orders: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._unread = b""
        self._is_gone = False

    def check(self) -> None:
        """Raise `WorkerGone` if the worker is: what ended since then was interrupted by that."""
        if self._is_gone:
            raise WorkerGone

    def listen(self, alone: Callable[[], None]) -> None:
        """Read in a thread from now on."""
        threading.Thread(target=self._read, args=(alone,), daemon=True).start()

    def receive(self) -> dict[str, Any]:
        """Return the next message. Raises `WorkerGone`."""
        message = self._orders.get()
        if message is None:
            raise WorkerGone
        return message

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message. Raises `WorkerGone`."""
        data = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        try:
            while data:
                data = data[os.write(self._writing, data) :]
        except OSError:
            raise WorkerGone from None

    def _read(self, alone: Callable[[], None]) -> None:
        """Put messages into the queue until the worker is gone or silent for too long."""
        while select([self._reading], [], [], self._silence_s)[0]:
            data = os.read(self._reading, MOST_READ)
            if not data:
                break
            *lines, self._unread = (self._unread + data).split(b"\n")
            for line in lines:
                message = json.loads(line)
                if message:  # an empty one is a sign of life
                    self._orders.put(message)
        self._is_gone = True
        self._orders.put(None)
        alone()
