"""Take snapshots of a run's tree, and restore paths: the commands of `fsm.commands`.

Not here: the store that they work on (`run_trees`), a check in a clean copy (`copy_checks`), what
follows from a snapshot (`fsm.evidence`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator, Sequence

from little_loops.engine.run_trees import SNAPSHOT_S, RunTrees
from little_loops.errors import StorageError, StoreError
from little_loops.fsm.commands import PutBack, RestoreProtected, TakeSnapshot, TreeCommand
from little_loops.fsm.evidence import forbidden, without
from little_loops.fsm.happenings import (
    Happening,
    PathChange,
    PathsRestored,
    SnapshotCut,
    SnapshotTaken,
    StoreFailed,
)
from little_loops.fsm.path_text import listed_paths, path_text
from little_loops.fsm.state import Changed
from little_loops.light_typing import TYPE_CHECKING
from little_loops.records import NamedTuple
from little_loops.system.own_command import path_with_own_command
from little_loops.trees import merging, model
from little_loops.trees.git import Interrupted
from little_loops.trees.guard import Guard, leads_out
from little_loops.trees.rules import in_cache_directory
from little_loops.trees.start import MAX_AROUND
from little_loops.trees.walk import NEVER_NS

if TYPE_CHECKING:
    from little_loops.engine.local_world import LocalWorld

PATCH = "out-of-scope.patch"
ORIGINAL_PATCH = "project-changes"
"""What changed in the project while agents worked in worktrees; the step is part of the name."""
MAX_LED_TO = 5
STOPPED_BYTES = 16 << 20
"""How much new content is still read after a stop was requested: a fraction of a second's worth."""


def take_snapshot(world: LocalWorld, command: TakeSnapshot) -> Happening:
    if command.ending is None or command.ending.status == "completed":
        return with_trees(world, command, lambda trees: _snapshot(world, trees, command))
    return with_trees(world, command, lambda trees: _last_snapshot(world, trees, command))


def restore_protected(world: LocalWorld, command: RestoreProtected) -> Happening:
    """Restore protected paths from the reference, except those in the scopes of other runs.

    Returns the restored paths and those that could not be restored, or `StoreFailed`. If a kill came
    after all had been restored, and before that was recorded, they are returned now.
    """

    def restore(trees: RunTrees) -> PathsRestored:
        trees.others()
        done = trees.store.restore(
            trees.rules,
            command.reference,
            existing_only=command.existing_only,
            spare=trees.is_anothers,
        )
        trees.has_unrestored = bool(done.failed)
        paths, kept = done.paths, done.kept
        if not paths and not done.failed and command.found is not None:
            found = tampered_since(trees, command.reference, command.found)
            paths, kept = forbidden(trees.loop.evidence, found), command.found
        at, ending = world.clock.now(), command.ending
        return PathsRestored(at, "protected", paths, done.failed, ending, None, kept or None)

    return with_trees(world, command, restore)


def put_back(world: LocalWorld, command: PutBack) -> Happening:
    """Undo the changes outside the scope since `command.project`, except those to protected paths.

    They are written to `PATCH` in the run's directory first. Returns the paths, or `StoreFailed`.
    """

    def put(trees: RunTrees) -> PathsRestored:
        now = trees.store.snapshot(trees.rules, command.reference)
        tampered = tampered_since(trees, command.reference, now.guard)
        protected = frozenset(forbidden(trees.loop.evidence, tampered))
        outside = _outside_scope(trees, command.project, now.project, command.reference, tampered)
        paths = tuple(path for path in outside if path not in protected)
        patch = os.path.join(trees.run_dir, PATCH)
        done = trees.store.put_back(trees.rules, command.project, paths, patch)
        return PathsRestored(world.clock.now(), "outside", done.paths, done.failed, command.ending)

    return with_trees(world, command, put)


def with_trees(
    world: LocalWorld,
    command: TreeCommand,
    look: Callable[[RunTrees], Happening],
) -> Happening:
    """Run `look` with the trees. A stop interrupts it, unless the run is ending anyway.

    Returns `StopAsked` or `SnapshotCut` after a stop, `StoreFailed` if the store fails or
    `SNAPSHOT_S` are over.
    """
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
    """Take the last snapshot of a run that does not succeed, without delaying a requested stop.

    If that cuts it short, only the protected paths are compared, and the result is `SnapshotCut`.
    """
    stop, store = world.services.stop, trees.store
    assert command.ending is not None, "only called at the end of a run"
    assert command.reference is not None, "there was a snapshot before"
    store.git = store.git._replace(urgent=stop)
    is_stopped = stop is not None and stop.count > 0
    git = store.git if is_stopped else store.git._replace(stop=stop)
    budget = STOPPED_BYTES if is_stopped else None
    taken = store.last_snapshot(trees.rules, command.reference, git, budget)
    if isinstance(taken, model.Snapshot):
        return _compare_snapshot(world, trees, command, taken)
    tampered = tampered_since(trees, command.reference, taken.guard)
    now = world.clock.now()
    return SnapshotCut(now, command.when, command.ending, taken.guard, tampered)


