"""Read an event log that is not in a project: all of it must be consistent.

Not here: the log of a run in a project (`runs.journal`, `runs.storage`).
"""

from __future__ import annotations

from collections.abc import Iterator

from little_loops.fsm.codec import from_record, seq_of
from little_loops.fsm.events import Entry, LoopStart
from little_loops.fsm.plain import WrongShape
from little_loops.fsm.state import FORMAT
from little_loops.light_typing import Any
from little_loops.runs.journal import LONGEST_LINE, Record, parse
from little_loops.sharing.run_file import EVENTS, WrongRunFile, is_plain_name


def read_log(data: bytes) -> list[Entry]:
    """Return the events of a log. Raises `WrongRunFile` if one is missing, repeated or unreadable,
    belongs to another run or names a file that is not its own, or if there is none."""
    found: list[Entry] = []
    for record in records_in(data):
        entry = _entry(record)
        if seq_of(record) != len(found) + 1:
            raise WrongRunFile(
                f"`{EVENTS}` has a gap or repeat: event {seq_of(record)} follows event {len(found)}"
            )
        if found and entry.run != found[0].run:
            raise WrongRunFile(f"`{EVENTS}` contains events of two runs")
        found.append(entry)
    if not found or not isinstance(first := found[0].event, LoopStart):
        raise WrongRunFile(f"`{EVENTS}` does not begin with the start of a run")
    if first.format is not None and first.format > FORMAT:
        raise WrongRunFile(
            f"`{EVENTS}` was written by a newer version (format {first.format}; this one reads"
            f" {FORMAT})"
        )
    return found


def records_in(data: bytes) -> Iterator[Record]:
    """Yield the events on the lines of a log; other lines are skipped, as in a project."""
    for line in data.split(b"\n"):
        record = parse(line) if len(line) <= LONGEST_LINE else None
        if record is not None:
            yield record


def _entry(record: Record) -> Entry:
    """Decode an event. Raises `WrongRunFile`."""
    try:
        entry = from_record(record)
    except (WrongShape, ValueError, OverflowError) as wrong:
        raise WrongRunFile(f"`{EVENTS}` has an event that cannot be read: {wrong}") from None
    for key, value in record.items():
        if key.endswith("_file") and not _is_own(value):
            raise WrongRunFile(f"`{EVENTS}`: event {seq_of(record)} names the file {value!r:.80}")
    return entry


def _is_own(value: Any) -> bool:
    """Return whether a reference to a file leads to one in the run's own directory."""
    path = value.get("path") if isinstance(value, dict) else value
    return path is None or (isinstance(path, str) and is_plain_name(path))
