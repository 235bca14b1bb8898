"""Events, commands and happenings as JSON-able objects and back.

An event is written as a line of the log: its kind, its own fields, then those of its entry.
Commands and happenings name their kind in the same way, so that whoever carries a command out may
be another process.

Not here: the rules by which a record is written and read (`plain`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, get_args

from little_loops.fsm.commands import Command
from little_loops.fsm.events import KINDS, Entry, UnknownEvent
from little_loops.fsm.happenings import Happening
from little_loops.fsm.plain import WrongShape, decode, encode, name_kinds, reader
from little_loops.fsm.schema import CONDITION_TYPES
from little_loops.fsm.timestamps import timestamp, wall_ms_of

_ENTRY = ("event", "ts", "run", "seq", "ran_ms")


def _kinds(union: Any) -> dict[str, type]:
    """`RunAction` is written as `run_action`."""
    return {re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower(): kind for kind in get_args(union)}


name_kinds("event", KINDS)
name_kinds("command", _kinds(Command))
name_kinds("happening", _kinds(Happening))
name_kinds("type", CONDITION_TYPES)


def to_record(entry: Entry) -> dict[str, Any]:
    """The entry as it is written."""
    event = entry.event
    if isinstance(event, UnknownEvent):
        fields = {"event": event.kind, **event.fields}
    else:
        fields = encode(event)
    fields["ts"] = timestamp(entry.wall_ms)
    fields["run"] = entry.run
    fields["seq"] = entry.seq
    fields["ran_ms"] = entry.ran_ms
    return fields


def from_record(record: Mapping[str, Any]) -> Entry:
    """The entry that was written.  Raises `WrongShape`."""


def command_from_dict ...
