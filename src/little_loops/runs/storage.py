"""Write the files of a run, and read them so that it can be resumed.

The event log is the source of truth, and the state file a snapshot of it. An unusable snapshot is
rebuilt from the log, if the log is complete, that is, if its events are numbered from 1 without a
gap. Otherwise `DamagedRun` is raised and nothing is changed.

For a run with evidence, only what its own runner sealed counts, in the log and in the snapshot.

Not here: applying events (`stored_run`), who may write (`claims`), past runs (`history`).
"""

from __future__ import annotations

import os
from binascii import crc32
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from little_loops import light_json as json
from little_loops.errors import DamagedRun, LostOwnership, StorageError
from little_loops.fsm.codec import from_record, seq_of
from little_loops.fsm.events import Entry, LoopStart
from little_loops.fsm.plain import WrongShape
from little_loops.fsm.state import FORMAT, LoopState
from little_loops.light_modules import re
from little_loops.light_typing import TYPE_CHECKING, Any
from little_loops.records import NamedTuple
from little_loops.runs.folders import event_log, folder_of, make_folder_of
from little_loops.runs.journal import Journal, Record, Records, is_blank, line_of, tail
from little_loops.runs.layout import DATA, EVENTS, LOG, RUN_JSON, STATE, RunFiles
from little_loops.runs.sealed import not_written_by, seal_of
from little_loops.runs.state_file import (
    MAX_BYTES,
    StateSnapshot,
    UnusableState,
    in_words,
    newer,
    read_snapshot,
    state_bytes,
)
from little_loops.system.files import FileStamp, Folder, failure, to_json

if TYPE_CHECKING:
    from little_loops.runs.seals import SealedRun, Sealing, SealWriter

LEFT_ALONE = "nothing was changed; `--fresh` moves the files to the history and starts again"
UNSEALED = "not-of-this-run.jsonl"
"""What another process added to the log, kept in the run's directory for inspection."""
MAX_UNSEALED_BYTES = 1 << 20


class Stamps(NamedTuple):
    """Enough to see that nobody has written to a run since it was read."""

    state: FileStamp | None
    events: FileStamp | None


class RunStart(NamedTuple):
    """What a run was started with; `is_as_written` if the file was not changed since."""

    data: dict[str, Any]
    is_as_written: bool


class Loaded(NamedTuple):
    """A run that was read.

    `entries` are the events after the snapshot, or all of them without a usable snapshot; they are
    read lazily, and a gap in them raises `DamagedRun`. `damage` describes a problem that could be
    repaired. `end` is how much of the log counts, if it is sealed.
    """

    snapshot: LoopState | None
    entries: Iterator[Entry]
    start: RunStart | None
    stamps: Stamps
    damage: str | None = None
    is_edited: bool = False
    end: int | None = None


def load(files: RunFiles) -> Loaded | None:
    """Read a run; None if nothing of it was ever recorded. Writes nothing.

    Raises `DamagedRun` if neither snapshot nor log can be used, and for a sealed run if the log is
    not its own. What others appended to a sealed log is ignored and reported as `damage`.
    """
    folder = folder_of(files)
    if folder is None:
        return None
    with folder:
        stamps = _stamps(folder, files)
        saved = read_snapshot(folder, files.base)
        start = _read_start(folder, files.base)
    run = saved.run.run if isinstance(saved, StateSnapshot) else _run_in(files)
    sealed = None if run is None else seal_of(files.root, run)
    if sealed is None:
        return _loaded(files, saved, start, stamps)
    end = _sealed_length(files, sealed)
    if isinstance(saved, StateSnapshot) and not sealed.has_state(saved.raw):
        saved = UnusableState(not_written_by(files.state))
    loaded = _loaded(files, saved, start, stamps, end)
    added = 0 if stamps.events is None else stamps.events.size - end
    if loaded is None or added <= 0:
        return loaded
    why = f"the last {added} bytes of `{files.events}` were not written by this run and are ignored"
    return loaded._replace(damage=f"{loaded.damage}; {why}" if loaded.damage else why)


def _loaded(
    files: RunFiles,
    saved: StateSnapshot | UnusableState | None,
    start: RunStart | None,
    stamps: Stamps,
    end: int | None = None,
) -> Loaded | None:
    """Return the run from its snapshot and the events after it, else from the log alone; None if
    there is neither."""
    if isinstance(saved, StateSnapshot):
        missing = f"`{files.events}` is missing" if stamps.events is None else None
        behind = _entries_after(files, saved, end)
        return Loaded(saved.run, behind, start, stamps, missing, saved.is_edited, end)
    return _from_log(files, saved, start, stamps, end)


