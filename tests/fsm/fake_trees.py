"""A tree of files that is only a mapping.

`src/` is the scope, `tests/` is protected, a `Makefile` runs the tests; `other/` and `tests/other` lie
outside the scope. Paths that begin with `../` are those of the project that a worktree comes from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Literal

from little_loops.fsm.commands import TakeSnapshot
from little_loops.fsm.evidence import without
from little_loops.fsm.happenings import PathChange, SnapshotCut, SnapshotTaken
from little_loops.fsm.state import Changed
from little_loops.fsm.timestamps import Moment

Files = dict[str, str]
OUTSIDE = ("other/", "tests/other")


class FakeTrees:
    def __init__(self) -> None:
        self.files: Files = {"src/a": "0", "tests/t": "0"}
        self.original: Files = {}
        self.landed: tuple[str, ...] = ()
        self.stored: dict[str, Files] = {}
        self.committed: tuple[str, ...] = ()
        self.warnings: tuple[str, ...] = ()
        self.stuck: tuple[str, ...] = ()
        self.is_damaged = False
        self.keeps_changing: Mapping[str, str] = {}
        self.before_end: Mapping[str, str] = {}
        self.cut: Literal["content", "all"] | None = None
        self.before_last: Mapping[str, str] = {}

    def write(self, files: Mapping[str, str | None]) -> None:
        for path, text in files.items():
            tree = self.original if path.startswith("../") else self.files
            if text is None:
                tree.pop(path, None)
            else:
                tree[path] = text

    def taken(self, at: Moment, command: TakeSnapshot) -> SnapshotTaken:
        if command.when == "last":  # what the checks left running is dying
            self.write(self.before_last)
        if command.when == "end":  # somebody is at work between a check and the end
            self.write(self.before_end)
            self.before_end = {}
        project, guard = self._store(self.files), self.protected()
        before = self.stored.get(command.since or project, {})
        landed = self.landed if command.apart and command.landed is not None else ()
        original, strayed = self._look_beside(command)
        outside = self._outside(before, command.reference)
        if command.apart:
            outside = without(_differing(before, self.files), landed)
        return SnapshotTaken(
            at,
            command.when,
            self._store(self._under("src/")),
            project,
            guard,
            changed=_changed(before, self.files),
            compared=tuple(_changed(self.stored[each], self.files) for each in command.compare),
            tampered=self._against(command.reference or guard),
            outside=outside,
            committed=self.committed,
            warnings=self.warnings,
            ending=command.ending,
            late=command.late,
            watched=tuple(
                path for path in _differing(before, self.files) if path.endswith("Makefile")
            ),
            landed=landed,
            original=original,
            strayed=strayed,
            patch="p.patch" if strayed or (command.apart and outside) else "",
        )

    def _look_beside(self, command: TakeSnapshot) -> tuple[str | None, tuple[str, ...]]:
        """The project that the worktree comes from, and what changed there."""
        if command.original is None:
            return None, ()
        now, since = self._store(self.original), command.original.since
        before = self.original if since is None else self.stored[since]
        return now, tuple(_differing(before, self.original))

    def last_look(self, at: Moment, command: TakeSnapshot) -> SnapshotTaken | SnapshotCut:
        """What is left of the end of a run by a stop that cannot wait."""
        taken = self.taken(at, command)
        if self.cut is None or command.ending is None:
            return taken
        if self.cut == "all":
            return SnapshotCut(at, command.when, command.ending)
        return SnapshotCut(at, command.when, command.ending, taken.guard, taken.tampered)

    def protected(self) -> str:
        return self._store(self._under("tests/"))

    def restore(
        self, reference: str, existing_only: bool
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        wanted, done, failed = self.stored[reference], [], []
        for change in self._against(reference):
            if change.kind == "added" and existing_only:
                continue
            if change.path in self.stuck:
                failed.append(f"{change.path}: read-only")
                continue
            self.write({change.path: wanted.get(change.path)})
            done.append(change.path)
        self.files.update(self.keeps_changing)
        return tuple(done), tuple(failed)

    def put_back(self, project: str, reference: str | None) -> tuple[str, ...]:
        before = self.stored[project]
        left = {each.path for each in self._against(reference)} if reference else set()
        paths = [path for path in self._outside(before, reference) if path not in left]
        self.write({path: before.get(path) for path in paths})
        return tuple(paths)

    def restore_best(
        self, project: str, reference: str | None
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Put back `src/`, the scope, to a stored project; protected files lie outside."""
        wanted = self.stored[project]
        paths = [path for path in _differing(wanted, self.files) if path.startswith("src/")]
        failed = tuple(f"{path}: read-only" for path in paths if path in self.stuck)
        done = tuple(path for path in paths if path not in self.stuck)
        self.write({path: wanted.get(path) for path in done})
        return done, failed

    def project(self) -> str:
        return self._store(self.files)

    def _outside(self, before: Files, reference: str | None) -> tuple[str, ...]:
        """Protected paths that are as their reference has them do not count."""
        tampered = {each.path for each in self._against(reference)} if reference else set()
        found = [path for path in _differing(before, self.files) if path.startswith(OUTSIDE)]
        return tuple(
            path for path in found if path.startswith("other/") or not reference or path in tampered
        )

    def _under(self, folder: str) -> Files:
        return {path: text for path, text in self.files.items() if path.startswith(folder)}

    def _store(self, files: Files) -> str:
        id = sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:12]
        self.stored[id] = dict(files)
        return id

    def _against(self, reference: str) -> tuple[PathChange, ...]:
        wanted, now = self.stored[reference], self._under("tests/")
        return tuple(
            PathChange(
                path,
                "added" if path not in wanted else "deleted" if path not in now else "changed",
            )
            for path in _differing(wanted, now)
        )


def _differing(before: Files, after: Files) -> list[str]:
    return sorted(
        path for path in before.keys() | after.keys() if before.get(path) != after.get(path)
    )


def _changed(before: Files, after: Files) -> Changed:
    paths = _differing(before, after)
    return Changed(len(paths), tuple(paths), len(paths), 0)
