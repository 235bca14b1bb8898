"""Open the directories of runs without following links, and create them if needed.

Not here: the names of the files in them (`layout`).
"""

from __future__ import annotations

import os
from collections.abc import Callable

from little_loops.errors import StorageError
from little_loops.runs.layout import DATA, EVENTS, HISTORY, RUNNING, RunFiles
from little_loops.runs.project import check_run_name, loops_of
from little_loops.system.files import Folder, failure, write_all

IGNORE_FILE = ".gitignore"


def find_folder(root: str, *names: str) -> Folder | None:
    """Open a folder below `.loops` without following links, for the caller to close; None if it
    does not exist."""
    folder = Folder.at(root)
    for name in (loops_of(root), *names):
        if folder is None:
            return None
        with folder:
            folder = folder.child(name)
    return folder


def folder_of(files: RunFiles) -> Folder | None:
    """Open the folder that contains a run's files, for the caller to close; None if it does not
    exist.

    Raises `UsageError` if the run's name is not valid.
    """
    check_run_name(files.name)
    return find_folder(files.root, *files.folders[1:])


def data_of(files: RunFiles) -> Folder:
    """Open the run's data directory, for the caller to close; raise `StorageError` if it is missing."""
    folder = folder_of(files)
    data = None
    if folder is not None:
        with folder:
            data = folder.child(files.base + DATA)
    if data is None:
        raise StorageError(f"`{files.data}` is missing")
    return data


def make_folder_of(files: RunFiles) -> Folder:
    """Open the folder that contains a run's files, for the caller to close; create it if needed.

    Raises `UsageError` if the run's name is not valid, `StorageError` if it cannot be created.
    """
    check_run_name(files.name)
    return make_folder(files.root, *files.folders[1:])


def open_file(files: RunFiles, suffix: str) -> int | None:
    """Open one of a run's files for reading. Return the descriptor, for the caller to close, or
    None if there is no such file."""
    folder = folder_of(files)
    if folder is None:
        return None
    with folder:
        try:
            return folder.open(files.base + suffix, os.O_RDONLY)
        except FileNotFoundError:
            return None


def event_log(files: RunFiles) -> Callable[[], int | None]:
    """Return a function that opens the event log of a run, or returns None if there is none."""
    return lambda: open_file(files, EVENTS)


def make_folder(root: str, *names: str) -> Folder:
    """Open a folder below `.loops`, for the caller to close; create it, private, if needed,
    together with the `.gitignore` files that keep runs out of git.

    Raises `StorageError` if the project is gone or cannot be written.
    """
    home = Folder.at(root)
    if home is None:
        raise StorageError(f"`{root}` is gone")
    with home, home.make(loops_of(root), mode=0o777) as loops:
        _ignore(loops)
        folder = loops.make(names[0])
    try:
        _hide(folder)
    except StorageError:
        folder.close()
        raise
    for name in names[1:]:
        with folder:
            folder = folder.make(name)
    return folder


def _ignore(loops: Folder) -> None:
    """Write a `.gitignore` that keeps runs out of git, in this clone and others, unless there is
    one."""
    if loops.stamp(IGNORE_FILE) is None:
        lines = f"{RUNNING}/\n{HISTORY}/\n".encode()
        loops.replace(IGNORE_FILE, lines, f"{IGNORE_FILE}.tmp-{os.urandom(8).hex()}", mode=0o644)


def _hide(folder: Folder) -> None:
    """Write a `.gitignore` into the folder: the one above may disappear, by `git clean` while it is
    untracked, or with its branch once it is committed.

    After that, `git clean`, or `git add -A` and switching branches, would remove a live run.
    """
    stamp = folder.stamp(IGNORE_FILE)
    if stamp is not None and stamp.size:  # but not one that a kill left empty
        return
    descriptor = folder.open(IGNORE_FILE, os.O_WRONLY | os.O_CREAT)
    try:
        write_all(descriptor, b"*\n")
    except OSError as error:
        raise failure(error, "write", folder.place(IGNORE_FILE)) from error
    finally:
        os.close(descriptor)
