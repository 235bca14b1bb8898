"""What the editor can do to a loop file, as types, and how they are read from JSON.

A path leads to a field by its main names: `("states", "check", "on_pass")`, or `("tools", 0)`; a
file that uses an alias of a field (`on_met`) keeps it.

A value may also be given as a piece of YAML, in `yaml`.

Not here: what an operation changes in a document (`plan`), and in its text (`apply`).
"""

from __future__ import annotations

from collections.abc import Mapping

from little_loops.authoring.yaml.nodes import plain
from little_loops.authoring.yaml.source import parse
from little_loops.light_typing import Any
from little_loops.records import NamedTuple

Path = tuple[str | int, ...]
NEXT, CHOICE = "next", "choice"
"""Labels for transitions that have no `on_…` field."""


class AddState(NamedTuple):
    """Add a state after the last one, or after the one in `after`."""

    name: str
    fields: Mapping[str, Any]
    after: str | None = None


class RenameState(NamedTuple):
    """Rename a state, in its own place and wherever the file refers to it."""

    state: str
    to: str


class DeleteState(NamedTuple):
    """Delete a state, and the transitions that lead to it."""

    state: str


class Connect(NamedTuple):
    """Set a transition of a state. `on` is a verdict, a word of its condition, `next` or `choice`."""

    state: str
    on: str
    target: str


class Disconnect(NamedTuple):
    """Remove a transition of a state. Only a choice needs its target."""

    state: str
    on: str
    target: str | None = None


class SetInitial(NamedTuple):
    """Choose the state that a run starts in."""

    state: str


class SetField(NamedTuple):
    """Give a field of the loop, or of one of its parts, a value; the index after the last item
    of a list adds one."""

    path: Path
    value: Any


class RemoveField(NamedTuple):
    """Remove a field or an item of a list."""

    path: Path


Operation = (
    AddState
    | RenameState
    | DeleteState
    | Connect
    | Disconnect
    | SetInitial
    | SetField
    | RemoveField
)
OPERATIONS: Mapping[str, type[Operation]] = {
    "add_state": AddState,
    "rename_state": RenameState,
    "delete_state": DeleteState,
    "connect": Connect,
    "disconnect": Disconnect,
    "set_initial": SetInitial,
    "set_field": SetField,
    "remove_field": RemoveField,
}


def operation_of(data: Any) -> Operation | str:
    """Return the operation in a JSON document, or why it is none."""
    if not isinstance(data, Mapping):
        return "an operation must be an object"
    name = data.get("op")
    kind = OPERATIONS.get(name) if isinstance(name, str) else None
    if kind is None:
        return f"`op` must be one of {', '.join(OPERATIONS)}"
    given = {key: value for key, value in data.items() if key != "op"}
    if "yaml" in given and "value" not in given:
        read = _from_yaml(given.pop("yaml"))
        if isinstance(read, str):
            return read
        given["value"] = read[0]
    required = [each for each in kind._fields if each not in kind._field_defaults]
    wrong = [
        *(each for each in given if each not in kind._fields),
        *(each for each in required if each not in given),
        *(key for key, value in given.items() if not _fits(key, value)),
    ]
    if wrong:
        return f"`{name}` has no valid `{wrong[0]}`"
    if "path" in given:
        given["path"] = tuple(given["path"])
    made: Operation = kind(**given)
    return made


def _from_yaml(text: Any) -> tuple[Any] | str:
    """Return the value that a piece of YAML has, or why it has none."""
    document = parse(text, "") if isinstance(text, str) else None
    if document is None or document.problems:
        problems = document.problems if document is not None else ()
        reason = problems[0].message if problems else "it is not a string"
        return f"the value is not valid YAML: {reason}"
    return (None if document.root is None else plain(document.root),)


def _fits(key: str, value: Any) -> bool:
    """Return whether an argument has the right type."""
    match key:
        case "value":
            return True
        case "fields":
            return isinstance(value, Mapping)
        case "path":
            return isinstance(value, list) and bool(value) and all(map(_is_step, value))
        case "after" | "target":
            return value is None or isinstance(value, str)
        case _:
            return isinstance(value, str)


def _is_step(each: Any) -> bool:
    """Return whether this can be a step of a path: a key, or the index of an item."""
    return isinstance(each, str) or (type(each) is int and each >= 0)
