"""The tree store of a project: take snapshots, compare them, put things back, read what was.

A store is a git directory of its own outside the project.  The user's repository is only read.  Every
failure leaves as a `StoreError` in words; work that was ended early as `Interrupted`.

Not here: the clean copy (`copies`), packing and pruning (`upkeep`).
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal

from little_loops.errors import StoreError
from little_loops.fsm.path_text import path_text
from little_loops.system.files import failure, to_json
from little_loops.trees import files as store_files
from little_loops.trees import upkeep
from little_loops.trees.content import Bounds, Intake, Unstored
from little_loops.trees.files import StoreFiles, locked, store_of
from little_loops.trees.git import Git, Interrupted
from little_loops.trees.guard import (
    LIST,
    Guard,
    Guarded,
    GuardWalk,
    compare,
    decode,
    is_protected,
    store_guard,
)
from little_loops.trees.model import (
    Changed,
    GuardOnly,
    Listed,
    PathChange,
    Restoration,
    Snapshot,
    StoredFile,
)
from little_loops.trees.modes import Modes, load_modes, save_modes
from little_loops.trees.objects import EMPTY_TREE, LINK, PROGRAM, PackSet, PackWriter
from little_loops.trees.patterns import Patterns
from little_loops.trees.placing import OpenDirectory
from little_loops.trees.reading import (
    RawChange,
    ask,
    list_changes,
    list_tree,
    parse_raw,
    read_all,
    read_objects,
)
from little_loops.trees.restore import (
    TOO_LARGE,
    UNKNOWN_MODE,
    Repair,
    Spare,
    kill_everything,
    obstacles,
    remove_caches,
    unlock,
    unlock_changed,
)
from little_loops.trees.rules import Rules, Surroundings, cache_test, head_of, parents, within
from little_loops.trees.start import read_rules, read_surroundings
from little_loops.trees.walk import ContentWalk, dump_seeds, load_seeds

FIRST_PATHS = 20
MAX_PACKS = 50
"""Every snapshot that finds something new adds a pack; with too many, looking into them is slow."""
MOST_PATHS = 1000
MAX_LISTS = 16
USUAL_BOUNDS = Bounds()
STATUSES: Mapping[str, Literal["changed", "added", "deleted"]] = {
    "A": "added",
    "D": "deleted",
    "M": "changed",
    "T": "changed",
}


class TreeStore:
    """The store of one project, as one process uses it."""

    def __init__(self, files: StoreFiles, id: str, git: Git, bounds: Bounds) -> None:
        self.files = files
        self.id = id
        self.git = git
        self.bounds = bounds
        self._packs = PackSet(files.packs)
        self._packed = b""
        self._unstored: dict[bytes, Unstored] = {}
        self._walks: dict[str, ContentWalk] = {}
        self._guards: dict[str, GuardWalk] = {}
        self._lists: dict[str, Guard] = {}
        self._named: set[str] = set()
        self._recorded: set[tuple[str, str]] = set()
        self._saved: dict[str, int] = {}

    @classmethod
    def open(
        cls,
        project: str,
        home: str,
        git: Git,
        *,
        create: bool = True,
        bounds: Bounds = USUAL_BOUNDS,
    ) -> TreeStore:
        """The project's store in the user's state directory; made, if `create` says so."""
        files = store_of(project, home)
        if not os.path.lexists(files.path):
            if not create:
                raise StoreError(
                    f"the tree store `{files.path}` is gone",
                    "the run cannot tell what has changed since it started; start a new run",
                )
            store_files.create(files)
        return cls(files, store_files.check(files), git, bounds)

    @property
    def project(self) -> str:
        return self.files.project

    # ── taking snapshots ───────────────────────────────────────────────────────────────────────

    def rules(
        self, run: str, scope: Sequence[str], protect: Sequence[str], *, around: bool = False
    ) -> Rules:
        """Read at the start of a run what stays fixed for all of it.

        With `around`, also what a clean copy needs of the repository around the project.
        """
        with self.using():
            with self._writing() as intake:
                rules = read_rules(
                    self.git,
                    self.project,
                    intake,
                    run=run,
                    scope=scope,
                    protect=protect,
                    store=self.id,
                )
            self._record(run, (one.id for one in rules.files))
            return rules._replace(around=self._surroundings(rules)) if around else rules

    def _surroundings(self, rules: Rules) -> Surroundings | None:
        with self._writing() as intake:
            home = os.path.dirname(os.path.dirname(self.files.path))
            rest = read_surroundings(self.git, rules, intake, os.path.realpath(home))
            if rest is None:
                return None
            times = self.files.place("times-around.json")
            walk = ContentWalk(rest, load_seeds(store_files.read_json(times)))
            tree = walk.take(intake).hex()
        self._record(rules.run, (tree, *(one.id for one in rest.files)))
        save_modes(self.files.place("modes", tree), walk.files())
        store_files.replace(times, to_json(dump_seeds(walk.seeds())))
        return Surroundings(tree, rest)

    def snapshot(self, rules: Rules, reference: str | None = None) -> Snapshot:
        """Store the project as it is now.

        `reference` is the guard that protected paths will be compared with: what its links lead to
        is looked at, too, and what lies in directories that it knows.
        """
        self._check_rules(rules)
        with self.using():
            before = None if reference is None else self.guard(reference)
            with self._writing() as intake:
                guard = self._take_guard(rules, intake, before)
                taken = self._take_content(rules, intake)
            self._keep_ids(rules, *taken, guard)
        return self._snapshot(rules, *taken, guard)

    def last_snapshot(
        self, rules: Rules, reference: str, git: Git, budget: int | None
    ) -> Snapshot | GuardOnly:
        """The same for a run that ends: protected paths in any case, the rest as `git` allows.

        `budget`: how much of the rest may be read.
        """
        self._check_rules(rules)
        with self.using():
            with self._writing() as intake:
                guard = self._take_guard(rules, intake, self.guard(reference))
            self._record(rules.run, (guard,))
            try:
                with self._writing() as intake:
                    intake.check, intake.budget = git.check, budget
                    taken = self._take_content(rules, intake)
            except Interrupted:
                return GuardOnly(guard)
            self._keep_ids(rules, *taken, guard)
        return self._snapshot(rules, *taken, guard)

    def _take_guard(self, rules: Rules, intake: Intake, before: Guard | None) -> str:
        found = self._look(rules, intake, before)
        id = store_guard(found, intake.writer).hex()
        self._remember(id, found)
        return id

    def _take_content(self, rules: Rules, intake: Intake) -> tuple[str, str]:
        """The ids of the project and of the part within the scope."""
        walk = self._walk(rules)
        return walk.take(intake).hex(), walk.part(rules.scope).hex()

    def _keep_ids(self, rules: Rules, project: str, tree: str, guard: str) -> None:
        self._record(rules.run, (project, tree, guard))
        self._save_modes(self._walks[rules.run], project)

    def _snapshot(self, rules: Rules, project: str, tree: str, guard: str) -> Snapshot:
        if len(self._packs) > MAX_PACKS:
            self.pack()
        unstored = self._unstored_in(self._walks[rules.run], self._lists[guard])
        return Snapshot(tree, project, guard, unstored, self._left_out(rules))

    def _check_rules(self, rules: Rules) -> None:
        if rules.store != self.id:
            raise StoreError(
                f"the tree store `{self.files.path}` is not the one this run started with",
                "the run cannot tell what has changed since it started; start a new run",
            )

    @contextmanager
    def _writing(self) -> Iterator[Intake]:
        """New content is in the store, synced, when the block has ended."""
        writer = PackWriter(self.files.packs, self._packs, self.git.check)
        known = frozenset(self._unstored)
        try:
            yield Intake(writer, self._unstored, self.bounds, self.git)
            self._note_unstored(known)
            writer.finish()
        except BaseException as error:
            writer.abandon()
            self._walks.clear()  # they believe that everything they read was stored
            for id in self._unstored.keys() - known:
                del self._unstored[id]
            if isinstance(error, OSError):
                raise _failed(error, "take a snapshot of", self.project) from error
            raise

    @contextmanager
    def using(self) -> Iterator[None]:
        """Keep the packs where they are for as long as they are used."""
        self.git.check()
        if store_files.check(self.files) != self.id:
            raise StoreError(f"the tree store `{self.files.path}` was replaced by another one")
        with locked(self.files, self.git):
            packed = store_files.read(self.files.place("packed")) or b""
            if packed != self._packed:
                self._packs.forget()
                self._walks = {run: walk.again() for run, walk in self._walks.items()}
                self._packed = packed
            self._packs.refresh()
            self._load_unstored()
            yield

    def _walk(self, rules: Rules) -> ContentWalk:
        walk = self._walks.get(rules.run)
        if walk is None:
            walk = ContentWalk(rules, load_seeds(store_files.read_json(self._times)))
            self._walks[rules.run] = walk
        return walk

    def _look(
        self, rules: Rules, intake: Intake, reference: Guard | None, also: Iterable[str] = ()
    ) -> Guard:
        walk = self._guards.get(rules.run)
        if walk is None:
            walk = self._guards[rules.run] = GuardWalk(rules)
        return walk.take(intake, time.time_ns(), reference, also)

    def _left_out(self, rules: Rules) -> tuple[str, ...]:
        """Named once."""
        walk, guard = self._walks[rules.run], self._guards[rules.run]
        said = {
            path: f"`{path_text(path)}` is not part of the snapshot: {why}"
            for path, why in walk.left_out.items()
        }
        said |= {
            path: f"`{path_text(path)}` is not watched: {why}"
            for path, why in guard.left_out.items()
        }
        new = sorted(said.keys() - self._named)
        self._named.update(new)
        return tuple(said[path] for path in new)

    # What is remembered beside the objects.

    def _record(self, run: str, ids: Iterable[str]) -> None:
        """The ids of a run keep its objects from being pruned."""
        new = [id for id in dict.fromkeys(ids) if (run, id) not in self._recorded]
        if new:
            lines = "".join(f"{id}\n" for id in new)
            store_files.append(self.files.place("runs", run), lines.encode("ascii"))
            self._recorded.update((run, id) for id in new)

    def _load_unstored(self) -> None:
        if self._unstored:
            return
        for line in (store_files.read(self.files.place("unstored")) or b"").splitlines():
            parts = line.decode("ascii", "replace").split(" ")
            if len(parts) == 3:
                self._unstored[bytes.fromhex(parts[0])] = Unstored(int(parts[1]), parts[2])

    def _note_unstored(self, known: frozenset[bytes]) -> None:
        new = self._unstored.keys() - known
        lines = [
            f"{id.hex()} {self._unstored[id].size} {self._unstored[id].sha256}\n" for id in new
        ]
        if lines:
            store_files.append(self.files.place("unstored"), "".join(lines).encode("ascii"))

    def _unstored_in(self, walk: ContentWalk, guard: Guard) -> tuple[str, ...]:
        if not self._unstored:
            return ()
        found = {path for path, entry in walk.files() if entry[5] in self._unstored}
        found |= {one.path for one in guard.paths.values() if self.is_unstored(one.id)}
        return tuple(sorted(found))

    def is_unstored(self, id: str) -> bool:
        return bool(id) and bytes.fromhex(id) in self._unstored

    def save_times(self, rules: Rules) -> None:
        """Spare the next process of this project reading everything again."""
        walk = self._walks.get(rules.run)
        if walk is not None:
            store_files.replace(self._times, to_json(dump_seeds(walk.seeds())))

    @property
    def _times(self) -> str:
        return self.files.place("times.json")

    def _save_modes(self, walk: ContentWalk, project: str) -> None:
        if self._saved.get(project) != walk.version:
            save_modes(self.files.place("modes", project), walk.files())
            self._saved[project] = walk.version

    def modes(self, project: str) -> Modes:
        """All permission bits of a snapshot's files."""
        return load_modes(self.files.place("modes", project))

    # ── comparing ──────────────────────────────────────────────────────────────────────────────

    def changed(self, before: str, after: str, scope: Sequence[str] = (".",)) -> Changed:
        """What differs between two project ids (or tree ids) within a scope."""
        with self.using():
            changes = [one for one in self._changes(before, after) if within(one.path, scope)]
            added, removed = self._lines(before, after, changes)
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
        """Paths outside the scope that differ, and that no other run's scope accounts for."""
        with self.using():
            changes = self._changes(before, after)
        allowed = [scope, *others]
        return tuple(one.path for one in changes if not _is_of(one.path, allowed))[:MOST_PATHS]

    def matching(self, before: str, after: str, patterns: Patterns) -> tuple[str, ...]:
        """Paths that differ and match."""
        with self.using():
            changes = self._changes(before, after)
        return tuple(one.path for one in changes if patterns.cover(os.fsencode(one.path)))

    def guard_changes(
        self, reference: str, guard: str, *, existing_only: bool = False
    ) -> tuple[PathChange, ...]:
        """Protected paths that differ from their reference; with `existing_only`, none that are new."""
        if reference == guard:
            return ()
        with self.using():
            changes = compare(self.guard(reference), self.guard(guard))
        return tuple(_wanted(changes, existing_only))[:MOST_PATHS]

    def guarded(self, reference: str) -> frozenset[str]:
        """The protected paths that a guard knows."""
        with self.using():
            return frozenset(self.guard(reference).paths)

    def committed(self, rules: Rules, reference: str) -> tuple[str, ...]:
        """Protected paths that the commit checked out now has otherwise than their reference.

        Only those that differ from the commit at the start: a filter or the line ends of a checkout
        can make a file differ from every commit.
        """
        head = head_of(self.git, self.project)
        if head is None or head == rules.head:
            return ()
        words = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--relative"]
        answer = self.git.read(self.project, [*words, rules.head or EMPTY_TREE.hex(), head])
        if answer.code != 0:  # the commit of the start may be gone: amended, and garbage collected
            answer = self.git.read(self.project, [*words, EMPTY_TREE.hex(), head])
        if answer.code != 0:
            raise StoreError(f"git cannot compare commits: {answer.complaint}")
        with self.using():
            kept = self.guard(reference).paths
        protected = rules.protected()
        found = []
        for change in parse_raw(answer.out):
            before = kept.get(change.path)
            if before is None and not is_protected(protected, change.path):
                continue
            if change.after.strip("0") != (before.id if before else ""):
                found.append(change.path)
        return tuple(found)[:MOST_PATHS]

    def _changes(self, before: str, after: str) -> list[RawChange]:
        return list_changes(self.git, self.files, before, after)

    def _lines(self, before: str, after: str, changes: Sequence[RawChange]) -> tuple[int, int]:
        """Lines added and removed in these files; content that was not kept has none."""
        if not changes:
            return 0, 0
        words = ["diff-tree", "-r", "-z", "--numstat", "--no-renames", before, after, "--"]
        wanted = {one.path for one in changes}
        added = removed = 0
        for line in ask(self.git, self.files, [*words, *self._without(changes)]).split(b"\0"):
            counts = os.fsdecode(line).split("\t", 2)
            if len(counts) == 3 and counts[2] in wanted and counts[0] != "-":
                added, removed = added + int(counts[0]), removed + int(counts[1])
        return added, removed

    def _without(self, changes: Iterable[RawChange]) -> list[str]:
        """Pathspecs that leave out what git could not read."""
        paths = [one.path for one in changes if self._is_lost(one)]
        return [":(top)", *(f":(top,exclude,literal){path}" for path in paths)] if paths else []

    def _is_lost(self, change: RawChange) -> bool:
        return self.is_unstored(change.before) or self.is_unstored(change.after)

    def guard(self, id: str) -> Guard:
        found = self._lists.get(id)
        if found is None:
            name = f"{id}:{LIST.decode()}"
            found = decode(read_all(self.git, self.files, [name])[name])
            self._remember(id, found)
        return found

    def _remember(self, id: str, guard: Guard) -> None:
        self._lists.pop(id, None)
        self._lists[id] = guard
        if len(self._lists) > MAX_LISTS:
            del self._lists[next(iter(self._lists))]

    # ── putting back ───────────────────────────────────────────────────────────────────────────

    def restore(
        self,
        rules: Rules,
        reference: str,
        *,
        existing_only: bool = False,
        spare: Spare = kill_everything,
    ) -> Restoration:
        """Put protected paths back as the reference has them, but for those to `spare`."""
        self._check_rules(rules)
        with self.using():
            before = self.guard(reference)

            def wanted(now: Guard) -> list[PathChange]:
                return _wanted(compare(before, now), existing_only, spare)

            now, kept = self._keep(rules, before, spare, wanted)
            changes = wanted(now)
            if not changes:
                return Restoration(kept=kept)
            contents = self._contents(before, [one.path for one in changes if one.kind != "added"])
            with self._ground() as ground:
                repair = Repair(ground, before, now, contents, cache_test(rules), self.is_unstored)
                repair.run(changes)
            with self._writing() as intake:
                after = self._look(rules, intake, before)
        failed = repair.failed
        for one in wanted(after):
            failed.setdefault(one.path, "it was changed again while it was being restored")
        return _restoration([one.path for one in changes], failed, kept)

    def _keep(
        self,
        rules: Rules,
        before: Guard,
        spare: Spare,
        wanted: Callable[[Guard], list[PathChange]],
    ) -> tuple[Guard, str]:
        """Store what is about to be replaced."""
        with self._ground() as ground, self._writing() as intake:
            unlock(ground, before, spare)
            now = self._look(rules, intake, before)
            in_the_way = obstacles(ground, before, now)
            is_locked = unlock_changed(ground, before, now, wanted(now))
            if in_the_way or is_locked:
                now = self._look(rules, intake, before, in_the_way)
            kept = store_guard(now, intake.writer).hex()
        self._record(rules.run, [kept])
        return now, kept

    def _ground(self) -> OpenDirectory:
        try:
            return OpenDirectory(self.project)
        except OSError as error:
            raise _failed(error, "open", self.project) from error

    def _contents(self, guard: Guard, paths: Iterable[str]) -> dict[str, bytes]:
        ids = [guard.paths[path].id for path in paths]
        known = [id for id in ids if id and not self.is_unstored(id)]
        return read_all(self.git, self.files, known)

    def put_back(self, rules: Rules, project: str, paths: Sequence[str], patch: str) -> Restoration:
        """Put files back as a snapshot has them; what they were changed to is kept as a patch."""
        self._check_rules(rules)
        with self.using():
            walk = self._walk(rules)
            with self._writing() as intake:
                kept = walk.take(intake).hex()
            self._record(rules.run, [kept])
            wanted = frozenset(paths)
            changes = [one for one in self._changes(project, kept) if one.path in wanted]
            self._write_patch(project, kept, changes, patch)
            before = self.guard_of_tree(project)
            now = self.guard_of_tree(kept)
            contents = self._contents(before, [one.path for one in changes if one.status != "A"])
            with self._ground() as ground:
                repair = Repair(ground, before, now, contents, cache_test(rules), self.is_unstored)
                repair.run([PathChange(one.path, STATUSES[one.status]) for one in changes])
        return _restoration([one.path for one in changes], repair.failed, kept)

    def _write_patch(
        self, before: str, after: str, changes: Sequence[RawChange], patch: str
    ) -> None:
        paths = [one.path for one in changes if not self._is_lost(one)]
        if not paths:
            return
        words = ["diff", "--binary", "--no-renames", "--no-ext-diff", "--no-textconv"]
        out = bytearray()
        for some in _batches(paths):
            out += ask(self.git, self.files, [*words, before, after, "--", *some])
        store_files.replace(patch, bytes(out), sync=True)

    def guard_of_tree(self, id: str) -> Guard:
        """A snapshot as a list of paths; the permissions of directories are not known."""
        modes = self.modes(id)
        found: dict[str, Guarded] = {}
        for one in list_tree(self.git, self.files, id):
            if one.mode == LINK.decode():
                found[one.path] = Guarded(one.path, "link", stat.S_IFLNK, one.id)
            else:
                mode = modes.of(one.path, one.mode == PROGRAM.decode())
                found[one.path] = Guarded(one.path, "file", mode, one.id)
        for path in set(parents(found)):
            found[path] = Guarded(path, "dir", UNKNOWN_MODE)
        return Guard(found)

    def remove_caches(self, rules: Rules, reference: str) -> tuple[str, ...]:
        """Remove caches in and beside protected paths, before a check."""
        with self.using():
            guard = self.guard(reference)
        with self._ground() as ground:
            return tuple(remove_caches(ground, guard, cache_test(rules)))

    # ── reading ────────────────────────────────────────────────────────────────────────────────

    def read(self, id: str, path: str) -> StoredFile | None:
        """A file of a snapshot (`project` or `tree`); None if it was not there."""
        with self.using():
            return self._read(id, path, self.modes(id))

    def read_guarded(self, guard: str, path: str) -> StoredFile | None:
        """A protected file as a guard has it."""
        with self.using():
            one = self.guard(guard).paths.get(path)
            if one is None or one.kind not in ("file", "link"):
                return None
            return self.stored(path, one.kind == "link", one.mode, one.id)

    def _read(self, id: str, path: str, modes: Modes) -> StoredFile | None:
        for one in list_tree(self.git, self.files, id, [path]):
            if one.path == path:
                mode = modes.of(path, one.mode == PROGRAM.decode())
                return self.stored(path, one.mode == LINK.decode(), mode, one.id)
        return None

    def stored(self, path: str, is_link: bool, mode: int, id: str) -> StoredFile:
        if self.is_unstored(id):
            raise StoreError(f"`{path_text(path)}` was {TOO_LARGE}")
        data = read_all(self.git, self.files, [id])[id]
        return StoredFile(path, "link" if is_link else "file", stat.S_IMODE(mode), data)

    def diff(self, before: str, after: str, options: Sequence[str] = ()) -> bytes:
        """The difference as `git diff` prints it; `options` are git's, without paths."""
        words = ["diff", "--no-ext-diff", "--no-textconv", *options, before, after, "--"]
        with self.using():
            changes = self._changes(before, after)
            out = ask(self.git, self.files, [*words, *self._without(changes)])
        for one in changes:
            if self._is_lost(one):
                path = os.fsencode(one.path)
                out += b"Binary files a/%s and b/%s differ (%s)\n" % (
                    path,
                    path,
                    TOO_LARGE.encode(),
                )
        return out

    def listing(self, id: str) -> Iterator[Listed]:
        """Every path of a snapshot with its mode and the SHA-256 of its content."""
        with self.using():
            blobs = list(list_tree(self.git, self.files, id))
            hashes = {key.hex(): one.sha256 for key, one in self._unstored.items()}

            def take(name: str, data: bytes) -> None:
                hashes[name] = hashlib.sha256(data).hexdigest()

            read_objects(
                self.git, self.files, (one.id for one in blobs if one.id not in hashes), take
            )
        for one in blobs:
            yield Listed(one.path, one.mode, hashes[one.id])

    # ── upkeep ─────────────────────────────────────────────────────────────────────────────────

    def pack(self) -> None:
        """Make one pack of many, when a run has ended."""
        upkeep.pack(self.files, self.git)

    def prune(self, cap_bytes: int, keep: Iterable[str]) -> tuple[str, ...]:
        """Forget the oldest runs until the store is small enough; those that were forgotten."""
        return upkeep.prune(self.files, self.git, cap_bytes, frozenset(keep))


def _is_new(change: RawChange) -> bool:
    return change.status == "A"


def _is_of(path: str, scopes: Iterable[Sequence[str]]) -> bool:
    return any(within(path, scope) for scope in scopes)


def _wanted(
    changes: Iterable[PathChange], existing_only: bool, spare: Spare = kill_everything
) -> list[PathChange]:
    return [
        one for one in changes if (not existing_only or one.kind != "added") and not spare(one.path)
    ]


def _restoration(paths: Sequence[str], failed: Mapping[str, str], kept: str) -> Restoration:
    done = tuple(path for path in paths if path not in failed)
    not_done = tuple(f"{path_text(path)}: {why}" for path, why in sorted(failed.items()))
    return Restoration(done, not_done, kept)


def _failed(error: OSError, doing: str, path: str) -> StoreError:
    plain = failure(error, doing, path)
    return StoreError(plain.message, plain.help)


def _batches(paths: Sequence[str], size: int = 500) -> Iterator[list[str]]:
    for at in range(0, len(paths), size):
        yield [f":(top,literal){path}" for path in paths[at : at + size]]