class Log(NamedTuple):
    """The events of a run, and how many lines of its log are none."""

    entries: list[Entry]
    damaged: int = 0


def read_log(files: RunFiles) -> Log:
    """Read the whole log of a run, as far as it is its own. Raises `DamagedRun` if an event is
    missing, repeated or unreadable."""
    run = _run_in(files)
    sealed = None if run is None else seal_of(files.root, run)
    end = None if sealed is None else _sealed_length(files, sealed)
    records = Records(event_log(files), 0, end)
    entries = list(_checked_entries(records, files, 0, None))
    return Log(entries, records.damaged)


def read_start(files: RunFiles) -> dict[str, Any]:
    """Return what a run was started with; empty if that is missing or damaged."""
    folder = folder_of(files)
    if folder is None:
        return {}
    with folder:
        start = _read_start(folder, files.base)
    return {} if start is None else start.data


def _run_in(files: RunFiles) -> str | None:
    """Return the id of the run that the log belongs to, by its first event; None if there is
    none."""
    first = next(iter(Records(event_log(files))), None)
    try:
        return None if first is None else from_record(first).run
    except WrongShape:
        return None


def _sealed_length(files: RunFiles, sealed: SealedRun) -> int:
    """Return how many bytes of the log are sealed. Raises `DamagedRun` if it is not the log of this
    run."""
    length = sealed.length_in_log(event_log(files))
    if length is None:
        raise DamagedRun(not_written_by(files.events), LEFT_ALONE)
    return length


def stamps_of(files: RunFiles) -> Stamps:
    """Return the stamps of a run's files, to detect later that someone has written to them."""
    folder = folder_of(files)
    if folder is None:
        return Stamps(None, None)
    with folder:
        return _stamps(folder, files)


def _stamps(folder: Folder, files: RunFiles) -> Stamps:
    return Stamps(folder.stamp(files.base + STATE), folder.stamp(files.base + EVENTS))


def _entries_after(files: RunFiles, saved: StateSnapshot, end: int | None) -> Iterator[Entry]:
    seq = saved.run.seq
    offset = saved.offset if saved.offset and _ends_with(files, saved.offset, seq) else 0
    return _checked_entries(Records(event_log(files), offset, end), files, seq, saved.run.run)


def _ends_with(files: RunFiles, offset: int, seq: int) -> bool:
    """Return whether that event is the last one up to there; after a power cut the log may be
    shorter."""
    return [seq_of(last) for last in tail(event_log(files), 1, end=offset)] == [seq]


def _from_log(
    files: RunFiles,
    unusable: UnusableState | None,
    start: RunStart | None,
    stamps: Stamps,
    end: int | None,
) -> Loaded | None:
    """Return a run without a usable snapshot from its log; None if nothing was ever recorded.

    Raises `DamagedRun` if the log is damaged at its start, has no events, or if it or the snapshot
    is from a newer version.
    """
    why = f"`{files.state}` is missing" if unusable is None else unusable.why
    if unusable is not None and unusable.is_newer:
        raise DamagedRun(why, "install the newer version again, or start again with `--fresh`")
    try:
        entries = _checked_entries(Records(event_log(files), 0, end), files, 0, None)
        first = next(entries, None)
    except DamagedRun as error:
        raise DamagedRun(f"{why}, and {error.message}", error.help) from error
    if first is None and unusable is None and is_blank(event_log(files)):
        return None
    if first is None:
        raise DamagedRun(f"{why}, and `{files.events}` has no events", LEFT_ALONE)
    version = first.event.format if isinstance(first.event, LoopStart) else None
    if version is not None and version > FORMAT:
        raise DamagedRun(newer(files.events, version), "install the newer version again")
    damage = f"{why}; its state was read from the log"
    return Loaded(None, chain([first], entries), start, stamps, damage, end=end)


def _checked_entries(
    records: Iterable[Record], files: RunFiles, after: int, run: str | None
) -> Iterator[Entry]:
    """Yield the events numbered above `after`. Raises `DamagedRun` if one is missing, repeated or
    unreadable, or belongs to another run."""
    due = after + 1
    for record in records:
        seq = seq_of(record)
        if seq <= after and due == after + 1:
            continue  # included in the snapshot
        if seq != due:
            hole = f"event {seq} follows event {due - 1}"
            raise DamagedRun(f"`{files.events}` has a gap or repeat: {hole}", LEFT_ALONE)
        entry = _entry(record, files)
        run = entry.run if run is None else run
        if entry.run != run:
            raise DamagedRun(f"`{files.events}` contains events of two runs", LEFT_ALONE)
        due += 1
        yield entry


