"""Everything that a report about a run is made from, with its secrets known.

Not here: what a report looks like (`terminal`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from little_loops.errors import StorageError, UsageError
from little_loops.fsm.events import Entry
from little_loops.fsm.schema import FSMLoop
from little_loops.records import NamedTuple
from little_loops.runs import refusals
from little_loops.runs.outputs import Outputs, open_outputs
from little_loops.runs.reading import Runs
from little_loops.runs.stored_run import read_stored
from little_loops.runs.view import RunView
from little_loops.sharing.secrets import Secrets


class RunRecord(NamedTuple):
    """A run, its events and its outputs, which may be None."""

    view: RunView
    machine: FSMLoop
    entries: Sequence[Entry]
    outputs: Outputs | None
    secrets: Secrets


@contextmanager
def open_record(runs: Runs, view: RunView, environ: Mapping[str, str]) -> Iterator[RunRecord]:
    """Yield what is known about a run; its outputs stay open within the block.

    Raises `UsageError` if the run is damaged or has recorded nothing, `StorageError` if its files
    cannot be read.
    """
    machine, stored = runs.machine(view), None
    if view.damage is not None:
        raise UsageError(view.damage)
    if machine is None:
        raise UsageError(*refusals.nothing_recorded(view.name))
    try:
        stored = read_stored(view.files)
    except StorageError:
        stored = None  # it may be moving; the context only says which values are secrets
    secrets = Secrets(machine, stored.run.context if stored else {}, environ, view.name)
    secrets.learn_earlier(stored.start if stored else {})
    outputs = open_outputs(view.files)
    try:
        if outputs is not None:
            secrets.learn(outputs.known_secrets())
        yield RunRecord(view, machine, list(runs.events(view)), outputs, secrets)
    finally:
        if outputs is not None:
            outputs.close()
