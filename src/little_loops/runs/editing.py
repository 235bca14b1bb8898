"""Consent to whatever a loop's agents are told, while its user is editing the loop.

It holds for one loop, until its next completed run, for a few hours at most.  It ends at once if
the loop file changes while any run of the project is under way, because then an agent may have
changed it.  So each run notes the file's hash when it begins, and compares it when it ends; a run
that was killed leaves its note behind, and the next look compares that.

Kept for this user alone, outside of any repository, like all consent.

Not here: consent to actions as they are (`definitions.trust`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from little_loops.errors import StorageError
from little_loops.light_typing import Any
from little_loops.records import NamedTuple
from little_loops.system.files import Folder, to_json
from little_loops.system.lock_files import guarded
from little_loops.system.plain_files import read_plain
from little_loops.system.user_state import EDITING, check_owner, has_edits, state_home

LONGEST_MS = 8 * 3_600_000
MAX_BYTES = 1 << 20
MAX_LOOP_BYTES = 1 << 20


class Editing(NamedTuple):
    """A loop that is being edited; `runs` are those under way, with the hash they began with."""

    project: str
    loop: str
    file: str
    until_ms: int
    runs: Mapping[str, str] = {}

    def is_touched(self, by: Iterable[str]) -> bool:
        """Return whether the file has changed since any of these runs began; each must be in
        `runs`."""
        now = _digest(self.file)
        return any(self.runs[run] != now for run in by)


def allow(
    project: str,
    loop: str,
    file: str,
    until_ms: int,
    under_way: Sequence[str],
    environ: Mapping[str, str],
) -> None:
    """Store consent for a loop until `until_ms`, instead of any earlier consent for it.

    `under_way` are the runs of the project that have begun already. Raises `StorageError` if the
    state directory is writable by other users, or the consent cannot be stored.
    """
    file = os.path.realpath(file)
    new = Editing(
        os.path.realpath(project), loop, file, until_ms, dict.fromkeys(under_way, _digest(file))
    )
    os.makedirs(state_home(environ), mode=0o700, exist_ok=True)
    with _changing(environ) as change:
        change(lambda kept: [each for each in kept if not _is_same(each, new)] + [new])


def is_allowed(project: str, loop: str, now_ms: int, environ: Mapping[str, str]) -> bool:
    """Return whether there is consent for this loop. Like `allowed`, remove consent that has
    ended."""
    return any(each.loop == loop for each in allowed(project, now_ms, environ))


def allowed(project: str, now_ms: int, environ: Mapping[str, str]) -> list[Editing]:
    """Return the loops of a project for which consent still holds, and remove the others.

    Consent ends when its time is over, or when the loop's file has changed since a noted run began.
    """
    if not has_edits(environ):
        return []
    path = os.path.realpath(project)

    def holds(each: Editing) -> bool:
        is_over = now_ms >= each.until_ms or now_ms < each.until_ms - LONGEST_MS
        return each.project != path or not (is_over or each.is_touched(each.runs))

    with _changing(environ) as change:
        kept = change(lambda kept: [each for each in kept if holds(each)])
    return [each for each in kept if each.project == path]


def revoke(project: str, environ: Mapping[str, str]) -> int:
    """Remove all consent for a project. Return for how many loops there was some."""
    if not has_edits(environ):
        return 0
    path = os.path.realpath(project)
    gone: list[Editing] = []

    def others(kept: list[Editing]) -> list[Editing]:
        gone.extend(each for each in kept if each.project == path)
        return [each for each in kept if each.project != path]

    with _changing(environ) as change:
        change(others)
    return len(gone)


# ── runs ───────────────────────────────────────────────────────────────────────────────────────


def begin(project: str, run: str, environ: Mapping[str, str]) -> None:
    """Store the hash of each edited loop file of the project when a run begins; keep an earlier one
    of the same run, which is being resumed."""
    if not has_edits(environ):
        return
    path = os.path.realpath(project)

    def noted(each: Editing) -> Editing:
        """Return the entry with the hash for this run, if it belongs to this project."""
        if each.project != path:
            return each
        # A run that is resumed has begun earlier.
        return each._replace(runs={run: _digest(each.file), **each.runs})

    with _changing(environ) as change:
        change(lambda kept: [noted(each) for each in kept])


def end(project: str, run: str, completed: str | None, environ: Mapping[str, str]) -> None:
    """End consent to the loop named `completed`, and to loops whose file changed during this run;
    remove the run's hash from the others.

    If that cannot be written, the hash stays, and the next call of `allowed` compares it.
    """
    if not has_edits(environ):
        return
    path = os.path.realpath(project)

    def left(kept: list[Editing]) -> Iterator[Editing]:
        """Yield the entries that remain, without the hash of this run."""
        for each in kept:
            if each.project != path:
                yield each
            elif each.loop != completed and not each.is_touched({run} & each.runs.keys()):
                rest = {other: digest for other, digest in each.runs.items() if other != run}
                yield each._replace(runs=rest)

    with suppress(StorageError), _changing(environ) as change:
        change(lambda kept: list(left(kept)))


# ── the file ───────────────────────────────────────────────────────────────────────────────────

Change = Callable[[list[Editing]], list[Editing]]


@contextmanager
def _changing(environ: Mapping[str, str]) -> Iterator[Callable[[Change], list[Editing]]]:
    """Hold the lock for writing; yield a function that reads the stored data, replaces it and
    returns the new data.

    Raises `StorageError` if the state directory does not exist or is writable by other users.
    """
    folder = Folder.at(state_home(environ))
    if folder is None:
        raise StorageError(f"`{state_home(environ)}` does not exist")
    with folder:
        check_owner(folder)
        with guarded(folder):

            def change(by: Change) -> list[Editing]:
                """Write what `by` makes of the stored data, if that differs, and return it."""
                before = _read(folder)
                after = by(before)
                if after != before:
                    document = {"schema": 1, "loops": [each._asdict() for each in after]}
                    name = f".{EDITING}.{os.urandom(8).hex()}"
                    folder.replace(EDITING, to_json(document) + b"\n", name, sync=True)
                return after

            yield change


def _read(folder: Folder) -> list[Editing]:
    """Return the stored data; an empty list if it is missing or damaged, because that is no
    consent."""
    raw = folder.read(EDITING, MAX_BYTES)
    try:
        return [_entry(each) for each in json.loads(raw)["loops"]] if raw else []
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []


def _entry(data: Mapping[str, Any]) -> Editing:
    """Decode one stored entry. Raises `KeyError`, `TypeError`, `ValueError` or `AttributeError` if
    it is damaged."""
    runs = {str(run): str(digest) for run, digest in data["runs"].items()}
    return Editing(
        str(data["project"]), str(data["loop"]), str(data["file"]), int(data["until_ms"]), runs
    )


def _is_same(one: Editing, other: Editing) -> bool:
    return (one.project, one.loop) == (other.project, other.loop)


def _digest(path: str) -> str:
    """Return the hash of a file's first `MAX_LOOP_BYTES`; `missing` if it cannot be read."""
    from hashlib import sha256  # only where a loop is being edited

    try:
        return sha256(read_plain(path, MAX_LOOP_BYTES)).hexdigest()
    except OSError:
        return "missing"
