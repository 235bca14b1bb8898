"""From a file's text, or plain data, to a checked loop: the whole way, in order.

text → nodes → the paradigm's own fields → the native form → `FSMLoop` → checks of the whole
machine.  Everything that is wrong is collected on the way and told in the order of the file.

Not here: finding and reading files, showing problems (`cli`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from little_loops.authoring import native
from little_loops.authoring.field_kinds import LOOP_NAME, Command, Field, ListOf, Part, Table
from little_loops.authoring.fields import COMMAND, LOOP, OWN, PARADIGM_TABLES, PARADIGMS, PARTS
from little_loops.authoring.messages import shown
from little_loops.authoring.nodes import Entry, List, Map, Node, Text, node_of
from little_loops.authoring.places import Places, Source
from little_loops.authoring.reader import Reader
from little_loops.authoring.values import INVALID, fits
from little_loops.errors import Problem
from little_loops.fsm.schema import FSMLoop

MOST_NODES = 50_000
MOST_LEVELS = 50
_OF_MADE_STATES = ("LL106", "LL124")
_TARGETS = ("LL201", "LL202")
_FOUNDATIONS = frozenset(
    ("action", "capture", "condition", "context", "outcome", "route", "terminal", "words")
)
"""What other fields rest on: where one of these is broken, what is said about them proves little."""


class Definition(NamedTuple):
    """A loop file, read: the loop if nothing is wrong with it, and all problems in file order."""

    loop: FSMLoop | None
    problems: tuple[Problem, ...]
    places: Places


def load(text: str | bytes, file: str, stem: str) -> Definition:
    """Read a loop file; nothing in it makes this raise."""
    from little_loops.authoring.source import parse  # a program's data needs no YAML

    document = parse(text, file)
    if document.root is None:
        problems = document.problems or (_empty(document.source),)
        return Definition(None, problems, Places(document.source, None))
    return _define(document.root, document.source, document.problems, stem)


def load_data(data: Any, stem: str) -> Definition:
    """Read a loop from plain data, as a program has it; problems then have no place."""
    source = Source("", ())
    refused = _too_large(data)
    if refused is not None:
        return Definition(None, (refused,), Places(source, None))
    return _define(node_of(data), source, (), stem)


def _define(root: Node, source: Source, problems: Iterable[Problem], stem: str) -> Definition:
    reader = Reader(source)
    reader.problems.extend(problems)
    if not isinstance(root, Map):
        message = "a loop file is a mapping of fields, such as `name: …` and `states: …`"
        reader.note("LL013", message, root.mark)
        return Definition(None, _in_order(reader.problems), Places(source, None))
    read = _compiled(root, reader, stem)
    errors = len(reader.problems)
    if read.loop is not None:
        reader.problems.extend(_checked(read, reader))
    sound = not errors and all(each.severity != "error" for each in reader.problems)
    return Definition(read.loop if sound else None, _in_order(reader.problems), read.places)


def _compiled(root: Map, reader: Reader, stem: str) -> native.Native:
    """The machine of a document, whatever paradigm it is written in."""
    name = _usable_name(root, reader, stem)
    paradigm = _paradigm(root, reader)
    if paradigm == "fsm":
        return native.read(root, reader, name)
    if paradigm is None:
        return native.Native(None, Places(reader.source, root))
    table = PARADIGM_TABLES[paradigm]
    given = reader.record(root, table, "the loop")
    required = {field.name for field in OWN[paradigm] if field.required}
    if any(given.get(each, INVALID) is INVALID for each in required):
        return native.Native(None, Places(reader.source, root))
    expanded = _expand(paradigm, canonical(root, table), name)
    again = Reader(reader.source)
    found = native.read(expanded, again, name)
    # What the author wrote has been looked at; only what was made of it is new.
    told = bool(reader.problems)
    reader.problems += [p for p in again.problems if p.code in _OF_MADE_STATES or not told]
    return found


def _expand(paradigm: str, root: Map, name: str) -> Map:
    # Imported when a file is written in it; most files need one of five.
    module = import_module(f"little_loops.authoring.{paradigm}")
    expanded: Map = module.expand(root, name)
    return expanded


def canonical(node: Map, table: Table) -> Map:
    """The same mapping with every field under its main name, so that paradigms know only that."""
    entries = []
    for key, value in node.entries:
        field = table.by_name.get(key.text)
        if field is None:
            entries.append(Entry(key, value))
        elif key.text == field.name or field.name not in node:
            entries.append(Entry(key._replace(text=field.name), _canonical(value, field)))
    return node._replace(entries=tuple(entries))


def _canonical(node: Node, field: Field) -> Node:
    match field.kind, node:
        case Command(), Map():
            return canonical(node, COMMAND)
        case Part(), Map():
            return canonical(node, PARTS[field.kind.table])
        case ListOf(), List():
            item = field._replace(kind=field.kind.item)
            return node._replace(items=tuple(_canonical(each, item) for each in node.items))
        case _:
            return node


def _paradigm(root: Map, reader: Reader) -> str | None:
    """How the document is written; None if that cannot be said."""
    if "states" in root:
        return "fsm"
    written = root.get("paradigm")
    if written is None:
        return _untold(root, reader)
    if isinstance(written, Text) and written.text in PARADIGMS:
        return written.text
    reader.read(LOOP.by_name["paradigm"].kind, written, "`paradigm`")
    return None


def _untold(root: Map, reader: Reader) -> str:
    """Without `paradigm` it is `fsm`, unless its fields are another one's."""
    written = {entry.key.text for entry in root.entries}
    own = {
        name: {each for field in fields for each in (field.name, *field.aliases)} & written
        for name, fields in OWN.items()
    }
    likely = max(own, key=lambda name: len(own[name]))
    if not own[likely] or "initial" in written:
        return "fsm"
    key = next(entry.key for entry in root.entries if entry.key.text in own[likely])
    message = f"`{key.text}` belongs to paradigm `{likely}`, which this file does not name"
    reader.note("LL113", message, key.mark, f"add `paradigm: {likely}`")
    return likely


