"""Load a loop from a file's text or from plain data: parse, compile and check it.

The steps are: text → nodes → the paradigm's own fields → the native form → `FSMLoop` → checks of
the whole machine. All problems are collected, and reported in the order of the file.

Not here: finding and reading files, printing problems (`cli`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module

from little_loops.authoring.branch_view import unfolded
from little_loops.authoring.fields.kinds import (
    LOOP_NAME,
    ActionKind,
    Commands,
    Field,
    ListOf,
    PartKind,
    Table,
    table,
)
from little_loops.authoring.fields.read_values import fits
from little_loops.authoring.fields.reader import Reader, is_command
from little_loops.authoring.fields.table import (
    COMMANDS,
    FORM_TABLES,
    LOOP,
    OWN,
    PARADIGMS,
    PARTS,
    TRANSITIONS,
)
from little_loops.authoring.messages import shown
from little_loops.authoring.paradigms import native
from little_loops.authoring.yaml.nodes import List, Map, MapEntry, Mark, Node, Text, node_of
from little_loops.authoring.yaml.places import Places, Source
from little_loops.errors import Problem
from little_loops.fsm.schema import FSMLoop
from little_loops.light_typing import TYPE_CHECKING, Any
from little_loops.records import NamedTuple

if TYPE_CHECKING:
    from little_loops.authoring.loop_files import Library

MOST_NODES = 50_000
MOST_LEVELS = 50
STATES_MADE_OF = {
    "goal": ("tools",),
    "check_fix": ("check", "fix"),
    "imperative": ("steps",),
    "invariants": ("constraints",),
}
"""The fields that determine which states exist; other paradigms always have the same states."""
_FOLLOW_UP_CODES = ("LL101", "LL107", "LL119")


class Definition(NamedTuple):
    """A loop file: the loop, if it has no errors, and all problems in file order.

    `children` are the loops that its states start, by the names of the states, or for a branch by
    those of state and branch: `checks/types`.
    """

    loop: FSMLoop | None
    problems: tuple[Problem, ...]
    places: Places
    children: Mapping[str, Definition] = {}


def load(text: str | bytes, file: str, stem: str, library: Library | None = None) -> Definition:
    """Load a loop file; problems are returned, never raised.

    `file` is its name in messages, `stem` the name for a loop without one. `library` has the loops
    that it names.
    """
    from little_loops.authoring.yaml.source import parse  # a program's data needs no YAML

    document = parse(text, file)
    if document.root is None:
        problems = document.problems or (_empty(document.source),)
        return Definition(None, problems, Places(document.source, None))
    return define(document.root, document.source, document.problems, stem, library)


def load_data(data: Any, stem: str, library: Library | None = None) -> Definition:
    """Load a loop from plain data, as a program has it; its problems have no place."""
    source = Source("", ())
    refused = _too_large(data)
    if refused is not None:
        return Definition(None, (refused,), Places(source, None))
    return define(node_of(data), source, (), stem, library)


def define(
    root: Node,
    source: Source,
    problems: Iterable[Problem],
    stem: str,
    library: Library | None = None,
) -> Definition:
    """Compile and check a document; with any error, the definition has no loop."""
    reader = Reader(source, library)
    reader.problems.extend(problems)
    if not isinstance(root, Map):
        message = "a loop file must be a mapping of fields, such as `name: …` and `states: …`"
        reader.report("LL013", message, root.mark, "run `ll-loop init` to create one")
        return Definition(None, _in_order(reader.problems), Places(source, None))
    read = _compile(root, reader, stem)
    if read.loop is not None:
        view = unfolded(read.loop, read.places)
        reader.problems.extend(_check(read._replace(loop=view.loop, places=view.places), reader))
        if reader.children:
            from little_loops.authoring.sub_loops import check_sub_loops  # few loops start others

            reader.problems.extend(check_sub_loops(view.loop, reader.children, view.places.at))
    sound = all(each.severity != "error" for each in reader.problems)
    loop = read.loop if sound else None
    return Definition(loop, _in_order(reader.problems), read.places, reader.children)


def _compile(root: Map, reader: Reader, stem: str) -> native.Native:
    """Compile a document to a machine, whatever its paradigm, and report problems to `reader`. What
    could not be read becomes a gap."""
    name = _usable_name(root, reader, stem)
    paradigm = _paradigm(root, reader)
    if paradigm == "fsm":
        return native.read(root, reader, name)
    if paradigm is None:
        return native.Native(None, Places(reader.source, root))
    rows = FORM_TABLES[paradigm]
    given = reader.fields(root, rows, "the loop")
    if paradigm == "convergence":
        _variables_given_twice(root, reader)
    if paradigm == "goal":
        _loop_as_check(root, reader)
    if any(each.code == "LL221" for each in reader.problems):  # no machine has a loop there
        return native.Native(None, Places(reader.source, root))
    expanded = _expand(paradigm, canonical(root, rows), name)
    again = Reader(reader.source, reader.library)
    found = native.read(expanded, again, name)._replace(compiled=True)
    # The author's fields were checked above; only problems of generated ones are new.
    reader.problems += _not_reported(again.problems, reader.problems)
    reader.children = again.children
    if paradigm == "convergence" and "toward" not in given:
        # The missing field was reported, so the machine must not report the variable again.
        found = found._replace(gaps=found.gaps._replace(loop=found.gaps.loop | {"context.target"}))
    decide = STATES_MADE_OF.get(paradigm, ())
    if all(field in given and not reader.hidden(field) for field in decide):
        return found
    # It is not known which states there would be.
    return found._replace(gaps=found.gaps._replace(loop=found.gaps.loop | {"states"}))


def _not_reported(found: Iterable[Problem], reported: Sequence[Problem]) -> list[Problem]:
    """Return the problems whose place has no problem yet, and that are not follow-up problems."""
    if not reported:
        return list(found)
    known = {each.place for each in reported}
    return [each for each in found if each.place not in known and each.code not in _FOLLOW_UP_CODES]


def _variables_given_twice(root: Map, reader: Reader) -> None:
    """Report `context` variables that the paradigm sets from its own fields."""
    from little_loops.authoring.paradigms.convergence import GIVEN_BY  # only for its own loops

    written = root.get("context")
    for entry in written.entries if isinstance(written, Map) else ():
        field = GIVEN_BY.get(entry.key.text)
        if field is not None:
            message = f"`{field}` and `context` both set `{entry.key.text}`"
            reader.report("LL012", message, entry.key.mark, f"set it only with `{field}`")


def _loop_as_check(root: Map, reader: Reader) -> None:
    """Report a loop as the first tool, which is the check."""
    from little_loops.authoring.fields.read_states import no_loop

    written = root.get("tools")
    first = written.items[0] if isinstance(written, List) and written.items else None
    if isinstance(first, Map) and "loop" in first:
        no_loop(reader, first, "the first tool, which is the check,")


def _expand(paradigm: str, root: Map, name: str) -> Map:
    """Rewrite a document into the native form, using the paradigm's module."""
    # Imported on demand, because a file needs only one of them.
    module = import_module(f"little_loops.authoring.paradigms.{paradigm}")
    expanded: Map = module.expand(root, name)
    return expanded


