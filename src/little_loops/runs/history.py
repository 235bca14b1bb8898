"""Move runs between `.running` and `.history`, and delete past ones.

A run is several files, and moving them takes several steps. Before the first, a link `NAME.moving`
records the move (it is read, never followed); it is removed after the last. So a crash in between
leaves a run that can be found, because the state file stays in `.running` (it is the last to leave
and the first to come back), and `settle` finishes the move.

All moves are made under the run's claim, and under the guard, so that `prune` cannot interfere.

Not here: the content of a run's files (`storage`), who is alive (`claims`), views (`view`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import takewhile

from little_loops.errors import StorageError, UsageError
from little_loops.fsm.state import RunSummary
from little_loops.fsm.timestamps import timestamp, wall_ms_of
from little_loops.light_typing import TYPE_CHECKING, Literal
from little_loops.runs.folders import event_log, find_folder, make_folder
from little_loops.runs.history_index import add_to_index, drop_from_index, is_index
from little_loops.runs.journal import is_blank
from little_loops.runs.layout import (
    DATA,
    EVENTS,
    HISTORY,
    LOG,
    MOVING,
    RUNNING,
    SPAWN,
    STATE,
    RunFiles,
    is_stem,
    stem_order,
)
from little_loops.runs.project import check_run_name, is_run_name
from little_loops.runs.sealed import find_seals
from little_loops.runs.state_file import read_started_at, read_summary
from little_loops.system.clock import wall_ms
from little_loops.system.files import Folder, failure
from little_loops.system.lock_files import guarded

if TYPE_CHECKING:
    from little_loops.runs.seals import Seals

PRUNED = ".pruned-"
_PARTS = (DATA, LOG, SPAWN, EVENTS, STATE)

Direction = Literal["archive", "restore"]


def past_files(root: str, name: str | None = None, since_ms: float | None = None) -> list[RunFiles]:
    """Return the files of all past runs, or of those with that name, newest first; with `since_ms`,
    only those started since then.

    Runs that are half moved and still in `.running` are left out.
    """
    history = find_folder(root, HISTORY)
    if history is None:
        return []
    with history:
        names = [name] if name is not None else _names(history)
        found = [RunFiles(root, each, stem) for each in names for stem in _stems(history, each)]
    in_motion = _half_moved(root)
    kept = (files for files in found if in_motion.get(files.name) != files.stem)
    # Of runs that started in the same second, a fork comes before its parent: its name is longer.
    newest = sorted(
        kept, key=lambda files: (stem_order(files.stem or ""), files.name), reverse=True
    )
    if since_ms is None:
        return newest
    return list(takewhile(lambda files: not _is_before(files, since_ms), newest))


def past_names(root: str) -> list[str]:
    """Return the names that have a folder in the history."""
    history = find_folder(root, HISTORY)
    if history is None:
        return []
    with history:
        return _names(history)


def _names(history: Folder) -> list[str]:
    return [each for each in history.names() if is_run_name(each) and not is_index(history, each)]


def _stems(history: Folder, name: str) -> set[str]:
    """Return the stems of a name's past runs; empty if it has none."""
    folder = history.child(check_run_name(name))
    if folder is None:
        return set()
    with folder:
        stems = {each.partition(".")[0] for each in folder.names()}
    return {stem for stem in stems if is_stem(stem)}


def _half_moved(root: str) -> dict[str, str]:
    """Return the names of half-moved runs that still have files in `.running`, with their stems in
    the history."""
    folder = find_folder(root, RUNNING)
    if folder is None:
        return {}
    with folder:
        present = set(folder.names())
        names = [name.removesuffix(MOVING) for name in present if name.endswith(MOVING)]
        here = [name for name in names if {name + STATE, name + EVENTS} & present]
        moves = {name: _read_move(folder, name) for name in here}
    return {name: move[1] for name, move in moves.items() if move is not None}


