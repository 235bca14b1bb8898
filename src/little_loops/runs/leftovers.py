"""What a killed runner left running: the action that was in progress when it died.

While that action runs on, nothing else may start on its scope. Processes that earlier actions left
running (a dev server) block no one. Processes can only be seen from where their runner ran: on the
same machine since it was booted, and in the same container.

Not here: who may start (`claims`), which processes belong to a run (`system.process_tree`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress

from little_loops.errors import StorageError
from little_loops.fsm.schema import KILL_GRACE_S
from little_loops.light_typing import Final, Literal
from little_loops.records import NamedTuple
from little_loops.runs.folders import folder_of
from little_loops.runs.holders import Holder
from little_loops.runs.layout import CHILDREN, DATA, SESSION, RunFiles
from little_loops.runs.stored_run import read_stored
from little_loops.system import process_tree
from little_loops.system.files import Folder
from little_loops.system.process_table import SYSTEM

MAX_SESSION_BYTES: Final = 4096


class InFlight(NamedTuple):
    """An action without a recorded end; `marks` identify its processes."""

    run: str
    marks: Mapping[str, str]
    has_children: bool = False


Whereabouts = Literal["here", "gone", "elsewhere"]


def whereabouts(holder: Holder) -> Whereabouts:
    """Return `here` if processes of the runner can be seen from here, `gone` if this machine was
    booted since, and `elsewhere` for another machine or container."""
    same_machine = holder.host == os.uname().nodename
    # An earlier version did not record its container.
    namespace = holder.namespace or (SYSTEM.namespace() if same_machine else None)
    if holder.boot in ("", SYSTEM.boot()):
        return "here" if not holder.boot or namespace == SYSTEM.namespace() else "elsewhere"
    return "gone" if same_machine else "elsewhere"


def in_flight(holder: Holder, root: str) -> InFlight | None:
    """Return the action that was in progress when that runner died; None if there was none.

    If the run cannot be read, any of its processes counts: `marks` is empty.
    """
    try:
        found = read_stored(RunFiles(root, holder.name))
    except StorageError:  # unknown: any process of that run may be its last action
        return InFlight(holder.run_id, {})
    if found is None or found.run.phase != "running":
        return None
    run = found.run
    marks = process_tree.marks_of(run.run, run.step, run.attempt)
    return InFlight(run.run, marks, run.own_children is not None)


def left_running(holder: Holder, root: str) -> list[process_tree.Member]:
    """Return the living processes of the action that was in progress when that runner died, as far
    as they can be seen from here."""
    action = in_flight(holder, root)
    if action is None:
        return []
    if action.has_children:
        from little_loops.runs.child_runs import left_by_children  # few runs start others

        files = RunFiles(root, holder.name)
        stored = read_stored(files)
        children = None if stored is None else stored.run.children
        return [] if children is None else left_by_children(files, children)
    sessions = sessions_of(RunFiles(root, holder.name))
    return process_tree.members(action.run, sessions, marks=action.marks)


def end_leftovers(
    files: RunFiles,
    run_id: str,
    grace_s: float = KILL_GRACE_S,
    place: str | None = None,
    spared: Mapping[str, str] | None = None,
) -> list[process_tree.Member]:
    """End processes that a killed runner left running, of all its actions but the one that has the
    marks `spared`. Return those that were ended.

    They get `grace_s` seconds before they are killed. Also ends what works in `place`, a directory
    that only runs of this project use, and the runs that it has started.
    """
    _end_children(files)
    return process_tree.sweep(run_id, sessions_of(files), grace_s, place=place, spared=spared)


def _end_children(files: RunFiles) -> None:
    """End the runs that a killed runner had started; do nothing for a run that started none."""
    with suppress(StorageError):
        folder = folder_of(files)
        data = None if folder is None else folder.child(files.base + DATA)
        if folder is not None:
            folder.close()
        if data is None:
            return
        with data:
            if data.stamp(CHILDREN) is None:
                return
        stored = read_stored(files)
        if stored is not None and stored.run.children is not None:
            from little_loops.runs.child_runs import end_children  # few runs start others

            end_children(files, stored.run.children)


def sessions_of(files: RunFiles) -> list[process_tree.ActionSession]:
    """Return the session that the run recorded; empty if there is none or it cannot be read."""
    with suppress(StorageError):
        folder = folder_of(files)
        if folder is None:
            return []
        with folder:
            data = folder.child(files.base + DATA)
        if data is not None:
            with data:
                return read_session(data)
    return []


def read_session(data: Folder) -> list[process_tree.ActionSession]:
    """Return the session of the action that was started last; empty if none is recorded or it is
    damaged."""
    with suppress(ValueError, TypeError):
        raw = data.read(SESSION, MAX_SESSION_BYTES)
        return [process_tree.ActionSession(*json.loads(raw))] if raw else []
    return []
