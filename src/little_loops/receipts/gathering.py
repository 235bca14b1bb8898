"""Put together a receipt: from a run's event log, its definition and its trees."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping

from little_loops import __version__
from little_loops.errors import StoreError, UsageError
from little_loops.fsm.events import FinalEvent
from little_loops.fsm.evidence import tampering_of
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.timestamps import timestamp
from little_loops.fsm.values import written_env
from little_loops.light_typing import Any
from little_loops.receipts.canonical import digest
from little_loops.receipts.chain import chain_of
from little_loops.receipts.run_trees import TreesAndRules, guarded_files, trees_of
from little_loops.receipts.statement import File, write
from little_loops.receipts.story import Story, masked
from little_loops.reporting.masking import Masker
from little_loops.runs import refusals
from little_loops.runs.folders import open_file
from little_loops.runs.imported import read_imported
from little_loops.runs.layout import EVENTS
from little_loops.runs.reading import Runs
from little_loops.runs.sealed import not_written_by, seal_of
from little_loops.runs.view import RunView
from little_loops.system.files import read_all
from little_loops.trees.reading import list_tree

MAX_LOG_BYTES = 1 << 32
GITLINK = "160000"


def make_receipt(runs: Runs, view: RunView, environ: Mapping[str, str]) -> bytes:
    """Return the receipt of a run that has ended.

    Raises `UsageError` if the run is alive, damaged, not finished, or recorded no trees, or if its
    seal is missing or does not match; `StoreError` if its trees cannot be read.
    """
    if view.is_alive:
        raise UsageError(*refusals.no_receipt_yet(view.name))
    if view.damage is not None:
        raise UsageError(view.damage)
    machine, log = runs.machine(view), event_log(view)
    if machine is None or log is None:
        raise UsageError(f"the files of `{view.name}` are incomplete or damaged")
    story = Story(machine).read(runs.events(view))
    if story.ending is None:
        raise UsageError(
            f"`{view.name}` has not ended", f"`ll-loop resume {view.name}` continues it"
        )
    if not story.trees:
        raise UsageError(
            f"no snapshots of the files were recorded for `{view.name}`, so there is nothing to put"
            " in a receipt",
            "evidence was off for this run: see `evidence` in the manual",
        )
    _check_sealed(view, log)
    trees = trees_of(view.files, environ)
    files = [File(*each) for each in trees.store.listing(story.trees[-1].id)]
    predicate = _predicate(view, machine, story, trees, environ)
    chain = chain_of(log)
    predicate["log"] = {"lines": chain.lines, "head": chain.head}
    if read_imported(view.files) is not None:
        predicate["run"]["imported"] = True
    return write(files, commit_of(trees, story.trees[-1].id), predicate)


def _check_sealed(view: RunView, log: bytes) -> None:
    """Raise `UsageError` unless the run's seal shows that the run itself wrote this log."""
    sealed = seal_of(view.files.root, view.summary.run if view.summary else "")
    if sealed is None:
        raise UsageError(
            f"the seal of `{view.name}` is missing, so there is no proof of who wrote its log",
            "create the receipt on the machine where the run was started",
        )
    if not sealed.is_log(log):
        raise UsageError(not_written_by(view.files.events))


def event_log(view: RunView) -> bytes | None:
    """Return the bytes of a run's event log; None if there is none. Raises `StorageError`."""
    descriptor = open_file(view.files, EVENTS)
    if descriptor is None:
        return None
    try:
        return read_all(descriptor, MAX_LOG_BYTES, view.files.events)
    finally:
        os.close(descriptor)


def _predicate(
    view: RunView, machine: FSMLoop, story: Story, trees: TreesAndRules, environ: Mapping[str, str]
) -> dict[str, Any]:
    """Return everything a receipt says about a run except its files and log, with secrets masked."""
    plain = machine.to_dict()
    mask = Masker({**environ, **written_env(machine)}).mask
    told = facts_of_log(story)
    facts = {
        **told,
        "run": {
            "id": view.summary.run if view.summary else "",
            "name": view.name,
            "loop": machine.name,
            "scope": list(trees.rules.scope),
            "started": timestamp(view.started_ms),
        },
        "start": {"commit": trees.rules.head, **told["start"]},
        "protected": {**_protected(machine, story, trees), **told["protected"]},
        "versions": {
            "ll-loop": __version__,
            "python": platform.python_version(),
            "system": platform.system(),
        },
    }
    definition = {"machine": masked(plain, mask), "sha256": digest(plain)}
    return {**masked(facts, mask), "definition": definition}


def facts_of_log(story: Story) -> dict[str, Any]:
    """Return the part of a receipt that follows from the event log and the definition alone."""
    return {
        "start": {"tree": story.trees[0].id},
        "end": {"tree": story.trees[-1].id},
        "checks": story.checks,
        "turns": story.turns,
        **({"judges": story.judges} if story.judges else {}),
        "rechecks": story.rechecks,
        "out_of_scope": story.outside,
        "warnings": story.warnings,
        "ending": _ending(story.ending),
        "protected": {
            "tampered": story.tampered,
            "restored": story.restored,
            "reference_moved": story.moved,
            "committed": list(story.trees[-1].committed),
        },
    }


def _ending(event: FinalEvent | None) -> dict[str, Any]:
    """Return the fields of the run's final event that a receipt contains."""
    assert event is not None, "only a run that has ended has a receipt"
    wanted = (
        "status",
        "reason",
        "final_state",
        "iterations",
        "duration_ms",
        "evidence",
        "to_review",
    )
    return {name: getattr(event, name) for name in wanted if hasattr(event, name)}


def _protected(machine: FSMLoop, story: Story, trees: TreesAndRules) -> dict[str, Any]:
    """Return what a receipt says about protected paths, as far as the log does not have it."""
    evidence = machine.evidence
    return {
        "patterns": list(trees.rules.protect),
        "tampering": tampering_of(evidence),
        "existing_only": evidence.existing_only,
        "paths": [
            {"path": one.path, "mode": one.mode, "sha256": one.sha256}
            for one in guarded_files(trees.store, story.trees[-1].guard)
        ],
    }


def commit_of(trees: TreesAndRules, tree: str) -> str | None:
    """Return the commit that is checked out, if it has the same content as `tree` within the scope;
    else None."""
    store, rules = trees
    head = store.git.read(store.project, ["rev-parse", "--verify", "-q", "HEAD^{commit}"])
    listed = store.git.read(store.project, ["ls-tree", "-r", "-z", "HEAD"])
    if head.code != 0 or listed.code != 0:
        return None
    committed = {}
    for line in filter(None, os.fsdecode(listed.out).split("\0")):
        about, _, path = line.partition("\t")
        mode, _kind, id = about.split(" ")
        if mode != GITLINK and rules.in_scope(path):
            committed[path] = (mode, id)
    try:
        with store.using():
            stored = {
                one.path: (one.mode, one.id) for one in list_tree(store.git, store.files, tree)
            }
    except StoreError:
        return None
    return head.out.decode("ascii").strip() if committed == stored else None
