"""Convert records to plain, JSON-compatible data and back, using the annotations of their classes.

A record becomes an object. Fields that equal their default are omitted, and a missing field is read
as its default, so that a class can gain fields without a new format. Unknown fields are ignored,
because a newer version may have written them.

Writing looks only at values, because a run does it at every step. Annotations are evaluated when
the first record of a class is read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import compress
from operator import is_not
from types import NoneType, UnionType

from little_loops.light_typing import Annotated, Any, Literal, TypeVar, get_args, get_origin
from little_loops.records import NamedTuple

Field = TypeVar("Field")
Record = TypeVar("Record")

Written = Annotated[Field, "written even if it has the default value"]
Inline = Annotated[Field, "a record whose fields are written among those of the enclosing record"]
Masked = Annotated[Field, "text from outside, in which secrets are masked before it is written"]

SCALARS = frozenset((NoneType, str, int, float, bool))
MAX_SHOWN = 60
MISSING = object()


class WrongShape(ValueError):
    """Data that does not match the class it is read as."""

    def __init__(self, why: str, *path: str) -> None:
        self.why = why
        self.path = path
        super().__init__(f"`{'.'.join(path)}` {why}" if path else why)

    def within(self, name: str) -> WrongShape:
        return WrongShape(self.why, name, *self.path)


class Tag(NamedTuple):
    """What distinguishes the classes of a union: `{"event": "loop_start", …}`."""

    key: str
    name: str


_TAGS: dict[type, Tag] = {}


def name_kinds(key: str, kinds: Mapping[str, type]) -> None:
    """Write records of these classes with the name of their kind under `key`."""
    _TAGS.update({kind: Tag(key, name) for name, kind in kinds.items()})


# ── writing ────────────────────────────────────────────────────────────────────────────────────


class RecordLayout(NamedTuple):
    """How the records of a class are written.

    `nested` are the required fields whose values may be more than a scalar. An inline record is the
    last required field, or the last optional one, so that its own fields come in order.
    """

    tag: tuple[str, ...]
    always: tuple[str, ...]
    nested: tuple[str, ...]
    optional: tuple[str, ...]
    defaults: tuple[Any, ...]
    inline: frozenset[str]


_LAYOUTS: dict[type, RecordLayout] = {}


def encode(record: Any) -> dict[str, Any]:
    """Return the record as a dict. Fields that equal their default are left out, and the fields of
    inline records are merged in."""
    tag, always, nested, optional, defaults, inline = _LAYOUTS.get(type(record)) or layout(
        type(record)
    )
    # Without `strict`, which would cost a fifth.
    fields: dict[str, Any] = dict(zip(always, tag + record))  # noqa: B905
    for name in nested:
        _add(fields, name, fields[name], inline)
    if defaults and (rest := record[-len(defaults) :]) != defaults:
        fields_of_rest = zip(optional, rest, defaults)  # noqa: B905
        # Most defaults are the same object, which takes no bytecode to find out.
        for name, value, default in compress(fields_of_rest, map(is_not, rest, defaults)):
            if default is None or value != default:
                _add(fields, name, value, inline)
    return fields


def _add(fields: dict[str, Any], name: str, value: Any, inline: frozenset[str]) -> None:
    """Add a field to the plain data; the fields of an inline value are added one by one."""
    if type(value) in SCALARS:
        fields[name] = value
    elif name in inline:
        fields.pop(name, None)
        fields.update(encode(value))
    else:
        fields[name] = to_plain(value)


def to_plain(value: Any) -> Any:
    """Return a value as plain data: records and mappings become dicts, tuples become lists."""
    kind = type(value)
    if kind in SCALARS:
        return value
    if kind is dict:  # most mappings; asking whether it is a `Mapping` takes longer
        return {name: to_plain(item) for name, item in value.items()}
    if hasattr(value, "_fields"):
        return encode(value)
    if isinstance(value, tuple):
        # A run may have a thousand children, which are in its state by name.
        has_scalars = SCALARS.issuperset(map(type, value))
        return list(value) if has_scalars else [to_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {name: to_plain(item) for name, item in value.items()}
    return value  # a list is plain data already


def layout(kind: Any) -> RecordLayout:
    """Return how a type is written as plain data, and cache it."""
    notes, defaults = kind.__annotations__, kind._field_defaults
    names = tuple(map(key_of, kind._fields))
    always = sum(name not in defaults or "Written[" in notes[name] for name in kind._fields)
    tag = _TAGS.get(kind)
    made = RecordLayout(
        (tag.name,) if tag else (),
        (tag.key, *names[:always]) if tag else names[:always],
        tuple(key_of(name) for name in kind._fields[:always] if not _is_scalar(notes[name])),
        names[always:],
        tuple(defaults[name] for name in kind._fields[always:]),
        frozenset(name for name in kind._fields if notes[name].startswith("Inline[")),
    )
    _LAYOUTS[kind] = made
    return made


_SCALAR_NOTES = frozenset(("str", "int", "float", "bool", "None"))


def _is_scalar(note: str) -> bool:
    plain = note.replace("Written[", "").replace("Masked[", "").rstrip("]")
    return _SCALAR_NOTES.issuperset(plain.split(" | "))


def key_of(field: str) -> str:
    """Return the key of a field: `from` for `from_`, because `from` is a Python keyword."""
    return field.rstrip("_")


class MaskedFields(NamedTuple):
    """The fields of a class that are masked, and those that may hold records with such fields."""

    own: tuple[str, ...]
    inner: tuple[str, ...]


_TEXTS: dict[type, MaskedFields] = {}


def masked(record: Record, mask: Callable[[str], str]) -> Record:
    """Return the record with `mask` applied to every text in a `Masked` field, also in inner
    records."""
    given: Any = record
    own, inner = _TEXTS.get(type(record)) or _texts(type(record))
    changed = {name: _texts_masked(getattr(given, name), mask) for name in own}
    for name in inner:
        value = getattr(given, name)
        if hasattr(value, "_fields"):
            changed[name] = masked(value, mask)
    return given._replace(**changed)  # type: ignore[no-any-return]


def _texts(kind: Any) -> MaskedFields:
    """Return the names of a type's masked fields, and of those that may contain records; cached."""
    notes = kind.__annotations__
    own = tuple(name for name in kind._fields if "Masked[" in notes[name])
    inner = tuple(name for name in kind._fields if not _is_scalar(notes[name]))
    _TEXTS[kind] = MaskedFields(own, tuple(name for name in inner if name not in own))
    return _TEXTS[kind]


