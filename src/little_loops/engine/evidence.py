"""Take snapshots of a run's tree, restore paths, run a check in a clean copy.

`RunTrees` is the store and what the start of the run fixed, opened on first use; the functions
below use it to carry out the commands of `fsm.commands`.

Not here: what follows from a snapshot (`fsm.evidence`), how content is stored (`trees`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from signal import SIGTERM
from typing import TYPE_CHECKING

from little_loops.engine.action_output import Streams
from little_loops.engine.action_process import Workplace, cut_by, environment, run_program
from little_loops.engine.drive import ActionOutcome
from little_loops.engine.pinned_start import PinnedStart, read_file
from little_loops.engine.resolve import Filled
from little_loops.errors import StorageError, StoreError
from little_loops.fsm.commands import CleanCopy, PutBack, RestoreProtected, RunShell, TakeSnapshot
from little_loops.fsm.evidence import forbidden, has_agent, wants_evidence
from little_loops.fsm.happenings import (
    Happening,
    PathChange,
    PathsRestored,
    SnapshotCut,
    SnapshotTaken,
    StoreFailed,
)
from little_loops.fsm.path_text import listed, path_text
from little_loops.fsm.protection import always_protected, protected_by, watched_by
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import Changed, LoopState, Result
from little_loops.relay.places import Places, places_of
from little_loops.runs.claims import holders
from little_loops.runs.layout import DATA, RULES, RUN_JSON, RunFiles
from little_loops.runs.neighbours import scopes_beside
from little_loops.system import process, process_table
from little_loops.system.files import to_json
from little_loops.system.own_command import path_with_own_command
from little_loops.system.plain_files import open_plain
from little_loops.system.stops import StopFlag
from little_loops.system.user_state import state_home
from little_loops.trees import copies, installed, model
from little_loops.trees import files as store_files
from little_loops.trees.git import Interrupted, find_git
from little_loops.trees.guard import Guard, leads_out
from little_loops.trees.patterns import Patterns
from little_loops.trees.rules import IgnoreFile, Rules, find_repository, plain_scope, within
from little_loops.trees.start import MAX_AROUND
from little_loops.trees.store import TreeStore

if TYPE_CHECKING:
    from little_loops.engine.local_world import LocalWorld

PATCH = "out-of-scope.patch"
SETUP_TAIL = 4096
MAX_LED_TO = 5
SNAPSHOT_S = 600.0
"""How long one snapshot may take."""
STOPPED_BYTES = 16 << 20
"""How much new content is read after a stop was requested: a fraction of a second."""


def evidence_for(
    loop: FSMLoop, project: str, environ: Mapping[str, str], *, wanted: bool
) -> str | None:
    """Return `on`, or why a run of this loop keeps no evidence; None if it does not ask for any."""
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

    @cached_property
    def store(self) -> TreeStore:
        git = find_git(self.project, self.environ)
        # A store that disappears in the middle of a run must not be mistaken for an empty one.
        return TreeStore.open(self.project, self.home, git, create=not self._has_rules())

    @cached_property
    def rules(self) -> Rules:
        path = os.path.join(self.run_dir, RULES)
        if self._has_rules():
            if self.is_redefined:
                self._start.pin()
            self._start.check()
            return _read_rules(read_file(path))
        protect = (*protected_by(self.loop, self.file), *always_protected(self.file))
        own = self._own_places()
        rules = self.store.rules(
            self.run_id, (*self.scope, *own.folders), protect, around=self.loop.evidence.clean
        )
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
    def _links_installed(self) -> bool:
        evidence = self.loop.evidence
        return evidence.clean and evidence.setup is None

    @property
    def _installed(self) -> str:
        return self.store.files.place("installed", self.run_id)

    def _note_installed(self, rules: Rules) -> None:
        os.makedirs(os.path.dirname(self._installed), mode=0o700, exist_ok=True)
        store_files.replace(
            self._installed, installed.to_bytes(installed.look(rules, self.store.git))
        )

    def changed_installed(self) -> Iterator[str]:
        """What was changed since the start in directories that the clean copy links; named once."""
        before = installed.from_bytes(store_files.read(self._installed) or b"")
        if not before or not self._links_installed:
            return
        for words in installed.changes(before, installed.look(self.rules, self.store.git)):
            if words not in self._named:
                self._named.add(words)
                yield words

    @cached_property
    def watched(self) -> Patterns:
        """Return the patterns of what the checks depend on, if the loop itself says what is
        protected."""
        return Patterns.of(watched_by(self.loop))

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
        """Pack what the run has stored; if a stop prevents it, the store is only larger."""
        if "store" in self.__dict__ and "rules" in self.__dict__:
            self.store.save_times(self.rules)
            self.store.git = self.store.git.bounded(SNAPSHOT_S)._replace(stop=stop, urgent=None)
            with suppress(Interrupted):
                self.store.pack()

    def others(self) -> list[tuple[str, ...]]:
        """Return the scopes of other runs that were alive during this one: changes there are
        theirs.

        Runs that an action of this run started do not count, whatever they were told.
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


