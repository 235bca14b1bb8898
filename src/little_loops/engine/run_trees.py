"""The trees of one run: its store, and what the start of the run fixed.

Not here: carrying out the commands on them (`evidence`, `copy_checks`), how content is stored
(`trees`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property

from little_loops.engine import interrupted_turns
from little_loops.engine.pinned_start import PinnedStart, read_file
from little_loops.engine.tree_space import shrink
from little_loops.errors import StoreError
from little_loops.fsm.evidence import turned_off, wants_evidence
from little_loops.fsm.makefiles import files_made
from little_loops.fsm.protection import (
    always_protected,
    make_calls,
    patterns_of_included,
    patterns_of_used,
    protected_by,
    unless_exempt,
    watched_by,
)
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.scope import overlaps
from little_loops.fsm.state import Blame, LoopState
from little_loops.fsm.timestamps import wall_ms_of
from little_loops.records import NamedTuple
from little_loops.relay.places import RelayPlaces, places_of
from little_loops.runs.claims import holders, nesting
from little_loops.runs.layout import CHILDREN, DATA, RULES, RUN_JSON, RUNNING, RunFiles
from little_loops.runs.neighbours import scopes_beside
from little_loops.runs.project import loops_of
from little_loops.system import process_table
from little_loops.system.files import failure, to_json
from little_loops.system.plain_files import open_plain, read_plain
from little_loops.system.stops import StopFlag
from little_loops.system.user_state import state_home
from little_loops.trees import copies, installed
from little_loops.trees import files as store_files
from little_loops.trees.git import Interrupted, find_git, is_inside
from little_loops.trees.model import NewLink
from little_loops.trees.patterns import Patterns
from little_loops.trees.rules import (
    IgnoreFile,
    Rules,
    find_repository,
    literal,
    plain_scope,
    tracked_paths,
    within,
)
from little_loops.trees.store import TreeStore

MAX_USED = 100
MAX_USED_BYTES = 1 << 20
SNAPSHOT_S = 600.0
"""How long one snapshot may take."""
CLOCK_MS = 2000
"""Longer than a file system's clock can lag behind, even with timestamps in whole seconds."""


def evidence_for(
    loop: FSMLoop, project: str, environ: Mapping[str, str], *, wanted: bool
) -> str | None:
    """Return `on`, or why a run of this loop keeps no evidence; None if it does not ask for any.

    `wanted`: False if the user turned evidence off for this run.
    """
    if not wants_evidence(loop):
        return turned_off(loop)
    if not wanted:
        return "off"
    try:
        repository = find_repository(find_git(project, environ), project)
    except StoreError as error:
        return error.message
    return "on" if repository is not None else "not in a git repository"


class OriginalTree(NamedTuple):
    """The project that a run works in a worktree of: its store, and what is part of a snapshot."""

    store: TreeStore
    rules: Rules