def _texts_masked(value: Any, mask: Callable[[str], str]) -> Any:
    """Apply `mask` to every text in a value, also in mappings and sequences, which become dicts and
    lists."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return {name: _texts_masked(item, mask) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_texts_masked(item, mask) for item in value]
    return value


# ── reading ────────────────────────────────────────────────────────────────────────────────────

Read = Callable[[Any], Any]


class FieldReader(NamedTuple):
    """How one field is read: from the value under its key, or from the whole object if inline."""

    key: str
    read: Read
    default: Any
    inline: bool


_READERS: dict[type, tuple[FieldReader, ...]] = {}


def decode(kind: type[Record], data: Any) -> Record:
    """Return the record that an object describes; unknown keys are ignored. Raises `WrongShape`."""
    if not isinstance(data, Mapping):
        raise _cannot_be(data)
    made: Any = kind
    values = [_value(field, data) for field in _READERS.get(kind) or _readers(kind)]
    return made._make(values)  # type: ignore[no-any-return]


def _value(field: FieldReader, data: Mapping[str, Any]) -> Any:
    """Return the value of a field, or its default if the key is missing. Raises `WrongShape`."""
    if field.inline:
        return field.read(data)
    if field.key in data:
        return _within(field.key, field.read, data[field.key])
    if field.default is MISSING:
        raise WrongShape("is missing", field.key)
    return field.default


def _within(name: str, read: Read, value: Any) -> Any:
    """Read a value; add `name` to the path that a `WrongShape` reports."""
    try:
        return read(value)
    except WrongShape as wrong:
        raise wrong.within(name) from None


def _cannot_be(value: Any) -> WrongShape:
    return WrongShape(f"cannot be {value!r:.{MAX_SHOWN}}")


def _readers(kind: Any) -> tuple[FieldReader, ...]:
    """Return the readers of a type's fields, and cache them."""
    inline, defaults = layout(kind).inline, kind._field_defaults
    made = []
    for name, note in hints(kind).items():
        is_optional = name in inline and name in defaults
        read = _read_if_there(note) if is_optional else reader(note)
        made.append(FieldReader(key_of(name), read, defaults.get(name, MISSING), name in inline))
    _READERS[kind] = tuple(made)
    return _READERS[kind]