def _snapshot(world: LocalWorld, trees: RunTrees, command: TakeSnapshot) -> SnapshotTaken:
    """Take a snapshot and compare it. Before an action, first remove caches beside protected paths,
    what Python compiled since the run started, and what an action put into the directory of our own
    command."""
    store, rules = trees.store, trees.rules
    if command.when == "before":
        # It is first on the action's PATH and inside the project: an agent could put a false `sh`
        # there.
        path_with_own_command(world.writer.data, None)
    if command.when == "before" and command.reference is not None:
        store.remove_caches(rules, command.reference, trees.began_ns)
    is_end = command.when in ("end", "last")
    taken = store.snapshot(rules, command.reference, trees.began_ns if is_end else NEVER_NS)
    return _compare_snapshot(world, trees, command, taken)


def _compare_snapshot(
    world: LocalWorld, trees: RunTrees, command: TakeSnapshot, taken: model.Snapshot
) -> SnapshotTaken:
    """Return the snapshot with what changed since the ones that the command names, and with
    warnings."""
    is_first = command.since is None
    tampered = tampered_since(trees, command.reference, taken.guard)
    landed = _landed(trees, command, trees.place) if command.apart else ()
    outside = _outside(trees, command, taken.project, tampered, landed)
    beside = _look_at_original(trees, command)
    patch = beside.patch
    if command.apart and outside and command.since is not None:
        patch = _patch_name(trees, command)
        trees.store.write_patch(command.since, taken.project, outside, patch)
    return SnapshotTaken(
        world.clock.now(),
        command.when,
        taken.tree,
        taken.project,
        taken.guard,
        _changed(trees, command.since, taken.project),
        tuple(_changed(trees, each, taken.project) for each in command.compare),
        tampered,
        outside,
        _committed(trees, command),
        (
            *taken.left_out,
            *(_first_warnings(trees, taken) if is_first else ()),
            *(_last_warnings(trees, command, taken) if _is_before_success(command) else ()),
        ),
        command.ending,
        command.late,
        _watched(trees, command.since, taken.project),
        landed,
        beside.id,
        beside.strayed,
        os.path.basename(patch),
    )


def _landed(trees: RunTrees, command: TakeSnapshot, project: str) -> tuple[str, ...]:
    """Return the files of the project that were merged from worktrees since the last snapshot. Git
    knows whether that was carried out, also if a kill kept it from being recorded."""
    if command.landed is None:
        return ()
    git, prefix = trees.store.git, trees.rules.prefix
    return merging.landed_paths(git, project, *command.landed, prefix)


class _OriginalNow(NamedTuple):
    """The snapshot of the original project, what has changed there, and the file with that."""

    id: str | None = None
    strayed: tuple[str, ...] = ()
    patch: str = ""


def _look_at_original(trees: RunTrees, command: TakeSnapshot) -> _OriginalNow:
    """Take a snapshot of the project that the run's worktree comes from, if the command asks for it
    and no run above does it. Return what changed there, except in the scopes of other runs."""
    if command.original is None or (original := trees.original) is None:
        return _OriginalNow()
    store, rules, since = original.store, original.rules, command.original.since
    store.git = trees.store.git
    now = store.snapshot(rules).project
    if since is None or since == now:
        return _OriginalNow(now)
    landed = _landed(trees, command, trees.project)
    found = store.outside(since, now, (), trees.others_in_project())
    strayed = _uncached(without(found, landed), rules.caches)
    if not strayed:
        return _OriginalNow(now)
    patch = _patch_name(trees, command)
    store.write_patch(since, now, strayed, patch)
    return _OriginalNow(now, strayed, patch)


def _patch_name(trees: RunTrees, command: TakeSnapshot) -> str:
    return os.path.join(trees.run_dir, f"{ORIGINAL_PATCH}-{command.step}.patch")


