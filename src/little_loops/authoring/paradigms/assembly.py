"""Put a native document together out of an author's own pieces.

What all paradigms share: a command becomes a state, and whatever else the author wrote stays as
it is.  Every piece keeps its mark, so a problem in a compiled state points at the line that was
written; what a paradigm adds stands where the command stands that made it necessary.

Nothing here fails on an odd shape: the reader has reported it, and the rest is still worth a look.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from little_loops.authoring.yaml.nodes import Entry, List, Map, Node, Text, mapping, text
from little_loops.records import NamedTuple


class Piece(NamedTuple):
    """A state to be: its name, its fields, and the author's node it comes from."""

    name: str
    fields: Map
    near: Node | None


def document(root: Map, own: Iterable[str], pieces: Sequence[Piece], name: str) -> Map:
    """The author's document with the paradigm's `own` keys replaced by the machine.

    The first piece is where it starts; `name` is the loop's unless the author gave one.
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
    """A command, as text or as a mapping of state fields, with the ways that lead on from it."""
    own = own_fields(command)
    added = mapping(
        [(field, text(target, command)) for field, target in transitions.items()], command
    ).entries
    kept = tuple(entry for entry in own.entries if entry.key.text not in transitions)
    return Piece(name, Map((*kept, *added), own.mark), command)


def chain(names: Sequence[str], commands: Sequence[Node], then: str) -> list[Piece]:
    """Commands one after the other, the last of them leading on to `then`."""
    return [
        step(name, command, next=after)
        for (name, after), command in zip(pairwise([*names, then]), commands, strict=True)
    ]


def finish(name: str, near: Node | None, **transitions: str) -> Piece:
    """A terminal state, which stands where its reason stands."""
    fields: list[tuple[str, Node]] = [("terminal", true(near))]
    fields += [(field, text(target, near)) for field, target in transitions.items()]
    return Piece(name, mapping(fields, near), near)


def own_fields(command: Node | None) -> Map:
    """What the author said about a command: its state fields."""
    match command:
        case Map():
            return command
        case Text():
            return mapping({"action": command}, command)
        case _:
            return Map(())


def with_field(piece: Piece, name: str, value: Node) -> Piece:
    """The piece with one more field; what the author wrote stays."""
    if piece.fields.get(name) is not None:
        return piece
    fields = Map((*piece.fields.entries, _entry(name, value, piece.near)), piece.fields.mark)
    return piece._replace(fields=fields)


def flag(piece: Piece, name: str) -> Piece:
    return with_field(piece, name, true(piece.near))


def items(node: Node | None) -> tuple[Node, ...]:
    """The commands of a list; a single one counts as a list of one."""
    match node:
        case List():
            return node.items
        case None:
            return ()
        case _:
            return (node,)


def _entry(key: str, value: Node, near: Node | None) -> Entry:
    return Entry(text(key, near), value)


def true(near: Node | None) -> Text:
    return Text("true", "bool", True, near.mark if near is not None else None)
