"""Decide what each path of a clean copy contains.

Most paths come from the snapshot, protected paths from their reference, ignored files from the
start of the run. Ignored directories become links or shadows (`shadows`). Links into the project
lead into the copy instead.

Not here: writing it (`copies`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from functools import cached_property

from little_loops.records import NamedTuple
from little_loops.system.plain_files import open_plain
from little_loops.trees.content import READ
from little_loops.trees.git import is_inside
from little_loops.trees.guard import Guard, Guarded, is_protected
from little_loops.trees.installed import installed_in
from little_loops.trees.objects import object_id
from little_loops.trees.reading import read_all
from little_loops.trees.rules import Rules, in_cache, is_cache, parents
from little_loops.trees.shadows import (
    Linked,
    PlannedContent,
    Scan,
    link_to,
    plan,
    replace_path,
    text_in_copy,
)
from little_loops.trees.store import TreeStore

LONG_AGO_NS = 315_619_200 * 1_000_000_000
"""The 2nd of January 1980: archives cannot hold anything older.

An ignored file may have been built from sources.  One that is older than all of them is built again
by a tool that compares times, such as `make`, and is never taken for the product of the delivered sources.
"""


class Content(NamedTuple):
    """The planned content of a path; `data` is set if it is not in the store.

    `time_ns` is its modification time, if that must not be the time of writing.
    """

    kind: str
    mode: int
    id: str
    data: bytes | None = None
    time_ns: int | None = None

    @property
    def is_only_mode(self) -> bool:
        """Return whether, instead of another content, this plans only other permission bits."""
        return self.data is None and self.time_ns is None


class CopyLayout(NamedTuple):
    """A planned copy: contents by path, and all directories they need."""

    contents: Mapping[str, Content]
    folders: frozenset[str]


class _Snapshot(NamedTuple):
    """The part of a plan that follows from ids alone: contents outside ignored directories, and
    protected paths inside them."""

    contents: dict[str, Content]
    ignored: tuple[Guarded, ...]


class CopyRoot(NamedTuple):
    """The directory `real`, its copy, and the project's `prefix` in both (`a/b/`, or empty).

    Links into `real` lead into `copy` instead.
    """

    real: str
    copy: str
    prefix: str = ""


class Planner:
    """Plans the layouts of one copy, and returns the previous plan while its inputs are unchanged."""

    def __init__(self, store: TreeStore, rules: Rules, place: CopyRoot) -> None:
        self._store = store
        self._rules = rules
        self._place = place
        self._protected = rules.protected()
        self._tracked_caches = frozenset(rules.caches)
        self._linked = tuple(
            path for path in (*rules.linked, *rules.nested) if path not in rules.not_yours
        )
        self._scans: dict[str, Scan] = {}
        self._before: tuple[object, _Snapshot] | None = None
        self._last: tuple[object, CopyLayout] | None = None

    def plan(
        self,
        project: str,
        reference: str | None,
        links: bool,
        existing_only: bool,
        left_out: frozenset[str] = frozenset(),
        other: Mapping[str, Content] = {},
    ) -> CopyLayout:
        """Return the layout of the snapshot `project`, without the paths `left_out`, with the content
        `other` instead of the snapshot's or in addition to it, and with protected paths of the guard
        `reference`; None protects nothing.

        Without `links`, ignored directories are left out. Raises `NotClean` if one cannot be
        rewritten.
        """
        # Permission bits are no part of an id.
        key = (project, reference, existing_only, left_out, other, self._store.modes(project))
        if self._before is None or self._before[0] != key:
            self._before = (key, self._snapshot(project, reference, existing_only, left_out, other))
        snapshot = self._before[1]
        linked = self._plan_ignored(snapshot) if links else {}
        if self._last is None or self._last[0] != (key, linked):
            contents = snapshot.contents | {path: _content(one) for path, one in linked.items()}
            folders = {path for path, one in contents.items() if one.kind == "dir"}
            layout = CopyLayout(contents, frozenset((*folders, *parents(contents))))
            self._last = ((key, linked), layout)
        return self._last[1]

    def _snapshot(
        self,
        project: str,
        reference: str | None,
        existing_only: bool,
        left_out: frozenset[str],
        other: Mapping[str, Content],
    ) -> _Snapshot:
        """Plan everything except the content of ignored directories."""
        with self._store.using():
            tree = self._store.guard_of_tree(project)
            guard = Guard({}) if reference is None else self._store.guard(reference)
        wanted = dict(self._ignored_files)
        contents = {
            path: Content(*one[1:4]) for path, one in tree.paths.items() if one.kind != "dir"
        }
        # What only git has may be in a directory that is linked: there, the project's files count.
        added = {path: one for path, one in other.items() if not self.is_linked(path)}
        wanted |= {
            path: one
            for path, one in {**contents, **added}.items()
            if path not in left_out and self._comes_from_snapshot(path, guard, existing_only)
        }
        ignored = []
        for path, one in guard.paths.items():
            if one.kind == "other":
                continue  # a socket, or what cannot be read: the first snapshot has named it
            if any(is_inside(path, each) for each in self._linked):
                ignored.append(one)
            else:
                before = wanted.get(path)
                wanted[path] = Content(*one[1:4], time_ns=before and before.time_ns)
        return _Snapshot(wanted | self._redirected_links(wanted), tuple(ignored))

    def _redirected_links(self, wanted: Mapping[str, Content]) -> dict[str, Content]:
        """Return the links that lead into the project by an absolute path, redirected to the copy."""
        store = self._store
        links = {
            path: one
            for path, one in wanted.items()
            if one.kind == "link" and not store.is_unstored(one.id)
        }
        with store.using():
            texts = read_all(store.git, store.files, (one.id for one in links.values()))
        found = {}
        real, copy, prefix = self._place
        for path, one in links.items():
            text = os.fsdecode(texts[one.id])
            other = text_in_copy(real, copy, prefix + path, text)
            if other != text:
                found[path] = _content(PlannedContent("link", one.mode, os.fsencode(other)))
        return found

    def _plan_ignored(self, snapshot: _Snapshot) -> dict[str, PlannedContent]:
        """Plan the links and shadows that stand for ignored directories and large ignored files."""
        folders = self._folders()
        replaced = {
            one.path: self._replacement(one)
            for one in snapshot.ignored
            if one.kind != "dir" and self._differs(one)
        }
        real, copy, prefix = self._place
        packages = {path for path, _ in installed_in(self._rules)}
        products = frozenset(prefix + path for path in {*folders} - packages)
        linked = Linked(real, copy, tuple(prefix + path for path in folders), products)
        other = {prefix + path: one for path, one in replaced.items()}
        shadows = plan(linked, other, self._store.git, self._scans)
        files = {path: replaced.get(path) or link_to(full) for path, full in self._large_files()}
        return files | {path.removeprefix(prefix): one for path, one in shadows.items()}

    @cached_property
    def _ignored_files(self) -> Mapping[str, Content]:
        """The small files that were ignored when the run started; where their text names the
        project, it names the copy instead."""
        found = {
            one.path: Content(
                "link" if stat.S_ISLNK(one.mode) else "file", one.mode, one.id, time_ns=LONG_AGO_NS
            )
            for one in self._rules.files
        }
        store = self._store
        files = {one.id for one in found.values() if one.kind == "file"}
        with store.using():
            texts = read_all(
                store.git, store.files, (id for id in files if not store.is_unstored(id))
            )
        real, copy, _ = self._place
        moved = {
            id: _moved(text, os.fsencode(real), os.fsencode(copy)) for id, text in texts.items()
        }
        for path, one in found.items():
            if (data := moved.get(one.id)) is not None and one.kind == "file":
                found[path] = one._replace(id=object_id(b"blob", data).hex(), data=data)
        return found

    def _comes_from_snapshot(self, path: str, guard: Guard, existing_only: bool) -> bool:
        """Return whether a path has the snapshot's content, not that of the protected reference."""
        if in_cache(path) and path not in self._tracked_caches:
            return False  # Python runs a compiled file without looking at its source, if told so
        if path in guard.paths or existing_only:
            return path not in guard.paths
        return is_cache(path) or not is_protected(self._protected, path)

    def builds(self) -> tuple[str, ...]:
        """Return the ignored directories that the last plan left out: a build in them would build
        the project, not the copy."""
        prefix = self._place.prefix
        return tuple(
            path.removeprefix(prefix) for scan in self._scans.values() for path in scan.builds
        )

    def is_linked(self, path: str) -> bool:
        """Return whether a path is in a directory that is linked, as a whole or as a shadow."""
        return any(is_inside(path, each) for each in self._linked)

    def is_protected(self, path: str) -> bool:
        return not is_cache(path) and is_protected(self._protected, path)

    def must_be_absent(self, path: str, existing_only: bool) -> bool:
        """Return whether a file that is not in the layout must be removed from the copy."""
        return not existing_only and self.is_protected(path)

    def _folders(self) -> tuple[str, ...]:
        """Return the directories that are linked: ignored at the start, or repositories, and still
        there."""
        return tuple(
            path
            for path in self._linked
            if os.path.isdir(full := os.path.join(self._rules.project, path))
            and not os.path.islink(full)
        )

    def _large_files(self) -> Iterator[tuple[str, str]]:
        """Yield path and full path of the large ignored files that still exist."""
        for path in self._linked:
            full = os.path.join(self._rules.project, path)
            if os.path.isfile(full) and not os.path.islink(full):
                yield path, full

    def _differs(self, one: Guarded) -> bool:
        """Return whether a protected path in a linked directory differs from its reference, or is
        gone."""
        full = os.path.join(self._rules.project, one.path)
        try:
            info = os.lstat(full)
            if stat.S_ISLNK(info.st_mode):
                data = os.fsencode(os.readlink(full))
            else:
                with open(open_plain(full, READ), "rb") as file:
                    data = file.read()
        except OSError:
            return True
        return info.st_mode != one.mode or object_id(b"blob", data).hex() != one.id

    def _replacement(self, one: Guarded) -> PlannedContent:
        """Return the stored content of a protected path. Raises `StoreError` if it was too large to
        store."""
        stored = self._store.stored(one.path, one.kind == "link", one.mode, one.id)
        return PlannedContent(one.kind, one.mode, stored.data)


def _moved(data: bytes, real: bytes, copy: bytes) -> bytes | None:
    """Return a text in which the copy's path stands for the project's; None if it is no text, or does
    not name the project."""
    if real not in data or b"\0" in data:
        return None
    return other if (other := replace_path(data, real, copy)) != data else None


def _content(one: PlannedContent) -> Content:
    return Content(one.kind, one.mode, object_id(b"blob", one.data).hex(), one.data)
