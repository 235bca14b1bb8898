"""A run as its files describe it: its state, and the machine it was started with.

The snapshot is decoded once, later events of the log are applied, and the machine is validated only
if its file may have been changed.

Not here: the files (`storage`), what a run looks like to people (`view`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from little_loops.errors import ConflictError, DamagedRun, UsageError
from little_loops.fsm.events import Entry
from little_loops.fsm.evolve import evolve, first_state
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import LoopState
from little_loops.light_typing import Any
from little_loops.records import NamedTuple
from little_loops.runs.claims import alive
from little_loops.runs.folders import event_log
from little_loops.runs.history import past_files, restore, settle
from little_loops.runs.journal import is_blank
from little_loops.runs.layout import RunFiles
from little_loops.runs.sealed import find_seals, not_the_newest
from little_loops.runs.storage import (
    LEFT_ALONE,
    Loaded,
    RunStart,
    Stamps,
    load,
    stamps_of,
    unreadable_event,
)
from little_loops.templates.splice import with_data

EDITED = "the state file was edited by hand; using it as is"


class StoredRun(NamedTuple):
    """A run that was read. `start` is what it was started with; `damage` a problem that could be
    repaired.

    `end` is how much of its log counts, if it is sealed.
    """

    files: RunFiles
    run: LoopState
    loop: FSMLoop
    start: dict[str, Any]
    stamps: Stamps
    has_snapshot: bool
    damage: str | None
    end: int | None = None


def find(root: str, name: str, verb: str = "resume") -> StoredRun:
    """Return the newest run of that name, from the history if need be. Raises `UsageError` if there
    is none to `verb`, `DamagedRun` if it cannot be used.

    Damage may only mean that another process is moving the files: then it is read again, or raises
    `ConflictError` if the run is alive.
    """
    try:
        found = _found(root, name)
    except DamagedRun:
        if alive(root, name) is not None:
            raise ConflictError(f"Cannot resume '{name}' - it is already running") from None
        found = _found(root, name)  # the move is finished by now
    if found is None:
        raise UsageError(f"`{name}` has no run to {verb}")
    _check_newest(found)
    return found


def _check_newest(found: StoredRun) -> None:
    """Raise `DamagedRun` if the files of the newest sealed run were replaced by those of another
    one."""
    seals = find_seals(found.files.root)
    newest = None if seals is None else seals.newest(found.files.name)
    if newest not in (None, found.run.run):
        raise DamagedRun(not_the_newest(newest), LEFT_ALONE)


def _found(root: str, name: str) -> StoredRun | None:
    """Return the current run of a name, else its newest past one; None if there is none."""
    here = current(root, name)
    if here is not None:
        return here
    # Only now: a run that died while it was being archived has just been archived.
    newest = next(iter(past_files(root, name)), None)
    return None if newest is None else read_stored(newest)


def current(root: str, name: str) -> StoredRun | None:
    """Return the run of that name in `.running`; None if there is none. Finishes an interrupted
    move first."""
    settle(root, name)
    return read_stored(RunFiles(root, name))


def take_over(before: StoredRun) -> StoredRun:
    """Return the run as it is now in `.running`; requires its claim. It is moved out of the history
    if need be, and read again only if someone has written to it since.

    Raises `UsageError` if it is gone, `DamagedRun` if it cannot be used any more.
    """
    root, name = before.files.root, before.files.name
    files = RunFiles(root, name)
    settle(root, name)
    newest = next(iter(past_files(root, name)), None)
    if newest is not None and stamps_of(files).state is None and is_blank(event_log(files)):
        restore(newest)
    if stamps_of(files) == before.stamps:
        return before._replace(files=files)
    found = read_stored(files)
    if found is None:
        raise UsageError(f"`{name}` has no run to resume")
    return found


def read_stored(files: RunFiles) -> StoredRun | None:
    """Read a run where it is; None if nothing of it was recorded. Nothing is changed.

    Raises `DamagedRun` if its log or its machine cannot be used.
    """
    loaded = load(files)
    if loaded is None:
        return None
    damage = loaded.damage or (EDITED if loaded.is_edited else None)
    run, loop = _state_of(loaded, files), _machine_of(loaded.start, files)
    start = loaded.start.data if loaded.start else {}
    run = run._replace(context=with_data(run.context, start.get("data", ())))
    has_snapshot = loaded.snapshot is not None
    return StoredRun(files, run, loop, start, loaded.stamps, has_snapshot, damage, loaded.end)


def _state_of(loaded: Loaded, files: RunFiles) -> LoopState:
    """Apply later events of the log to the snapshot, or the whole log without one. Raises
    `DamagedRun`."""
    context = loaded.start.data.get("context", {}) if loaded.start else {}
    try:
        return replayed(loaded.snapshot, loaded.entries, context)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise unreadable_event(files, error) from error


def replayed(
    before: LoopState | None, entries: Iterable[Entry], context: Mapping[str, Any]
) -> LoopState:
    """Return the run after applying these events to `before`, validated like a state from a file.

    If `before` is None, there must be at least one event: the first of the run.
    Raises `KeyError`, `TypeError`, `ValueError` or `AttributeError` if they do not fit together.
    """
    run = before
    for entry in entries:
        run = evolve(first_state(entry, context) if run is None else run, entry)
    assert run is not None, "a log without a snapshot has events"
    # An event may contain anything, a run may not.
    return run if run is before else LoopState.from_dict(run.to_dict())


def _machine_of(start: RunStart | None, files: RunFiles) -> FSMLoop:
    """Return the machine that the run was started with, validated if its file was changed since.

    Raises `DamagedRun` if it is missing or damaged.
    """
    try:
        loop = FSMLoop.from_dict((start.data if start else {})["loop"])
        if start and start.is_as_written:
            return loop
        from little_loops.authoring.library import checked  # only for a file that was changed

        return checked(loop)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        why = f"`{files.run_json}`, the loop the run started with, is missing or damaged"
        raise DamagedRun(why, LEFT_ALONE) from error
