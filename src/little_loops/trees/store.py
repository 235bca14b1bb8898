"""The tree store of a project: take snapshots, and restore from them.

A store is a separate git directory outside the project. The user's repository is only read. Every
failure is raised as a `StoreError` with a message for the user, and a stop as `Interrupted`.

Not here: comparing snapshots and reading their files (`stored`), the clean copy (`copies`), packing
and pruning (`upkeep`).
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from little_loops.errors import StoreError
from little_loops.fsm.path_text import path_text
from little_loops.light_typing import Literal
from little_loops.system.files import failure, to_json
from little_loops.system.user_state import key_of
from little_loops.trees import files as store_files
from little_loops.trees import origins, upkeep
from little_loops.trees.content import NO_FILE, Bounds, Intake, Unstored
from little_loops.trees.files import StoreFiles, store_of
from little_loops.trees.git import Git, Interrupted
from little_loops.trees.guard import Guard, GuardWalk, compare, store_guard
from little_loops.trees.model import GuardOnly, PathChange, Restoration, Snapshot
from little_loops.trees.modes import START, save_modes
from little_loops.trees.objects import PackSet, PackWriter
from little_loops.trees.patterns import Patterns
from little_loops.trees.placing import OpenDirectory
from little_loops.trees.reading import RawChange, read_all, run_git
from little_loops.trees.repository_files import WORK_TREE_FILES
from little_loops.trees.restore import (
    NOT_READ,
    Repair,
    Spare,
    obstacles,
    remove_caches,
    remove_compiled,
    spare_nothing,
    unlock,
    unlock_changed,
)
from little_loops.trees.rules import (
    IGNORE_FILE,
    Rules,
    Surroundings,
    cache_test,
    ignore_file,
    ignore_files_above,
)
from little_loops.trees.start import read_rules, read_surroundings
from little_loops.trees.stored import LEFT_OUT_MARK, StoredTrees, to_undo, with_directories
from little_loops.trees.walk import NEVER_NS, ContentWalk, dump_seeds, load_seeds

MAX_PACKS = 50
"""Each snapshot with new content adds a pack, and lookups in many packs are slow."""
USUAL_BOUNDS = Bounds()
STATUSES: Mapping[str, Literal["changed", "added", "deleted"]] = {
    "A": "added",
    "D": "deleted",
    "M": "changed",
    "T": "changed",
}


class TreeStore(StoredTrees):
    """The store of one project, with what this process remembers about it."""

    def __init__(self, files: StoreFiles, id: str, git: Git, bounds: Bounds) -> None:
        super().__init__(files, id, git)
        self.bounds = bounds
        self._packs = PackSet(files.packs)
        self._packed = b""
        self._walks: dict[str, ContentWalk] = {}
        self._guards: dict[str, GuardWalk] = {}
        self._reported: set[str] = set()
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
        work_tree: str | None = None,
    ) -> TreeStore:
        """Open the project's store in the user's state directory `home`, creating it if `create`.

        With `work_tree`, a worktree of the project, snapshots are taken there. Raises `StoreError` if it is missing and not to be created, damaged, accessible to other
        users, or inside the project.
        """
        files = store_of(project, home)
        if not os.path.lexists(files.path):
            if not create:
                raise StoreError(
                    f"the tree store `{files.path}` is gone",
                    "the run cannot tell what has changed since it started; start a new run",
                )
            store_files.create(files)
        id = store_files.check(files)
        if work_tree is not None:
            files = files._replace(project=os.path.realpath(work_tree))
        return cls(files, id, git, bounds)

    @classmethod
    def open_for(cls, rules: Rules, home: str, git: Git) -> TreeStore:
        """Open the store of a run that has started. Raises `StoreError` as `open` does."""
        if not rules.owner:
            return cls.open(rules.project, home, git, create=False)
        return cls.open(rules.owner, home, git, create=False, work_tree=rules.project)

    # ── taking snapshots ───────────────────────────────────────────────────────────────────────

    def rules(
        self, run: str, scope: Sequence[str], protect: Sequence[str], *, around: bool = False
    ) -> Rules:
        """Read the facts that stay fixed for a run, when it starts, and store small ignored files.

        With `around`, also store the rest of the repository for a clean copy. Raises `StoreError`
        if the project is not in a git repository.
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

    def begin_work(self, rules: Rules, alive: Collection[str]) -> Rules:
        """Record that a run starts or continues to work, by `rules` that were just read; `alive`
        are the runs beside it. Return the rules with the ignored files that are yours."""

        def changed_since(path: str, since_ns: int) -> bool:
            return origins.changed_since(self.project, path, since_ns)

        with store_files.locked(self.files, self.git, alone=True):
            found = origins.found_by(rules)
            before = origins.read(self.files)
            record = origins.begin(before, found, rules.run, alive, changed_since)
            origins.write(self.files, record)
        with self.using():
            rules = origins.yours_only(rules, record, self._is_stored)
            self._record(rules.run, (one.id for one in rules.files))
        return rules

    def _is_stored(self, id: str) -> bool:
        return bytes.fromhex(id) in self._packs

    def end_work(self, run: str) -> None:
        """Record that the end or a pause of a run is recorded. Raises `StoreError`, and
        `Interrupted` on a stop."""
        now = read_rules(self.git, self.project, None, run=run, scope=(), protect=(), store=self.id)
        with store_files.locked(self.files, self.git, alone=True):
            before = origins.read(self.files)
            ended = origins.end(before, origins.found_by(now), run, time.time_ns())
            origins.write(self.files, ended)

    def ignored_now(self, rules: Rules, project: str) -> Patterns:
        """Return the ignore patterns of now, with the ignore files that the snapshot `project` has,
        for paths from the top of the repository. Raises `StoreError`."""
        with self.using():
            guard = self.guard_of_tree(project)
            found = {
                path.removesuffix(IGNORE_FILE): one.id
                for path, one in guard.paths.items()
                if one.kind == "file" and path.rpartition("/")[2] == IGNORE_FILE
            }
            stored = {path: id for path, id in found.items() if not self.is_unstored(id)}
            texts = read_all(self.git, self.files, stored.values())
        own = (ignore_file(rules.prefix + path, texts[stored[path]]) for path in sorted(stored))
        ignore = (*ignore_files_above(self.git, rules.project), *own)
        return rules._replace(ignore=ignore).ignored()

    def _surroundings(self, rules: Rules) -> Surroundings | None:
        """Store the rest of the repository around the project; return None if there is none, or too
        much of it."""
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

    def snapshot(
        self, rules: Rules, reference: str | None = None, reread_ns: int = NEVER_NS
    ) -> Snapshot:
        """Store the project's current content.

        `reference` is the guard that the protected paths will be compared with. The targets of its
        links are read, too, and everything in directories that it knows. Files that were changed at
        `reread_ns` or later are read even if they look unchanged since the last snapshot.
        """
        self._check_rules(rules)
        with self.using():
            before = None if reference is None else self.guard(reference)
            with self._writing() as intake:
                guard = self._take_guard(rules, intake, before)
                taken = self._take_content(rules, intake, reread_ns)
            self._record_snapshot(rules, *taken, guard)
        return self._finish_snapshot(rules, *taken, guard)

    def last_snapshot(
        self, rules: Rules, reference: str, git: Git, budget: int | None
    ) -> Snapshot | GuardOnly:
        """Take the snapshot at the end of a run: protected paths in any case, the rest if possible.

        `git` and `budget`, a number of bytes to read, limit the work on the rest; beyond them, only
        the guard is returned.
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
            self._record_snapshot(rules, *taken, guard)
        return self._finish_snapshot(rules, *taken, guard)

    def _take_guard(self, rules: Rules, intake: Intake, before: Guard | None) -> str:
        """Read and store the protected paths. Return the id of the guard."""
        found = self._read_guard(rules, intake, before)
        id = store_guard(found, intake.writer).hex()
        self._cache_guard(id, found)
        return id

    def _take_content(
        self, rules: Rules, intake: Intake, reread_ns: int = NEVER_NS
    ) -> tuple[str, str]:
        """Walk the project. Return the ids of its tree and of the part within the scope."""
        walk = self._walk_of(rules)
        return walk.take(intake, reread_ns).hex(), walk.scoped_tree(rules.scope).hex()

    def _record_snapshot(self, rules: Rules, project: str, tree: str, guard: str) -> None:
        """Record the ids of a snapshot for its run, and save the modes of its files."""
        start = self.files.place("modes", START + rules.run)
        if not os.path.exists(start):
            save_modes(start, self._walks[rules.run].files(), always=True)
        self._record(rules.run, (project, tree, guard))
        self._save_modes(self._walks[rules.run], project)

    def _finish_snapshot(self, rules: Rules, project: str, tree: str, guard: str) -> Snapshot:
        """Return a snapshot that was recorded; merge the packs first if there are too many."""
        if len(self._packs) > MAX_PACKS:
            self.pack()
        unstored = self._unstored_in(self._walks[rules.run], self._guard_cache[guard])
        return Snapshot(tree, project, guard, unstored, self._new_left_out(rules))

    def _check_rules(self, rules: Rules) -> None:
        """Raise `StoreError` if the run was started with another store."""
        if rules.store != self.id:
            raise StoreError(
                f"the tree store `{self.files.path}` is not the one this run started with",
                "the run cannot tell what has changed since it started; start a new run",
            )

    @contextmanager
    def _writing(self) -> Iterator[Intake]:
        """Yield an intake for new content, which is stored and flushed when the block ends.

        If the block fails, nothing is stored; an `OSError` is raised as `StoreError`.
        """
        writer = PackWriter(self.files.packs, self._packs, self.git.check)
        known = frozenset(self._unstored)
        try:
            yield Intake(writer, self._unstored, self.bounds, self.git)
            self._append_unstored(known)
            writer.finish()
        except BaseException as error:
            writer.abandon()
            self._walks.clear()  # they remember content that was not stored after all
            for id in self._unstored.keys() - known:
                del self._unstored[id]
            if isinstance(error, OSError):
                raise _failed(error, "take a snapshot of", self.project) from error
            raise

    @contextmanager
    def using(self) -> Iterator[None]:
        """Hold the store's shared lock, so that the packs stay in place; if they were rewritten
        since, forget what is remembered about them."""
        with super().using():
            packed = store_files.read(self.files.place("packed")) or b""
            if packed != self._packed:
                self._packs.forget()
                self._walks = {run: walk.restarted() for run, walk in self._walks.items()}
                self._packed = packed
            self._packs.refresh()
            for id in [id for id in self._unstored if id in self._packs]:
                del self._unstored[id]  # stored since
            yield

    def _walk_of(self, rules: Rules) -> ContentWalk:
        """Return the walk over the project's content for a run, creating it if needed."""
        walk = self._walks.get(rules.run)
        if walk is None:
            walk = ContentWalk(rules, load_seeds(store_files.read_json(self._times)))
            self._walks[rules.run] = walk
        return walk

    def _read_guard(
        self, rules: Rules, intake: Intake, reference: Guard | None, also: Iterable[str] = ()
    ) -> Guard:
        """Read the protected paths of a run, and `also` the given paths."""
        walk = self._guards.get(rules.run)
        if walk is None:
            walk = self._guards[rules.run] = GuardWalk(rules)
        return walk.take(intake, time.time_ns(), reference, also)

    def _new_left_out(self, rules: Rules) -> tuple[str, ...]:
        """Return a sentence for each path left out of the snapshot that this process has not
        reported before."""
        walk, guard = self._walks[rules.run], self._guards[rules.run]
        sentences = {
            path: f"`{path_text(path)}` is not part of the snapshot: {why}"
            for path, why in walk.left_out.items()
        }
        sentences |= {
            path: f"`{path_text(path)}` is not watched: {why}"
            for path, why in guard.left_out.items()
        }
        new = sorted(sentences.keys() - self._reported)
        self._reported.update(new)
        return tuple(sentences[path] for path in new)

    def special_files(self, rules: Rules) -> tuple[str, ...]:
        """Return the pipes, sockets and devices in the latest snapshot's directories that have the
        name of a file that git reads there."""
        left_out = self._walk_of(rules).left_out
        found = (path for path, why in left_out.items() if why == NO_FILE)
        return tuple(path for path in found if path.rpartition("/")[2] in WORK_TREE_FILES)

    @contextmanager
    def adding(
        self, of: Mapping[str, Iterable[str]], missing: Mapping[str, Unstored]
    ) -> Iterator[Callable[[bytes, bytes], bytes]]:
        """Yield a function that adds an object, given its kind and content; at the end they are
        stored and recorded for the runs that `of` names. The store's lock must be held.

        `missing` is content that the objects refer to, and that is not among them.
        """
        with self._writing() as intake:
            yield intake.writer.add
            for id, one in missing.items():
                if not intake.writer.has(bytes.fromhex(id)):
                    self._unstored.setdefault(bytes.fromhex(id), one)
        for run, ids in of.items():
            self._record(run, ids)

    # Records beside the objects.

    def _record(self, run: str, ids: Iterable[str]) -> None:
        """Append ids to the run's record, which keeps their objects from being pruned."""
        new = [id for id in dict.fromkeys(ids) if (run, id) not in self._recorded]
        if new:
            lines = "".join(f"{id}\n" for id in new)
            store_files.append(self.files.place("runs", run), lines.encode("ascii"))
            self._recorded.update((run, id) for id in new)

    def keep(self, run: str, ids: Iterable[str]) -> None:
        """Keep the objects with these ids for as long as the run is kept."""
        self._record(run, ids)

    def _append_unstored(self, known: frozenset[bytes]) -> None:
        """Append content that is newly listed as unstored to the store's file."""
        new = self._unstored.keys() - known
        lines = [_unstored_line(id.hex(), self._unstored[id]) for id in new]
        if lines:
            store_files.append(self.files.place("unstored"), "".join(lines).encode("ascii"))

    def _unstored_in(self, walk: ContentWalk, guard: Guard) -> tuple[str, ...]:
        """Return the paths of a snapshot whose content is not stored."""
        if not self._unstored:
            return ()
        found = {path for path, entry in walk.files() if entry[5] in self._unstored}
        found |= {one.path for one in guard.paths.values() if self.is_unstored(one.id)}
        return tuple(sorted(found))

    def save_times(self, rules: Rules) -> None:
        """Save the times of files, so that the next process need not read unchanged files; do
        nothing if the run took no snapshot here."""
        walk = self._walks.get(rules.run)
        if walk is not None:
            store_files.replace(self._times, to_json(dump_seeds(walk.seeds())))

    @property
    def _times(self) -> str:
        own = key_of(self.project)
        is_ours = os.path.basename(self.files.path) == own
        return self.files.place("times.json" if is_ours else f"times-{own}.json")

    def _save_modes(self, walk: ContentWalk, project: str) -> None:
        """Save the modes of a snapshot's files, unless that was done since the last change."""
        if self._saved.get(project) != walk.version:
            save_modes(self.files.place("modes", project), walk.files())
            self._saved[project] = walk.version

    # ── restoring ───────────────────────────────────────────────────────────────────────────

    def restore(
        self,
        rules: Rules,
        reference: str,
        *,
        existing_only: bool = False,
        spare: Spare = spare_nothing,
    ) -> Restoration:
        """Restore protected paths from the reference, except those for which `spare` is true. What
        is replaced is stored first.

        With `existing_only`, added paths are kept. The result names the paths that could not be
        restored.
        """
        self._check_rules(rules)
        with self.using():
            before = self.guard(reference)

            def changed(now: Guard) -> list[PathChange]:
                return to_undo(compare(before, now), existing_only, spare)

            now, kept = self._back_up(rules, before, spare, changed)
            changes = changed(now)
            if not changes:
                return Restoration(kept=kept)
            contents = self._contents(before, [one.path for one in changes if one.kind != "added"])
            with self._open_project() as ground:
                repair = Repair(ground, before, now, contents, cache_test(rules), self.why_unstored)
                repair.run(changes)
            with self._writing() as intake:
                after = self._read_guard(rules, intake, before)
        failed = repair.failed
        for one in changed(after):
            failed.setdefault(one.path, "it was changed again while it was being restored")
        return _restoration([one.path for one in changes], failed, kept)

    def _back_up(
        self,
        rules: Rules,
        before: Guard,
        spare: Spare,
        changed: Callable[[Guard], list[PathChange]],
    ) -> tuple[Guard, str]:
        """Store what is about to be replaced, after making it readable. Return the current guard
        and its id."""
        with self._open_project() as ground, self._writing() as intake:
            unlock(ground, before, spare)
            now = self._read_guard(rules, intake, before)
            in_the_way = obstacles(ground, before, now)
            is_locked = unlock_changed(ground, before, now, changed(now))
            if in_the_way or is_locked:
                now = self._read_guard(rules, intake, before, in_the_way)
            kept = store_guard(now, intake.writer).hex()
        self._record(rules.run, [kept])
        return now, kept

    def _open_project(self) -> OpenDirectory:
        """Open the project to change files in it. Raises `StoreError`."""
        try:
            return OpenDirectory(self.project)
        except OSError as error:
            raise _failed(error, "open", self.project) from error

    def _contents(self, guard: Guard, paths: Iterable[str]) -> dict[str, bytes]:
        """Return the stored content of these paths, by id; content that was too large is left
        out."""
        ids = [guard.paths[path].id for path in paths]
        known = [id for id in ids if id and not self.is_unstored(id)]
        return read_all(self.git, self.files, known)

    def put_back(
        self, rules: Rules, project: str, paths: Sequence[str], patch: str | None = None
    ) -> Restoration:
        """Restore these files from the snapshot `project`, as far as they differ from it. What is
        replaced is stored first, and the difference written to the file `patch` if one is given.

        The result names the paths that could not be restored.
        """
        self._check_rules(rules)
        wanted = frozenset(paths)
        with self.using(), self._open_project() as ground:
            kept, changes = self._changes_since(rules, project, wanted)
            if _unlock_hidden(ground, changes):
                kept, changes = self._changes_since(rules, project, wanted)
            if patch is not None:
                self._write_patch(project, kept, changes, patch)
            hidden = {one.path: NOT_READ for one in _hidden(ground, changes)}
            changes = [one for one in changes if one.path not in hidden]
            before = self.guard_of_tree(project)
            now = self.guard_of_tree(kept)
            contents = self._contents(before, [one.path for one in changes if one.status != "A"])
            repair = Repair(ground, before, now, contents, cache_test(rules), self.why_unstored)
            repair.run([PathChange(one.path, STATUSES[one.status]) for one in changes])
        return _restoration([one.path for one in changes], {**hidden, **repair.failed}, kept)

    def _changes_since(
        self, rules: Rules, project: str, wanted: Collection[str]
    ) -> tuple[str, list[RawChange]]:
        """Store the current content. Return its id, and how these paths differ from a snapshot."""
        with self._writing() as intake:
            kept = self._walk_of(rules).take(intake).hex()
        self._record(rules.run, [kept])
        return kept, [one for one in self._changes(project, kept) if one.path in wanted]

    def move(self, rules: Rules, now: str, wanted: Mapping[str, str]) -> Restoration:
        """Change files from the snapshot `now`, which has just been taken, to how the snapshot that
        each path is mapped to has them. A path that it does not have is removed.

        Nothing else is changed, not even a cache in a directory that becomes empty otherwise. The
        result names the paths that could not be changed.
        """
        self._check_rules(rules)
        with self.using():
            before = self.guard_of_tree(now)
            sources = {id: self.guard_of_tree(id).paths for id in set(wanted.values())}
            files = {path: one for path, one in before.paths.items() if one.kind != "dir"}
            for path, id in wanted.items():
                if (one := sources[id].get(path)) is not None and one.kind != "dir":
                    files[path] = one
                else:
                    files.pop(path, None)
            after = with_directories(files)
            changes = [_path_change(path, before, after) for path in sorted(wanted)]
            contents = self._contents(after, [one.path for one in changes if one.kind != "added"])
            with self._open_project() as ground:
                repair = Repair(ground, after, before, contents, _is_no_cache, self.why_unstored)
                repair.run(changes)
        return _restoration([one.path for one in changes], repair.failed, now)

    def write_patch(self, before: str, after: str, paths: Collection[str], patch: str) -> None:
        """Write how these paths differ between two snapshots to the file `patch`, without content
        that is not stored; no file if nothing is left."""
        with self.using():
            changes = [one for one in self._changes(before, after) if one.path in paths]
            self._write_patch(before, after, changes, patch)

    def _write_patch(
        self, before: str, after: str, changes: Sequence[RawChange], patch: str
    ) -> None:
        """Write the difference of the changed files as a binary patch, without unstored ones; no
        file if none is left."""
        paths = [one.path for one in changes if not self._is_change_unstored(one)]
        if not paths:
            return
        words = ["diff", "--binary", "--no-renames", "--no-ext-diff", "--no-textconv"]
        out = bytearray()
        for some in _batches(paths):
            out += run_git(self.git, self.files, [*words, before, after, "--", *some])
        store_files.replace(patch, bytes(out), sync=True)

    def remove_caches(self, rules: Rules, reference: str, since_ns: int) -> tuple[str, ...]:
        """Remove caches in and beside protected paths, before a check, and what was compiled since
        `since_ns` anywhere in the project. Return their paths. Raises `StoreError`."""
        is_cache = cache_test(rules)
        with self.using():
            guard = self.guard(reference)
            folders = ["", *self._refreshed_walk(rules).folders()]
        with self._open_project() as ground:
            try:
                removed = remove_caches(ground, guard, is_cache)
                return (*removed, *remove_compiled(ground, folders, is_cache, since_ns))
            except OSError as error:
                raise _failed(error, "remove the caches of", self.project) from error

    def _refreshed_walk(self, rules: Rules) -> ContentWalk:
        """Return the walk of a run; if it is new in this process, scan the project first, so that it
        has the directories."""
        walk = self._walk_of(rules)
        if walk.is_new:
            with self._writing() as intake:
                walk.refresh(intake)
        return walk

    # ── upkeep ─────────────────────────────────────────────────────────────────────────────────

    def pack(self) -> None:
        """Merge all packs into one, when a run has ended."""
        upkeep.pack(self.files, self.git)

    def prune(self, cap_bytes: int, keep: Callable[[], Collection[str]]) -> tuple[str, ...]:
        """Forget the oldest runs if the store is too large, but none in `keep`. Return them."""
        return upkeep.prune(self.files, self.git, cap_bytes, keep)


