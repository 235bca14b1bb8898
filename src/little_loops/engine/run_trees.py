"""The trees of one run: its store, and what the start of the run fixed.

Not here: carrying out the commands on them (`evidence`, `copy_checks`), how content is stored
(`trees`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property

from little_loops.engine.pinned_start import PinnedStart, read_file
from little_loops.errors import StorageError, StoreError
from little_loops.fsm.evidence import has_agent, wants_evidence
from little_loops.fsm.makefiles import is_makefile
from little_loops.fsm.protection import (
    always_protected,
    patterns_of_included,
    protected_by,
    watched_by,
)
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import LoopState
from little_loops.fsm.timestamps import wall_ms_of
from little_loops.records import NamedTuple
from little_loops.relay.places import Places, places_of
from little_loops.runs.claims import holders
from little_loops.runs.layout import DATA, RULES, RUN_JSON, RunFiles
from little_loops.runs.neighbours import scopes_beside
from little_loops.system import process_table
from little_loops.system.files import to_json
from little_loops.system.plain_files import open_plain, read_plain
from little_loops.system.stops import StopFlag
from little_loops.system.user_state import state_home
from little_loops.trees import copies, installed, model
from little_loops.trees import files as store_files
from little_loops.trees.git import Interrupted, find_git
from little_loops.trees.patterns import Patterns
from little_loops.trees.rules import (
    IgnoreFile,
    Rules,
    find_repository,
    plain_scope,
    tracked_paths,
    within,
)
from little_loops.trees.store import TreeStore

CUT_TURN_PATCH = "interrupted-turn.patch"
MAX_INCLUDED = 100
MAX_MAKEFILE_BYTES = 1 << 20
SNAPSHOT_S = 600.0
"""How long one snapshot may take."""
CLOCK_MS = 2000
"""More than the clock of a file system lags behind, even with timestamps in whole seconds."""


def evidence_for(
    loop: FSMLoop, project: str, environ: Mapping[str, str], *, wanted: bool
) -> str | None:
    """Return `on`, or why a run of this loop keeps no evidence; None if it does not ask for any.

    `wanted`: False if the user turned evidence off for this run.
    """
    if not wants_evidence(loop):
        return "off" if loop.evidence.enabled is False and has_agent(loop) else None
    if not wanted:
        return "off"
    try:
        repository = find_repository(find_git(project, environ), project)
    except StoreError as error:
        return error.message
    return "on" if repository is not None else "not in a git repository"


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
    ) -> None:
        """`file`: the loop's own file; `is_redefined`: the user continues with another
        definition."""
        self.loop = loop
        self.run_id = run.run
        self.scope = run.scope
        self.project = project
        self.run_dir = run_dir
        self.environ = environ
        self.home = state_home(environ)
        self.file = file
        self.is_redefined = is_redefined
        self._named: set[str] = set()
        self._began_at = run.started_at
        self._others: set[tuple[str, ...]] = set()

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
        return TreeStore.open(self.project, self.home, git, create=not self._has_rules())

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
            return _read_rules(read_file(path))
        protect, watched = self._patterns()
        own = self._own_places()
        rules = self.store.rules(
            self.run_id, (*self.scope, *own.folders), protect, around=self.loop.evidence.clean
        )
        rules = rules._replace(watched=watched)
        if own.ignore:
            ignored = IgnoreFile(rules.prefix, own.ignore)
            rules = rules._replace(ignore=(*rules.ignore, ignored))
        if self._links_installed:
            self._note_installed(rules)
        data = to_json(rules.to_json())
        self._start.pin(evidence=data)  # first: a run that has its rules has its pins
        _write(path, data)
        return rules

    def _patterns(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the patterns of what is protected, and of makefiles that are only watched."""
        protect = protected_by(self.loop, self.file)
        always = always_protected(self.file)
        if self.loop.evidence.protect is None:
            return (*protect, *_included(self.project, protect), *always), ()
        return (*protect, *always), _included(self.project, watched_by(self.loop))

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

    @cached_property
    def protected(self) -> Patterns:
        return Patterns.of(self.rules.protect)

    @cached_property
    def _start(self) -> PinnedStart:
        pins = os.path.join(self.store.files.path, "pins", self.run_id)
        return PinnedStart(self.run_dir, (RUN_JSON, RULES), pins)

    def _own_places(self) -> Places:
        """Return the files through which a relay talks to its agents; they are not the agents'
        work."""
        return places_of(self.loop) if self.loop.paradigm == "relay" else Places()

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
            self.store.git = self.store.git.bounded(SNAPSHOT_S)._replace(stop=stop, urgent=None)
            with suppress(Interrupted):
                self.store.pack()

    def new_links_out(self, first: str | None, project: str) -> tuple[str, ...]:
        """Return links that were made between the snapshots `first` and `project` and lead out of
        the repository."""
        if first is None or first == project:
            return ()
        own = f"{self.rules.project}/"
        return self.store.new_links_out(first, project, own.removesuffix(f"/{self.rules.prefix}"))

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

    def others(self) -> list[tuple[str, ...]]:
        """Return the scopes of other runs that were alive during this one: changes there are
        theirs.

        They are remembered for `is_anothers`. Runs that an action of this run started do not count.
        """
        mine = self.run_id
        # Claims are in the project, where an agent can edit them; only the file name can be
        # trusted.
        own_name = os.path.basename(self.run_dir).removesuffix(DATA)
        alive = [
            each.scope
            for each in holders(self.project)
            if own_name != each.name and mine not in each.outer and not _is_below_us(each.pid)
        ]
        noted = scopes_beside(self.project, mine, self._began_at, self.environ)
        self._others |= {plain_scope(scope, self.project) for scope in (*alive, *noted)}
        return sorted(self._others)

    def is_anothers(self, path: str) -> bool:
        return any(within(path, scope) for scope in self._others)


