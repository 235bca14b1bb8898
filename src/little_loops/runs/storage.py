"""Where the files of a run are, how they are written and how they are read back.

The event log is the truth and the state file a snapshot of it: it carries the `seq` of the last
event in it and the log's length at that moment, so a resume reads only what came after.  A
snapshot that cannot be used is made again from the log, if the log tells the whole story, that is
if its events are numbered from 1 without a hole.  If neither will do, the answer is `DamagedRun`
and nothing is touched.

The state file ends with a checksum of itself.  One that does not fit was edited by hand: that is
honoured, and said.

Not here: adding up events (`fsm.evolve`), who may write (`claims`), past runs (`history`).
"""

from __future__ import annotations

import json
import os
import re
from binascii import crc32
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from little_loops.errors import DamagedRun, LostOwnership, StorageError
from little_loops.fsm.state import FORMAT
from little_loops.records import NamedTuple
from little_loops.runs.folders import folder_of, make_folder, open_file
from little_loops.runs.journal import Journal, Record, Records, tail
from little_loops.runs.layout import DATA, EVENTS, LOG, RUN_JSON, RUNNING, STATE, RunFiles
from little_loops.runs.project import check_run_name
from little_loops.system.files import Folder, Stamp, to_json

MAX_BYTES = 64 << 20

Check = Callable[[dict[str, Any]], object]
"""Raises KeyError, TypeError, ValueError or AttributeError on a snapshot it cannot use."""


def _opened(files: RunFiles) -> Callable[[], int | None]:
    return lambda: open_file(files, EVENTS)


def events(files: RunFiles, offset: int = 0) -> Records:
    return Records(_opened(files), offset)


def last_events(files: RunFiles, count: int) -> list[Record]:
    return tail(_opened(files), count)


class Saved(NamedTuple):
    """A state file that could be read.  `offset` is the length of the log it stands for."""

    state: dict[str, Any]
    offset: int | None
    is_edited: bool


class Unusable(NamedTuple):
    """A state file that is there and cannot be used."""

    why: str
    is_newer: bool = False


def read_state(folder: Folder, base: str, check: Check | None = None) -> Saved | Unusable | None:
    """What is in a state file; None if there is none."""
    name = base + STATE
    raw = folder.read(name, MAX_BYTES)
    if raw is None:
        return None
    return _parse_state(raw, folder.place(name), check)


def _parse_state(raw: bytes, path: str, check: Check | None) -> Saved | Unusable:
    try:
        state = json.loads(raw)
        if not isinstance(state, dict):
            raise TypeError("not a JSON object")
        version, seq = state["format"], state["seq"]
        if type(version) is not int or type(seq) is not int:
            raise TypeError("`format` and `seq` must be numbers")
        if version > FORMAT:
            return _newer(path, version)
        footer = state.pop("log", None)
        if check is not None:
            check(state)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        return Unusable(f"`{path}` is damaged: {in_words(error)}")
    offset = footer.get("offset") if isinstance(footer, dict) else None
    return Saved(state, offset if type(offset) is int else None, not _is_as_written(raw))


def _newer(path: str, version: int) -> Unusable:
    return Unusable(
        f"`{path}` was written by a newer version (format {version}; this one reads {FORMAT})", True
    )


def in_words(error: Exception) -> str:
    """What is wrong with something that was read back."""
    match error:
        case KeyError():
            return f"{error} is missing"
        case json.JSONDecodeError():
            return f"not JSON from line {error.lineno}, column {error.colno} on"
        case RecursionError():
            return "nested too deep"
        case _:
            return str(error)


_FOOTER = re.compile(rb',"log":\{"offset":\d+,"crc":(\d+)\}\}\n')


def state_bytes(state: Mapping[str, Any], offset: int) -> bytes:
    body = to_json(state)[:-1]
    return b'%b,"log":{"offset":%d,"crc":%d}}\n' % (body, offset, crc32(body))


