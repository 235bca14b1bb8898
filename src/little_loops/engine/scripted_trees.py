"""The files of a scripted run: no content, only which paths were changed how often.

A snapshot of them has everything that the rules of evidence decide from. Instances are immutable;
ids stand for content, so equal files have equal ids.

Not here: the rules (`fsm.evidence`), real files (`trees`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache

from little_loops.fsm.commands import TakeSnapshot
from little_loops.fsm.happenings import PathChange, SnapshotTaken
from little_loops.fsm.protection import protected_by, watched_by
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.scope import contains, normalise
from little_loops.fsm.state import Changed
from little_loops.fsm.timestamps import Moment
from little_loops.trees.patterns import Patterns

Files = Mapping[str, int]
"""The paths that were changed, each with the number of its last change."""
NO_FILES: Files = {}


class Areas:
    """Which paths of a project are protected, watched or within the scope of a loop."""

    def __init__(self, loop: FSMLoop) -> None:
        self._scope = [normalise(path) for path in loop.scope]
        self._protected = Patterns.of(protected_by(loop))
        self._watched = Patterns.of(watched_by(loop))
        # Thousands of runs of a loop change the same few paths.
        self.in_scope = cache(self._in_scope)
        self.is_protected = cache(self._is_protected)
        self.is_watched = cache(self._is_watched)

    def _in_scope(self, path: str) -> bool:
        return any(contains(upper, path) for upper in self._scope)

    def _is_protected(self, path: str) -> bool:
        return self._protected.cover(path.encode())

    def _is_watched(self, path: str) -> bool:
        return self._watched.cover(path.encode()) and not self.is_protected(path)

    def inside(self, name: str) -> str:
        """Return a path of that name within the scope."""
        return name if self._scope[0] == "." else f"{self._scope[0]}/{name}"


class Ids:
    """The id of each content that a snapshot has seen."""

    def __init__(self) -> None:
        self._ids: dict[frozenset[tuple[str, int]], str] = {}
        self._files: dict[str, Files] = {}

    def of(self, files: Files) -> str:
        """Return the id of these files; a new one if they have not been seen before."""
        content = frozenset(files.items())
        if content not in self._ids:
            id = f"{len(self._ids):012x}"
            self._ids[content], self._files[id] = id, dict(files)
        return self._ids[content]

    def files(self, id: str) -> Files:
        return self._files[id]


class ScriptedTrees:
    def __init__(self, areas: Areas, ids: Ids, files: Files = NO_FILES, changes: int = 0) -> None:
        self._areas = areas
        self._ids = ids
        self._files = files
        self._changes = changes

    @classmethod
    def of(cls, loop: FSMLoop) -> ScriptedTrees:
        return cls(Areas(loop), Ids())

    def own_file(self, state: str) -> str:
        """Return the path of a file that stands for whatever a state changes."""
        return self._areas.inside(f"changed by {state}")

    def changed_by(self, paths: Iterable[str]) -> ScriptedTrees:
        """Return the files after a change to each of these paths."""
        files, number = dict(self._files), self._changes
        for path in paths:
            number += 1
            files[normalise(path)] = number
        return ScriptedTrees(self._areas, self._ids, files, number)

    def taken(self, at: Moment, command: TakeSnapshot) -> SnapshotTaken:
        """Take the snapshot of a command: what differs from the earlier ones that it names."""
        areas, project = self._areas, self._ids.of(self._files)
        guard = self._ids.of(self._only(areas.is_protected))
        before = self._ids.files(command.since or project)
        changed = differing(before, self._files)
        tampered = self._tampered(command.reference or guard)
        named = {change.path for change in tampered}
        return SnapshotTaken(
            at,
            command.when,
            self._ids.of(self._only(areas.in_scope)),
            project,
            guard,
            _changed(changed),
            tuple(self._since(each) for each in command.compare),
            tampered,
            tuple(path for path in changed if self._is_outside(path, named)),
            ending=command.ending,
            late=command.late,
            watched=tuple(path for path in changed if areas.is_watched(path)),
        )

    def restored(self, reference: str) -> tuple[ScriptedTrees, tuple[str, ...]]:
        paths = tuple(change.path for change in self._tampered(reference))
        return self._with(paths, self._ids.files(reference)), paths

    def put_back(
        self, project: str, reference: str | None
    ) -> tuple[ScriptedTrees, tuple[str, ...]]:
        """Undo the changes outside the scope since the snapshot `project`, except those to
        protected paths that differ from `reference`. Return the new files and these paths."""
        wanted = self._ids.files(project)
        guarded = {} if reference is None else {c.path for c in self._tampered(reference)}
        paths = tuple(
            path
            for path in differing(wanted, self._files)
            if not self._areas.in_scope(path) and path not in guarded
        )
        return self._with(paths, wanted), paths

    def with_best(
        self, project: str, reference: str | None
    ) -> tuple[ScriptedTrees, tuple[str, ...]]:
        """Undo the changes within the scope since the snapshot `project`, except those to protected
        paths that equal `reference`. Return the new files and these paths."""
        wanted = self._ids.files(project)
        tampered = () if reference is None else {c.path for c in self._tampered(reference)}
        paths = tuple(
            path
            for path in differing(wanted, self._files)
            if self._areas.in_scope(path)
            and (path in tampered or not self._areas.is_protected(path))
        )
        return self._with(paths, wanted), paths

    @property
    def project(self) -> str:
        """The id of all files as they are now."""
        return self._ids.of(self._files)

    def _with(self, paths: Iterable[str], wanted: Files) -> ScriptedTrees:
        """Return the files with these paths as they are in `wanted`."""
        files = dict(self._files)
        for path in paths:
            files.pop(path, None)
            if path in wanted:
                files[path] = wanted[path]
        return ScriptedTrees(self._areas, self._ids, files, self._changes)

    def _only(self, accepts: Callable[[str], bool]) -> Files:
        return {path: number for path, number in self._files.items() if accepts(path)}

    def _is_outside(self, path: str, tampered: Collection[str]) -> bool:
        """Return whether a change counts as outside the scope; protected paths that equal their
        reference do not."""
        areas = self._areas
        return not areas.in_scope(path) and (path in tampered or not areas.is_protected(path))

    def _since(self, id: str) -> Changed:
        return _changed(differing(self._ids.files(id), self._files))

    def _tampered(self, reference: str) -> tuple[PathChange, ...]:
        # Whether a path existed before the run is unknown: a path that was named is a changed file.
        wanted, now = self._ids.files(reference), self._only(self._areas.is_protected)
        return tuple(PathChange(path, "changed") for path in differing(wanted, now))


def differing(before: Files, after: Files) -> list[str]:
    """Return the paths in which two states of the files differ, in order."""
    return sorted(
        path for path in before.keys() | after.keys() if before.get(path) != after.get(path)
    )


def _changed(paths: list[str]) -> Changed:
    return Changed(len(paths), tuple(paths))
