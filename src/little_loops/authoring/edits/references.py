"""Find where a loop file refers to its states.

The table of fields says which values are targets. A state's result also has its name: as the bare
`source` of a condition, and as `${captured.NAME…}` in templates.

A definition that is written in place (`loop: {…}`) has states of its own, so it is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from little_loops.authoring.edits.operations import Path
from little_loops.authoring.fields.kinds import (
    BranchMap,
    ConditionKind,
    HookCommand,
    Kind,
    ListOf,
    Machine,
    OtherKind,
    PartKind,
    Route,
    SubLoop,
    Table,
    TargetKind,
)
from little_loops.authoring.fields.table import (
    BRANCH,
    HOOK_TABLES,
    LOOP,
    OR_AGAIN,
    PARTS,
    STATE,
)
from little_loops.authoring.yaml.nodes import List, Map, Node, Text
from little_loops.light_typing import assert_never
from little_loops.records import NamedTuple


class _State(OtherKind):
    """A state of a machine."""


class _Branch(OtherKind):
    """One of the branches that a state names."""


_INSIDE: Mapping[type, Kind] = {Machine: _State(), BranchMap: _Branch(), Route: OR_AGAIN}
"""The kinds of the values in mappings whose keys are names."""


class Found(NamedTuple):
    """A text of a file: its path, and whether it is a target, or the source of a condition."""

    path: Path
    node: Text
    is_target: bool = False
    is_source: bool = False


def texts(root: Map) -> Iterator[Found]:
    """Yield all texts of a native file except those of the user's own `x-` keys."""
    yield from _record(root, LOOP, ())


def _record(node: Map, rows: Table, path: Path) -> Iterator[Found]:
    """Yield the texts of a mapping with the fields of a table."""
    for entry in node.entries:
        name = entry.key.text
        if name.startswith("x-"):
            continue
        field = rows.by_name.get(name)
        kind = field.kind if field is not None else _own_word(rows, name)
        yield from _value(entry.value, kind, (*path, name))


def _own_word(rows: Table, name: str) -> Kind | None:
    """Return the kind of a field that no table has: `on_<word>` of a state is a target."""
    return OR_AGAIN if rows is STATE and name.startswith("on_") else None


def _value(node: Node, kind: Kind | None, path: Path) -> Iterator[Found]:
    """Yield the texts of a value."""
    match node:
        case _ if isinstance(kind, SubLoop):
            pass
        case Text():
            yield Found(path, node, is_target=isinstance(kind, TargetKind))
        case Map():
            yield from _mapping(node, kind, path)
        case List(items):
            inner = kind.item if isinstance(kind, ListOf) else None
            for index, item in enumerate(items):
                yield from _value(item, inner, (*path, index))
        case _:
            assert_never(node)


def _mapping(node: Map, kind: Kind | None, path: Path) -> Iterator[Found]:
    """Yield the texts of a mapping: one with fields of its own, or with names and values."""
    rows = _table(kind)
    if rows is not None:
        yield from _record(node, rows, path)
    elif isinstance(kind, ConditionKind):
        yield from _condition(node, path)
    else:
        inner = _INSIDE.get(type(kind))
        for key, value in node.entries:
            yield from _value(value, inner, (*path, key.text))


def _table(kind: Kind | None) -> Table | None:
    """Return the fields of a mapping of this kind."""
    match kind:
        case PartKind(name):
            return PARTS[name]
        case HookCommand(name):
            return HOOK_TABLES[name]
        case _State():
            return STATE
        case _Branch():
            return BRANCH
        case _:
            return None


def _condition(node: Map, path: Path) -> Iterator[Found]:
    """Yield the texts of a condition, with those of the conditions inside it."""
    for key, value in node.entries:
        below = (*path, key.text)
        match key.text, value:
            case "source", Text():
                yield Found(below, value, is_source=True)
            case "of", Map():
                yield from _condition(value, below)
            case "of", _:
                yield from _value(value, ListOf(ConditionKind()), below)
            case _:
                yield from _value(value, None, below)
