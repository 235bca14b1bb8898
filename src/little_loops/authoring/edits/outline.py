"""Describe a loop file for an editor: its fields, states and transitions, each with its lines.

It is made from the document, not from the machine, so a file with errors has one, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from little_loops.authoring.edits.layout import Layout
from little_loops.authoring.edits.operations import CHOICE, Path
from little_loops.authoring.edits.references import texts
from little_loops.authoring.yaml.nodes import Map, Mark, plain
from little_loops.authoring.yaml.source import parse
from little_loops.light_typing import Any
from little_loops.records import NamedTuple


class OutlinedTransition(NamedTuple):
    """A transition as its author wrote it. `on` is what the operations `connect` and `disconnect`
    call it."""

    on: str
    target: str
    line: int


class OutlinedState(NamedTuple):
    """A state with its fields; lines are counted from 1."""

    name: str
    line: int
    end_line: int
    fields: Mapping[str, Any]
    transitions: tuple[OutlinedTransition, ...]


class Outline(NamedTuple):
    """A loop file. `states` is None for one that is not written with states; `fields` has all
    others, and `lines` says where the fields of the loop begin."""

    fields: Mapping[str, Any]
    lines: Mapping[str, int]
    states: tuple[OutlinedState, ...] | None


def outline(text: str) -> Outline | None:
    """Return the outline of a text; None if it is not a mapping in YAML."""
    root = parse(text, "").root
    if not isinstance(root, Map):
        return None
    states = root.get("states")
    fields = {key: value for key, value in plain(root).items() if key != "states"}
    lines = {entry.key.text: _line(entry.key.mark) for entry in root.entries}
    if not isinstance(states, Map):
        return Outline(fields, lines, None)
    layout = Layout(text.removeprefix("\ufeff"))
    found = _transitions(root)
    return Outline(fields, lines, tuple(_states(states, layout, found)))


def state_at(found: Outline | None, line: int) -> str | None:
    """Return the state whose lines include this one; None if there is none."""
    states = (found.states or ()) if found is not None else ()
    return next((each.name for each in states if each.line <= line <= each.end_line), None)


def _states(
    states: Map, layout: Layout, found: Mapping[str, list[OutlinedTransition]]
) -> Iterator[OutlinedState]:
    for key, value in states.entries:
        fields = plain(value)
        if key.kind == "broken":
            continue
        yield OutlinedState(
            key.text,
            _line(key.mark),
            layout.line_number(max(layout.end(key), layout.end(value))),
            fields if isinstance(fields, Mapping) else {},
            tuple(found.get(key.text, ())),
        )


def _transitions(root: Map) -> dict[str, list[OutlinedTransition]]:
    """Return the transitions of each state."""
    found: dict[str, list[OutlinedTransition]] = {}
    for each in texts(root):
        label = _label(each.path) if each.is_target else None
        if label is not None:
            transition = OutlinedTransition(label, each.node.text, _line(each.node.mark))
            found.setdefault(str(each.path[1]), []).append(transition)
    return found


_ALIASES = {"on_met": "on_pass", "on_unmet": "on_fail"}


def _label(path: Path) -> str | None:
    """Return what a transition is called; None if the path leads elsewhere than to a state's."""
    match path:
        case ("states", _, "route", str() as word):
            return word
        case ("states", _, "choices", int()):
            return CHOICE
        case ("states", _, str() as field):
            return _ALIASES.get(field, field).removeprefix("on_")
        case _:
            return None


def _line(mark: Mark | None) -> int:
    assert mark is not None, "nodes of a file have marks"
    return mark.line + 1