def _is_as_written(raw: bytes) -> bool:
    start = raw.rfind(b',"log":')
    footer = _FOOTER.fullmatch(raw, max(start, 0))
    return footer is not None and int(footer[1]) == crc32(raw[:start])


class Loaded(NamedTuple):
    """A run read back.

    `records` are the events behind the snapshot, or all of them if there is no snapshot to use;
    they are read as they are asked for, and a hole in them raises `DamagedRun`.  `damage` says what
    was not as it should be and could be made good.
    """

    snapshot: dict[str, Any] | None
    records: Iterator[Record]
    run_json: dict[str, Any] | None
    damage: str | None = None
    is_edited: bool = False
    stamp: Stamp | None = None


def load(files: RunFiles, check: Check | None = None) -> Loaded | None:
    """Read a run back; None if nothing of it was ever recorded.  Writes nothing."""
    folder = folder_of(files)
    if folder is None:
        return None
    with folder:
        stamp = folder.stamp(files.base + STATE)
        saved = read_state(folder, files.base, check)
        has_log = folder.stamp(files.base + EVENTS) is not None
        run_json = _read_run_json(folder, files.base)
    if isinstance(saved, Saved):
        missing = None if has_log else f"`{files.events}` is missing"
        return Loaded(saved.state, _behind(files, saved), run_json, missing, saved.is_edited, stamp)
    return _from_log(files, saved, run_json, stamp)


def _read_run_json(folder: Folder, base: str) -> dict[str, Any] | None:
    data = folder.child(base + DATA)
    if data is None:
        return None
    with data:
        raw = data.read(RUN_JSON, MAX_BYTES)
    try:
        kept = json.loads(raw or b"")
    except (ValueError, RecursionError):
        return None
    return kept if isinstance(kept, dict) else None


def _behind(files: RunFiles, saved: Saved) -> Iterator[Record]:
    seq = saved.state["seq"]
    offset = saved.offset if saved.offset and _ends_with(files, saved.offset, seq) else 0
    return _whole(events(files, offset), files, seq, saved.state.get("run"))


def _ends_with(files: RunFiles, offset: int, seq: int) -> bool:
    """Is that event the last one up to there?  After a loss of power the log may be shorter."""
    last = tail(_opened(files), 1, end=offset)
    return [record["seq"] for record in last] == [seq]


def _from_log(
    files: RunFiles, unusable: Unusable | None, run_json: dict[str, Any] | None, stamp: Stamp | None
) -> Loaded | None:
    why = f"`{files.state}` is missing" if unusable is None else unusable.why
    if unusable is not None and unusable.is_newer:
        raise DamagedRun(why, "install the newer version again, or start anew with `--fresh`")
    try:
        records = _whole(events(files), files, 0, None)
        first = next(records, None)
    except DamagedRun as error:
        raise DamagedRun(f"{why}, and {error.message}", error.help) from error
    if first is None and unusable is None and is_blank(files):
        return None
    if first is None:
        raise DamagedRun(f"{why}, and `{files.events}` has no events", LEFT_ALONE)
    version = first.get("format")
    if type(version) is int and version > FORMAT:
        raise DamagedRun(_newer(files.events, version).why, "install the newer version again")
    return Loaded(
        None, chain([first], records), run_json, f"{why}; read from the log", False, stamp
    )


def is_blank(files: RunFiles) -> bool:
    """Was nothing ever recorded in the log?  The first event may be there in part."""
    records = events(files)
    return next(iter(records), None) is None and records.damaged <= 1


LEFT_ALONE = "the files are left as they are; `--fresh` moves them to the history and starts anew"


