"""Keep the status of a relay's task in the user's own files.

A file is written only if it changes, whole or not at all, with its permissions.  Links are not
followed: what an agent puts in a file's place must not lead us elsewhere.

Not here: where in a text the status goes (`splice`), which status it is (`rules`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from little_loops.errors import UsageError
from little_loops.relay.record import Task, read_plain, write_whole
from little_loops.relay.splice import NoPlace, status_in_json, status_in_list

LARGEST = 16 << 20


def find_task(task: Task, home: str) -> None:
    """Find out before an agent is paid that the task's status has a place."""
    for path, spliced in _places(task, "implementing", ()):
        spliced(_text(path, home))


def write_status(task: Task, status: str, artifacts: Sequence[str], home: str) -> None:
    """Both files, or the first that can be written before one that cannot."""
    for path, spliced in _places(task, status, artifacts):
        text = _text(path, home)
        changed = spliced(text)
        if changed != text:
            mode = os.stat(os.path.join(home, path)).st_mode & 0o7777
            write_whole(path, changed, home, mode=mode)


def _places(
    task: Task, status: str, artifacts: Sequence[str]
) -> list[tuple[str, Callable[[str], str]]]:
    places: list[tuple[str, Callable[[str], str]]] = []
    if task.state:
        splice = _named(task.state, lambda text: status_in_json(text, task.id, status, artifacts))
        places.append((task.state, splice))
    if task.todo:
        splice = _named(task.todo, lambda text: status_in_list(text, task.id, status))
        places.append((task.todo, splice))
    return places


def _named(path: str, splice: Callable[[str], str]) -> Callable[[str], str]:
    def spliced(text: str) -> str:
        try:
            return splice(text)
        except NoPlace as problem:
            raise _unusable(path, problem.message) from problem

    return spliced


def _text(path: str, home: str) -> str:
    content = read_plain(path, LARGEST, home)
    if content is None:
        raise _unusable(path, "does not exist")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise _unusable(path, "is not UTF-8") from problem


def _unusable(path: str, why: str) -> UsageError:
    return UsageError(f"the task's file `{path}` {why}", "correct `task` in the loop, or the file")