def _path_change(path: str, now: Guard, reference: Guard) -> PathChange:
    """Return how a path has changed since the reference, to which it is to be restored."""
    if path not in reference.paths or reference.paths[path].kind == "dir":
        return PathChange(path, "added")
    return PathChange(path, "changed" if path in now.paths else "deleted")


def _is_no_cache(path: str) -> bool:
    return False


def _unstored_line(id: str, one: Unstored) -> str:
    mark = f" {LEFT_OUT_MARK}" if one.is_left_out else ""
    return f"{id} {one.size} {one.sha256}{mark}\n"


def _hidden(ground: OpenDirectory, changes: Iterable[RawChange]) -> list[RawChange]:
    """Return the changes that look like deletions because the path can no longer be read."""
    return [one for one in changes if one.status == "D" and _is_file(ground, one.path)]


def _is_file(ground: OpenDirectory, path: str) -> bool:
    info = ground.lstat(path)
    return info is not None and stat.S_ISREG(info.st_mode)


def _unlock_hidden(ground: OpenDirectory, changes: Iterable[RawChange]) -> bool:
    """Make files readable that could not be stored, as far as possible. Return whether there were
    any."""
    hidden = _hidden(ground, changes)
    for one in hidden:
        with suppress(OSError):  # reported when it cannot be restored
            ground.unlock(one.path)
    return bool(hidden)


def _restoration(paths: Sequence[str], failed: Mapping[str, str], kept: str) -> Restoration:
    """Return the result of a restoration from the changed paths and the failures."""
    done = tuple(path for path in paths if path not in failed)
    not_done = tuple(f"{path_text(path)}: {why}" for path, why in sorted(failed.items()))
    return Restoration(done, not_done, kept)


def _failed(error: OSError, doing: str, path: str) -> StoreError:
    plain = failure(error, doing, path)
    return StoreError(plain.message, plain.help)


def _batches(paths: Sequence[str], size: int = 500) -> Iterator[list[str]]:
    """Yield pathspecs for the paths, at most `size` at a time."""
    for at in range(0, len(paths), size):
        yield [f":(top,literal){path}" for path in paths[at : at + size]]