def _whole(records: Iterable[Record], files: RunFiles, after: int, run: Any) -> Iterator[Record]:
    """The events numbered above `after`, as long as none is missing or somebody else's."""
    due = after + 1
    for record in records:
        seq = record["seq"]
        if seq <= after and due == after + 1:
            continue  # stands in the snapshot
        if seq != due:
            hole = f"event {seq} follows event {due - 1}"
            raise DamagedRun(f"`{files.events}` has a hole: {hole}", LEFT_ALONE)
        run = record.get("run") if run is None else run
        if record.get("run") != run:
            raise DamagedRun(f"`{files.events}` has events of two runs", LEFT_ALONE)
        due += 1
        yield record


class RunWriter:
    """The one writer of the current run of a name; its claim must be held."""

    def __init__(self, files: RunFiles, folder: Folder, stamp: Stamp | None) -> None:
        self.files = files
        self._folder = folder
        self._state = files.base + STATE
        self._stamp = stamp
        # Random, so that nobody can wait for it; ever the same, so that one is left at most.
        self._temporary = f".{files.base}.tmp-{os.urandom(8).hex()}"
        self.data = folder.make(files.base + DATA)
        try:
            self.journal = Journal(folder, files.base + EVENTS)
        except BaseException:
            self.data.close()
            raise

    def append(self, records: Iterable[Record], *, sync: bool = False) -> int:
        return self.journal.append(records, sync=sync)

    def save(self, state: Mapping[str, Any], *, sync: bool = False) -> None:
        """Replace the snapshot, unless it is no longer the one this writer left there."""
        if self._folder.stamp(self._state) != self._stamp:
            raise LostOwnership(
                f"somebody else wrote `{self.files.state}`",
                "this run stops here, so that two histories are not mixed",
            )
        data = state_bytes(state, self.journal.offset)
        self._stamp = self._folder.replace(self._state, data, self._temporary, sync=sync)

    def keep(self, run_json: Mapping[str, Any]) -> None:
        """Write down what the run was started with."""
        self.data.replace(RUN_JSON, to_json(run_json) + b"\n", self._temporary, sync=True)

    def open_log(self) -> int:
        """A descriptor of the log for people, which is appended to and never synced."""
        return self._folder.open(self.files.base + LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def close(self) -> None:
        self.journal.close()
        self.data.close()
        self._folder.close()


def create(root: str, name: str, run_json: Mapping[str, Any]) -> RunWriter:
    """Begin the files of a new run; its claim must be held and no other run be in its place."""
    writer = _writer(root, name, None)
    try:
        if writer.journal.offset and next(iter(events(writer.files)), None) is not None:
            raise StorageError(
                f"`{writer.files.events}` has the events of another run", "archive that run first"
            )
        writer.keep(run_json)
        writer._folder.sync()
    except BaseException:
        writer.close()
        raise
    return writer


def reopen(root: str, name: str, loaded: Loaded) -> RunWriter:
    """Go on writing a run that was read back; its claim must be held."""
    if loaded.snapshot is not None or loaded.stamp is None:
        return _writer(root, name, loaded.stamp)
    with make_folder(root, RUNNING) as folder:
        _set_aside(folder, name + STATE)
    return _writer(root, name, None)


def _writer(root: str, name: str, stamp: Stamp | None) -> RunWriter:
    files = RunFiles(root, check_run_name(name))
    folder = make_folder(root, RUNNING)
    try:
        _sweep(folder, name)
        return RunWriter(files, folder, stamp)
    except BaseException:
        folder.close()
        raise


def _sweep(folder: Folder, name: str) -> None:
    """Remove what a writer that was killed between two lines left behind."""
    unfinished = re.compile(rf"\.{re.escape(name)}\.tmp-[0-9a-f]{{16}}")
    for each in folder.names():
        if unfinished.fullmatch(each):
            folder.remove(each)


def _set_aside(folder: Folder, name: str) -> None:
    """Keep a damaged file as evidence, under the first free number."""
    taken = set(folder.names())
    number = 1
    while f"{name}.damaged-{number}" in taken:
        number += 1
    folder.move(name, folder, f"{name}.damaged-{number}")
