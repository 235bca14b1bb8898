"""A YAML document as a tree that remembers where each piece stands.

`source` makes it from text, `node_of` from plain data (which stands nowhere), and paradigms make
new ones out of an author's pieces, so that a problem in a compiled state points at the line the
author wrote.

Not here: YAML itself (`source`), what keys mean (`fields`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from little_loops.records import NamedTuple


class Mark(NamedTuple):
    """From where to where, counted from 0.

    `end_column` is a column of `end_line`; without an end line both are of one line.
    """

    line: int
    column: int
    end_column: int
    end_line: int | None = None


class Text(NamedTuple):
    """A scalar: its text as written, and what YAML takes it for.

    `kind` is one of str, int, float, bool, null; `quoted` or block text is always str.  `value`
    is what it means to us, where that can be said (`yes` is a bool to YAML: value True).  A number
    in a notation that readers of YAML do not agree on (`0777`, `1_000`) is an int whose value is
    its text.  Two kinds more: `broken` has been reported already, `other` is no plain data.
    """

    text: str
    kind: str
    value: Any
    mark: Mark | None = None
    quoted: bool = False


class Entry(NamedTuple):
    key: Text
    value: Node


class Map(NamedTuple):
    entries: tuple[Entry, ...]
    mark: Mark | None = None

    def get(self, name: str) -> Node | None:
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
    """A piece of text that stands where `near` stands."""
    return Text(value, "str", value, near.mark if near is not None else None, quoted=True)


def mapping(pairs: Mapping[str, Node] | Sequence[tuple[str, Node]], near: Node | None) -> Map:
    """A mapping made by a paradigm; its keys stand where `near` stands."""
    items = pairs.items() if isinstance(pairs, Mapping) else pairs
    mark = near.mark if near is not None else None
    return Map(tuple(Entry(text(key, near), value) for key, value in items), mark)


def node_of(data: Any) -> Node:
    """Plain data (a dict from a program) as nodes without places."""
    match data:
        case Mapping():
            return Map(tuple(Entry(_scalar(key), node_of(item)) for key, item in data.items()))
        case str() | bytes() | bytearray():
            return _scalar(data)
        case Sequence():
            return List(tuple(node_of(item) for item in data))
        case _:
            return _scalar(data)


def plain(node: Node) -> Any:
    """Back to plain data."""
    if isinstance(node, Map):
        return {key.text: plain(value) for key, value in node.entries if key.kind != "broken"}
    if isinstance(node, List):
        return [plain(item) for item in node.items]
    return node.value


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it, in the order of the text."""
    yield node
    if isinstance(node, Map):
        for entry in node.entries:
            yield from walk(entry.value)
    elif isinstance(node, List):
        for item in node.items:
            yield from walk(item)


def _scalar(value: Any) -> Text:
    match value:
        case str():
            return Text(value, "str", value, quoted=True)
        case None:
            return Text("null", "null", None)
        case bool():
            return Text("true" if value else "false", "bool", value)
        case int():
            # Python refuses to write out a number of more than 4,300 digits.
            small = value.bit_length() < 1024
            return Text(str(value) if small else "∞", "int", value if small else math.inf)
        case float():
            return Text(repr(value), "float", value)
        case _:
            return Text(type(value).__name__, "other", None)
