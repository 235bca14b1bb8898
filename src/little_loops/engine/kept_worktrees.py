"""The worktrees of a project that are there: those of runs and of forks.

Not here: preparing and merging them (`worktree_runs`, `merge_trains`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress

from little_loops.errors import StoreError, UsageError
from little_loops.records import NamedTuple
from little_loops.runs.claims import alive
from little_loops.runs.stored_run import current
from little_loops.trees import worktrees
from little_loops.trees.git import Git, find_git
from little_loops.trees.worktree_records import RECORD, WorktreeRecord, all_in, forget


class KeptWorktree(NamedTuple):
    """A worktree: its directory, its branch, and the run it is for; None if that is not known, as
    for a fork.

    `unsaved` is how many of its files are not committed; `is_needed`: the run can be continued.
    """

    path: str
    branch: str | None
    run: str | None
    unsaved: int
    is_needed: bool


def kept_worktrees(root: str, environ: Mapping[str, str]) -> list[KeptWorktree]:
    """Return the worktrees of a project in the user's cache directory, by their paths. Raises
    `UsageError` if git cannot be used."""
    folder = _folder(root, environ)
    if folder is None or not os.path.isdir(folder):
        return []
    git, records = _git(root, environ), all_in(folder)
    found = []
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if os.path.isdir(path) and not name.endswith(worktrees.REMOVED):
            found.append(_look(git, root, path, records.get(path)))
    return found


def _folder(root: str, environ: Mapping[str, str]) -> str | None:
    """Return the directory of a project's worktrees; None if there can be none, because the cache is
    inside the project."""
    try:
        return os.path.dirname(worktrees.place_of(root, "x", environ))
    except StoreError:
        return None


def _git(root: str, environ: Mapping[str, str]) -> Git:
    try:
        return find_git(root, environ)
    except StoreError as error:
        raise UsageError(error.message, error.help) from error


def _look(git: Git, root: str, path: str, record: WorktreeRecord | None) -> KeptWorktree:
    """Return what is known about a worktree; one that git cannot read counts as unsaved."""
    unsaved = 1
    branch = None if record is None else record.branch
    with suppress(StoreError):
        unsaved = len(worktrees.unsaved(git, path))
        known = worktrees.find(git, root, path)
        branch = branch or (None if known is None else known.branch)
    name = record.name if record is not None else _fork_of(branch)
    return KeptWorktree(path, branch, name, unsaved, _is_needed(root, name))


FORK = "ll/fork/"


def _fork_of(branch: str | None) -> str | None:
    """Return the name of the run that a branch of a fork is for."""
    return branch.removeprefix(FORK) if branch is not None and branch.startswith(FORK) else None


def _is_needed(root: str, name: str | None) -> bool:
    """Return whether the run of a worktree is running, or can be continued."""
    if name is None:
        return True
    own = name.partition("/")[0]
    with suppress(Exception):  # a run that cannot be read may be repaired
        return alive(root, own) is not None or current(root, own) is not None
    return True


def prune(root: str, environ: Mapping[str, str]) -> tuple[list[KeptWorktree], list[KeptWorktree]]:
    """Remove the worktrees that no run needs and whose content is committed. Return those that were
    removed, and those that were not. Their branches stay."""
    removed: list[KeptWorktree] = []
    kept: list[KeptWorktree] = []
    for each in kept_worktrees(root, environ):
        (removed if _remove(root, each, environ) else kept).append(each)
    _forget_records(root, environ)
    return removed, kept


def _remove(root: str, each: KeptWorktree, environ: Mapping[str, str]) -> bool:
    """Remove a worktree; return False if it is needed, or has content that is not committed."""
    if each.is_needed or each.unsaved or each.branch is None:
        return False
    try:
        worktrees.remove(_git(root, environ), root, each.path)
    except (StoreError, UsageError):
        return False
    return True


def _forget_records(root: str, environ: Mapping[str, str]) -> None:
    """Remove the records of worktrees that are gone, of runs that are over."""
    folder = _folder(root, environ)
    records = {} if folder is None else all_in(folder)
    for path, record in records.items():
        if not os.path.lexists(path) and not _is_needed(root, record.name):
            forget(path)


def sizes(root: str, environ: Mapping[str, str]) -> dict[str, int]:
    """Return how many bytes each worktree of a project uses, without following links."""
    folder = _folder(root, environ)
    if folder is None:
        return {}
    with suppress(FileNotFoundError):
        names = [name for name in sorted(os.listdir(folder)) if not name.endswith(RECORD)]
        paths = [os.path.join(folder, name) for name in names]
        return {path: _size(path) for path in paths if os.path.isdir(path)}
    return {}


def _size(path: str) -> int:
    total = 0
    for here, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(here, name)).st_size
    return total