def archive(root: str, name: str, own: Folder | None = None) -> RunFiles | None:
    """Move the current run of a name to the history; None if there is none. Requires its claim.

    `own` is the folder in which that run was written; raises `StorageError` if a different folder,
    with another run, is in its place.
    """
    settle(root, name)
    running = make_folder(root, RUNNING)
    with running, guarded(running):
        if own is not None and not running.is_same(own):
            raise StorageError(f"`{running.path}` was removed and created again in the meantime")
        if not _parts(running, name):
            return None
        started = _started(running, RunFiles(root, name))
        with make_folder(root, HISTORY) as history, history.make(name) as folder:
            stem = _free_stem(folder, started)
            _move(running, folder, name, "archive", stem)
            add_to_index(history, folder, name, stem)
    return RunFiles(root, name, stem)


def restore(past: RunFiles) -> RunFiles:
    """Move a past run back to `.running`, to resume it. Requires its claim.

    Raises `StorageError` if a current run of that name exists, or the past run is gone. Files of a
    start that recorded nothing are archived first.
    """
    root, name, stem = past[:3]
    settle(root, name)
    with make_folder(root, RUNNING) as running:
        if running.stamp(name + STATE) is not None or not is_blank(event_log(RunFiles(root, name))):
            raise StorageError(
                f"`{RunFiles(root, name).state}` already exists", "archive that run first"
            )
        archive(root, name)  # leftovers of a start that recorded nothing
        with guarded(running), make_folder(root, HISTORY, name) as history:
            if stem is None or not _parts(history, stem):
                raise StorageError(f"`{past.state}` is gone")
            _move(running, history, name, "restore", stem)
    return RunFiles(root, name)


def settle(root: str, name: str) -> None:
    """Finish a move that a crash interrupted; do nothing if there is none. Takes the guard.

    A move holds the guard from its first step to its last, so whoever holds the guard and still
    finds one knows that it was interrupted.
    """
    running = find_folder(root, RUNNING)
    if running is None:
        return
    with running:
        if _read_move(running, check_run_name(name)) is None:
            return
        with make_folder(root, HISTORY, name) as history, guarded(running):
            move = _read_move(running, name)
            if move is not None:
                _move(running, history, name, *move)


def _move(running: Folder, history: Folder, name: str, direction: Direction, stem: str) -> None:
    """Move the files of a run that are not moved yet, and sync both folders. The guard must be
    held."""
    _announce(running, name, f"{direction}:{stem}")
    if direction == "archive":
        for part in _parts(running, name):
            running.move(name + part, history, stem + part)
    else:
        for part in reversed(_parts(history, stem)):
            history.move(stem + part, running, name + part)
    # The new name before the old is removed: after a power cut a file may exist twice, but is never
    # lost.
    history.sync()
    running.sync()
    running.remove(name + MOVING)


def _announce(running: Folder, name: str, words: str) -> None:
    """Record a move in a link, so that it can be completed after a crash; replaces an existing
    one."""
    link = name + MOVING
    try:
        # What exists now is this same move, started before a crash, or not ours.
        running.remove(link)
        os.symlink(words, link, dir_fd=running.fd)
    except OSError as error:
        raise failure(error, "write", running.place(link)) from error


def _read_move(running: Folder, name: str) -> tuple[Direction, str] | None:
    """Return the recorded move of a run, its direction and stem; None if there is none, or it is
    not ours."""
    try:
        words = os.readlink(name + MOVING, dir_fd=running.fd)
    except OSError:
        return None
    direction, _, stem = words.partition(":")
    match direction:
        case "archive" | "restore" if is_stem(stem):
            return direction, stem
        case _:
            return None


def _parts(folder: Folder, base: str) -> list[str]:
    """Return the suffixes of a run's existing files, the state file last, and with them state files
    that were set aside as damaged."""
    ends = (name[len(base) :] for name in folder.names() if name.startswith(base + "."))
    return sorted(filter(_is_part, ends), key=lambda end: (end == STATE, end))


def _is_part(end: str) -> bool:
    kind, _, number = end.partition(".damaged-")
    return end in _PARTS or (kind == STATE and number.isdecimal())


def _started(running: Folder, files: RunFiles) -> str:
    """Return when a run started, in the form of a stem: by its snapshot, else its first event, else
    now."""
    started = (read_started_at(running, files.base) or "")[:19].replace(":", "-")
    if is_stem(started):
        return started
    from little_loops.runs.entries import entries  # only if there is no snapshot

    first = next(entries(files), None)
    return timestamp(wall_ms() if first is None else first.wall_ms)[:19].replace(":", "-")