def _entry(record: Record, files: RunFiles) -> Entry:
    """Decode an event. Raises `DamagedRun` if it lacks the fields of its kind."""
    try:
        return from_record(record)
    except WrongShape as error:
        raise unreadable_event(files, error) from error


def unreadable_event(files: RunFiles, error: Exception) -> DamagedRun:
    why = f"`{files.events}` has an event that cannot be read: {in_words(error)}"
    return DamagedRun(why, LEFT_ALONE)


# ── what it was started with ───────────────────────────────────────────────────────────────────


def start_bytes(data: Mapping[str, Any]) -> bytes:
    """Return the content of `run.json`, with a checksum, so that a machine that was already
    validated need not be validated again."""
    body = to_json({name: value for name, value in data.items() if name != "crc"})[:-1]
    return body + _checksum(body)


def _checksum(body: bytes) -> bytes:
    return b',"crc":%d}\n' % crc32(body)


def _read_start(folder: Folder, base: str) -> RunStart | None:
    """Return what the run was started with; None if that is missing or damaged."""
    data = folder.child(base + DATA)
    if data is None:
        return None
    with data:
        raw = data.read(RUN_JSON, MAX_BYTES) or b""
    try:
        kept = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    body, start, rest = raw.rpartition(b',"crc":')
    is_as_written = start + rest == _checksum(body)
    return RunStart(kept, is_as_written) if isinstance(kept, dict) else None


# ── writing ────────────────────────────────────────────────────────────────────────────────────


