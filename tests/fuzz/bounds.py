"""Give a piece of work so much time and so much memory, and no more."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SECONDS = 20.0
"""Twenty times what is promised: a slow machine is no finding."""
MEMORY = 150 << 20


class TooLong(BaseException):
    """Not an Exception: nobody is to take this for trouble with a file."""


@contextmanager
def within(seconds: float = SECONDS) -> Iterator[None]:
    def ring(signum: int, frame: FrameType | None) -> None:
        raise TooLong(f"no answer within {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def limit_memory(more: int = MEMORY) -> None:
    """This process may grow by so much; where the system does not say how large it is, as it likes."""
    try:
        with open("/proc/self/statm") as statm:
            size = int(statm.read().split()[0]) * resource.getpagesize()
    except OSError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (size + more, resource.RLIM_INFINITY))
