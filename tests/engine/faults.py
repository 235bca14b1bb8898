"""Let a process die, or fail, just before the n-th thing it does to a file.

The interpreter announces these before it does them (audit events), so nothing is patched.  What
is tried runs in a forked child: it may die, and the hook dies with it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

from little_loops.errors import StorageError

FILE_WORK = {
    "fcntl.flock",
    "open",
    "os.listdir",
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.symlink",
    "os.truncate",
}
KILLED = 9
REFUSED = 1  # with a StorageError
SURVIVED = 3  # the fault came, and did no harm
MOST = 100


def die() -> None:
    os._exit(KILLED)


def failing_with(code: int) -> Callable[[], None]:
    def fail() -> None:
        raise OSError(code, os.strerror(code))

    return fail


def attempts() -> Iterator[int]:
    """Numbers to try, until whoever counts has come to the end."""
    yield from range(1, MOST)
    raise AssertionError("it never came to its end")


def outcome(work: Callable[[], object], number: int = MOST, fault: Callable[[], None] = die) -> int:
    """Do something in a child, with a fault at its n-th file operation; gives its exit code.

    It is 0 if the work was done before it came so far.
    """
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        counter = Counter(number, fault)
        sys.addaudithook(counter.look)
        work()
        os._exit(SURVIVED if counter.has_come else 0)
    except StorageError:
        os._exit(REFUSED)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(99)


class Counter:
    """Counts the file operations of this process."""

    def __init__(self, number: int, fault: Callable[[], None]) -> None:
        self.left = number
        self.fault = fault

    @property
    def has_come(self) -> bool:
        return self.left < 1

    def look(self, what: str, _arguments: object) -> None:
        if what in FILE_WORK:
            self.left -= 1
            if self.left == 0:
                self.fault()
