"""Notice that files change: from the kernel on Linux and macOS, else by looking regularly.

A watch is for a few directories and files. It has a descriptor that becomes readable when one of them
may have changed; without one, the caller looks every `POLL_S` seconds. It never misses a change, but
may report one that did not happen.
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from little_loops.light_typing import Literal, Protocol

Kind = Literal["inotify", "kqueue", "polling"]

POLL_S = 0.25
MOST_FILES = 20_000

# From <sys/inotify.h>.
_MODIFY, _ATTRIB, _MOVED, _CREATE, _DELETE = 0x2, 0x4, 0x80 | 0x40, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF, _OVERFLOW = 0x400, 0x800, 0x4000
_WANTED = _MODIFY | _MOVED | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
_HEAD = struct.Struct("iIII")
_READ = 1 << 16

Change = tuple[str, str]
"""A watched path, and the name of the file in it that changed; empty for the path itself."""


class Watch(Protocol):
    """Notices changes in the paths that were added."""

    kind: Kind

    def add(self, path: str) -> bool:
        """Watch a file, or a directory with the files in it. Return False if it does not exist."""
        ...

    def fileno(self) -> int | None:
        """Return the descriptor that becomes readable; None if the caller has to look regularly."""
        ...

    def changes(self) -> set[Change]:
        """Return what may have changed since the last call."""
        ...

    def close(self) -> None: ...


class Inotify:
    """The changes that Linux reports."""

    kind: Kind = "inotify"

    def __init__(self) -> None:
        """Raises `OSError` if the kernel has no more watches for this user."""
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self._paths: dict[int, str] = {}

    def add(self, path: str) -> bool:
        found = self._libc.inotify_add_watch(self._fd, os.fsencode(path), _WANTED)
        if found >= 0:
            self._paths[found] = path
        return bool(found >= 0)

    def fileno(self) -> int | None:
        return int(self._fd)

    def changes(self) -> set[Change]:
        found: set[Change] = set()
        while data := self._read():
            for number, mask, name in _events(data):
                if mask & _OVERFLOW:  # some are lost: anything may have changed
                    found |= {(path, "") for path in self._paths.values()}
                elif number in self._paths:
                    found.add((self._paths[number], name))
        return found

    def _read(self) -> bytes:
        try:
            return os.read(self._fd, _READ)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        os.close(self._fd)


def _events(data: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield the events that inotify has written: the number of the watch, a mask, and a name."""
    place = 0
    while place + _HEAD.size <= len(data):
        number, mask, _, length = _HEAD.unpack_from(data, place)
        place += _HEAD.size
        name = data[place : place + length].rstrip(b"\0")
        place += length
        yield number, mask, os.fsdecode(name)


class Polling:
    """Finds changes by comparing sizes and times."""

    kind: Kind = "polling"

    def __init__(self) -> None:
        self._seen: dict[str, dict[str, tuple[int, int, int]]] = {}

    def add(self, path: str) -> bool:
        if path not in self._seen:
            self._seen[path] = _signature(path)
        return bool(self._seen[path])

    def fileno(self) -> int | None:
        return None

    def changes(self) -> set[Change]:
        found: set[Change] = set()
        for path, before in self._seen.items():
            now = _signature(path)
            names = {
                name for name in before.keys() | now.keys() if before.get(name) != now.get(name)
            }
            found |= {(path, name) for name in names}
            self._seen[path] = now
        return found

    def close(self) -> None:
        self._seen.clear()


def _signature(path: str) -> dict[str, tuple[int, int, int]]:
    """Return what identifies the versions of a file, or of the files in a directory; empty if it does
    not exist."""
    found: dict[str, tuple[int, int, int]] = {}
    with suppress(OSError):
        info = os.stat(path)
        found[""] = (info.st_ino, 0, 0) if os.path.isdir(path) else _version(info)
        with os.scandir(path) as entries:
            for each, _ in zip(entries, range(MOST_FILES), strict=False):
                with suppress(OSError):
                    found[each.name] = _version(each.stat(follow_symlinks=False))
    return found


def _version(info: os.stat_result) -> tuple[int, int, int]:
    return (info.st_ino, info.st_size, info.st_mtime_ns)


class Kqueue(Polling):
    """Looks only when macOS reports a change. It reports those of a directory's entries and of files
    that were added, so a file that only grows has to be added."""

    kind: Kind = "kqueue"

    def __init__(self) -> None:
        super().__init__()
        self._queue = select.kqueue()  # type: ignore[attr-defined,unused-ignore]
        self._files: dict[str, int] = {}

    def add(self, path: str) -> bool:
        if path not in self._files:
            try:
                descriptor = os.open(
                    path, getattr(os, "O_EVTONLY", os.O_RDONLY) | os.O_CLOEXEC | os.O_NONBLOCK
                )
            except OSError:
                return False
            self._files[path] = descriptor
            self._register(descriptor)
        return super().add(path)

    def _register(self, descriptor: int) -> None:
        kinds = select  # the names exist on macOS and BSD only
        event = kinds.kevent(  # type: ignore[attr-defined,unused-ignore]
            descriptor,
            filter=kinds.KQ_FILTER_VNODE,  # type: ignore[attr-defined,unused-ignore]
            flags=kinds.KQ_EV_ADD | kinds.KQ_EV_CLEAR,  # type: ignore[attr-defined,unused-ignore]
            fflags=kinds.KQ_NOTE_WRITE  # type: ignore[attr-defined,unused-ignore]
            | kinds.KQ_NOTE_EXTEND  # type: ignore[attr-defined,unused-ignore]
            | kinds.KQ_NOTE_RENAME  # type: ignore[attr-defined,unused-ignore]
            | kinds.KQ_NOTE_DELETE,  # type: ignore[attr-defined,unused-ignore]
        )
        self._queue.control([event], 0)

    def fileno(self) -> int | None:
        return int(self._queue.fileno())

    def changes(self) -> set[Change]:
        self._queue.control(None, 64, 0)
        return super().changes()

    def close(self) -> None:
        super().close()
        self._queue.close()
        for descriptor in self._files.values():
            os.close(descriptor)


def _kind(platform: str) -> Kind:
    if platform == "linux":
        return "inotify"
    return "kqueue" if hasattr(select, "kqueue") else "polling"


KIND: Kind = _kind(sys.platform)
_MAKERS: dict[Kind, Callable[[], Watch]] = {
    "inotify": Inotify,
    "kqueue": Kqueue,
    "polling": Polling,
}


def watch(paths: Iterable[str] = (), kind: Kind = KIND) -> Watch:
    """Return a watch for these paths, for the caller to close; a polling one if there is no other."""
    try:
        made = _MAKERS[kind]()
    except (OSError, AttributeError):
        made = Polling()
    for path in paths:
        made.add(path)
    return made
