"""Read the event log of a run as typed entries.

A line that is not a known event, or lacks the fields of its kind, is skipped: views show what can
be read. A resume is stricter (`storage`).

Not here: lines and bytes (`journal`), the kinds of events (`fsm.events`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from little_loops.errors import StorageError
from little_loops.fsm.codec import from_record, seq_of
from little_loops.fsm.events import Entry, StateEnter, TransitionTaken, UnknownEvent
from little_loops.fsm.plain import WrongShape
from little_loops.runs.folders import event_log
from little_loops.runs.journal import Record, Records, offset_of, tail
from little_loops.runs.layout import RunFiles


def entry_of(record: Record) -> Entry | None:
    """Return a record as a typed entry; None if it lacks the fields of its kind."""
    try:
        return from_record(record)
    except WrongShape:
        return None


def readable(records: Iterable[Record]) -> Iterator[Entry]:
    """Yield the records as typed entries, without those that `entry_of` cannot read."""
    for record in records:
        entry = entry_of(record)
        if entry is not None:
            yield entry


def entries(files: RunFiles, after: int = 0) -> Iterator[Entry]:
    """Return an iterator over the events numbered above `after`, read lazily; empty if there is no
    log."""
    log = event_log(files)
    offset = offset_of(log, lambda record: seq_of(record) <= after) if after else 0
    found = readable(Records(log, offset))
    return (entry for entry in found if entry.seq > after)


def last_entries(files: RunFiles, count: int, end: int | None = None) -> list[Entry]:
    """Return the readable ones of the last `count` events; with `end`, of those before that offset.

    Returns an empty list if the log is missing or cannot be read.
    """
    try:
        return list(readable(tail(event_log(files), count, end=end)))
    except StorageError:
        return []


def entries_of_step(files: RunFiles, step: int) -> Iterator[Entry]:
    """Yield the events of this step: from the one that entered it, up to but not including the one
    that enters the next."""
    return entries_of_steps(files, step, step)


def entries_of_steps(files: RunFiles, first: int, last: int) -> Iterator[Entry]:
    """Yield the events of these steps: from the one that entered the first, up to but not including
    the one that enters the step after the last."""
    log = event_log(files)

    def is_before(record: Record) -> bool | None:
        """Return whether the record enters a step before the wanted ones; None if it does not enter
        a step."""
        entry = entry_of(record)
        return entry.event.step < first if entry and isinstance(entry.event, StateEnter) else None

    inside = False
    for entry in readable(Records(log, offset_of(log, is_before))):
        if isinstance(entry.event, StateEnter):
            if entry.event.step > last:
                return
            inside = entry.event.step >= first
        if inside:
            yield entry


def state_in(entry: Entry) -> str | None:
    """Return the state that an event is about, for a transition the one it leaves; None if there is
    none."""
    match entry.event:
        case TransitionTaken(from_=state):
            return state
        case UnknownEvent(fields=fields):
            own = fields.get("state")
            return own if isinstance(own, str) else None
        case event:
            return getattr(event, "state", None)