def _included(project: str, patterns: Sequence[str]) -> tuple[str, ...]:
    """Return the patterns of makefiles that these makefiles include, directly or not.

    Files that cannot be read are skipped; the search ends after about `MAX_INCLUDED`.
    """
    found = dict.fromkeys(each for each in patterns if is_makefile(each))
    waiting = list(found)
    while waiting and len(found) < MAX_INCLUDED:
        pattern = waiting.pop()
        with suppress(OSError):
            text = read_plain(os.path.join(project, pattern[1:]), MAX_MAKEFILE_BYTES)
            new = patterns_of_included(pattern, text.decode("utf-8", "replace"))
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
    """Return the protected paths that differ from what an interrupted run expects; nothing if that
    cannot be determined."""
    reference = run.trees.reference if run.trees is not None else None
    if reference is None:
        return ()
    trees = RunTrees(loop, run, files.root, files.data, environ)
    try:
        now = trees.store.snapshot(trees.rules, reference).guard
        return tuple(each.path for each in trees.store.guard_changes(reference, now))
    except (StoreError, StorageError):
        return ()


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
    store = store_files.store_of(rules.project, state_home(environ))
    id = store_files.read(store.place("id")) if os.path.lexists(store.path) else None
    is_there = id == rules.store.encode() or (id is None and os.path.lexists(store.path))
    return Whereabouts(rules.project, store.path, is_there)


def restore_after_cut_turn(
    loop: FSMLoop, run: LoopState, files: RunFiles, environ: Mapping[str, str]
) -> model.Restoration:
    """Restore the protected files of a run that was killed during an agent's turn, except those in
    the scopes of other runs.

    The difference is written to `CUT_TURN_PATCH` in the run's directory, in case the change is the
    user's. Raises `StoreError`.
    """
    assert run.trees is not None, "only a run with evidence has protected files"
    assert run.trees.reference is not None, "an agent's turn begins with a snapshot"
    reference = run.trees.reference
    trees = RunTrees(loop, run, files.root, files.data, environ)
    trees.others()
    left = trees.store.snapshot(trees.rules, reference)
    done = trees.store.restore(
        trees.rules,
        reference,
        existing_only=loop.evidence.existing_only,
        spare=trees.is_anothers,
    )
    now = trees.store.snapshot(trees.rules, reference)
    if patch := trees.store.diff(now.project, left.project, ["--binary", "--no-renames"]):
        _write(os.path.join(files.data, CUT_TURN_PATCH), patch)
    return done


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
