"""Write the status of a relay's task to the user's own files.

A file is written only if it changes, atomically, and keeps its permissions. Links are not followed:
an agent must not be able to redirect us by replacing a file.

Not here: where in a text the status goes (`splice`), which status it is (`rules`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from little_loops.errors import UsageError
from little_loops.relay.record import Task, read_plain, write_atomically
from little_loops.relay.splice import NoPlace, status_in_json, status_in_list

LARGEST = 16 << 20


def check_task(task: Task, home: str) -> None:
    """Raise `UsageError` if a file of the task is missing or has no place for its status.

    This is checked before the first turn, so that no agent works for nothing.
    """
    for path, spliced in _edits(task, "implementing", ()):
        spliced(_read(path, home))


def write_status(task: Task, status: str, artifacts: Sequence[str], home: str) -> None:
    """Write the status and new artifacts to the task's files, where they change anything.

    Raises `UsageError` or `StorageError` at the first file that cannot be changed.
    """
    for path, spliced in _edits(task, status, artifacts):
        text = _read(path, home)
        changed = spliced(text)
        if changed != text:
            mode = os.stat(os.path.join(home, path)).st_mode & 0o7777
            write_atomically(path, changed, home, mode=mode)


def _edits(
    task: Task, status: str, artifacts: Sequence[str]
) -> list[tuple[str, Callable[[str], str]]]:
    """Return the files to change, each with a function that returns its text with the new status."""
    places: list[tuple[str, Callable[[str], str]]] = []
    if task.state:
        splice = _with_path_in_error(
            task.state, lambda text: status_in_json(text, task.id, status, artifacts)
        )
        places.append((task.state, splice))
    if task.todo:
        splice = _with_path_in_error(task.todo, lambda text: status_in_list(text, task.id, status))
        places.append((task.todo, splice))
    return places


def _with_path_in_error(path: str, splice: Callable[[str], str]) -> Callable[[str], str]:
    """Wrap an edit, so that it raises a `UsageError` that names the file instead of `NoPlace`."""

    def spliced(text: str) -> str:
        try:
            return splice(text)
        except NoPlace as problem:
            raise _unusable(path, problem.message) from problem

    return spliced


def _read(path: str, home: str) -> str:
    """Return the text of a file; raise `UsageError` if it is missing or not UTF-8.

    Raises `StorageError` if it is unreadable or too large.
    """
    content = read_plain(path, LARGEST, home)
    if content is None:
        raise _unusable(path, "does not exist")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise _unusable(path, "is not UTF-8") from problem


def _unusable(path: str, why: str) -> UsageError:
    return UsageError(f"the task's file `{path}` {why}", "correct `task` in the loop, or the file")
