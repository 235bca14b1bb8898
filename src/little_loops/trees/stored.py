"""Compare the snapshots in a project's tree store, and read their files.

Every failure is raised as a `StoreError` with a message for the user, and a stop as `Interrupted`.

Not here: taking snapshots and restoring from them (`store`).
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from little_loops.errors import StoreError
from little_loops.fsm.path_text import path_text
from little_loops.fsm.reversal import Version
from little_loops.trees import files as store_files
from little_loops.trees.content import Unstored
from little_loops.trees.files import StoreFiles, locked
from little_loops.trees.git import Git, is_inside
from little_loops.trees.guard import LIST, Guard, Guarded, compare, decode, is_protected
from little_loops.trees.model import Changed, ListedPath, NewLink, PathChange, StoredFile
from little_loops.trees.modes import START, Modes, load_modes
from little_loops.trees.objects import EMPTY_TREE, LINK, LONG_EMPTY_TREE, PROGRAM, SHA1_CHARS
from little_loops.trees.patterns import Patterns
from little_loops.trees.reading import (
    RawChange,
    list_changes,
    list_tree,
    parse_raw,
    read_all,
    read_objects,
    run_git,
)
from little_loops.trees.restore import UNKNOWN_MODE, Spare, spare_nothing
from little_loops.trees.rules import Rules, head_of, parents, within

FIRST_PATHS = 20
MOST_PATHS = 1000
MAX_LISTS = 16
LEFT_OUT_MARK = "left-out"
UNKNOWN = "unknown"


class StoredTrees:
    """The trees in a store, for reading; remembers the guards it has read."""

    def __init__(self, files: StoreFiles, id: str, git: Git) -> None:
        self.files = files
        self.id = id
        self.git = git
        self._unstored: dict[bytes, Unstored] = {}
        self._guard_cache: dict[str, Guard] = {}

    @property
    def project(self) -> str:
        return self.files.project

    @contextmanager
    def using(self) -> Iterator[None]:
        """Hold the store's shared lock, so that the packs stay in place; check that it is the same
        store.

        Raises `StoreError` if it is not, and `Interrupted` on a stop.
        """
        self.git.check()
        if store_files.check(self.files) != self.id:
            raise StoreError(f"the tree store `{self.files.path}` was replaced by another one")
        with locked(self.files, self.git):
            self._load_unstored()
            yield

    def _load_unstored(self) -> None:
        """Load the list of unstored content, once."""
        if self._unstored:
            return
        for line in (store_files.read(self.files.place("unstored")) or b"").splitlines():
            parts = line.decode("ascii", "replace").split(" ")
            if len(parts) in (3, 4):
                is_left_out = parts[3:] == [LEFT_OUT_MARK]
                one = Unstored(int(parts[1]), parts[2], is_left_out)
                self._unstored[bytes.fromhex(parts[0])] = one

    def is_unstored(self, id: str) -> bool:
        return bool(id) and bytes.fromhex(id) in self._unstored

    def why_unstored(self, id: str) -> str | None:
        """Return why content is not stored; None if it is."""
        return self.unstored(id).why if self.is_unstored(id) else None

    def unstored(self, id: str) -> Unstored:
        """Return what is known of content that is not stored."""
        return self._unstored[bytes.fromhex(id)]

    def start_modes(self, run: str, first: str | None) -> Modes:
        """Return the modes at the start of a run; those of its snapshot `first` if they were not
        kept."""
        path = self.files.place("modes", START + run)
        return load_modes(path) if first is None or os.path.exists(path) else self.modes(first)

    def modes(self, project: str) -> Modes:
        """Return the permission bits of a snapshot's files."""
        return load_modes(self.files.place("modes", project))

    # ── comparing ──────────────────────────────────────────────────────────────────────────────

    def changed(self, before: str, after: str, scope: Sequence[str] = (".",)) -> Changed:
        """Return what differs between two project ids (or tree ids) within a scope, with the first
        `FIRST_PATHS` paths."""
        with self.using():
            everything = self._changes(before, after)
            changes = [one for one in everything if within(one.path, scope)]
            added, removed = self._count_lines(before, after, changes, everything)
        # New files are often what a check left behind, so they come after the others.
        paths = tuple(one.path for one in sorted(changes, key=_is_new)[:FIRST_PATHS])
        return Changed(len(changes), paths, added, removed)

    def outside(
        self,
        before: str,
        after: str,
        scope: Sequence[str],
        others: Iterable[Sequence[str]] = (),
    ) -> tuple[str, ...]:
        """Return changed paths that are outside the scope and outside the scopes of other runs, at
        most `MOST_PATHS`."""
        with self.using():
            changes = self._changes(before, after)
        allowed = [scope, *others]
        return tuple(one.path for one in changes if not _in_any_scope(one.path, allowed))[
            :MOST_PATHS
        ]

    def inside(self, before: str, after: str, scope: Sequence[str]) -> tuple[str, ...]:
        """Return all changed paths within the scope."""
        with self.using():
            changes = self._changes(before, after)
        return tuple(one.path for one in changes if within(one.path, scope))

    def matching(self, before: str, after: str, patterns: Patterns) -> tuple[str, ...]:
        """Return the changed paths that match the patterns."""
        with self.using():
            changes = self._changes(before, after)
        return tuple(one.path for one in changes if patterns.cover(os.fsencode(one.path)))

    def changed_paths(self, before: str | None, after: str) -> tuple[str, ...]:
        """Return all paths that differ between two project ids; nothing without the first."""
        if before is None or before == after:
            return ()
        with self.using():
            return tuple(one.path for one in self._changes(before, after))

    def paths(self, id: str) -> frozenset[str]:
        """Return the paths of all files of a snapshot."""
        with self.using():
            return frozenset(one.path for one in list_tree(self.git, self.files, id))

    def new_links(self, before: str, after: str) -> tuple[NewLink, ...]:
        """Return the links that are new in the second snapshot, or lead elsewhere since the first."""
        with self.using():
            changes = self._changes(before, after)
            links = {one.path: one.after for one in changes if one.mode == LINK.decode()}
            texts = read_all(self.git, self.files, links.values())
        gone = [one.path for one in changes if one.status == "D"]
        changed = {one.path for one in changes if one.status in ("M", "T")}
        return tuple(
            NewLink(
                path,
                os.fsdecode(texts[id]),
                path in changed or any(is_inside(one, path) for one in gone),
            )
            for path, id in links.items()
        )

    def guard_changes(
        self, reference: str, guard: str, *, existing_only: bool = False
    ) -> tuple[PathChange, ...]:
        """Return protected paths that differ between two guards, at most `MOST_PATHS`; with
        `existing_only`, no added ones."""
        if reference == guard:
            return ()
        with self.using():
            changes = compare(self.guard(reference), self.guard(guard))
        return tuple(to_undo(changes, existing_only))[:MOST_PATHS]

    def guarded(self, reference: str) -> frozenset[str]:
        """Return the protected paths of a guard."""
        with self.using():
            return frozenset(self.guard(reference).paths)

    def unchanged(self, first: str, reference: str) -> dict[str, str]:
        """Return the protected files of a guard that have the same content in the snapshot `first`,
        with the ids of that."""
        with self.using():
            before = self.guard_of_tree(first).paths
            now = self.guard(reference).paths
        return {
            path: one.id
            for path, one in now.items()
            if one.id and (was := before.get(path)) and (was.kind, was.id) == (one.kind, one.id)
        }

    def committed(self, rules: Rules, reference: str) -> tuple[str, ...]:
        """Return protected paths whose content in the current commit is not that of the reference,
        at most `MOST_PATHS`; none if no commit was made since the start.

        Only paths that differ from the commit at the start count, because a filter or line-ending
        conversion can make a file differ from every commit.
        """
        head = head_of(self.git, self.project)
        if head is None or head == rules.head:
            return ()
        words = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--relative"]
        nothing = EMPTY_TREE.hex() if len(head) == SHA1_CHARS else LONG_EMPTY_TREE
        answer = self.git.read(self.project, [*words, rules.head or nothing, head])
        if answer.code != 0:  # the first commit may be gone: amended, and then garbage collected
            answer = self.git.read(self.project, [*words, nothing, head])
        if answer.code != 0:
            raise StoreError(f"git cannot compare commits: {answer.complaint}")
        with self.using():
            kept = self.guard(reference).paths
            protected = rules.protected()
            changes = [
                one
                for one in parse_raw(answer.out)
                if one.path in kept or is_protected(protected, one.path)
            ]
            before = {one.path: kept[one.path].id for one in changes if one.path in kept}
            if len(head) != SHA1_CHARS:
                before = self._long_ids(before)
        found = (one.path for one in changes if one.content != before.get(one.path, ""))
        return tuple(found)[:MOST_PATHS]

    def _long_ids(self, ids: Mapping[str, str]) -> dict[str, str]:
        """Return the ids that the content of these paths has in a repository with SHA-256; for
        content that is not stored, one that nothing has."""
        known = {id for id in ids.values() if id and not self.is_unstored(id)}
        long = {"": ""}

        def take(id: str, data: bytes) -> None:
            long[id] = hashlib.sha256(b"blob %d\0" % len(data) + data).hexdigest()

        read_objects(self.git, self.files, known, take)
        return {path: long.get(id, UNKNOWN) for path, id in ids.items()}

    def _changes(self, before: str, after: str) -> list[RawChange]:
        return list_changes(self.git, self.files, before, after)

    def _count_lines(
        self,
        before: str,
        after: str,
        changes: Sequence[RawChange],
        everything: Sequence[RawChange],
    ) -> tuple[int, int]:
        """Return the numbers of added and removed lines in these files; unstored content counts as
        none. Git must not read it in other files either: `everything` that has changed."""
        if not changes:
            return 0, 0
        words = ["diff-tree", "-r", "-z", "--numstat", "--no-renames", before, after, "--"]
        wanted = {one.path for one in changes}
        added = removed = 0
        for line in run_git(self.git, self.files, [*words, *self._pathspecs(everything)]).split(
            b"\0"
        ):
            counts = os.fsdecode(line).split("\t", 2)
            if len(counts) == 3 and counts[2] in wanted and counts[0] != "-":
                added, removed = added + int(counts[0]), removed + int(counts[1])
        return added, removed

    def _pathspecs(self, changes: Iterable[RawChange]) -> list[str]:
        """Return pathspecs that exclude files whose content is not stored; none if all are."""
        paths = [one.path for one in changes if self._is_change_unstored(one)]
        return [":(top)", *(f":(top,exclude,literal){path}" for path in paths)] if paths else []

    def _is_change_unstored(self, change: RawChange) -> bool:
        return self.is_unstored(change.before) or self.is_unstored(change.after)

    def guard(self, id: str) -> Guard:
        """Return the guard with this id, from memory or from the store, whose lock must be held
        (`using`).

        Raises `StoreError` if it is missing or damaged.
        """
        found = self._guard_cache.get(id)
        if found is None:
            name = f"{id}:{LIST.decode()}"
            found = decode(read_all(self.git, self.files, [name])[name])
            self._cache_guard(id, found)
        return found

    def _cache_guard(self, id: str, guard: Guard) -> None:
        """Keep a guard in memory; drop the oldest one if there are too many."""
        self._guard_cache.pop(id, None)
        self._guard_cache[id] = guard
        if len(self._guard_cache) > MAX_LISTS:
            del self._guard_cache[next(iter(self._guard_cache))]

    def guard_of_tree(self, id: str) -> Guard:
        """Return the paths of a snapshot as a guard; the modes of directories are unknown. The
        store's lock must be held."""
        modes = self.modes(id)
        found: dict[str, Guarded] = {}
        for one in list_tree(self.git, self.files, id):
            if one.mode == LINK.decode():
                found[one.path] = Guarded(one.path, "link", stat.S_IFLNK, one.id)
            else:
                mode = modes.of(one.path, one.mode == PROGRAM.decode())
                found[one.path] = Guarded(one.path, "file", mode, one.id)
        return with_directories(found)

    def versions(self, id: str) -> dict[str, Version]:
        """Return the files and links of a snapshot, by path."""
        with self.using():
            found = self.guard_of_tree(id).paths
        return {
            path: Version("link" if one.kind == "link" else "file", one.mode, one.id)
            for path, one in found.items()
            if one.kind != "dir"
        }

    # ── reading ────────────────────────────────────────────────────────────────────────────────

    def read(self, id: str, path: str) -> StoredFile | None:
        """Return a file of a snapshot (`project` or `tree` id); None if it did not exist.

        Raises `StoreError` if it was too large to store.
        """
        with self.using():
            return self._read(id, path, self.modes(id))

    def read_guarded(self, guard: str, path: str) -> StoredFile | None:
        """Return a protected file as a guard has it; None if the guard has no such file.

        Raises `StoreError` if it was too large to store.
        """
        with self.using():
            one = self.guard(guard).paths.get(path)
            if one is None or one.kind not in ("file", "link"):
                return None
            return self.stored(path, one.kind == "link", one.mode, one.id)

    def _read(self, id: str, path: str, modes: Modes) -> StoredFile | None:
        """Return a file of a tree with its mode; None if it did not exist."""
        for one in list_tree(self.git, self.files, id, [path]):
            if one.path == path:
                mode = modes.of(path, one.mode == PROGRAM.decode())
                return self.stored(path, one.mode == LINK.decode(), mode, one.id)
        return None

    def stored(self, path: str, is_link: bool, mode: int, id: str) -> StoredFile:
        """Return stored content as a file; raise `StoreError` if it is not stored."""
        if self.is_unstored(id):
            raise StoreError(f"`{path_text(path)}` was {self.unstored(id).why}")
        data = read_all(self.git, self.files, [id])[id]
        return StoredFile(path, "link" if is_link else "file", stat.S_IMODE(mode), data)

    def diff(self, before: str, after: str, options: Sequence[str] = ()) -> bytes:
        """Return the difference as `git diff` prints it; `options` are git's, without paths.

        A file that is not stored is one line at the end.
        """
        words = ["diff", "--no-ext-diff", "--no-textconv", *options, before, after, "--"]
        with self.using():
            changes = self._changes(before, after)
            out = run_git(self.git, self.files, [*words, *self._pathspecs(changes)])
        for one in changes:
            if self._is_change_unstored(one):
                path = os.fsencode(one.path)
                missing = one.after if self.is_unstored(one.after) else one.before
                why = self.unstored(missing).why.encode()
                out += b"Binary files a/%s and b/%s differ (%s)\n" % (path, path, why)
        return out

    def listing(self, id: str) -> Iterator[ListedPath]:
        """Yield every path of a snapshot with its mode and the SHA-256 of its content."""
        with self.using():
            blobs = list(list_tree(self.git, self.files, id))
            hashes = {key.hex(): one.sha256 for key, one in self._unstored.items()}

            def take(name: str, data: bytes) -> None:
                hashes[name] = hashlib.sha256(data).hexdigest()

            read_objects(
                self.git, self.files, (one.id for one in blobs if one.id not in hashes), take
            )
        for one in blobs:
            yield ListedPath(one.path, one.mode, hashes[one.id])


def with_directories(files: Mapping[str, Guarded]) -> Guard:
    """Return these files and the directories above them as a guard; the modes of the directories
    are unknown."""
    found = dict(files)
    for path in set(parents(files)):
        found[path] = Guarded(path, "dir", UNKNOWN_MODE)
    return Guard(found)


def _is_new(change: RawChange) -> bool:
    return change.status == "A"


def _in_any_scope(path: str, scopes: Iterable[Sequence[str]]) -> bool:
    return any(within(path, scope) for scope in scopes)


def to_undo(
    changes: Iterable[PathChange], existing_only: bool, spare: Spare = spare_nothing
) -> list[PathChange]:
    """Select the changes to undo: not those to spared paths, and with `existing_only` no added
    paths."""
    return [
        one for one in changes if (not existing_only or one.kind != "added") and not spare(one.path)
    ]
