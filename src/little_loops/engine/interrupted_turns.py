"""Restore what a run that was killed during an agent's turn, or during a check, changed in protected
files, when the next run starts.

The files of a run are in the project, where its agent can damage or remove them. So while an agent or
a check works, a note with everything that restoring needs is in the store.

    STORE/turns/RUN          who works, since when, on which rules and reference
    STORE/turns/RUN.patch    what was restored, in case the change is the user's

Not here: the same for a run that is resumed (`fsm.machine`; its lines: `_way_back` in
`reporting.lines`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress

from little_loops.errors import StoreError
from little_loops.fsm.evidence import tampering_of
from little_loops.fsm.path_text import listed_paths
from little_loops.fsm.schema import KILL_GRACE_S, Evidence
from little_loops.fsm.scope import overlaps
from little_loops.fsm.state import Blame
from little_loops.light_typing import Any, Final
from little_loops.records import NamedTuple
from little_loops.runs import holders as processes
from little_loops.runs.claims import holders
from little_loops.runs.holders import Holder
from little_loops.runs.neighbours import scopes_beside
from little_loops.system.files import to_json
from little_loops.system.process_tree import sweep
from little_loops.system.user_state import state_home
from little_loops.trees import files as store_files
from little_loops.trees.files import StoreFiles, store_of
from little_loops.trees.git import find_git
from little_loops.trees.rules import Rules, plain_scope, within
from little_loops.trees.store import TreeStore

TURNS: Final = "turns"
PATCH: Final = ".patch"


class GuardedTurn(NamedTuple):
    """A turn of an agent, or a check, and what the protected files are compared with after it."""

    by: Blame
    holder: Holder
    rules: Rules
    reference: str
    existing_only: bool
    restores: bool


class Settled(NamedTuple):
    """The protected files that differed after an interrupted turn: those that were restored, with a
    patch to get the change back, and the others."""

    by: Blame
    restored: tuple[str, ...]
    patch: str
    changed: tuple[str, ...]

    def warnings(self) -> Iterator[str]:
        """Yield what the user of the next run is told about them."""
        when = "an agent's interrupted turn" if self.by == "agent" else "an interrupted check"
        if self.restored:
            yield (
                f"{listed_paths(self.restored, len(self.restored))} changed during {when}: restored;"
                f" if the change is yours, `git apply {self.patch}` brings it back"
            )
        if self.changed:
            yield (
                f"{listed_paths(self.changed, len(self.changed))} changed during {when}, and this run"
                " starts with that change in place; review it with `git diff`"
            )


def turn_of(
    by: Blame, rules: Rules, reference: str, evidence: Evidence, began_at: str
) -> GuardedTurn:
    """Return the turn that this process is about to begin."""
    holder = processes.this_process("", (), rules.run, loop="", started_at=began_at)
    restores = tampering_of(evidence) == "restore"
    return GuardedTurn(by, holder, rules, reference, evidence.existing_only, restores)


def note(files: StoreFiles, turn: GuardedTurn) -> None:
    """Record that an agent or a check begins to work. Raises `StoreError`."""
    plain = {
        **turn._asdict(),
        "holder": turn.holder._asdict(),
        "rules": turn.rules.to_json(),
    }
    with suppress(FileExistsError):
        os.mkdir(files.place(TURNS), 0o700)
    # Not synced: what a power cut loses, no agent has caused.
    store_files.replace(files.place(TURNS, turn.rules.run), to_json(plain))


def forget(files: StoreFiles, run: str) -> None:
    """Record that nobody whose changes have to be restored is working."""
    with suppress(OSError):
        os.unlink(files.place(TURNS, run))


def require_note(project: str, environ: Mapping[str, str], run: str) -> None:
    """Raise `StoreError` if nothing is known of a turn that was interrupted."""
    files = store_of(project, state_home(environ))
    if not os.path.lexists(files.place(TURNS, run)):
        raise StoreError(f"the tree store `{files.path}` has no record of it")


def settle(project: str, environ: Mapping[str, str], new_run: str) -> Iterator[Settled]:
    """Restore the protected files after each interrupted turn of the project, where its loop wants
    that, before `new_run` starts; yield what was found, once. Raises `StoreError`."""
    try:
        files = store_of(project, state_home(environ))
    except StoreError:
        return  # no run can have a store there: the new one says so, if it needs one
    for turn in _interrupted(files, project):
        sweep(turn.rules.run, (), KILL_GRACE_S)
        store = TreeStore.open(project, state_home(environ), find_git(project, environ))
        found = _settle(store, turn, new_run, environ)
        forget(files, turn.rules.run)
        if found.restored or found.changed:
            yield found


def _interrupted(files: StoreFiles, project: str) -> Iterator[GuardedTurn]:
    """Yield the turns whose runner is not alive any more."""
    try:
        names = sorted(os.listdir(files.place(TURNS)))
    except FileNotFoundError:
        return
    alive = {each.run_id for each in holders(project)}
    for name in names:
        if name.endswith(PATCH):
            continue
        turn = _read(files.place(TURNS, name))
        if name not in alive and not processes.still_same(turn.holder):
            yield turn


def _read(path: str) -> GuardedTurn:
    """Decode a note. Raises `StoreError` if it is damaged."""
    try:
        plain: dict[str, Any] = json.loads(store_files.read(path) or b"")
        holder = {**plain["holder"], "scope": (), "outer": ()}
        rules = Rules.from_json(plain["rules"])
        return GuardedTurn(**{**plain, "holder": Holder(**holder), "rules": rules})
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(f"`{path}` is damaged", "review your tests, then remove it") from error


def _settle(
    store: TreeStore, turn: GuardedTurn, new_run: str, environ: Mapping[str, str]
) -> Settled:
    """Restore what differs from the reference, except in the scopes of other runs."""
    rules, reference = turn.rules, turn.reference
    others = _others(turn, new_run, environ)

    def is_anothers(path: str) -> bool:
        return any(within(path, scope) for scope in others)

    left = store.snapshot(rules, reference)
    changes = store.guard_changes(reference, left.guard, existing_only=turn.existing_only)
    paths = tuple(each.path for each in changes if not is_anothers(each.path))
    if not paths or not turn.restores:
        return Settled(turn.by, (), "", paths)
    done = store.restore(rules, reference, existing_only=turn.existing_only, spare=is_anothers)
    now = store.snapshot(rules, reference)
    patch = store.files.place(TURNS, rules.run + PATCH)
    if text := store.diff(now.project, left.project, ["--binary", "--no-renames"]):
        store_files.replace(patch, text)
    failed = tuple(path for path in paths if path not in done.paths)
    return Settled(turn.by, done.paths, patch, failed)


def _others(turn: GuardedTurn, new_run: str, environ: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Return the scopes of the runs that worked beside an interrupted one, without the run that is
    about to start."""
    project = turn.rules.project
    mine = turn.rules.run
    alive = [one.scope for one in holders(project) if one.run_id not in (mine, new_run)]
    noted = scopes_beside(project, mine, turn.holder.started_at, environ, above=(new_run,))
    real = os.path.realpath(project)
    return [plain_scope(one, project) for one in (*alive, *noted) if overlaps(one, (real,))]
