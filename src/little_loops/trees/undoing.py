"""Undo what a run changed in the project's files, and undo that again.

The current files are stored first. Then a record says which files are about to be changed, from
which snapshot to which; it is marked as done when the user has been told. So a kill in between
loses nothing, the same command finishes the work, and once it is done, the same command undoes it.

    STORE/undos/RUN     the record, for as long as the run is not resumed

Not here: which files differ, and whose they are (`fsm.reversal`), who may change them (`cli.undo`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from little_loops.errors import StoreError, UsageError
from little_loops.fsm.path_text import listed_paths
from little_loops.fsm.reversal import Change, Reversal, Version, Versions, change_of, plan_reversal
from little_loops.light_typing import Any, Literal
from little_loops.records import NamedTuple
from little_loops.system.files import PRIVATE_FOLDER, to_json
from little_loops.trees import files as store_files
from little_loops.trees.objects import EMPTY_TREE
from little_loops.trees.rules import Rules
from little_loops.trees.store import TreeStore

UNDOS = "undos"
NOTHING = EMPTY_TREE.hex()
"""The snapshot in which no path exists."""


class Recorded(NamedTuple):
    """What a run has recorded: its name and id, the number of its last event, and its last snapshot.

    `is_complete` if nothing of the run can have changed files after that snapshot.
    """

    name: str
    run: str
    seq: int
    last: str
    is_complete: bool = True


class Goal(NamedTuple):
    """How the files shall be: as the snapshot `project` has them, after `step`; None: before the
    run."""

    project: str
    step: int | None = None


Doing = Literal["undo", "finish", "redo"]
"""Undo a run, finish an interrupted undo, or reverse the last undo."""


class Undone(NamedTuple):
    """What was changed, or would be; `failed` says which paths were not, and why."""

    doing: Doing
    changes: Mapping[str, Change]
    conflicts: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class Record(NamedTuple):
    """The last undo of a run, when its last event was number `seq`.

    `files` maps each path to the snapshot it had its content from, and to the one it got it from.
    `left` does the latter for all paths that earlier calls have changed, too; `under` is what that
    was before this one. `can_undo` if the same command undoes it: not if it has only undone
    another one.
    """

    seq: int
    step: int | None
    files: Mapping[str, tuple[str, str]]
    left: Mapping[str, str]
    under: Mapping[str, str]
    can_undo: bool
    is_done: bool


class _Plan(NamedTuple):
    """What to do: `sources` says where each path's new content is, `kept` where its replaced content
    is already kept."""

    doing: Doing
    reversal: Reversal
    target: Versions
    sources: Callable[[str], str]
    kept: Mapping[str, str]


class Undo:
    """Undoes one run. The scope must be claimed."""

    def __init__(self, store: TreeStore, rules: Rules, recorded: Recorded) -> None:
        self._store = store
        self._rules = rules
        self._recorded = recorded
        self._versions: dict[str, dict[str, Version]] = {}
        self._path = store.files.place(UNDOS, recorded.run)
        self._done: Record | None = None

    def carry_out(self, goal: Goal, *, force: bool = False, dry_run: bool = False) -> Undone:
        """Change the files within the run's scope to `goal`, if the run or an earlier undo changed
        them.

        With `dry_run`, only return what would be changed. Until `confirm` is called, the same call
        finishes the work; after that, it undoes it. Raises `UsageError` if someone else has changed
        one of the files since, except with `force`.
        """
        before = self._read()
        now = self._store.snapshot(self._rules).project
        plan = self._plan(before, now, goal)
        current = self._in_scope(now)
        changes = {path: change_of(path, current, plan.target) for path in plan.reversal.changes}
        conflicts = plan.reversal.conflicts
        if dry_run:
            return Undone(plan.doing, changes, conflicts)
        if conflicts and not force:
            raise _refused(conflicts)
        if not changes and (before is None or before.is_done):
            return Undone(plan.doing, {})
        return self._change(before, now, goal, plan, changes)

    def _plan(self, before: Record | None, now: str, goal: Goal) -> _Plan:
        """Decide what this call does: finish or undo the previous one, or undo the run."""
        if before is not None and before.step == goal.step:
            if not before.is_done:
                return self._between(before, now, "finish")
            if before.can_undo:
                return self._between(before, now, "redo")
        if before is not None and not before.is_done:
            how = "" if before.step is None else f" --to {before.step}"
            raise UsageError(
                "an earlier `undo` of this run was interrupted",
                f"`ll-loop undo {self._recorded.name}{how}` finishes it",
            )
        base = dict(self._in_scope(self._recorded.last))
        if before is not None:
            self._overlay(base, before.left)
        target = self._in_scope(goal.project)
        current = self._in_scope(now)
        is_unsure = not self._recorded.is_complete and before is None
        plan = plan_reversal(base, current, target, is_unsure=is_unsure)
        return _Plan("undo", plan, target, lambda path: goal.project, {})

    def _between(self, before: Record, now: str, doing: Literal["finish", "redo"]) -> _Plan:
        """Plan to finish the changes of a record, or to undo them."""
        one, other = (0, 1) if doing == "finish" else (1, 0)
        base: dict[str, Version] = {}
        target: dict[str, Version] = {}
        self._overlay(base, {path: ids[one] for path, ids in before.files.items()})
        self._overlay(target, {path: ids[other] for path, ids in before.files.items()})
        plan = plan_reversal(base, self._in_scope(now), target)
        kept = {path: ids[0] for path, ids in before.files.items()} if doing == "finish" else {}

        def source(path: str) -> str:
            # A file whose place another path needs is not recorded: it is only removed.
            return before.files[path][other] if path in before.files else NOTHING

        return _Plan(doing, plan, target, source, kept)

    def _change(
        self,
        before: Record | None,
        present: str,
        goal: Goal,
        plan: _Plan,
        changes: Mapping[str, Change],
    ) -> Undone:
        """Write the record, then change the files."""
        conflicts = frozenset(plan.reversal.conflicts)
        # What was replaced before an interruption is where the record says; the rest is in `present`.
        kept = {path: id for path, id in plan.kept.items() if path not in conflicts}
        sources = {path: plan.sources(path) for path in {*kept, *changes}}
        files = {path: (kept.get(path, present), sources[path]) for path in sources}
        left, under = _left(before, plan.doing, sources)
        # What was replaced by force when an undo was undone must come back, too.
        can_undo = plan.doing != "redo" or bool(conflicts)
        if before is not None and plan.doing == "finish":
            can_undo = before.can_undo or bool(conflicts)
        record = Record(self._recorded.seq, goal.step, files, left, under, can_undo, False)
        self._write(record)
        done = self._store.move(self._rules, present, {path: sources[path] for path in changes})
        failed = changes.keys() - set(done.paths)
        rest = {path: ids for path, ids in files.items() if path not in failed}
        kept_left = {path: id for path, id in left.items() if path not in failed}
        self._done = record._replace(files=rest, left=kept_left, is_done=True)
        return Undone(
            plan.doing,
            {path: each for path, each in changes.items() if path not in failed},
            plan.reversal.conflicts,
            done.failed,
        )

    def confirm(self) -> None:
        """Mark the changes as done; to be called when the user knows of them."""
        if self._done is not None:
            self._write(self._done, sync=False)  # at worst, the same command finishes it again

    def _in_scope(self, id: str) -> Versions:
        """Return the files of a snapshot within the run's scope."""
        found = self._versions.get(id)
        if found is None:
            all_files = {} if id == NOTHING else self._store.versions(id)
            found = {path: one for path, one in all_files.items() if self._rules.in_scope(path)}
            self._versions[id] = found
        return found

    def _overlay(self, onto: dict[str, Version], ids: Mapping[str, str]) -> None:
        """Replace the versions of these paths by those of the snapshots they are mapped to."""
        for path, id in ids.items():
            one = self._in_scope(id).get(path)
            if one is None:
                onto.pop(path, None)
            else:
                onto[path] = one

    # ── the record ─────────────────────────────────────────────────────────────────────────────

    def _read(self) -> Record | None:
        """Return the last undo of the run; None if there was none, or the run was resumed since."""
        plain = store_files.read_json(self._path)
        if plain is None:
            return None
        try:
            record = _decoded(plain)
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(
                f"`{self._path}`, which records the last undo, is damaged",
                "delete it, then run `ll-loop undo` again",
            ) from error
        return record if record.seq == self._recorded.seq else None

    def _write(self, record: Record, *, sync: bool = True) -> None:
        """Store the record, and keep the snapshots that it names from being pruned."""
        ids = {id for pair in record.files.values() for id in pair} - {NOTHING}
        self._store.keep(self._recorded.run, sorted(ids))
        os.makedirs(os.path.dirname(self._path), mode=PRIVATE_FOLDER, exist_ok=True)
        store_files.replace(self._path, to_json(record._asdict()), sync=sync)


def _left(
    before: Record | None, doing: Doing, sources: Mapping[str, str]
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return `left` and `under` of the next record; `sources` are those of the changed paths."""
    match before, doing:
        case None, _:
            return sources, {}
        case Record(), "undo":
            return {**before.left, **sources}, before.left
        case Record(), "finish":
            return before.left, before.under
        case _:
            return before.under, before.left


def _decoded(plain: dict[str, Any]) -> Record:
    """Decode a record. Raises `KeyError`, `TypeError` or `ValueError` if it is damaged."""
    files = {path: (str(before), str(after)) for path, (before, after) in plain["files"].items()}
    left, under = (
        {path: str(id) for path, id in plain[name].items()} for name in ("left", "under")
    )
    flags = bool(plain["can_undo"]), bool(plain["is_done"])
    return Record(int(plain["seq"]), plain["step"], files, left, under, *flags)


def _refused(conflicts: tuple[str, ...]) -> UsageError:
    count = len(conflicts)
    return UsageError(
        f"{count} file{' has' if count == 1 else 's have'} changed since the run:"
        f" {listed_paths(conflicts, count)}",
        "`--dry-run` lists everything; `--force` replaces your changes, too, and running the"
        " same command again brings them back",
    )
