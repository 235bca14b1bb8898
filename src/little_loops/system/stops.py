"""Turn the signals sent to us into a flag that a poll loop can wait for.

A handler sets the flag and wakes the loop through a pipe; it does nothing else.  What a
stop means (end the action, save, say how to resume) is decided by whoever holds the flag.
Ctrl-Z is here too: what an action started is in another session, which a terminal does not
reach, so the loop has to stop it before it stops itself.

Not here: ending processes (`process`, `process_tree`), waiting for anything else than a stop.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

LONGEST_POLL_S = 86_400.0
"""A poll counts milliseconds in 32 bits; a wait beyond a day is cut into days."""


class StopFlag:
    """Whether, how often and by which signal a stop was asked for; readable when it was."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self.count = 0
        self.suspend_asked = False
        self.stood_still_s = 0.0
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._read_fd, False)
        os.set_blocking(self._write_fd, False)

    @property
    def is_urgent(self) -> bool:
        """Asked for twice: no more grace for anything."""
        return self.count >= 2

    def ask(self, signum: int) -> None:
        """Ask for a stop; the second time means at once."""
        if signum == signal.SIGHUP and self.count:
            return  # a closing terminal sends it twice, by the kernel and by the shell
        if self.signal is None:
            self.signal = signum
        self.count += 1
        self.wake()

    def ask_suspend(self) -> None:
        """Ask for what Ctrl-Z means: everything stands still until it is continued."""
        self.suspend_asked = True
        self.wake()

    def fileno(self) -> int:
        """A descriptor that is readable when there is news; `drain` makes it quiet again."""
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
        """Stop this process as the terminal asked; gives the seconds it stood still."""
        self.suspend_asked = False
        began = time.monotonic()
        handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        # Not SIGSTOP: where no shell is left to continue us, the kernel drops this one.
        signal.raise_signal(signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, handler)
        seconds = time.monotonic() - began
        self.stood_still_s += seconds
        return seconds

    def stood_still_ms(self) -> int:
        """All the time that passed between a Ctrl-Z and what ended it."""
        return round(self.stood_still_s * 1000)

    def wait(self, seconds: float | None) -> bool:
        """Sleep until a stop is asked for (true) or the time is over; Ctrl-Z adds to it."""
        until = None if seconds is None else time.monotonic() + seconds
        poll = select.poll()
        poll.register(self._read_fd, select.POLLIN)
        while not self.count:
            if self.suspend_asked:
                stood_still = self.suspend()
                until = None if until is None else until + stood_still
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return False
            poll.poll(poll_ms(left))
            self.drain()
        return True

    def reset(self) -> None:
        """Forget what was asked: the run it was meant for has ended."""
        self.signal, self.count = None, 0
        self.drain()

    def close(self) -> None:
        os.close(self._read_fd)
        os.close(self._write_fd)


def poll_ms(seconds: float | None) -> float | None:
    """A time-out for `poll`, none for ever."""
    return None if seconds is None else min(max(seconds, 0.0), LONGEST_POLL_S) * 1000


STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def listen(flag: StopFlag, signals: Iterable[signal.Signals] = STOPS) -> Callable[[], None]:
    """Let signals set the flag, until the function given back is called; main thread only."""

    def stop_asked(signum: int, _frame: object) -> None:
        flag.ask(signum)

    def suspend_asked(_signum: int, _frame: object) -> None:
        flag.ask_suspend()

    # The interpreter runs a handler only between two of its own steps: a signal that comes
    # just before a poll would wait for the next event.  This byte is written at once.
    woken_before = signal.set_wakeup_fd(flag.wake_fileno(), warn_on_full_buffer=False)
    before = {
        signum: signal.signal(signum, stop_asked) for signum in signals if not _is_ignored(signum)
    }
    if signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL:
        before[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, suspend_asked)
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        # Some caller left it so; the system would not tell how an action ended.
        before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def restore() -> None:
        for signum, handler in before.items():
            signal.signal(signum, signal.SIG_DFL if handler is None else handler)
        signal.set_wakeup_fd(woken_before)

    return restore


def _is_ignored(signum: signal.Signals) -> bool:
    """`nohup` and a script's `&` have it ignored for a reason; TERM is how `stop` asks."""
    return signum != signal.SIGTERM and signal.getsignal(signum) is signal.SIG_IGN
