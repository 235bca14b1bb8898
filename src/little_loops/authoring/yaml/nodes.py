"""A YAML document as a tree of nodes that know their positions.

`source` builds it from text, `node_of` from plain data (without positions), and paradigms build new
trees from an author's nodes, so that a problem in a compiled state points to the author's line.

Not here: YAML itself (`source`), the meaning of keys (`fields`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from little_loops.light_typing import Any
from little_loops.records import NamedTuple


class Mark(NamedTuple):
    """A range in the file, counted from 0.

    `end_column` is a column of `end_line`; None means the same line.
    """

    line: int
    column: int
    end_column: int
    end_line: int | None = None


class Text(NamedTuple):
    """A scalar: its text as written, and its type in YAML.

    `kind` is one of str, int, float, bool, null; quoted or block text is always str. `value` is
    what it means (`yes` is a bool in YAML: value True). A number in a notation that YAML parsers do
    not agree on (`0777`, `1_000`) is an int whose value is its text. There are two more kinds:
    `broken` has been reported already, `other` is not plain data.
    """

    text: str
    kind: str
    value: Any
    mark: Mark | None = None
    quoted: bool = False


class MapEntry(NamedTuple):
    key: Text
    value: Node


class Map(NamedTuple):
    entries: tuple[MapEntry, ...]
    mark: Mark | None = None

    def get(self, name: str) -> Node | None:
        """Return the value of a key; None if there is none."""
        for entry in self.entries:
            if entry.key.text == name:
                return entry.value
        return None

    def __contains__(self, name: object) -> bool:
        return any(entry.key.text == name for entry in self.entries)


class List(NamedTuple):
    items: tuple[Node, ...]
    mark: Mark | None = None


Node = Text | Map | List


def text(value: str, near: Node | None = None) -> Text:
    """Return a text with the position of `near`."""
    return Text(value, "str", value, near.mark if near is not None else None, quoted=True)


def mapping(pairs: Mapping[str, Node] | Sequence[tuple[str, Node]], near: Node | None) -> Map:
    """Return a mapping whose keys have the position of `near`, for a paradigm."""
    items = pairs.items() if isinstance(pairs, Mapping) else pairs
    mark = near.mark if near is not None else None
    return Map(tuple(MapEntry(text(key, near), value) for key, value in items), mark)


def node_of(data: Any) -> Node:
    """Convert plain data (a dict from a program) to nodes without positions."""
    match data:
        case Mapping():
            return Map(tuple(MapEntry(_scalar(key), node_of(item)) for key, item in data.items()))
        case str() | bytes() | bytearray():
            return _scalar(data)
        case Sequence():
            return List(tuple(node_of(item) for item in data))
        case _:
            return _scalar(data)


def plain(node: Node) -> Any:
    """Convert a node to plain data, without the entries whose key could not be read."""
    if isinstance(node, Map):
        return {key.text: plain(value) for key, value in node.entries if key.kind != "broken"}
    if isinstance(node, List):
        return [plain(item) for item in node.items]
    return node.value


def walk(node: Node) -> Iterator[Node]:
    """Yield the node and all nodes below it, in the order of the text."""
    yield node
    if isinstance(node, Map):
        for entry in node.entries:
            yield from walk(entry.value)
    elif isinstance(node, List):
        for item in node.items:
            yield from walk(item)


def _scalar(value: Any) -> Text:
    """Convert a scalar to a node."""
    match value:
        case str():
            return Text(value, "str", value, quoted=True)
        case None:
            return Text("null", "null", None)
        case bool():
            return Text("true" if value else "false", "bool", value)
        case int():
            # Python refuses to convert a number of more than 4,300 digits to text.
            small = value.bit_length() < 1024
            return Text(str(value) if small else "∞", "int", value if small else math.inf)
        case float():
            return Text(repr(value), "float", value)
        case _:
            return Text(type(value).__name__, "other", None)