def _uncached(paths: Iterable[str], own: Container[str]) -> tuple[str, ...]:
    """Return the paths without caches, unless the user has them. An agent that runs the tests leaves
    some anywhere. Python also imports a compiled file that is not in a cache, so that counts."""
    return tuple(path for path in paths if not in_cache_directory(path) or path in own)


def _is_before_success(command: TakeSnapshot) -> bool:
    return command.when == "end" and command.ending is None


def _last_warnings(trees: RunTrees, command: TakeSnapshot, taken: model.Snapshot) -> Iterator[str]:
    """Yield the warnings that come before a run succeeds, each once in a run."""
    yield from trees.changed_installed()
    first = next(iter(command.compare), None)
    for path in trees.new_links_out(first, taken.project):
        yield from trees.once(
            f"`{path_text(path)}` is a new link to a path outside the project, so what it points to is not"
            " delivered with it"
        )
    for link in trees.new_links_to_ignored(first, taken.project):
        yield from trees.once(
            f"`{path_text(link.path)}` is a new link to something that git ignores, so what it points"
            " to is not delivered with it"
        )
    if paths := trees.tracked_since_start(taken.project):
        yield from trees.once(
            "git ignored these files when the run started and tracks them now, so the snapshots of this"
            f" run do not contain them; a new run's will: {listed_paths(paths, len(paths))}"
        )


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


def tampered_since(trees: RunTrees, reference: str | None, guard: str) -> tuple[PathChange, ...]:
    """Return the protected paths that differ from the reference, except those in the scopes of
    other runs; nothing without a reference."""
    if reference is None:
        return ()
    trees.others()
    changes = trees.store.guard_changes(reference, guard)
    return tuple(each for each in changes if not trees.is_anothers(each.path))


def _watched(trees: RunTrees, before: str | None, after: str) -> tuple[str, ...]:
    """Return the changed paths that checks depend on, unless they are protected."""
    if before is None or before == after or not trees.watched.groups:
        return ()
    found = trees.store.matching(before, after, trees.watched)
    return tuple(path for path in found if not trees.protected.cover(os.fsencode(path)))


def _outside(
    trees: RunTrees,
    command: TakeSnapshot,
    after: str,
    tampered: Sequence[PathChange],
    landed: Sequence[str],
) -> tuple[str, ...]:
    """Return the changed paths outside the scope. If agents have worked in worktrees instead, all
    that changed, except `landed`, caches and the scopes of other runs."""
    before = command.since
    if not command.apart:
        return _outside_scope(trees, before, after, command.reference, tampered)
    if before is None or before == after or trees.loop.scope_writes == "ignore":
        return ()
    found = trees.store.outside(before, after, (), trees.others())
    return _uncached(without(found, landed), trees.rules.caches)


def _outside_scope(
    trees: RunTrees,
    before: str | None,
    after: str,
    reference: str | None,
    tampered: Sequence[PathChange],
) -> tuple[str, ...]:
    """Return the changed paths outside the scope; nothing with `scope_writes: ignore`.

    Scopes of other runs, untracked caches, and protected paths that equal their reference are left
    out.
    """
    if before is None or before == after or trees.loop.scope_writes == "ignore":
        return ()
    found = trees.store.outside(before, after, trees.rules.scope, trees.others())
    found = _uncached(found, trees.rules.caches)
    if not found or reference is None:
        return found
    # What equals its reference was restored, by us or by the agent.
    right = trees.store.guarded(reference) - {each.path for each in tampered}
    return tuple(path for path in found if path not in right)


def _first_warnings(trees: RunTrees, taken: model.Snapshot) -> Iterator[str]:
    """Yield the warnings that come before the first agent action."""
    if taken.unstored:
        paths = listed_paths(taken.unstored, len(taken.unstored))
        yield f"too large to store, so it cannot be restored: {paths}"
    guard = trees.store.guard(taken.guard)
    yield from _link_warnings(guard)
    if out := [path for path in guard.links() if leads_out(trees.place, path)]:
        paths = listed_paths(out, len(out))
        yield f"protected links point outside the project, where changes are not detected: {paths}"
    if trees.loop.evidence.clean and trees.rules.prefix and trees.rules.around is None:
        yield (
            f"the repository has more than {MAX_AROUND:,} files outside this project, so the clean"
            " copy has only the project: a check that needs the other files fails there"
        )


def _link_warnings(guard: Guard) -> Iterator[str]:
    """Yield warnings about the first paths that are protected only because a protected link points
    to them."""
    for path in guard.led_to[:MAX_LED_TO]:
        yield (
            f"`{path}` is protected, because a protected link points to it; add `!/{path}` to"
            " `protect` if agents may change it"
        )