def _is_below_us(pid: int) -> bool:
    """Return whether a process descends from this one."""
    while pid > 1 and pid != os.getpid():
        found = process_table.SYSTEM.look(pid)
        pid = found.parent if found is not None else 0
    return pid == os.getpid()


def changed_since_start(
    loop: FSMLoop, run: LoopState, files: RunFiles, environ: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the protected paths that differ from what an interrupted run expects, if that can be
    determined."""
    reference = run.trees.reference if run.trees is not None else None
    if reference is None:
        return ()
    trees = RunTrees(loop, run, files.root, files.data, environ)
    try:
        now = trees.store.snapshot(trees.rules, reference).guard
        return tuple(each.path for each in trees.store.guard_changes(reference, now))
    except (StoreError, StorageError):
        return ()


def _read_rules(raw: bytes) -> Rules:
    try:
        return Rules.from_json(json.loads(raw))
    except ValueError as error:
        raise StoreError(f"the record of the run's start is damaged: {error}") from error


def _write(path: str, data: bytes) -> None:
    """Write a file atomically."""
    part = f"{path}.part"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with open(open_plain(part, flags), "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(part, path)


# ── carrying out ───────────────────────────────────────────────────────────────────────────────


def take_snapshot(world: LocalWorld, command: TakeSnapshot) -> Happening:
    if command.ending is None or command.ending.status == "completed":
        return _with_trees(world, command, lambda trees: _snapshot(world, trees, command))
    return _with_trees(world, command, lambda trees: _last_snapshot(world, trees, command))


def restore_protected(world: LocalWorld, command: RestoreProtected) -> Happening:
    def restore(trees: RunTrees) -> PathsRestored:
        trees.others()
        done = trees.store.restore(
            trees.rules,
            command.reference,
            existing_only=command.existing_only,
            spare=trees.is_anothers,
        )
        at = world.clock.now()
        return PathsRestored(at, "protected", done.paths, done.failed, command.ending)

    return _with_trees(world, command, restore)


def put_back(world: LocalWorld, command: PutBack) -> Happening:
    def put(trees: RunTrees) -> PathsRestored:
        now = trees.store.snapshot(trees.rules, command.reference)
        tampered = _tampered(trees, command.reference, now.guard)
        protected = frozenset(forbidden(trees.loop.evidence, tampered))
        outside = _outside(trees, command.project, now.project, command.reference, tampered)
        paths = tuple(path for path in outside if path not in protected)
        patch = os.path.join(trees.run_dir, PATCH)
        done = trees.store.put_back(trees.rules, command.project, paths, patch)
        return PathsRestored(world.clock.now(), "outside", done.paths, done.failed, command.ending)

    return _with_trees(world, command, put)


def _with_trees(
    world: LocalWorld,
    command: TakeSnapshot | RestoreProtected | PutBack,
    look: Callable[[RunTrees], Happening],
) -> Happening:
    """Run `look` with the trees. A stop interrupts it, unless the run is ending anyway."""
    trees = world.trees
    try:
        stop = None if command.ending is not None else world.services.stop
        trees.store.git = trees.store.git.bounded(SNAPSHOT_S)._replace(stop=stop, urgent=None)
        return look(trees)
    except Interrupted as cut:
        if cut.by == "stop" and isinstance(command, TakeSnapshot) and command.ending is not None:
            return SnapshotCut(world.clock.now(), command.when, command.ending)
        asked = world.stop_asked() if cut.by == "stop" else None
        return asked or StoreFailed(
            world.clock.now(), f"the snapshot took longer than {SNAPSHOT_S:g} s"
        )
    except (StoreError, StorageError) as error:
        return StoreFailed(world.clock.now(), error.message)


def _last_snapshot(
    world: LocalWorld, trees: RunTrees, command: TakeSnapshot
) -> SnapshotTaken | SnapshotCut:
    """Take the last snapshot. A run that does not succeed does not delay a requested stop."""
    stop, store = world.services.stop, trees.store
    assert command.ending is not None, "only the end of a run comes here"
    assert command.reference is not None, "there was a snapshot before"
    store.git = store.git._replace(urgent=stop)
    is_stopped = stop is not None and stop.count > 0
    git = store.git if is_stopped else store.git._replace(stop=stop)
    budget = STOPPED_BYTES if is_stopped else None
    taken = store.last_snapshot(trees.rules, command.reference, git, budget)
    if isinstance(taken, model.Snapshot):
        return _compare_snapshot(world, trees, command, taken)
    tampered = _tampered(trees, command.reference, taken.guard)
    now = world.clock.now()
    return SnapshotCut(now, command.when, command.ending, taken.guard, tampered)


def _snapshot(world: LocalWorld, trees: RunTrees, command: TakeSnapshot) -> SnapshotTaken:
    store, rules = trees.store, trees.rules
    if command.when == "before":
        # It is first on the action's PATH and inside the project: an agent could put a false `sh`
        # there.
        path_with_own_command(world.writer.data, None)
    if command.when == "before" and command.reference is not None:
        store.remove_caches(rules, command.reference)
    taken = store.snapshot(rules, command.reference)
    return _compare_snapshot(world, trees, command, taken)


def _compare_snapshot(
    world: LocalWorld, trees: RunTrees, command: TakeSnapshot, taken: model.Snapshot
) -> SnapshotTaken:
    is_first = command.since is None
    tampered = _tampered(trees, command.reference, taken.guard)
    return SnapshotTaken(
        world.clock.now(),
        command.when,
        taken.tree,
        taken.project,
        taken.guard,
        _changed(trees, command.since, taken.project),
        tuple(_changed(trees, each, taken.project) for each in command.compare),
        tampered,
        _outside(trees, command.since, taken.project, command.reference, tampered),
        _committed(trees, command),
        (
            *taken.left_out,
            *(_first_warnings(trees, taken) if is_first else ()),
            *(trees.changed_installed() if _is_before_success(command) else ()),
        ),
        command.ending,
        command.late,
        _watched(trees, command.since, taken.project),
    )


def _is_before_success(command: TakeSnapshot) -> bool:
    return command.when == "end" and command.ending is None


def _committed(trees: RunTrees, command: TakeSnapshot) -> tuple[str, ...]:
    """Return protected paths changed by a commit. Only checked at the end, because it costs a
    process."""
    if command.reference is None or command.when in ("before", "after"):
        return ()
    return trees.store.committed(trees.rules, command.reference)


def _changed(trees: RunTrees, before: str | None, after: str) -> Changed:
    if before is None or before == after:
        return Changed()
    return trees.store.changed(before, after, trees.rules.scope)


def _tampered(trees: RunTrees, reference: str | None, guard: str) -> tuple[PathChange, ...]:
    if reference is None:
        return ()
    trees.others()
    changes = trees.store.guard_changes(reference, guard)
    return tuple(each for each in changes if not trees.is_anothers(each.path))


def _watched(trees: RunTrees, before: str | None, after: str) -> tuple[str, ...]:
    if before is None or before == after or not trees.watched.groups:
        return ()
    found = trees.store.matching(before, after, trees.watched)
    return tuple(path for path in found if not trees.protected.cover(os.fsencode(path)))


def _outside(
    trees: RunTrees,
    before: str | None,
    after: str,
    reference: str | None,
    tampered: Sequence[PathChange],
) -> tuple[str, ...]:
    if before is None or before == after or trees.loop.scope_writes == "ignore":
        return ()
    found = trees.store.outside(before, after, trees.rules.scope, trees.others())
    if not found or reference is None:
        return found
    # What equals its reference was restored, by us or by the agent.
    right = trees.store.guarded(reference) - {each.path for each in tampered}
    return tuple(path for path in found if path not in right)


def _first_warnings(trees: RunTrees, taken: model.Snapshot) -> Iterator[str]:
    """Yield the warnings that come before the first agent action."""
    if taken.unstored:
        paths = listed(taken.unstored, len(taken.unstored))
        yield f"too large to store, so it cannot be restored: {paths}"
    guard = trees.store.guard(taken.guard)
    yield from _link_warnings(guard)
    if out := [path for path in guard.links() if leads_out(trees.project, path)]:
        paths = listed(out, len(out))
        yield f"protected links point out of the project, where changes are not detected: {paths}"
    if trees.loop.evidence.clean and trees.rules.prefix and trees.rules.around is None:
        yield (
            f"the repository has more than {MAX_AROUND:,} files outside this project, so the clean"
            " copy has only the project: a check that needs the others fails there"
        )


def _link_warnings(guard: Guard) -> Iterator[str]:
    """Yield warnings about paths that are protected only because a protected link points to
    them."""
    for path in guard.led_to[:MAX_LED_TO]:
        yield (
            f"`{path}` is protected, because a protected link points to it; add `!/{path}` to"
            " `protect` if agents may change it"
        )


# ── a check in a clean copy ────────────────────────────────────────────────────────────────────


def run_in_copy(
    trees: RunTrees, at: Workplace, run: LoopState, command: RunShell, filled: Filled
) -> ActionOutcome:
    assert command.copy is not None, "only a check in a clean copy comes here"
    _bound(trees, at)
    try:
        with trees.copy.held():
            return _run_held(trees, at, run, command, command.copy, filled)
    except Interrupted as cut:
        if cut.by == "stop":
            return ActionOutcome(Result(None, 0, cut_by="stop"))
        return _no_copy(f"the snapshot took longer than {SNAPSHOT_S:g} s")
    except StoreError as error:
        return _no_copy(error.message + (f" ({error.help})" if error.help else ""))


def _no_copy(why: str) -> ActionOutcome:
    return ActionOutcome(Result(None, 0, failure=f"cannot make a clean copy: {why}"))


def _bound(trees: RunTrees, at: Workplace) -> None:
    """Limit the time for work on the copy; the programs that run in it have their own limits."""
    trees.store.git = trees.store.git.bounded(SNAPSHOT_S)._replace(stop=at.stop)


def _run_held(
    trees: RunTrees,
    at: Workplace,
    run: LoopState,
    command: RunShell,
    wanted: CleanCopy,
    filled: Filled,
) -> ActionOutcome:
    copy, job = trees.copy, command.job
    existing_only = trees.loop.evidence.existing_only
    path = copy.lay_out(
        wanted.project,
        wanted.reference,
        links=wanted.setup is None,
        existing_only=existing_only,
    )
    there = at._replace(project=path)
    env = copy.environment(environment(at, run, job, filled.env))
    if wanted.setup is not None:
        if (failed := _set_up(there, command, wanted.setup, env)) is not None:
            return ActionOutcome(failed)
        _bound(trees, at)
        copy.lay_out_protected(wanted.project, wanted.reference, existing_only=existing_only)
    before = copy.differing()
    streams = Streams(at, job)
    shown = PathTranslator(streams, copy.whole.copy, copy.whole.real)
    argv = [command.shell, "-c", filled.text]
    plan = ((SIGTERM, job.kill_grace_s),)
    ended = run_program(there, job, argv, env, shown, plan=plan)
    shown.close()
    result = streams.result(ended, cut_by(job, ended))
    _bound(trees, at)
    if result.cut_by == "none" and (
        why := _why_copy_is_invalid(trees, wanted, copy.differing() - before)
    ):
        result = result._replace(failure=why)
    return ActionOutcome(result)


def _why_copy_is_invalid(trees: RunTrees, wanted: CleanCopy, changed: frozenset[str]) -> str | None:
    """Return why a check in the copy proves nothing: something changed the copy meanwhile.

    A check may change in the copy what it changes in the project, but never what is protected.
    """
    protected = sorted(path for path in changed if trees.copy.is_protected(path))
    if protected:
        named = listed(protected, len(protected))
        exempt = f"if the check writes there itself, add `!/{path_text(protected[0])}` to `protect`"
        named = f"while it ran, something changed protected files in the clean copy: {named}"
        return f"{named}; {exempt}"
    mine = trees.rules.in_scope
    others = sorted(path for path in changed if mine(path) and not within(path, wanted.writes))
    if others:
        named = listed(others, len(others))
        return (
            f"while it ran, something changed {named} in the clean copy, which never happened here"
        )
    return None


def _set_up(
    there: Workplace, command: RunShell, setup: str, env: Mapping[str, str]
) -> Result | None:
    """Run `setup` in the copy. Return the result if it failed, else None."""
    said = bytearray()

    def keep(chunk: bytes) -> None:
        said.extend(chunk)
        del said[:-SETUP_TAIL]

    job = command.job
    deadline_s = None if job.deadline_ms is None else job.deadline_ms / 1000
    try:
        ended = process.run(
            [command.shell, "-c", setup],
            env=env,
            cwd=os.path.join(there.project, job.cwd or ""),
            stdin=None,
            stdout=keep,
            stderr=keep,
            deadline_s=deadline_s,
            stop=there.stop,
            stop_plan=((SIGTERM, job.kill_grace_s),),
        )
    except process.CannotStart as problem:
        return Result(None, 0, failure=problem.reason)
    if ended.exit_code == 0:
        return None
    if ended.cut_by == "stop":
        return Result(None, 0, cut_by="stop")
    last = said.decode("utf-8", "replace").rstrip().rpartition("\n")[2]
    how = f"exit {ended.exit_code}" if ended.exit_code is not None else "interrupted"
    return Result(None, 0, failure=f"`setup` failed in the clean copy ({how}): {last}")


class PathTranslator:
    """Streams in which the path of the copy is replaced by the path of the project.

    A path may arrive in two chunks, so the end of a chunk is held back if it could begin one.
    """

    def __init__(self, streams: Streams, copy: str, project: str) -> None:
        self._streams = streams
        self._old, self._new = os.fsencode(copy), os.fsencode(project)
        self._held = {"stdout": b"", "stderr": b""}

    def stdout(self, chunk: bytes) -> None:
        self._feed("stdout", self._streams.stdout, chunk)

    def stderr(self, chunk: bytes) -> None:
        self._feed("stderr", self._streams.stderr, chunk)

    def close(self) -> None:
        for name, give in (("stdout", self._streams.stdout), ("stderr", self._streams.stderr)):
            if self._held[name]:
                give(self._held[name])

    def _feed(self, name: str, give: Callable[[bytes], None], chunk: bytes) -> None:
        text = (self._held[name] + chunk).replace(self._old, self._new)
        keep = held_back(text, self._old)
        self._held[name] = text[len(text) - keep :]
        if len(text) > keep:
            give(text[: len(text) - keep])


def held_back(text: bytes, word: bytes) -> int:
    """Return how many bytes at the end of the text could be the beginning of the word."""
    longest = min(len(text), len(word) - 1)
    return next((size for size in range(longest, 0, -1) if text.endswith(word[:size])), 0)
