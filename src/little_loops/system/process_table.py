"""Read information about processes from the operating system.

Not here: which of them belong to a run (`process_tree`).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from little_loops.light_typing import Protocol
from little_loops.records import NamedTuple

TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


class Process(NamedTuple):
    pid: int
    parent: int
    group: int
    session: int
    created: float
    is_zombie: bool


class System(Protocol):
    """Information from the operating system.

    `look` returns a process, None if it is gone. `cpu_s` includes children that have ended.
    `workplace` is the working directory of a process without a terminal, empty if it has one or
    that is not known. `marks` are its `LL_*` variables.
    """

    def processes(self) -> dict[int, Process]: ...
    def look(self, pid: int) -> Process | None: ...
    def born_by(self, pid: int) -> float: ...
    def marks(self, pid: int) -> Mapping[str, str]: ...
    def name(self, pid: int) -> str: ...
    def workplace(self, pid: int) -> str: ...
    def cpu_s(self, pid: int) -> float: ...
    def boot(self) -> str: ...
    def namespace(self) -> str: ...


class Proc:
    """Linux: read /proc. Ten times faster than psutil, and without an import."""

    def processes(self) -> dict[int, Process]:
        """Return all processes that can be seen; none if /proc is not mounted."""
        with suppress(OSError):
            pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
            return {pid: seen for pid in pids if (seen := self.look(pid)) is not None}
        return {}

    def look(self, pid: int) -> Process | None:
        """Return the process with this pid; None if it is gone. Without /proc, only its group and
        session are known."""
        try:
            fields = _read(f"/proc/{pid}/stat").rpartition(b") ")[2].split()
        except OSError:
            return None if os.path.exists("/proc/self/stat") else _unseen(pid)
        if len(fields) < 20:
            return None  # it ended while being read
        # A process is alive if only its first thread has ended.
        is_zombie = fields[0] in b"ZX" and int(fields[17]) <= 1
        parent, group, session = (int(field) for field in fields[1:4])
        return Process(pid, parent, group, session, float(fields[19]), is_zombie)

    def born_by(self, pid: int) -> float:
        """Return a time after the birth of `pid`, started just now, and before any reuse of its
        number.

        Reading the clock takes 3 µs, reading the new process's entry 50.
        """
        return float(time.clock_gettime_ns(time.CLOCK_BOOTTIME) * TICKS_A_SECOND // 10**9)

    def marks(self, pid: int) -> Mapping[str, str]:
        """Return the `LL_*` variables of a process; none if it is gone or belongs to another
        user."""
        try:
            variables = os.fsdecode(_read(f"/proc/{pid}/environ")).split("\0")
        except OSError:
            return {}  # somebody else's, or gone
        return _own(variable.partition("=")[::2] for variable in variables)

    def name(self, pid: int) -> str:
        """Return the command line of a process; empty if it is not known."""
        with suppress(OSError):
            return os.fsdecode(_read(f"/proc/{pid}/cmdline")).replace("\0", " ").strip()
        return ""

    def workplace(self, pid: int) -> str:
        """Return the working directory of a process; empty if it has a terminal, or that is not
        known."""
        with suppress(OSError):
            fields = _read(f"/proc/{pid}/stat").rpartition(b") ")[2].split()
            return os.readlink(f"/proc/{pid}/cwd") if fields[4] == b"0" else ""
        return ""

    def cpu_s(self, pid: int) -> float:
        """Return the CPU time of a process, with that of children it has waited for; 0 if it is
        gone."""
        with suppress(OSError):
            fields = _read(f"/proc/{pid}/stat").rpartition(b") ")[2].split()
            return sum(map(int, fields[11:15])) / TICKS_A_SECOND
        return 0.0

    def boot(self) -> str:
        with suppress(OSError):
            return _read("/proc/sys/kernel/random/boot_id").decode().strip()
        return ""

    def namespace(self) -> str:
        """Return the id of the pid namespace, which the processes of a container share."""
        with suppress(OSError):
            return os.readlink("/proc/self/ns/pid")
        return ""


class Psutil:
    """Systems without /proc. psutil is slow to import, so it is only used to end something."""

    def processes(self) -> dict[int, Process]:
        import psutil  # rare and slow

        return {pid: seen for pid in psutil.pids() if (seen := self.look(pid)) is not None}

    def look(self, pid: int) -> Process | None:
        """Return the process with this pid; None if it is gone."""
        import psutil  # rare and slow

        with suppress(psutil.Error, OSError):
            found = psutil.Process(pid)
            with found.oneshot():
                is_zombie = found.status() == psutil.STATUS_ZOMBIE
                group, session = os.getpgid(pid), os.getsid(pid)
                return Process(pid, found.ppid(), group, session, found.create_time(), is_zombie)
        return None

    def born_by(self, pid: int) -> float:
        seen = self.look(pid)
        return seen.created if seen else 0.0

    def marks(self, pid: int) -> Mapping[str, str]:
        """Return the `LL_*` variables of a process; none if it is gone or belongs to another
        user."""
        import psutil  # rare and slow

        with suppress(psutil.Error, OSError):
            return _own(psutil.Process(pid).environ().items())
        return {}

    def name(self, pid: int) -> str:
        """Return the command line of a process; empty if it is not known."""
        import psutil  # rare and slow

        with suppress(psutil.Error, OSError):
            return " ".join(psutil.Process(pid).cmdline())
        return ""

    def workplace(self, pid: int) -> str:
        """Return the working directory of a process; empty if it has a terminal, or that is not
        known."""
        import psutil  # rare and slow

        with suppress(psutil.Error, OSError):
            found = psutil.Process(pid)
            return found.cwd() if found.terminal() is None else ""
        return ""

    def cpu_s(self, pid: int) -> float:
        """Return the CPU time of a process, with that of children it has waited for; 0 if it is
        gone."""
        import psutil  # rare and slow

        with suppress(psutil.Error, OSError):
            used = psutil.Process(pid).cpu_times()
            return float(used.user + used.system + used.children_user + used.children_system)
        return 0.0

    def boot(self) -> str:
        import psutil  # rare and slow

        return str(psutil.boot_time())

    def namespace(self) -> str:
        return "all"


def _read(path: str) -> bytes:
    """Return the content of a file whose size is not known before. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pieces = []
        while piece := os.read(descriptor, 1 << 16):
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        os.close(descriptor)


def _unseen(pid: int) -> Process | None:
    """Return what is known about a process if /proc is not mounted: that it exists."""
    with suppress(OSError):
        return Process(pid, 0, os.getpgid(pid), os.getsid(pid), 0.0, False)
    return None


def _own(variables: Iterable[Sequence[str]]) -> dict[str, str]:
    return {name: value for name, value in variables if name.startswith("LL_")}


SYSTEM: System = Proc() if sys.platform == "linux" else Psutil()