def canonical(node: Map, rows: Table) -> Map:
    """Return the mapping with every field under its main name, so that paradigms need no aliases.

    Unknown keys are kept; transitions of a command, which are not allowed, are dropped.
    """
    entries = []
    for key, value in node.entries:
        field = rows.by_name.get(key.text)
        if is_command(rows) and key.text in TRANSITIONS:
            continue  # not allowed here; the reader has reported it
        if field is None:
            entries.append(MapEntry(key, value))
        elif key.text == field.name or field.name not in node:
            entries.append(MapEntry(key._replace(text=field.name), _canonical(value, field)))
    return node._replace(entries=tuple(entries))


def _canonical(node: Node, field: Field) -> Node:
    """Apply `canonical` to the mappings inside a field's value."""
    match field.kind, node:
        case ActionKind(), Map():
            return canonical(node, COMMANDS[field.kind.table])
        case PartKind(), Map():
            return canonical(node, PARTS[field.kind.table])
        case Commands(), Map():
            return canonical(node, COMMANDS["command"])
        case ((ListOf() | Commands()), List()):
            item = field._replace(kind=getattr(field.kind, "item", ActionKind()))
            return node._replace(items=tuple(_canonical(each, item) for each in node.items))
        case _:
            return node


def _paradigm(root: Map, reader: Reader) -> str | None:
    """Return the paradigm of a document; None if it is invalid, which is reported."""
    if "states" in root:
        return "fsm"
    written = root.get("paradigm")
    if written is None:
        return _implied_paradigm(root, reader)
    if isinstance(written, Text) and written.text in PARADIGMS:
        return written.text
    alone = Map(tuple(entry for entry in root.entries if entry.key.text == "paradigm"))
    reader.record(alone, table("the loop", LOOP.by_name["paradigm"]), "the loop")
    return None