def _usable_name(root: Map, reader: Reader, stem: str) -> str:
    """The name a loop has that gives itself none: the file's, if it can be one."""
    if "name" in root or fits(stem, LOOP_NAME):
        return stem
    # A goal names itself; the rest would be called as the file is.
    written = root.get("paradigm")
    if not (isinstance(written, Text) and written.text == "goal" and "states" not in root):
        message = f"the file's name `{shown(stem)}` cannot be the loop's"
        reader.note("LL106", message, root.mark, "add `name: …`, or rename the file")
    return "loop"


def _checked(read: native.Native, reader: Reader) -> list[Problem]:
    """What is wrong with the machine as a whole, less what only follows from earlier problems."""
    from little_loops.authoring.check import check  # needs interpolation, patterns and more

    assert read.loop is not None
    found: list[Problem] = check(read.loop, read.places)
    if not reader.problems:
        return found
    errors = [each for each in found if each.severity == "error"]
    if reader.spoiled.isdisjoint(_FOUNDATIONS):
        return errors
    return [each for each in errors if each.code in _TARGETS]


def _in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """By place; what stands nowhere comes first."""

    def position(problem: Problem) -> tuple[int, int]:
        place = problem.place
        return (place.line, place.column) if place is not None else (0, 0)

    return tuple(sorted(dict.fromkeys(problems), key=position))


def _empty(source: Source) -> Problem:
    place = source.place(None) if not source.lines else None
    return Problem("LL004", "the file is empty", place, "`ll-loop init` writes a first loop")


def _too_large(data: Any) -> Problem | None:
    """Data that is too large or too deep to be a loop; also data that contains itself."""
    count = 0
    rest: list[tuple[Any, int]] = [(data, 1)]
    while rest:
        each, level = rest.pop()
        count += 1
        if count > MOST_NODES:
            return Problem("LL005", f"more than {MOST_NODES:,} nodes (keys, values, items)")
        if isinstance(each, Mapping):
            inner: Iterable[Any] = (part for pair in each.items() for part in pair)
        elif isinstance(each, (list, tuple)):
            inner = each
        else:
            continue
        if level > MOST_LEVELS:
            return Problem("LL006", f"more than {MOST_LEVELS} levels deep")
        rest.extend((part, level + 1) for part in inner)
    return None
