"""Runs that another run has started, in processes and clones of their own.

The clone of such a run begins with the last checkpoint of the run that started it, and has the files
of that run too. So it is started and resumed as on one computer, where these files are beside its
own. When it has ended, the process of the run that started it takes in what it has changed.

Not here: when such a run starts and stops (`workflow`), following orders (`seat`).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from little_loops.engine import lifecycle
from little_loops.engine.child_run import ChildSpec, carry_out_child, services_of_child
from little_loops.engine.lifecycle import RunRequest
from little_loops.engine.local_world import LocalWorld, Services
from little_loops.errors import LittleLoopsError, StorageError
from little_loops.fleet.git import WorkspaceError
from little_loops.fleet.workspace import RunClone
from little_loops.fsm.commands import Ending, RunChildren
from little_loops.fsm.endings import ending, is_gate
from little_loops.fsm.gates import open_gate
from little_loops.fsm.happenings import ChildEnded, ChildOutcome, Happening, Started
from little_loops.fsm.plain import decode
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import Answer, Limits, LoopState
from little_loops.light_typing import Any
from little_loops.reporting.observers import Observer
from little_loops.runs import storage
from little_loops.runs.answers import settled_answer
from little_loops.runs.child_runs import hold_pid, outcome_of
from little_loops.runs.folders import data_of
from little_loops.runs.layout import RunFiles, child_folder
from little_loops.runs.stored_run import StoredRun, read_stored


class ChildRefused(LittleLoopsError):
    """A run that another one wants to start cannot be given what it needs."""


def folder_of(files: RunFiles) -> str:
    """Return the directory whose files a checkpoint has: for a run that another one started, also
    its log and its snapshot, which are then part of the files of that one."""
    return files.directory if files.below else files.data


def parent_of(files: RunFiles) -> RunFiles:
    """Return the files of the run that started this one."""
    return files._replace(below=files.below[:-1])


# ── in the process of the run itself ───────────────────────────────────────────────────────────


def carry_out(
    given: Mapping[str, Any],
    request: RunRequest,
    services: Services,
    files: RunFiles,
    onlooker: Observer,
) -> None:
    """Carry out a run in the world of the one that started it, which only lends its values."""
    above = parent_of(files)
    parent = read_stored(above)
    assert parent is not None, "its files were written when this worker claimed the run"
    if answer := given.get("answer"):
        _settle(files, decode(Answer, answer))

    def begin(
        loop: FSMLoop, run: LoopState, happening: Happening, world: LocalWorld
    ) -> tuple[LoopState, Ending]:
        spec = _spec(world, run, given, files)
        own = services_of_child(world, spec, services.stop)._replace(
            drive=services.drive, performers=services.performers, warn=services.warn
        )
        carry_out_child(world, spec, own, lambda *_: onlooker)
        return run, ending("interrupted", "signal", "")

    with closing(_writer(parent)) as writer:
        clock = lifecycle.clock_for(services, parent.run.ran_ms)
        lent = services._replace(drive=begin)
        first = Started(clock.now())
        lifecycle.carry_out(parent.loop, parent.run, first, request, lent, writer, clock)


def _writer(stored: StoredRun) -> storage.RunWriter:
    return storage.reopen_in(stored.files, stored.stamps, has_snapshot=stored.has_snapshot)


def _spec(
    world: LocalWorld, run: LoopState, given: Mapping[str, Any], files: RunFiles
) -> ChildSpec:
    """Return what the run is to do. Raises `ChildRefused`."""
    child = given["child"]
    inputs = world.children.inputs(run, child["state"], child["name"])
    if isinstance(inputs, str):
        raise ChildRefused(inputs)
    return ChildSpec(
        run,
        child["state"],
        child["name"],
        files,
        read_stored(files),
        hold_pid(files),
        *inputs,
        run_id=given["run"],
        most=Limits(**child["most"]),
    )


def _settle(files: RunFiles, answer: Answer) -> None:
    """Store what a person has answered to the gate of the run, if it is this one that waits."""
    stored = read_stored(files)
    if stored is None or stored.run.children is not None:
        return
    gate = open_gate(stored.run) if is_gate(stored.run.status, stored.run.reason) else None
    if gate is not None:
        with data_of(files) as data:
            settled_answer(data, stored.run, answer._replace(gate=gate))


# ── in the process of the run that started it ──────────────────────────────────────────────────


def take_in(
    world: LocalWorld, command: RunChildren, arrived: Mapping[str, Any], workspace: RunClone
) -> ChildEnded:
    """Take in what a run has changed, and its files. Return how it has ended."""
    name, outcome = arrived["name"], arrived["outcome"]
    if outcome is not None:
        return ChildEnded(world.clock.now(), name, decode(ChildOutcome, outcome))
    files = world.writer.files.child(child_folder(command.step, command.attempt, name))
    try:
        workspace.take_in(arrived["checkpoints"], files.directory)
        found = outcome_of(files, read_stored(files))
    except (WorkspaceError, StorageError) as error:
        found = ChildOutcome("failed", "storage", message=error.message)
    return ChildEnded(world.clock.now(), name, found)