def _implied_paradigm(root: Map, reader: Reader) -> str:
    """Return the paradigm of a document that names none, by its fields; `fsm` by default. Report a
    field of a paradigm that has to be named."""
    written = {entry.key.text for entry in root.entries}
    own = {
        name: {each for field in fields for each in (field.name, *field.aliases)} & written
        for name, fields in OWN.items()
    }
    likely = max(own, key=lambda name: len(own[name]))
    if "initial" in written:
        return "fsm"
    if written & {"check", "fix"} and not set().union(*own.values()) - {"check", "goal"}:
        return "check_fix"
    if not own[likely]:
        return "fsm"
    key = next(entry.key for entry in root.entries if entry.key.text in own[likely])
    message = f"`{key.text}` belongs to paradigm `{likely}`, which this file does not name"
    reader.report("LL113", message, key.mark, f"add `paradigm: {likely}`")
    return likely


def _usable_name(root: Map, reader: Reader, stem: str) -> str:
    """Return the name for a loop without one: that of the file. If it is not valid, report that,
    unless the loop is a goal, and return `loop`."""
    if "name" in root or fits(stem, LOOP_NAME):
        return stem
    # A goal is named after its words; other loops after the file.
    written = root.get("paradigm")
    if not (isinstance(written, Text) and written.text == "goal" and "states" not in root):
        message = f"the file name `{shown(stem)}` cannot be used as the loop's name"
        reader.report("LL106", message, root.mark, "add `name: …`, or rename the file")
    return "loop"


def _check(read: native.Native, reader: Reader) -> list[Problem]:
    """Return the problems of the machine as a whole, except at places that already have one."""
    from little_loops.authoring.checks.check import check  # needs interpolation, patterns and more

    assert read.loop is not None
    found: list[Problem] = check(read.loop, read.places, read.gaps, compiled=read.compiled)
    known = {each.place for each in reader.problems}
    return [each for each in found if each.place is None or each.place not in known]


def _in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Sort problems by place; those without one come first."""

    def position(problem: Problem) -> tuple[int, int]:
        place = problem.place
        return (place.line, place.column) if place is not None else (0, 0)

    return tuple(sorted(dict.fromkeys(problems), key=position))


def _empty(source: Source) -> Problem:
    place = source.place(Mark(0, 0, 1))
    return Problem("LL004", "the file is empty", place, "run `ll-loop init` to create one")


def _too_large(data: Any) -> Problem | None:
    """Return a problem if data is too large or too deep for a loop, or contains itself."""
    count = 0
    rest: list[tuple[Any, int]] = [(data, 1)]
    while rest:
        each, level = rest.pop()
        count += 1
        if count > MOST_NODES:
            message = f"more than {MOST_NODES:,} nodes (keys, values, items)"
            return Problem("LL005", message, help="move data to files that actions read")
        if isinstance(each, Mapping):
            inner: Iterable[Any] = (part for pair in each.items() for part in pair)
        elif isinstance(each, (list, tuple)):
            inner = each
        else:
            continue
        if level > MOST_LEVELS:
            return Problem("LL006", f"more than {MOST_LEVELS} levels deep", help="flatten it")
        rest.extend((part, level + 1) for part in inner)
    return None
