"""What a worktree of ours is for: a small file beside it, which also reserves its numbers.

Each worktree of a project has a number of its own, the lowest that is free. The ports of a
worktree are counted from it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from little_loops.errors import StoreError
from little_loops.records import NamedTuple
from little_loops.system.files import PRIVATE_FOLDER, failure, to_json
from little_loops.system.plain_files import open_plain
from little_loops.trees import files as store_files
from little_loops.trees.git import Git

RECORD = ".json"
LOCK = "lock"


class WorktreeRecord(NamedTuple):
    """The run that a worktree is for, its branch, the project it is a worktree of, and its number."""

    run: str
    name: str
    branch: str
    project: str
    number: int = 0


def reserve(git: Git, place: str, record: WorktreeRecord) -> WorktreeRecord:
    """Write the record of a worktree, with the lowest number that no other one has; return it. If
    there is one already, return that. Raises `StoreError`."""
    folder = os.path.dirname(place)
    try:
        os.makedirs(folder, mode=PRIVATE_FOLDER, exist_ok=True)
        with _locked(git, os.path.join(folder, LOCK)):
            found = read(place)
            if found is not None:
                return found
            taken = {each.number for each in all_in(folder).values()}
            record = record._replace(
                number=next(number for number in range(len(taken) + 1) if number not in taken)
            )
            store_files.replace(place + RECORD, to_json(record._asdict()))
    except OSError as error:
        plain = failure(error, "write", place + RECORD)
        raise StoreError(plain.message, plain.help) from error
    return record


@contextmanager
def _locked(git: Git, path: str) -> Iterator[None]:
    descriptor = open_plain(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        store_files.lock_file(descriptor, fcntl.LOCK_EX, git, path)
        yield
    finally:
        os.close(descriptor)


def read(place: str) -> WorktreeRecord | None:
    """Return what a worktree is for; None if there is no record, or a damaged one."""
    try:
        return WorktreeRecord(**json.loads(store_files.read(place + RECORD) or b""))
    except (ValueError, TypeError):
        return None


def all_in(folder: str) -> dict[str, WorktreeRecord]:
    """Return the records in a directory of worktrees, by the places of the worktrees."""
    with suppress(FileNotFoundError):
        names = sorted(name for name in os.listdir(folder) if name.endswith(RECORD))
        places = [os.path.join(folder, name.removesuffix(RECORD)) for name in names]
        found = {place: read(place) for place in places}
        return {place: each for place, each in found.items() if each is not None}
    return {}


def forget(place: str) -> None:
    """Remove the record of a worktree that is gone."""
    with suppress(FileNotFoundError):
        os.unlink(place + RECORD)
