"""When a run's action last printed something, by the times of its files.

What an action prints goes to the log of the run, but only the beginning of much, and nothing of
what an agent prints for programs: that is in a file of its own from the first byte on.  A log that
ends in the line that announces the action has heard nothing of it yet.
"""

from __future__ import annotations

import os
import re

from little_loops.system.files import Folder

ANNOUNCED = b"["
"""No line of output begins so: each has a bar before it."""
LONGEST_OWN_LINE = 2048
_OUTPUT = re.compile(r"(\d+-\d+)\.\w+")


def last_heard_ms(folder: Folder, log: str, data: Folder | None) -> int | None:
    stamp = folder.stamp(log)
    if stamp is None:
        return None
    kept_ns = 0 if data is None else _last_kept_ns(data)
    if kept_ns > stamp.mtime_ns:
        return kept_ns // 1_000_000
    is_silent = _last_line(folder, log).startswith(ANNOUNCED)
    return None if is_silent else stamp.mtime_ns // 1_000_000


def _last_kept_ns(data: Folder) -> int:
    """When the files of the last action that has any were written to; an empty one was only made."""
    names = {name: found[1] for name in data.names() if (found := _OUTPUT.fullmatch(name))}
    last = max(names.values(), key=lambda stem: (len(stem), stem), default="")
    stamps = [data.stamp(name) for name, stem in names.items() if stem == last]
    return max((stamp.mtime_ns for stamp in stamps if stamp and stamp.size), default=0)


def _last_line(folder: Folder, log: str) -> bytes:
    """As much of it as tells whose it is; empty where it is longer than any of ours."""
    try:
        descriptor = folder.open(log, os.O_RDONLY)
    except FileNotFoundError:
        return b""
    try:
        size = os.fstat(descriptor).st_size
        begin = max(size - LONGEST_OWN_LINE, 0)
        end = os.pread(descriptor, size - begin, begin).rstrip(b"\n")
    finally:
        os.close(descriptor)
    _, newline, line = end.rpartition(b"\n")
    return line if newline or begin == 0 else b""
