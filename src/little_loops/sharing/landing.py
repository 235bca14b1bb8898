"""Put a run from a run file into the project: all of it, or nothing.

The snapshots are stored first, then the seals, then the run's own files, in a hidden directory of
the history. Renaming that directory to the run's name is the moment in which the run is there. An
unfinished run is then moved to `.running`, in the same way as by a resume. A kill before the rename
leaves nothing that anyone sees; the same command does everything again. A kill after it leaves a
run that is complete, and the same command only finishes the move.

Not here: checking the file (`importing`), moving runs (`runs.history`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress

from little_loops.engine.pinned_start import PinnedStart
from little_loops.errors import StorageError, StoreError, UsageError
from little_loops.fsm.evidence import trees_of as recorded_trees
from little_loops.fsm.state import UNFINISHED
from little_loops.fsm.timestamps import timestamp
from little_loops.light_typing import Literal
from little_loops.receipts.gathering import event_log
from little_loops.records import NamedTuple
from little_loops.runs.claims import claim, nesting
from little_loops.runs.folders import make_folder
from little_loops.runs.history import restore, settle
from little_loops.runs.layout import (
    CHILD,
    DATA,
    EVENTS,
    HISTORY,
    IMPORTED,
    LOG,
    RULES,
    RUN_JSON,
    STATE,
    RunFiles,
)
from little_loops.runs.project import resolve_scope, run_name
from little_loops.runs.reading import Runs
from little_loops.runs.seals import Sealing, SealWriter
from little_loops.runs.state_file import state_bytes
from little_loops.runs.view import RunView
from little_loops.sharing.importing import CheckedRun, OpenRunFile
from little_loops.sharing.run_file import WrongRunFile, path_in_outer
from little_loops.system.clock import wall_ms
from little_loops.system.files import Folder, failure, to_json
from little_loops.system.user_state import state_home
from little_loops.trees.bundles import WrongBundle, check_bundle, quarantine
from little_loops.trees.git import find_git, is_inside
from little_loops.trees.rules import Rules
from little_loops.trees.store import TreeStore

STAGING = ".import-"


class ImportResult(NamedTuple):
    """What became of a run file: its run is new here, or was here already, perhaps in a later
    state."""

    name: str
    how: Literal["imported", "already here", "continued here"]
    is_unfinished: bool


def land(file: OpenRunFile, root: str, id: str | None, environ: Mapping[str, str]) -> ImportResult:
    """Put the run of a checked file into the project, under its own name, or `LOOP@id`.

    Raises `UsageError` if the project has a run of that name, or the same run under another,
    `ConflictError` if another run holds the name or scope, `WrongRunFile` if its snapshots are
    wrong, `StorageError` if something cannot be written.
    """
    name = file.manifest.name if id is None else run_name(file.run.loop, id)
    with claim(
        root,
        name,
        resolve_scope(root, file.run.scope),
        file.run.run,
        loop=file.run.loop,
        started_at=timestamp(wall_ms()),
        outer=nesting(environ).runs,
    ):
        settle(root, name)
        is_unfinished = file.run.status in UNFINISHED
        found = _same_run(Runs(root), file)
        if found is not None:
            return _finish(file, found, name, id)
        _check_free(Runs(root), name, file.run.loop)
        landing = _Landing(file, root, name, environ)
        landing.store_trees()
        stem = landing.place()
        if is_unfinished:
            restore(RunFiles(root, name, stem))
        return ImportResult(name, "imported", is_unfinished)


def _same_run(runs: Runs, file: OpenRunFile) -> RunView | None:
    """Return the run of the file, if the project has it already."""
    views = (*runs.list(), *runs.past())
    return next((one for one in views if one.summary and one.summary.run == file.run.run), None)


def _finish(file: OpenRunFile, found: RunView, name: str, id: str | None) -> ImportResult:
    """Return how the project has the run of the file, after completing an interrupted import.

    Raises `UsageError` if it has it under another name, or in a state that is not a later one.
    """
    log = event_log(found) or b""
    if found.name != name and (id is not None or found.name != file.manifest.name):
        raise UsageError(f"this run is already here, as `{found.name}`")
    if not log.startswith(file.log):
        earlier = file.log.startswith(log)
        raise UsageError(
            f"`{found.name}` is {'an earlier' if earlier else 'another'} state of the same run",
            "import it into another clone of the project",
        )
    is_unfinished = found.summary is not None and found.summary.status in UNFINISHED
    if log != file.log:
        return ImportResult(found.name, "continued here", is_unfinished)
    if file.run.status in UNFINISHED and found.files.stem is not None:
        restore(found.files)
        return ImportResult(found.name, "imported", True)
    return ImportResult(found.name, "already here", is_unfinished)


def _check_free(runs: Runs, name: str, loop: str) -> None:
    """Raise `UsageError` if the project has, or had, a run of that name."""
    if runs.has_files(name):
        raise UsageError(
            f"this project already has runs of `{name}`",
            f"`--id ID` imports it under the name `{loop}@ID`",
        )


class _Landing:
    """Writes a run; requires its claim."""

    def __init__(self, file: OpenRunFile, root: str, name: str, environ: Mapping[str, str]) -> None:
        self._file = file
        self._root = root
        self._name = name
        self._environ = environ
        self._rules: dict[str, bytes] = {}

    # ── snapshots ──────────────────────────────────────────────────────────────────────────────

    def store_trees(self) -> None:
        """Check the snapshots and store them, together with what pins the start of each run. Raises
        `WrongRunFile`, `StoreError`."""
        if self._file.manifest.trees is None:
            return
        home = state_home(self._environ)
        git = find_git(self._root, self._environ)
        store = TreeStore.open(self._root, home, git)
        with quarantine(store, self._file.run.run) as scratch:
            try:
                checked = check_bundle(self._file.bundle(), git, scratch)
            except WrongBundle as wrong:
                raise WrongRunFile(f"`trees.bundle`: {wrong}") from None
            checked.add_to(store)
        for one in self._file.runs:
            if one.rules is not None:
                rules = to_json(_local(store, one.rules).to_json())
                pins = PinnedStart("", (RUN_JSON, RULES), store.files.place("pins", one.run.run))
                pins.pin(run=one.start, evidence=rules)
                self._rules[one.place] = rules

    # ── files ──────────────────────────────────────────────────────────────────────────────────

    def place(self) -> str:
        """Write the files of the run and put them in place. Return its stem in the history."""
        stem = self._file.run.started_at[:19].replace(":", "-")
        staging = STAGING + self._name
        with make_folder(self._root, HISTORY) as history:
            _remove_tree(history, staging)
            with history.make(staging) as folder:
                for one in self._file.runs:
                    with _inside(folder, stem, one.place) as place:
                        self._write(place, one, CHILD if one.place else stem)
                        place.sync()
                folder.sync()
            try:
                os.rename(staging, self._name, src_dir_fd=history.fd, dst_dir_fd=history.fd)
            except OSError as error:
                raise failure(error, "write", history.place(self._name)) from error
            history.sync()
        return stem

    def _write(self, folder: Folder, one: CheckedRun, base: str) -> None:
        """Write everything of a run, flushed to the disk; its files are called `base`."""
        with folder.make(base + DATA) as data:
            own = {RUN_JSON: one.start, IMPORTED: one.imported.to_bytes()}
            if one.place in self._rules:
                own[RULES] = self._rules[one.place]
            for path, content in (*own.items(), *self._file.files(one.place)):
                _write_below(data, path, content)
            data.sync()
        _write_new(folder, base + EVENTS, one.log)
        if (text := self._file.text(one.place)) is not None:
            _write_new(folder, base + LOG, text)
        state = state_bytes(one.run, len(one.log))
        _write_new(folder, base + STATE, state)
        self._seal(folder, one, base, state)

    def _seal(self, folder: Folder, one: CheckedRun, base: str, state: bytes) -> None:
        """Seal a run as it was imported, if it keeps evidence, so that no agent can change it
        later."""
        if recorded_trees(one.run) is None:
            return
        home = os.path.realpath(state_home(self._environ))
        if is_inside(home, os.path.realpath(self._root)):
            return
        log = folder.open(base + EVENTS, os.O_RDONLY)
        try:
            sealing = Sealing(one.run.run, self._environ)
            writer = SealWriter.open(self._root, self._name, sealing, log, len(one.log), state)
        finally:
            os.close(log)
        try:
            if not one.place:
                writer.take_name()
        finally:
            writer.close()


def _local(store: TreeStore, rules: Rules) -> Rules:
    """Return the rules of an imported run for this machine: ignored files are those that are here
    now."""
    here = rules._replace(project=store.project, store=store.id)
    with suppress(StoreError):  # not in a git repository: nothing is ignored
        found = store.rules(rules.run, rules.scope, rules.protect)
        here = here._replace(files=found.files, linked=found.linked)
    return here


@contextmanager
def _inside(folder: Folder, stem: str, place: str) -> Iterator[Folder]:
    """Yield the directory of a run: the given one, or for one that another run started, the
    directory at its place below that."""
    names = [stem + DATA, *path_in_outer(place).split("/")[:-2]]
    with ExitStack() as stack:
        for name in names if place else ():
            folder = stack.enter_context(folder.make(name))
        yield folder


def _write_below(data: Folder, path: str, content: bytes) -> None:
    """Write a file below a directory, and create the directories above it."""
    *above, name = path.split("/")
    if not above:
        _write_new(data, name, content)
        return
    with data.make(above[0]) as folder:
        _write_below(folder, "/".join([*above[1:], name]), content)
        folder.sync()


def _write_new(folder: Folder, name: str, content: bytes) -> None:
    """Write a file into a directory that is not in use yet, flushed to the disk."""
    folder.replace(name, content, f".tmp-{os.urandom(8).hex()}", sync=False)
    descriptor = folder.open(name, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_tree(folder: Folder, name: str) -> None:
    """Remove what a killed import left. Raises `StorageError` if that is not possible."""
    if folder.stamp(name) is not None:
        shutil.rmtree(name, ignore_errors=True, dir_fd=folder.fd)
        if folder.stamp(name) is not None:
            raise StorageError(f"cannot remove `{folder.place(name)}`", "remove it yourself")