def _free_stem(history: Folder, started: str) -> str:
    """Return a stem that sorts after all existing ones: the newest run was archived last.

    Two runs that started in the same second are distinguished by a number; so is a run that seems
    to have started before its predecessor, because the clock was set back.
    """
    taken = {each.partition(".")[0] for each in history.names()}
    stamp, number = max(map(stem_order, taken), default=("", 0))
    return started if started > stamp else f"{stamp}-{number + 1}"


@contextmanager
def guarded_history(root: str) -> Iterator[Folder | None]:
    """Open the history, while no run can be moved; None if there is none."""
    history, running = find_folder(root, HISTORY), find_folder(root, RUNNING)
    with ExitStack() as stack:
        for folder in (history, running):
            if folder is not None:
                stack.enter_context(folder)
        if running is not None:
            stack.enter_context(guarded(running))
        yield history


def old_runs(
    root: str,
    *,
    before_ms: int | None = None,
    keep: int | None = None,
    name: str | None = None,
) -> list[RunFiles]:
    """Return the past runs that started before that time, except the `keep` newest of each name.

    Without `before_ms`, age does not count; without either limit, raises `UsageError`.
    """
    if before_ms is None and keep is None:
        raise UsageError(
            "`--prune` needs an age or `--keep`",
            "`--prune 30d` deletes runs older than 30 days; `--prune --keep 10` keeps the last ten runs"
            " of each loop",
        )
    seen: dict[str, int] = {}
    found = []
    for files in past_files(root, name):
        seen[files.name] = seen.get(files.name, 0) + 1
        if seen[files.name] > (keep or 0) and _is_before(files, before_ms):
            found.append(files)
    return found


def _is_before(files: RunFiles, then_ms: float | None) -> bool:
    """Return whether a past run started before that time, by its stem; True if no time is given."""
    if then_ms is None:
        return True
    day, _, clock = stem_order(files.stem or "")[0].partition("T")
    try:
        return wall_ms_of(f"{day}T{clock.replace('-', ':')}Z") < then_ms
    except ValueError:  # a month 99: not one of our names, so not ours to delete by age
        return False


def delete_runs(root: str, doomed: Iterable[RunFiles]) -> list[RunFiles]:
    """Delete these runs and their seals, except those that are being moved. Return those that were
    deleted. Takes the guard for each."""
    import shutil  # rare and slow

    seals = find_seals(root)
    with make_folder(root, RUNNING) as running, make_folder(root, HISTORY) as history:
        gone = []
        for files in doomed:
            with guarded(running):
                if _read_move(running, files.name) is None:
                    if seals is not None:
                        _forget_seal(history, files, seals)
                    _move_to_trash(history, files, PRUNED + os.urandom(8).hex())
                    gone.append(files)
        places = {(files.name, files.stem) for files in gone}
        with guarded(running):
            drop_from_index(history, lambda run: run.place in places)
        for each in history.names():
            if each.startswith(PRUNED):
                # What cannot be deleted now is tried again next time.
                shutil.rmtree(each, ignore_errors=True, dir_fd=history.fd)
    return gone


def _forget_seal(history: Folder, files: RunFiles, seals: Seals) -> None:
    """Remove the seals of a past run, and let another run take its name if this was the newest."""
    folder = history.child(files.name)
    if folder is None:
        return
    with folder:
        summary = read_summary(folder, files.base)
    if isinstance(summary, RunSummary):
        if seals.newest(files.name) == summary.run:
            seals.release(files.name)
        seals.forget(summary.run)


def _move_to_trash(history: Folder, files: RunFiles, trash: str) -> None:
    """Move a run's files to a folder named `trash` in the history; deleting them may take
    longer."""
    folder = history.child(files.name)
    if folder is None or files.stem is None:
        return
    with folder, history.make(trash) as target:
        for part in _parts(folder, files.stem):
            folder.move(files.stem + part, target, files.stem + part)
        with suppress(OSError):  # other runs of that name still exist
            os.rmdir(files.name, dir_fd=history.fd)
