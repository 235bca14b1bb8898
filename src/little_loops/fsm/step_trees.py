"""Which snapshot shows the files as a step left them.

Snapshots are taken around agents' turns and checks, not around every action. The files are still
those of the latest snapshot until the next action starts.
"""

from __future__ import annotations

from collections.abc import Iterable

from little_loops.fsm.events import ActionStart, Entry, Forked, HookRun, Restored, StateEnter, Tree
from little_loops.records import NamedTuple


class LatestTree(NamedTuple):
    """The latest snapshot; `is_current` unless something may have changed files since."""

    tree: Tree | None = None
    is_current: bool = False

    def after(self, entry: Entry) -> LatestTree:
        """Return what is known after another event."""
        match entry.event:
            case Tree():
                return LatestTree(entry.event, True)
            case ActionStart(place="here") | HookRun() | Restored():
                return self._replace(is_current=False)
            case _:
                return self


def latest_tree(entries: Iterable[Entry]) -> LatestTree:
    """Return the last snapshot of a run."""
    latest = LatestTree()
    for entry in entries:
        latest = latest.after(entry)
    return latest


def project_before(entries: Iterable[Entry]) -> str | None:
    """Return the id of the project before the run changed anything: of its first snapshot, or for a
    fork of the one taken before it. None if there is none."""
    found = None
    for entry in entries:
        match entry.event:
            case Tree(project=project) if found is None:
                found = project
            case Forked(project=project):
                found = project
            case _:
                pass
    return found


def trees_after(entries: Iterable[Entry]) -> dict[int, Tree]:
    """Return the snapshots that show the files as the steps left them, by step; a step that no
    snapshot shows is left out.

    If the action of a step was not followed by a snapshot, it is the next one, provided that nothing
    could change files before it.
    """
    found: dict[int, Tree] = {}
    waiting: list[int] = []
    latest, step = LatestTree(), 0
    for entry in entries:
        if isinstance(entry.event, StateEnter) and entry.event.step != step:
            waiting.append(step)
            step = entry.event.step
        elif isinstance(entry.event, ActionStart | HookRun):
            waiting = []
        latest = latest.after(entry)
        if latest.tree is not None and latest.is_current:
            found |= dict.fromkeys(waiting, latest.tree)
            waiting = []
    if latest.tree is not None and latest.is_current:
        found[step] = latest.tree
    return found


def has_step(entries: Iterable[Entry], step: int) -> bool:
    return any(isinstance(each.event, StateEnter) and each.event.step == step for each in entries)