def hints(kind: Any) -> dict[str, Any]:
    """Return the types of the fields."""
    known = vars(sys.modules[kind.__module__])
    return {name: eval(note, known) for name, note in kind.__annotations__.items()}


def record_in(note: Any) -> Any:
    """Return the class of `Inline[Class]` or `Inline[Class | None]`."""
    inner = get_args(note)[0]
    return next((each for each in get_args(inner) if each is not NoneType), inner)


def _read_if_there(note: Any) -> Read:
    """Read an inline record if the object has any of its fields."""
    kind = record_in(note)
    return lambda data: None if data.keys().isdisjoint(kind._fields) else decode(kind, data)


def reader(note: Any) -> Read:
    """Return a function that reads a value of this type, and raises `WrongShape` for any other."""
    origin, inner = get_origin(note), get_args(note)
    if note is Any:
        return lambda value: value
    if origin is Annotated:
        return reader(inner[0])
    if isinstance(note, UnionType):
        return _read_one_of(inner)
    if origin is tuple:
        return _read_tuple(reader(inner[0]))
    if origin is Mapping:
        return _read_mapping(reader(inner[1]))
    if origin is Literal:
        return _read_where(lambda value: type(value) is str and value in inner)
    if hasattr(note, "_fields"):
        return lambda value: decode(note, value)
    return _read_scalar(note)


def _read_one_of(kinds: tuple[Any, ...]) -> Read:
    """Return a reader for a union of these types."""
    others = tuple(kind for kind in kinds if kind is not NoneType)
    if all(kind in SCALARS for kind in kinds):
        return _read_scalar(*kinds)
    if all(kind in _TAGS for kind in others):
        read = _read_tagged(others)
    else:
        read = _read_scalar_or(*others)
    return (lambda value: None if value is None else read(value)) if NoneType in kinds else read


def _read_scalar_or(*kinds: Any) -> Read:
    """Return a reader for a union of scalars and other types, which are told apart by their shape."""
    fitting = _fitting(kind for kind in kinds if kind in SCALARS)
    *others, last = (reader(kind) for kind in kinds if kind not in SCALARS)

    def read(value: Any) -> Any:
        if type(value) in fitting:
            return value
        for other in others:
            with suppress(WrongShape):
                return other(value)
        return last(value)

    return read


def _read_scalar(*kinds: type) -> Read:
    fitting = _fitting(kinds)
    return _read_where(lambda value: type(value) in fitting)


def _fitting(kinds: Iterable[type]) -> set[type]:
    """Return the types of the values that fit; a whole number is a number, too."""
    fitting = {*kinds}
    return fitting | {int} if float in fitting else fitting


def _read_where(fits: Callable[[Any], bool]) -> Read:
    """Return a reader for the values that `fits` accepts."""

    def read(value: Any) -> Any:
        if not fits(value):
            raise _cannot_be(value)
        return value

    return read


def _read_tuple(read: Read) -> Read:
    """Return a reader for lists, whose items `read` reads."""

    def read_all(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, (list, tuple)):
            raise _cannot_be(value)
        return tuple(_within(str(at), read, item) for at, item in enumerate(value))

    return read_all


def _read_mapping(read: Read) -> Read:
    """Return a reader for mappings, whose values `read` reads."""

    def read_all(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise _cannot_be(value)
        return {name: _within(name, read, item) for name, item in value.items()}

    return read_all


def _read_tagged(kinds: tuple[type, ...]) -> Read:
    """Return a reader for a union of types that are told apart by a tag in the data."""
    key = _TAGS[kinds[0]].key
    by_name = {_TAGS[kind].name: kind for kind in kinds}

    def read(value: Any) -> Any:
        """Decode a mapping as the type that its tag names. Raises `WrongShape` if there is no such
        type."""
        if not isinstance(value, Mapping):
            raise _cannot_be(value)
        name = value.get(key)
        if type(name) is not str or name not in by_name:
            raise _cannot_be(name).within(key)
        return decode(by_name[name], value)

    return read


def keys(kind: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the keys that records of this class always have, and those they may have."""
    always: list[str] = []
    optional: list[str] = []
    for name, note in hints(kind).items():
        inner = keys(record_in(note)) if name in layout(kind).inline else ((key_of(name),), ())
        is_always = key_of(name) in layout(kind).always
        (always if is_always else optional).extend(inner[0])
        optional.extend(inner[1])
    return tuple(always), tuple(optional)