class RunWriter:
    """The only writer of the current run of a name; requires its claim."""

    def __init__(
        self,
        files: RunFiles,
        folder: Folder,
        stamp: FileStamp | None,
        sealing: Sealing | None = None,
    ) -> None:
        """Open the files of a run for writing, and create those that are missing; takes over the
        folder.

        `stamp` is that of the snapshot that was read, None if there must be none. With `sealing`,
        all that is written is sealed.
        """
        self.files = files
        self._folder = folder
        self._state = files.base + STATE
        self._stamp = stamp
        # Random, so that nobody can prepare for it; always the same, so that at most one is left
        # over.
        self._temporary = f".{files.base}.tmp-{os.urandom(8).hex()}"
        self.data = folder.make(files.base + DATA)
        try:
            self.journal = Journal(folder, files.base + EVENTS)
        except BaseException:
            self.data.close()
            raise
        if sealing is not None:
            try:
                self.journal.seal = self._seal(sealing)
            except BaseException:
                self.data.close()
                self.journal.close()
                raise

    def _seal(self, sealing: Sealing) -> SealWriter:
        state = None if self._stamp is None else self._folder.read(self._state, MAX_BYTES)
        log, length = self.journal.fileno(), self.journal.offset
        from little_loops.runs.seals import SealWriter  # loops without agents pay nothing

        return SealWriter.open(self.files.root, self.files.name, sealing, log, length, state)

    @property
    def folder(self) -> Folder:
        """The folder that contains the files of the run."""
        return self._folder

    def append(self, records: Iterable[Record], *, sync: bool = False) -> int:
        return self.journal.append(records, sync=sync)

    def save(self, run: LoopState, *, sync: bool = False) -> None:
        """Replace the snapshot, sealed if the run is; with `sync`, flush it to the disk.

        Raises `LostOwnership` if another process has written one meanwhile.
        """
        if self._folder.stamp(self._state) != self._stamp:
            raise LostOwnership(
                f"another process wrote `{self.files.state}`",
                "this run stops here, so that the two runs do not overwrite each other",
            )
        data = state_bytes(run, self.journal.offset)
        if self.journal.seal is not None:
            self.journal.seal.replace(data)
        self._stamp = self._folder.replace(self._state, data, self._temporary, sync=sync)
        # The name belongs to the root of a tree of runs.
        if self.journal.seal is not None and not self.files.below:
            self.journal.seal.take_name()

    def keep(self, start: Mapping[str, Any]) -> None:
        """Record what the run was started with."""
        self.data.replace(RUN_JSON, start_bytes(start), self._temporary, sync=True)

    def open_log(self) -> int:
        """Return a descriptor of the log for people, which is appended to and never synced."""
        return self._folder.open(self.files.base + LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def close(self) -> None:
        """Close the log, the seals and both folders; the files stay."""
        if self.journal.seal is not None:
            self.journal.seal.close()
        self.journal.close()
        self.data.close()
        self._folder.close()


def create(
    root: str, name: str, start: Mapping[str, Any], sealing: Sealing | None = None
) -> RunWriter:
    """Create the files of a new run, and record what it was started with; requires its claim.

    Raises `StorageError` if the events of another run are in its place.
    """
    return create_in(RunFiles(root, name), start, sealing)


def create_in(
    files: RunFiles, start: Mapping[str, Any], sealing: Sealing | None = None
) -> RunWriter:
    """Create the files of a new run in a given place; otherwise like `create`."""
    writer = _writer(files, None, sealing)
    try:
        if writer.journal.offset and not is_blank(event_log(writer.files)):
            raise StorageError(
                f"`{writer.files.events}` contains the events of another run",
                "archive that run first",
            )
        writer.keep(start)
        writer._folder.sync()
    except BaseException:
        writer.close()
        raise
    return writer


def create_start(files: RunFiles, start: Mapping[str, Any]) -> None:
    """Record what a run that is being made is started with; requires its claim.

    The run has no log and no snapshot yet (`plant`), so it is none for everyone else.
    """
    with make_folder_of(files) as folder, folder.make(files.base + DATA) as data:
        data.replace(RUN_JSON, start_bytes(start), f".tmp-{os.urandom(8).hex()}", sync=True)
        folder.sync()


def plant(
    files: RunFiles,
    records: Iterable[Record],
    run: LoopState,
    sealing: Sealing | None,
    line: str,
) -> None:
    """Give a run that was created a log and a snapshot, as if it had written them, and the log for
    people its first line; requires its claim.

    The log is put in place at once. If that is killed and done again, the result is the same.
    """
    log = b"".join(map(line_of, records))
    name = files.base
    with make_folder_of(files) as folder:
        folder.replace(name + LOG, line.encode(), f".{name}.tmp-{os.urandom(8).hex()}")
        folder.replace(name + EVENTS, log, f".{name}.tmp-{os.urandom(8).hex()}", sync=True)
        stamp = folder.stamp(name + STATE)
    writer = _writer(files, stamp, sealing)
    try:
        writer.save(run, sync=True)
    finally:
        writer.close()


def reopen(
    root: str,
    name: str,
    stamps: Stamps,
    *,
    has_snapshot: bool,
    end: int | None = None,
    sealing: Sealing | None = None,
) -> RunWriter:
    """Continue to write a run that was read; requires its claim.

    The log beyond `end`, which others wrote, is moved to a file in the run's directory; an unusable
    snapshot (not `has_snapshot`) is renamed and kept.
    """
    files = RunFiles(root, name)
    return reopen_in(files, stamps, has_snapshot=has_snapshot, end=end, sealing=sealing)


def reopen_in(
    files: RunFiles,
    stamps: Stamps,
    *,
    has_snapshot: bool,
    end: int | None = None,
    sealing: Sealing | None = None,
) -> RunWriter:
    """Continue to write a run in a given place; otherwise like `reopen`."""
    if end is not None:
        with make_folder_of(files) as folder:
            _cut(folder, files.base, end)
    if has_snapshot or stamps.state is None:
        return _writer(files, stamps.state, sealing)
    with make_folder_of(files) as folder:
        _set_aside(folder, files.base + STATE)
    return _writer(files, None, sealing)


def _cut(folder: Folder, name: str, end: int) -> None:
    """Move the part of the log after `end` to a file of its own, of which at most
    `MAX_UNSEALED_BYTES` are kept."""
    log = folder.open(name + EVENTS, os.O_RDWR)
    try:
        if added := os.pread(log, MAX_UNSEALED_BYTES, end):
            with folder.make(name + DATA) as data:
                data.replace(UNSEALED, added, f".tmp-{os.urandom(8).hex()}")
            os.ftruncate(log, end)
    except OSError as error:
        raise failure(error, "write", folder.place(name + EVENTS)) from error
    finally:
        os.close(log)


def _writer(files: RunFiles, stamp: FileStamp | None, sealing: Sealing | None = None) -> RunWriter:
    """Return a writer for a run, after removing temporary files of a killed one."""
    folder = make_folder_of(files)
    try:
        _remove_temporaries(folder, files.base)
        return RunWriter(files, folder, stamp, sealing)
    except BaseException:
        folder.close()
        raise


def _remove_temporaries(folder: Folder, name: str) -> None:
    """Remove temporary files of a writer that was killed."""
    start = f".{name}.tmp-"
    for each in folder.names():
        if each.startswith(start) and re.fullmatch("[0-9a-f]{16}", each.removeprefix(start)):
            folder.remove(each)


def _set_aside(folder: Folder, name: str) -> None:
    """Rename a damaged file, with the first free number, to keep it for inspection."""
    taken = set(folder.names())
    number = 1
    while f"{name}.damaged-{number}" in taken:
        number += 1
    folder.move(name, folder, f"{name}.damaged-{number}")
