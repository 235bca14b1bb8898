"""Read and write the state file of a run: a snapshot of its events.

It has the `seq` of its last event and the length of the log at that time, so that a resume reads
only what came after. It ends with a checksum of itself: a wrong checksum means that the file was
edited by hand, which is accepted and reported.

Not here: its fields (`fsm.state`), what to do without a usable snapshot (`storage`).
"""

from __future__ import annotations

from binascii import crc32
from collections.abc import Callable

from little_loops import light_json as json
from little_loops.fsm.state import FORMAT, LoopState, RunSummary, check_format
from little_loops.light_typing import TYPE_CHECKING, Any, TypeVar
from little_loops.records import NamedTuple
from little_loops.runs.layout import STATE
from little_loops.runs.sealed import not_written_by
from little_loops.system.files import Folder, to_json

if TYPE_CHECKING:
    from little_loops.runs.seals import Seals

MAX_BYTES = 64 << 20

Decoded = TypeVar("Decoded")


class StateSnapshot(NamedTuple):
    """A state file that could be read. `offset` is the length of the log it represents."""

    run: LoopState
    offset: int | None
    is_edited: bool
    raw: bytes


class UnusableState(NamedTuple):
    """A state file that exists and cannot be used."""

    why: str
    is_newer: bool = False


def read_snapshot(folder: Folder, base: str) -> StateSnapshot | UnusableState | None:
    """Return the content of a state file, or why it cannot be used; None if there is none.

    Raises `StorageError` if the file cannot be read.
    """
    raw = folder.read(base + STATE, MAX_BYTES)
    if raw is None:
        return None
    return _decoded(raw, folder.place(base + STATE), lambda data: _snapshot(raw, data))


def read_summary(
    folder: Folder, base: str, seals: Seals | None = None
) -> RunSummary | UnusableState | None:
    """Return what lists of runs show of a state file, in a third of the time of `read_snapshot`, or
    why it cannot be used; None if there is none.

    With `seals`, a snapshot that the run itself did not write is unusable. Raises `StorageError`.
    """
    raw = folder.read(base + STATE, MAX_BYTES)
    if raw is None:
        return None
    path = folder.place(base + STATE)
    found = _decoded(raw, path, RunSummary.from_dict)
    if seals is None or isinstance(found, UnusableState):
        return found
    sealed = seals.of(found.run)
    if sealed is None or sealed.has_state(raw):
        return found
    return UnusableState(not_written_by(path))


def read_started_at(folder: Folder, base: str) -> str | None:
    """Return when the run started; None if there is no state file, or one that cannot be used."""
    raw = folder.read(base + STATE, MAX_BYTES)
    if raw is None:
        return None
    # Only this field: reading all of them takes a millisecond.
    found = _decoded(raw, folder.place(base + STATE), lambda data: data.get("started_at"))
    return found if isinstance(found, str) else None


def _decoded(
    raw: bytes, path: str, decode: Callable[[dict[str, Any]], Decoded]
) -> Decoded | UnusableState:
    """Parse a state file and decode it, or return why it cannot be used: damaged, or of a newer
    version."""
    try:
        data = json.loads(raw)
        if not isinstance(data, dict):
            raise TypeError("not a JSON object")
        version = data.get("format")
        if type(version) is int and version > FORMAT:
            return UnusableState(newer(path, version), True)
        return decode(data)
    except (ValueError, TypeError, RecursionError) as error:
        return UnusableState(f"`{path}` is damaged: {in_words(error)}")


def _snapshot(raw: bytes, data: dict[str, Any]) -> StateSnapshot:
    """Decode a parsed state file. Raises `ValueError` or `TypeError` if it is damaged."""
    footer = data.get("log")
    offset = footer.get("offset") if isinstance(footer, dict) else None
    offset = offset if type(offset) is int else None
    is_edited = offset is None or not _is_as_written(raw, offset)
    check_format(data)  # a file of ours has one
    return StateSnapshot(LoopState.from_dict(data), offset, is_edited, raw)


def newer(path: str, version: int) -> str:
    return f"`{path}` was written by a newer version (format {version}; this one reads {FORMAT})"


def in_words(error: Exception) -> str:
    """Describe an error in data that was read, for a message."""
    import json  # only errors need it

    match error:
        case json.JSONDecodeError():
            return f"not valid JSON at line {error.lineno}, column {error.colno}"
        case RecursionError():
            return "nested too deeply"
        case _:
            return str(error)


def state_bytes(run: LoopState, offset: int) -> bytes:
    body = to_json(run.to_dict())[:-1]
    return body + _footer(body, offset)


def _footer(body: bytes, offset: int) -> bytes:
    return b',"log":{"offset":%d,"crc":%d}}\n' % (offset, crc32(body))


def _is_as_written(raw: bytes, offset: int) -> bool:
    body, start, rest = raw.rpartition(b',"log":')
    return start + rest == _footer(body, offset)