class RunTrees:
    """The tree store of one run."""

    def __init__(
        self,
        loop: FSMLoop,
        run: LoopState,
        project: str,
        run_dir: str,
        environ: Mapping[str, str],
        *,
        file: str | None = None,
        is_redefined: bool = False,
        place: str | None = None,
        is_working: bool = False,
    ) -> None:
        """`file`: the loop's own file; `is_redefined`: the user continues with another definition;
        `place`: where the run works, if that is not the project; `is_working`: this process drives
        the run."""
        self.loop = loop
        self.run_id = run.run
        self.scope = run.scope
        self.project = project
        self.run_dir = run_dir
        self.environ = environ
        self.home = state_home(environ)
        self.file = file
        self.is_redefined = is_redefined
        self._given_place = place or project
        self.is_working = is_working
        self._named: set[str] = set()
        self._began_at = run.started_at
        self._others: set[tuple[str, ...]] = set()
        self._beside: set[tuple[str, ...]] = set()
        self.has_unrestored = False
        """Whether protected files could not be restored."""

    @property
    def began_ns(self) -> int:
        """When the run started, as the file system's clock may have it: up to two seconds earlier."""
        return (wall_ms_of(self._began_at) - CLOCK_MS) * 1_000_000

    @cached_property
    def store(self) -> TreeStore:
        """Return the store of the project, creating it if necessary. Raises `StoreError` if this
        run has used it before, and it is gone."""
        git = find_git(self.project, self.environ)
        # A store that disappears in the middle of a run must not be mistaken for an empty one.
        create = not self._has_rules()
        place = None if self.place == self.project else self.place
        return TreeStore.open(self.project, self.home, git, create=create, work_tree=place)

    @cached_property
    def place(self) -> str:
        """Return where the run works: in the project, or in a worktree of it."""
        path = os.path.join(self.run_dir, RULES)
        rules = _read_rules(read_file(path)) if self._has_rules() else None
        return rules.project if rules is not None and rules.owner else self._given_place

    @cached_property
    def rules(self) -> Rules:
        """Return what was fixed when the run started. The first time, it is read from the project,
        stored in the run's directory and pinned; if `is_redefined`, it is pinned again.

        Raises `StoreError` if the stored rules, or what the run was started with, have changed
        since.
        """
        path = os.path.join(self.run_dir, RULES)
        if self._has_rules():
            if self.is_redefined:
                self._start.pin()
            self._start.check()
            rules = _read_rules(read_file(path))
            if self.is_working and not rules.owner:
                self._begin_work(self.store.rules(self.run_id, rules.scope, rules.protect))
            return rules
        protect, watched = self.patterns()
        own = self._own_places()
        rules = self.store.rules(
            self.run_id, (*self.scope, *own.folders), protect, around=self.loop.evidence.clean
        )
        rules = self._begin_work(rules._replace(watched=watched, owner=self._owner))
        if own.ignore:
            ignored = IgnoreFile(rules.prefix, own.ignore)
            rules = rules._replace(ignore=(*rules.ignore, ignored))
        if self._links_installed:
            self._note_installed(rules)
        data = to_json(rules.to_json())
        self._start.pin(evidence=data)  # first: a run that has its rules has its pins
        _write(path, data)
        return rules

    @property
    def _owner(self) -> str:
        """The project, for a run that works in a worktree of it; otherwise nothing."""
        return "" if self.place == self.project else os.path.realpath(self.project)

    def _begin_work(self, rules: Rules) -> Rules:
        """Record that this run works in the project; a worktree has only what we put there."""
        if rules.owner:
            return rules
        alive = {each.run_id for each in holders(self.project)}
        return self.store.begin_work(rules, alive)

    def patterns(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the patterns of what is protected, and of makefiles that are only watched."""
        protect = protected_by(self.loop, self.file)
        always = always_protected(self.file)
        if self.loop.evidence.protect is None:
            return (*protect, *_used(self.place, protect, patterns_of_included), *always), ()
        used = _used(self.place, watched_by(self.loop), patterns_of_used)
        targets = _absent_targets(self.place, self.loop)
        return (*protect, *always), (*unless_exempt(self.loop, used), *targets)

    @property
    def _links_installed(self) -> bool:
        evidence = self.loop.evidence
        return evidence.clean and evidence.setup is None

    @property
    def _installed(self) -> str:
        return self.store.files.place("installed", self.run_id)

    def _note_installed(self, rules: Rules) -> None:
        """Store what is in the directories that the clean copy links, for `changed_installed`."""
        os.makedirs(os.path.dirname(self._installed), mode=0o700, exist_ok=True)
        store_files.replace(
            self._installed, installed.to_bytes(installed.look(rules, self.store.git))
        )

    def changed_installed(self) -> Iterator[str]:
        """Yield warnings about changes, since the start, in directories that the clean copy links.

        Each warning is given once.
        """
        before = installed.from_bytes(store_files.read(self._installed) or b"")
        if not before or not self._links_installed:
            return
        after = installed.look(self.rules, self.store.git)
        for words in installed.changes(before, after, installed.repositories_in(self.rules)):
            yield from self.once(words)

    def remove_compiled_in_linked(self) -> None:
        """Remove what was compiled during the run in directories that the clean copy links. Raises
        `StoreError`."""
        try:
            installed.remove_compiled_in(self.rules, self.store.git, self.began_ns)
        except OSError as error:
            plain = failure(error, "remove", os.fsdecode(error.filename or "__pycache__"))
            raise StoreError(plain.message, plain.help) from error

    def once(self, warning: str) -> Iterator[str]:
        """Yield a warning, unless it was given before."""
        if warning not in self._named:
            self._named.add(warning)
            yield warning

    @cached_property
    def watched(self) -> Patterns:
        """Return the patterns of what the checks depend on, if the loop itself says what is
        protected."""
        return Patterns.of((*watched_by(self.loop), *self.rules.watched))

    def scripts(self) -> Iterator[str]:
        """Yield the paths of the scripts and build files that the checks run, directly or not."""
        for pattern in dict.fromkeys((*watched_by(self.loop), *self.rules.watched)):
            if pattern.startswith("/") and not set(pattern) & set("*?[\\"):
                yield pattern[1:]

    @cached_property
    def protected(self) -> Patterns:
        return Patterns.of(self.rules.protect)

    @cached_property
    def _start(self) -> PinnedStart:
        pins = os.path.join(self.store.files.path, "pins", self.run_id)
        return PinnedStart(self.run_dir, (RUN_JSON, RULES), pins)

    def _own_places(self) -> RelayPlaces:
        """Return the files through which a relay talks to its agents; they are not the agents'
        work."""
        return places_of(self.loop) if self.loop.paradigm == "relay" else RelayPlaces()

    def _has_rules(self) -> bool:
        return os.path.lexists(os.path.join(self.run_dir, RULES))

    @cached_property
    def copy(self) -> copies.CleanCopy:
        return copies.CleanCopy(self.store, self.rules, self.home)

    def close(self, stop: StopFlag | None = None) -> None:
        """Save the times of files, and pack the store; do nothing if the run never used it.

        If a stop or the time limit prevents packing, the store is only larger.
        """
        if "store" in self.__dict__ and "rules" in self.__dict__:
            self.store.save_times(self.rules)
            if (original := self.__dict__.get("original")) is not None:
                original.store.save_times(original.rules)
            self.store.git = self.store.git.bounded(SNAPSHOT_S)._replace(stop=stop, urgent=None)
            with suppress(Interrupted):
                self.store.pack()

    def end_work(self, stop: StopFlag | None) -> None:
        """Record that the run has ended or paused properly; do nothing if it never used the store.

        If that is not possible, or `stop` is urgent, the next run treats this one as killed: then
        protected files may not have been compared. The same holds if one could not be restored.
        """
        if "rules" in self.__dict__ and not self.rules.owner:
            self.store.git = self.store.git.bounded(SNAPSHOT_S)._replace(stop=None, urgent=stop)
            is_cut = stop is not None and stop.is_urgent
            if not is_cut and not self.has_unrestored:
                interrupted_turns.forget(self.store.files, self.run_id)
            with suppress(StoreError, Interrupted):
                self.store.end_work(self.run_id)
            shrink(self.store, self.project, self.environ)

    def note_action(self, blame: Blame | None, reference: str | None) -> None:
        """Record who begins to work, in case the run is killed before the next action begins."""
        files = self.store.files
        if blame is None or blame == "apart" or reference is None:
            interrupted_turns.forget(files, self.run_id)
        elif not self.rules.owner:
            evidence, began_at = self.loop.evidence, self._began_at
            turn = interrupted_turns.turn_of(blame, self.rules, reference, evidence, began_at)
            with suppress(OSError, StoreError):  # a full disk ends the run at the next snapshot
                interrupted_turns.note(files, turn)

    def new_links_out(self, first: str | None, project: str) -> tuple[str, ...]:
        """Return links that were made between the snapshots `first` and `project` and lead out of
        the repository, even if they come back."""
        prefix = self.rules.prefix
        return tuple(one.path for one in self._new_links(first, project) if one.leaves(prefix))

    def new_links_to_ignored(self, first: str | None, project: str) -> tuple[NewLink, ...]:
        """Return links that were made between the snapshots `first` and `project` and lead to what
        a commit does not include, but a clean copy has: ignored directories, other repositories."""
        real = os.path.realpath(self.rules.project)
        hidden = [os.path.join(real, path) for path in (*self.rules.linked, *self.rules.nested)]
        return tuple(
            one
            for one in self._new_links(first, project)
            if any(
                is_inside(os.path.realpath(os.path.join(real, one.path)), path) for path in hidden
            )
        )

    def _new_links(self, first: str | None, project: str) -> tuple[NewLink, ...]:
        if first is None or first == project:
            return ()
        return self.store.new_links(first, project)

    def tracked_since_start(self, project: str) -> tuple[str, ...]:
        """Return ignored files that git tracks only since the run started, so that its snapshots,
        such as `project`, do not have them. Nothing if the loop does not use a clean copy."""
        if not self.loop.evidence.clean:
            return ()
        rules = self.rules
        try:
            tracked = tracked_paths(self.store.git, rules.project).files
        except StoreError:  # without a repository, git tracks nothing
            return ()
        new = tracked - self.store.paths(project)
        ignored = rules.ignored()
        return tuple(
            path
            for path in sorted(new)
            if ignored.cover(os.fsencode(rules.prefix + path))
            and os.path.lexists(os.path.join(rules.project, path))
        )

    def undelivered(self, first: str | None, project: str) -> tuple[str, ...]:
        """Return the files of a snapshot that a commit would not include as they are: git ignores
        them by a rule that is newer than the run, and does not track them; or it was told during
        the run to overlook their changes since the snapshot `first`. Raises `StoreError`."""
        rules = self.rules
        tracked = tracked_paths(self.store.git, rules.project)
        paths = self.store.paths(project)
        ignored = self.store.ignored_now(rules, project)
        unseen = tracked.unseen.difference(rules.unseen) & paths
        if unseen:
            unseen &= frozenset(self.store.changed_paths(first, project))
        return tuple(
            path
            for path in sorted(paths - (tracked.files - unseen))
            if path in unseen or ignored.cover(os.fsencode(rules.prefix + path))
        )

    def named_like_targets(self, project: str) -> tuple[str, ...]:
        """Return the new files of a snapshot at the path of a `make` target of a check: `make` would
        take the target for finished."""
        targets = targets_of_checks(self.place, self.loop)
        new = [path for path in targets if literal(path) in self.rules.watched]
        return tuple(
            path
            for path in (sorted(self.store.paths(project)) if new else ())
            if any(is_inside(path, target) for target in new)
        )

    def others(self) -> list[tuple[str, ...]]:
        """Return the scopes of other runs that were alive during this one: changes there are
        theirs.

        They are remembered for `is_anothers`. Runs that an action of this run started do not count,
        nor do those above it, which wait for it.
        """
        mine = self.run_id
        # Claims are in the project, where an agent can edit them; only the file name can be
        # trusted.
        own_name, above = self._tree
        alive = [
            each.scope
            for each in holders(self.project)
            if own_name != each.name and mine not in each.outer and not _is_below_us(each.pid)
        ]
        noted = scopes_beside(self.project, mine, self._began_at, self.environ, above)
        place = self.place
        real = os.path.realpath(place)
        self._beside |= {tuple(scope) for scope in (*alive, *noted)}
        beside = [scope for scope in (*alive, *noted) if overlaps(scope, (real,))]
        self._others |= {plain_scope(scope, place) for scope in beside}
        return sorted(self._others)

    def others_in_project(self) -> list[tuple[str, ...]]:
        """Return the same for the project itself, if the run works in a worktree of it."""
        self.others()
        real = os.path.realpath(self.project)
        beside = [scope for scope in self._beside if overlaps(scope, (real,))]
        return sorted({plain_scope(scope, self.project) for scope in beside})

    @property
    def _tree(self) -> tuple[str, tuple[str, ...]]:
        """The name of the run at the root, which has the claim, and the ids of the runs above this
        one, which their own runners pass down."""
        running = os.path.join(loops_of(self.project), RUNNING)
        own, *below = os.path.relpath(self.run_dir, running).split(os.sep)
        levels = below.count(CHILDREN)
        above = nesting(self.environ).runs[-levels:] if levels else ()
        return own.removesuffix(DATA), above

    @cached_property
    def original(self) -> OriginalTree | None:
        """Return the project that the run's worktree comes from, to look at; None if the run works in
        the project, or a run above it looks."""
        if not self.rules.owner or self._is_child:
            return None
        git = self.store.git
        store = TreeStore.open(self.project, self.home, git, create=False)
        return OriginalTree(store, store.rules(self.run_id, (".",), ()))

    @property
    def _is_child(self) -> bool:
        return CHILDREN in os.path.relpath(self.run_dir, loops_of(self.project)).split(os.sep)

    def is_anothers(self, path: str) -> bool:
        return any(within(path, scope) for scope in self._others)


def _absent_targets(project: str, loop: FSMLoop) -> Iterator[str]:
    """Yield patterns for the targets of `make` that do not exist when the run starts: a new file of
    that name would keep `make` from running the check."""
    for path in targets_of_checks(project, loop):
        if not os.path.lexists(os.path.join(project, path)):
            yield literal(path)


def targets_of_checks(project: str, loop: FSMLoop) -> tuple[str, ...]:
    """Return the paths at which `make` would mistake a file for an up-to-date target of a check."""
    found: dict[str, None] = {}
    for call in make_calls(loop):
        text = ""
        for name in reversed(call.makefiles):
            with suppress(OSError):
                makefile = os.path.join(project, call.directory, name)
                text = read_plain(makefile, MAX_USED_BYTES).decode("utf-8", "replace")
        paths = (call.path_of(target) for target in files_made(text, call.goals))
        found |= dict.fromkeys(path for path in paths if path not in (None, "."))
    return tuple(found)


def _used(
    project: str, patterns: Sequence[str], used_by: Callable[[str, str], Iterator[str]]
) -> tuple[str, ...]:
    """Return the patterns of files that these files of checks use, directly or not, as `used_by`
    tells from a file's pattern and its text.

    Files that cannot be read are skipped; the search ends after about `MAX_USED`.
    """
    found = dict.fromkeys(patterns)
    waiting = list(found)
    while waiting and len(found) < MAX_USED + len(patterns):
        pattern = waiting.pop()
        with suppress(OSError):
            text = read_plain(os.path.join(project, pattern[1:]), MAX_USED_BYTES)
            new = used_by(pattern, text.decode("utf-8", "replace"))
            more = [each for each in dict.fromkeys(new) if each not in found]
            found |= dict.fromkeys(more)
            waiting += more
    return tuple(each for each in found if each not in patterns)


def _is_below_us(pid: int) -> bool:
    """Return whether a process descends from this one."""
    while pid > 1 and pid != os.getpid():
        found = process_table.SYSTEM.look(pid)
        pid = found.parent if found is not None else 0
    return pid == os.getpid()


def changed_since_start(
    loop: FSMLoop, run: LoopState, files: RunFiles, environ: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the protected paths that differ from what an interrupted run expects. Raises
    `StorageError` if that cannot be determined."""
    reference = run.trees.reference if run.trees is not None else None
    if reference is None:
        return ()
    trees = RunTrees(loop, run, files.root, files.data, environ)
    now = trees.store.snapshot(trees.rules, reference).guard
    return tuple(each.path for each in trees.store.guard_changes(reference, now))


class Whereabouts(NamedTuple):
    """Where a run was started, where this user has snapshots of that place, and whether they are
    those of the run."""

    project: str
    store: str
    is_there: bool


def where_snapshots_are(files: RunFiles, environ: Mapping[str, str]) -> Whereabouts | None:
    """Return where the snapshots of a run are; None if it has not taken any, or its record cannot
    be read."""
    try:
        rules = _read_rules(read_file(os.path.join(files.data, RULES)))
    except StoreError:
        return None
    project = rules.owner or rules.project
    store = store_files.store_of(project, state_home(environ))
    id = store_files.read(store.place("id")) if os.path.lexists(store.path) else None
    is_there = id == rules.store.encode() or (id is None and os.path.lexists(store.path))
    return Whereabouts(project, store.path, is_there)


def _read_rules(raw: bytes) -> Rules:
    """Decode stored rules. Raises `StoreError` if they are damaged."""
    try:
        return Rules.from_json(json.loads(raw))
    except ValueError as error:
        raise StoreError(f"the record of the run's start is damaged: {error}") from error


def _write(path: str, data: bytes) -> None:
    """Write a file atomically and sync its content."""
    part = f"{path}.part"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with open(open_plain(part, flags), "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(part, path)
