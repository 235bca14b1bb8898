"""Turn signals into a flag that a poll loop can wait for.

A handler sets the flag and wakes the loop through a pipe; it does nothing else. Whoever holds the
flag decides what a stop means (end the action, save, say how to resume). Ctrl-Z is handled here,
too: an action is in another session, which the terminal does not reach, so the loop has to suspend
it before it suspends itself.

Not here: ending processes (`process`, `process_tree`), waiting for anything but a stop.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from little_loops.light_modules import signal

LONGEST_POLL_S = 86_400.0
"""`poll` takes milliseconds in 32 bits, so longer waits are split into days."""


class StopFlag:
    """Whether, how often and by which signal a stop was requested; its descriptor becomes readable."""

    def __init__(self) -> None:
        """Create the flag and its pipe; `close` closes it."""
        self.signal: int | None = None
        self.count = 0
        self.suspend_requested = False
        self.suspended_s = 0.0
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._read_fd, False)
        os.set_blocking(self._write_fd, False)

    @property
    def is_urgent(self) -> bool:
        """Whether a stop was requested twice, so that there is no more grace."""
        return self.count >= 2

    def ask(self, signum: int) -> None:
        """Request a stop; the second request means immediately. A SIGHUP after another request is
        ignored."""
        if signum == signal.SIGHUP and self.signal is not None:
            return  # a closing terminal sends it twice: from the kernel and from the shell
        if self.signal is None:
            self.signal = signum
        self.count += 1
        self.wake()

    def request_suspend(self) -> None:
        """Request a suspension, as by Ctrl-Z, until the process is continued."""
        self.suspend_requested = True
        self.wake()

    def fileno(self) -> int:
        """Return a descriptor that is readable after a request, until `drain` is called."""
        return self._read_fd

    def wake_fileno(self) -> int:
        return self._write_fd

    def wake(self) -> None:
        with suppress(BlockingIOError):  # full: the loop will wake up anyway
            os.write(self._write_fd, b"!")

    def drain(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._read_fd, 4096)

    def suspend(self) -> float:
        """Suspend this process, as the terminal requested. Return the seconds until it was
        continued, which also count in `suspended_s`."""
        self.suspend_requested = False
        began = time.monotonic()
        handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        # Not SIGSTOP: without a shell that could continue us, the kernel ignores SIGTSTP.
        signal.raise_signal(signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, handler)
        seconds = time.monotonic() - began
        self.suspended_s += seconds
        return seconds

    def suspended_ms(self) -> int:
        """Return the total time for which the process was suspended."""
        return round(self.suspended_s * 1000)

    def wait(self, seconds: float | None) -> bool:
        """Sleep until a stop is requested (True) or the time is over (False); None waits without
        limit.

        Ctrl-Z suspends the process meanwhile, and prolongs the wait by that time.
        """
        until = None if seconds is None else time.monotonic() + seconds
        poll = select.poll()
        poll.register(self._read_fd, select.POLLIN)
        while not self.count:
            if self.suspend_requested:
                suspended = self.suspend()
                until = None if until is None else until + suspended
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return False
            poll.poll(poll_ms(left))
            self.drain()
        return True

    @contextmanager
    def disregarded(self) -> Iterator[None]:
        """Disregard the requests so far, within the block; only another one stops it."""
        before, self.count = self.count, 0
        try:
            yield
        finally:
            self.count += before

    def reset(self) -> None:
        """Forget all requests, because the run they were meant for has ended."""
        self.signal, self.count = None, 0
        self.drain()

    def close(self) -> None:
        os.close(self._read_fd)
        os.close(self._write_fd)


def poll_ms(seconds: float | None) -> float | None:
    """Return a timeout for `poll`, None for no limit."""
    return None if seconds is None else min(max(seconds, 0.0), LONGEST_POLL_S) * 1000


STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def listen(flag: StopFlag, signals: Iterable[signal.Signals] = STOPS) -> Callable[[], None]:
    """Let signals set the flag, except those that are ignored on purpose; Ctrl-Z requests a
    suspension.

    Return a function that restores the handlers. Main thread only.
    """

    def on_stop(signum: int, _frame: object) -> None:
        flag.ask(signum)

    def suspend_requested(_signum: int, _frame: object) -> None:
        flag.request_suspend()

    # Python runs a handler only between two bytecodes: a signal just before a poll would wait for
    # the next event. This byte is written immediately.
    woken_before = signal.set_wakeup_fd(flag.wake_fileno(), warn_on_full_buffer=False)
    before = {
        signum: signal.signal(signum, on_stop) for signum in signals if not _is_ignored(signum)
    }
    if signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL:
        before[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, suspend_requested)
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        # The caller left it ignored; then the exit status of an action would be lost.
        before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def restore() -> None:
        for signum, handler in before.items():
            signal.signal(signum, signal.SIG_DFL if handler is None else handler)
        signal.set_wakeup_fd(woken_before)

    return restore


def _is_ignored(signum: signal.Signals) -> bool:
    """Return whether a signal is ignored on purpose, by `nohup` or a script's `&`; never TERM."""
    return signum != signal.SIGTERM and signal.getsignal(signum) is signal.SIG_IGN
