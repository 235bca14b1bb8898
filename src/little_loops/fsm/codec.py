"""Encode events, commands and happenings as JSON-compatible objects, and decode them.

An event is one line of the log: its kind, its own fields, then the fields of its entry. Commands
and happenings use the same form, so that another process can carry out a command.

Not here: how a single record is encoded (`plain`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from little_loops.fsm.events import KINDS, Entry, Event, UnknownEvent
from little_loops.fsm.plain import Read, WrongShape, decode, encode, name_kinds, reader
from little_loops.fsm.timestamps import timestamp, wall_ms_of
from little_loops.light_typing import TYPE_CHECKING, Any, get_args
from little_loops.records import NamedTuple

if TYPE_CHECKING:
    from little_loops.fsm.commands import Command
    from little_loops.fsm.happenings import Happening

name_kinds("event", KINDS)


class Stamp(NamedTuple):
    """The fields of an entry other than those of its event."""

    ts: str
    ran_ms: int
    run: str = ""
    seq: int = 0


def to_record(entry: Entry) -> dict[str, Any]:
    """Return the entry as an object for the log."""
    event, wall_ms, ran_ms, run, seq = entry
    stamp = {"ts": timestamp(wall_ms), "run": run, "seq": seq, "ran_ms": ran_ms}
    return encode_event(event) | stamp


def from_record(record: Mapping[str, Any]) -> Entry:
    """Return the entry of an object from the log. Raises `WrongShape`."""
    stamp = decode(Stamp, record)
    try:
        wall_ms = wall_ms_of(stamp.ts)
    except ValueError:
        raise WrongShape(f"cannot be {stamp.ts!r:.60}", "ts") from None
    return Entry(decode_event(record), wall_ms, stamp.ran_ms, stamp.run, stamp.seq)


def seq_of(record: Mapping[str, Any]) -> int:
    """Return the sequence number of a log line."""
    number: int = record["seq"]
    return number


def encode_event(event: Event) -> dict[str, Any]:
    if isinstance(event, UnknownEvent):
        return {"event": event.kind, **event.fields}
    return encode(event)


def decode_event(record: Mapping[str, Any]) -> Event:
    """Return the event of a log line, ignoring the fields of the entry. Raises `WrongShape`."""
    name = record.get("event")
    if not isinstance(name, str):
        raise WrongShape("is missing", "event")
    kind = KINDS.get(name)
    if kind is None:
        own = record.keys() - {"event", *Stamp._fields}
        return UnknownEvent(name, {key: record[key] for key in record if key in own})
    return decode(kind, record)


def encode_command(command: Command) -> dict[str, Any]:
    _command_reader()
    return encode(command)


def decode_command(data: Any) -> Command:
    """Decode a command; raise `WrongShape` if the data does not fit."""
    command: Command = _command_reader()(data)
    return command


def encode_happening(happening: Happening) -> dict[str, Any]:
    _happening_reader()
    return encode(happening)


def decode_happening(data: Any) -> Happening:
    """Decode a happening; raise `WrongShape` if the data does not fit."""
    happening: Happening = _happening_reader()(data)
    return happening


@cache
def _command_reader() -> Read:
    """Return the reader for commands, after registering the tags of conditions."""
    # Imported late: reading a log does not need commands and happenings.
    from little_loops.fsm.commands import Command
    from little_loops.fsm.schema import CONDITION_TYPES

    name_kinds("type", CONDITION_TYPES)
    _happening_reader()  # commands that save the work of a run carry a happening along
    return _reader("command", Command)


@cache
def _happening_reader() -> Read:
    from little_loops.fsm.happenings import Happening

    return _reader("happening", Happening)


def _reader(key: str, union: Any) -> Read:
    name_kinds(key, {_snake_case(kind.__name__): kind for kind in get_args(union)})
    return reader(union)


def _snake_case(name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name).lstrip("_")
