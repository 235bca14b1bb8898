"""Insert the author's own values into a text, before anything else.

`context` values may refer to each other and to data. Text that comes from them counts as written by
the author; a reference to data inside them stays a reference. A value with `:q` or `:words` is kept
separate (`AuthorValue`), because the way it is written depends on its place; and one with `:int` or
`:number`, because the whole value is checked when it is used.

Not here: values that are not the author's (`render`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from little_loops import light_json as json
from little_loops.errors import LittleLoopsError
from little_loops.light_typing import Any, TypeAlias
from little_loops.records import NamedTuple
from little_loops.templates.parse import (
    NUMBER_NAMES,
    NUMBERS,
    Escape,
    Piece,
    Reference,
    TemplateError,
    classify,
    listed,
    nearest_first,
    parse,
)

LONGEST = 1 << 20
DEEPEST = 50
MOST_SHOWN = 40


class Unresolved(LittleLoopsError):
    """A reference to a value that does not exist; `known` are the names that do."""

    def __init__(self, name: str, known: tuple[str, ...] = ()) -> None:
        self.name, self.known = name, nearest_first(name, known)
        there = f"; known: {listed(self.known)}" if known else ""
        super().__init__(f"`{name}` has no value{there}")


class ValueNotANumber(LittleLoopsError):
    """A value with `:int` or `:number` that is not a number."""

    def __init__(self, reference: Reference, text: str) -> None:
        shown = repr(text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…")
        wanted = NUMBER_NAMES[reference.modifier or "number"]
        super().__init__(f"`{reference.text}` is not {wanted}: {shown if text else 'it is empty'}")


class Data(str):
    """A `context` value that is data, because the run that started this one filled it in from data.

    It is never inserted as the author's text; a reference to it is one to data.
    """

    __slots__ = ()


def with_data(context: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return a context in which the values of these names are marked as data."""
    return {name: Data(value) if name in names else value for name, value in context.items()}


GIVEN = "given"
"""The namespace for references to `context` values that are data. It cannot be written in a file."""


class AuthorValue(NamedTuple):
    """An author's value with a modifier, as one or several parts that are spliced separately."""

    reference: Reference
    parts: tuple[tuple[Spliced, ...], ...]
    is_list: bool
    is_data: bool
    length: int


Spliced: TypeAlias = str | Escape | Reference | AuthorValue


def as_text(value: object) -> str:
    """Return a value as it is written into a text: None is empty, lists and mappings are JSON."""
    match value:
        case str():
            return value
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case _:
            return json.dumps(value, ensure_ascii=False)


def texts_of(value: object, modifier: str | None) -> list[str]:
    """Return the text of a value as a list; with `:words`, a list has one text per element."""
    if modifier == "words" and isinstance(value, list | tuple):
        return [as_text(each) for each in value]
    return [as_text(value)]


def value_at(values: object, path: tuple[str, ...], root: str) -> object:
    """Follow a path into dicts and lists; raise `Unresolved` with `root` as the name of `values`."""
    name = root
    for key in path:
        match values:
            case Mapping() if key in values:
                values = values[key]
            case list() | tuple() if key.isdecimal() and len(key) < 10 and int(key) < len(values):
                values = values[int(key)]
            case _:
                raise Unresolved(".".join((root, *path)), _names_in(values, name))
        name = f"{name}.{key}"
    return values


def spliced(text: str, context: Mapping[str, object]) -> tuple[Spliced, ...]:
    """Return the pieces of a text with the author's values inserted.

    Raises `TemplateError` for an invalid reference, a cycle or a result that is too long, and
    `Unresolved` for a missing key.
    """
    if "${" not in text:
        return parse(text)
    pieces = _Splicer(context).pieces(text, ())
    whole = "".join(written(piece) for piece in pieces)
    if whole != text:
        _check_no_new_reference(whole, pieces)
    return pieces


def written(piece: Spliced) -> str:
    """Return the template text of a piece."""
    match piece:
        case str():
            return piece
        case AuthorValue():
            return piece.reference.text
        case _:
            return piece.text


def is_data(piece: Spliced) -> bool:
    """Return whether a piece is, or contains, data."""
    match piece:
        case AuthorValue():
            return piece.is_data
        case Reference():
            return classify(piece) == "data"
        case _:
            return False


def _length(piece: Spliced) -> int:
    """Return the minimum length of a piece, to limit the growth of nested values."""
    return piece.length if isinstance(piece, AuthorValue) else len(written(piece))


def _names_in(values: object, name: str) -> tuple[str, ...]:
    """Return the full names of the entries of a dict or list called `name`."""
    match values:
        case Mapping():
            return tuple(f"{name}.{key}" for key in values)
        case list() | tuple():
            return tuple(f"{name}.{index}" for index in range(len(values)))
        case _:
            return ()


