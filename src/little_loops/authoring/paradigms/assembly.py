"""Build a native document from pieces of the author's document.

All paradigms share this: a command becomes a state, and the rest of the document is kept. Every
piece keeps its position, so a problem in a compiled state points to the author's line; what a
paradigm adds has the position of the command that made it necessary.

Nothing here fails on unexpected input: the reader has reported it, and the rest is still checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from little_loops.authoring.yaml.nodes import List, Map, MapEntry, Node, Text, mapping, text
from little_loops.records import NamedTuple


class Piece(NamedTuple):
    """A state to be created: its name, its fields, and the author's node it comes from."""

    name: str
    fields: Map
    near: Node | None


def document(root: Map, own: Iterable[str], pieces: Sequence[Piece], name: str) -> Map:
    """Return the author's document with the paradigm's `own` keys replaced by the machine.

    The first piece is the initial state; `name` is used if the author gave none.
    """
    consumed = {*own, "initial", "states"}
    kept = [entry for entry in root.entries if entry.key.text not in consumed]
    named = [] if "name" in root else [_entry("name", text(name, root), root)]
    first = pieces[0]
    states = Map(tuple(_entry(piece.name, piece.fields, piece.near) for piece in pieces), root.mark)
    machine = (
        _entry("initial", text(first.name, first.near), first.near),
        _entry("states", states, root),
    )
    return Map((*named, *kept, *machine), root.mark)


def step(name: str, command: Node | None, **transitions: str) -> Piece:
    """Return a state for a command, given as text or as a mapping, with these transitions."""
    own = own_fields(command)
    added = mapping(
        [(field, text(target, command)) for field, target in transitions.items()], command
    ).entries
    kept = tuple(entry for entry in own.entries if entry.key.text not in transitions)
    return Piece(name, Map((*kept, *added), own.mark), command)


def chain(names: Sequence[str], commands: Sequence[Node], then: str) -> list[Piece]:
    """Return states for commands that run one after the other; the last leads to `then`."""
    return [
        step(name, command, next=after)
        for (name, after), command in zip(pairwise([*names, then]), commands, strict=True)
    ]


def finish(name: str, near: Node | None, **transitions: str) -> Piece:
    """Return a terminal state, with the position of `near`."""
    fields: list[tuple[str, Node]] = [("terminal", true(near))]
    fields += [(field, text(target, near)) for field, target in transitions.items()]
    return Piece(name, mapping(fields, near), near)


def own_fields(command: Node | None) -> Map:
    """Return the state fields that the author wrote for a command."""
    match command:
        case Map():
            return command
        case Text():
            return mapping({"action": command}, command)
        case _:
            return Map(())


def with_field(piece: Piece, name: str, value: Node) -> Piece:
    """Return the piece with one more field, unless the author wrote it."""
    if piece.fields.get(name) is not None:
        return piece
    fields = Map((*piece.fields.entries, _entry(name, value, piece.near)), piece.fields.mark)
    return piece._replace(fields=fields)


def flag(piece: Piece, name: str) -> Piece:
    return with_field(piece, name, true(piece.near))


def items(node: Node | None) -> tuple[Node, ...]:
    """Return the commands of a list; a single command counts as a list of one."""
    match node:
        case List():
            return node.items
        case None:
            return ()
        case _:
            return (node,)


def _entry(key: str, value: Node, near: Node | None) -> MapEntry:
    return MapEntry(text(key, near), value)


def true(near: Node | None) -> Text:
    return Text("true", "bool", True, near.mark if near is not None else None)
