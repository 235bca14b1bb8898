"""Record which runs worked at the same time as another one.

A run with evidence checks who is alive whenever it takes a snapshot. Another run can start and end
between two snapshots, within one turn of an agent; and after a kill, nobody knows who was there. So
a run that starts where there are others leaves a line, outside the project, where their agents do
not work.

    STATE/beside/NAME-HASH    a line of JSON for each of them, the newest last

If a note is lost, a run is blamed for changes of another, and nothing worse; so nothing is synced
to disk, and a note that cannot be written or read is ignored.

Not here: who is alive (`claims`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress

from little_loops.fsm.timestamps import timestamp
from little_loops.light_typing import Any, Final
from little_loops.records import NamedTuple
from little_loops.runs.holders import Holder
from little_loops.system.clock import wall_ms
from little_loops.system.files import PRIVATE_FILE, PRIVATE_FOLDER, to_json, write_all
from little_loops.system.plain_files import open_plain, read_plain
from little_loops.system.process_table import SYSTEM
from little_loops.system.user_state import key_of, state_home

BESIDE: Final = "beside"
MAX_BYTES: Final = 1 << 20
KEPT_BYTES: Final = MAX_BYTES // 2

Scope = tuple[str, ...]


class Neighbour(NamedTuple):
    """A run and when it started; `inside` are the runs that started it.

    `beside` are the scopes of the runs that were already there.
    """

    run: str
    began_at: str
    scope: Scope
    inside: tuple[str, ...] = ()
    beside: tuple[Scope, ...] = ()


def leave_note(
    root: str,
    mine: Holder,
    others: Sequence[Holder],
    environ: Mapping[str, str],
    *,
    evidence: bool,
) -> None:
    """Append a note for the other runs of the project, alive or killed, that this one starts.

    Does nothing without others, and ignores write errors. Only with `evidence`, the note names the
    scopes of the others.
    """
    if not others:
        return
    beside = dict.fromkeys(other.scope for other in others) if evidence else ()
    inside = (*mine.outer, *_enclosing_runs(others))
    line = Neighbour(mine.run_id, timestamp(wall_ms()), mine.scope, inside, tuple(beside))
    with suppress(OSError):
        _append(_path(root, environ), to_json(line._asdict()) + b"\n")


def _enclosing_runs(others: Sequence[Holder]) -> Iterator[str]:
    """Return the runs among these whose process is an ancestor of this one, whatever its
    environment says."""
    above, pid = set[int](), os.getppid()
    while pid > 1 and pid not in above:
        above.add(pid)
        found = SYSTEM.look(pid)
        pid = found.parent if found is not None else 0
    return (other.run_id for other in others if other.pid in above)


def scopes_beside(
    root: str,
    run: str,
    began_at: str,
    environ: Mapping[str, str],
    above: Collection[str] = (),
) -> frozenset[Scope]:
    """Return the scopes of all runs that were there when the run started at `began_at`, or started
    since; runs nested in it, and those `above` that started it, are left out."""
    found = set[Scope]()
    for line in _lines(_path(root, environ)):
        if line.run == run:
            found.update(line.beside)
        elif line.began_at >= began_at and run not in line.inside and line.run not in above:
            found.add(line.scope)
    return frozenset(found)


# ── the file ───────────────────────────────────────────────────────────────────────────────────


def _path(root: str, environ: Mapping[str, str]) -> str:
    return os.path.join(state_home(environ), BESIDE, key_of(os.path.realpath(root)))


def _append(path: str, line: bytes) -> None:
    """Append a line, and drop the older half of a file that is larger than `MAX_BYTES`. Raises
    `OSError`."""
    os.makedirs(os.path.dirname(path), mode=PRIVATE_FOLDER, exist_ok=True)
    descriptor = open_plain(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, PRIVATE_FILE)
    try:
        size = os.fstat(descriptor).st_size
        if size > MAX_BYTES:  # runs of last year
            kept = os.pread(descriptor, KEPT_BYTES, size - KEPT_BYTES).partition(b"\n")[2]
            os.ftruncate(descriptor, 0)
            line = kept + line
        write_all(descriptor, line)
    finally:
        os.close(descriptor)


def _lines(path: str) -> Iterator[Neighbour]:
    """Yield the notes; damaged lines are skipped, and a file that cannot be read has none."""
    try:
        raw = read_plain(path, 2 * MAX_BYTES)
    except OSError:
        return
    for line in raw.splitlines():
        with suppress(ValueError, TypeError, KeyError):
            yield _neighbour(json.loads(line))


def _neighbour(plain: dict[str, Any]) -> Neighbour:
    """Decode a note. Raises `KeyError` or `TypeError` if it is damaged."""
    return Neighbour(
        plain["run"],
        plain["began_at"],
        tuple(plain["scope"]),
        tuple(plain["inside"]),
        tuple(map(tuple, plain["beside"])),
    )