class _Splicer:
    """Inserts `context` values into texts, recursively; each value is processed once."""

    def __init__(self, context: Mapping[str, object]) -> None:
        self.context = context
        self.done: dict[Reference, tuple[tuple[Spliced, ...], ...]] = {}

    def pieces(self, text: str, trail: tuple[str, ...]) -> tuple[Spliced, ...]:
        """Parse a text and insert its `context` values; `trail` are the names of the enclosing
        ones."""
        pieces: list[Spliced] = []
        for piece in _parse_value(text, trail):
            if isinstance(piece, Reference) and piece.namespace == "context":
                pieces.extend(self.insert(piece, trail))
            else:
                pieces.append(piece)
        if sum(map(_length, pieces)) > max(LONGEST, len(text)):
            raise TemplateError(
                f"the message is longer than {LONGEST} characters once `context` is filled in",
                *(0, len(text)),
            )
        return tuple(pieces)

    def insert(self, reference: Reference, trail: tuple[str, ...]) -> tuple[Spliced, ...]:
        """Return the pieces of one `context` reference: its value, or its fallback if that is
        missing, None or empty. Raises `Unresolved` without a fallback."""
        value: object
        try:
            value = value_at(self.context, reference.path, "context")
        except Unresolved:
            if reference.fallback is None:
                raise
            value = None
        if isinstance(value, Data):
            return (reference._replace(namespace=GIVEN),)
        if reference.fallback is not None and value in (None, ""):
            return self.placed(reference, ((reference.fallback,),), False)
        is_list = isinstance(value, list | tuple) and reference.modifier == "words"
        return self.placed(reference, self.parts(reference, value, trail), is_list)

    def parts(
        self, reference: Reference, value: object, trail: tuple[str, ...]
    ) -> tuple[tuple[Spliced, ...], ...]:
        """Return the pieces of each part of a value; cached, so that chains of values stay fast."""
        key = reference._replace(start=0, end=0)
        if key not in self.done:
            _check_recursion(reference, trail)
            inside = (*trail, reference.name)
            try:
                self.done[key] = tuple(
                    self.pieces(each, inside) for each in texts_of(value, reference.modifier)
                )
            except TemplateError as inner:
                # The caller only knows positions in its own text.
                place = reference.start, reference.end
                raise TemplateError(inner.message, *place, inner.help) from None
        return self.done[key]

    def placed(
        self, reference: Reference, parts: tuple[tuple[Spliced, ...], ...], is_list: bool
    ) -> tuple[Spliced, ...]:
        """Return the parts as one `AuthorValue` if there is a modifier, else as plain pieces."""
        if reference.modifier not in (None, "raw"):
            pieces = [piece for part in parts for piece in part]
            data = reference.modifier not in NUMBERS and any(is_data(piece) for piece in pieces)
            return (AuthorValue(reference, parts, is_list, data, sum(map(_length, pieces))),)
        return tuple(_moved(piece, reference) for piece in parts[0])


def _parse_value(text: str, trail: tuple[str, ...]) -> tuple[Piece, ...]:
    """Parse a text. Raises `TemplateError`, which names the enclosing `context` value."""
    try:
        return parse(text)
    except TemplateError as problem:
        if trail:
            message = f"in `{trail[-1]}`: {problem.message}"
            raise TemplateError(message, problem.start, problem.end, problem.help) from None
        raise


def _check_recursion(reference: Reference, trail: tuple[str, ...]) -> None:
    """Raise `TemplateError` if a value refers to itself, or the nesting is too deep."""
    place = reference.start, reference.end
    if reference.name in trail:
        chain = " → ".join(f"`{name}`" for name in (*trail, reference.name))
        raise TemplateError(f"circular reference between `context` values: {chain}", *place)
    if len(trail) >= DEEPEST:
        raise TemplateError(
            f"`context` values refer to each other more than {DEEPEST} levels deep", *place
        )


def _moved(piece: Spliced, to: Reference) -> Spliced:
    """Return a piece with the position of the reference that it came with."""
    match piece:
        case str():
            return piece
        case AuthorValue():
            moved = piece.reference._replace(start=to.start, end=to.end)
            return piece._replace(reference=moved)
        case _:
            return piece._replace(start=to.start, end=to.end)


def _check_no_new_reference(whole: str, pieces: tuple[Spliced, ...]) -> None:
    """Raise `TemplateError` if a value and the text around it form a new reference or escape."""
    again: list[str] | None
    try:
        again = [piece.text for piece in parse(whole) if not isinstance(piece, str)]
    except TemplateError:
        again = None
    if again != [written(piece) for piece in pieces if not isinstance(piece, str)]:
        raise TemplateError(
            "a `context` value and the text next to it would together form a reference",
            *(0, len(whole)),
            help="do not end a value with `$` right before `{` or `${`",
        )
