"""Loops that the states of a loop start: read them with it, and check that they fit together.

A state names another loop of the project, or contains its definition. Either way the other loop is
compiled when the file is read; its problems are reported at their place in its own file.

Not here: finding the file of a loop (`definitions.loading` passes a function for that).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from little_loops.authoring.fields.read_values import INVALID
from little_loops.authoring.messages import did_you_mean, shown
from little_loops.authoring.yaml.nodes import Map, Node, Text
from little_loops.errors import Problem
from little_loops.fsm.schema import FSMLoop, StateConfig
from little_loops.fsm.scope import contains
from little_loops.light_typing import TYPE_CHECKING, Any
from little_loops.templates.render import TemplateError, Unresolved
from little_loops.templates.splice import Data, as_text, is_data, spliced

if TYPE_CHECKING:
    from little_loops.authoring.fields.reader import Reader
    from little_loops.authoring.load import Definition

MOST_LEVELS = 8
EVERYTHING = (".",)
STUB = FSMLoop("loop", "done", {"done": StateConfig(terminal=True)})


def read_sub_loop(reader: Reader, node: Node, label: str) -> Any:
    """Read the loop that a state starts: the name or path of one, or a definition. Return it as
    plain data, or INVALID."""
    library = reader.library
    if library.names_only:
        return STUB.to_dict()
    if len(library.within) >= MOST_LEVELS:
        message = f"loops are nested more than {MOST_LEVELS} levels deep"
        return reader.report("LL221", message, node.mark, "start one of them from an outer loop")
    if isinstance(node, Map):
        return _inline(reader, node)
    if isinstance(node, Text) and node.kind == "str":
        return _named(reader, node)
    return reader.wrong(label, "the name of a loop, or a definition", node)


def _inline(reader: Reader, node: Map) -> Any:
    """Read a definition inside a state; its problems are problems of this file."""
    from little_loops.authoring.load import define  # it reads states itself

    library = reader.library._replace(within=(*reader.library.within, ""))
    definition = define(node, reader.source, (), STUB.name, library)
    reader.problems += definition.problems
    reader.child = definition
    return INVALID if definition.loop is None else definition.loop.to_dict()


def _named(reader: Reader, node: Text) -> Any:
    """Read the loop of this name."""
    from little_loops.authoring.load import load  # it reads states itself

    library = reader.library
    if "${" in node.text:
        help = "write the loop's name; to choose between loops, use a separate state for each"
        return reader.report("LL221", "`loop` cannot be a template", node.mark, help)
    found = (
        "there is no project here to look for it in"
        if library.read is None
        else library.read(node.text)
    )
    if isinstance(found, str):
        message, _, help = found.partition("\n")
        return reader.report("LL221", message, node.mark, help or None)
    if found.path in library.within:
        message = f"loop `{shown(node.text)}` contains itself"
        return reader.report(
            "LL221", message, node.mark, "remove this state, or start another loop"
        )
    inner = library._replace(within=(*library.within, found.path))
    definition = load(found.text, found.file, found.stem, inner)
    errors = [each for each in definition.problems if each.severity == "error"]
    used_at = reader.source.place(node.mark)
    where = "" if used_at is None else f" (used by {used_at.file}:{used_at.line})"
    reader.problems += [each._replace(message=each.message + where) for each in errors]
    reader.child = definition
    return INVALID if definition.loop is None else definition.loop.to_dict()


# ── whether they fit together ──────────────────────────────────────────────────────────────────


def check_sub_loops(
    loop: FSMLoop, children: Mapping[str, Definition], place: Callable[..., Any]
) -> Iterator[Problem]:
    """Yield the problems between a loop and those that its states start; `place` finds a position
    in its file."""
    for name, definition in children.items():
        state = loop.states.get(name)
        if state is not None and state.loop is not None:
            yield from _check_fit(loop, name, state.loop, place)
            yield from _check_given(loop, name, state, definition, place)


def _check_fit(
    loop: FSMLoop, name: str, child: FSMLoop, place: Callable[..., Any]
) -> Iterator[Problem]:
    """Yield what is wrong with a loop as part of another one."""
    at = place("states", name, "loop")
    if child.maintain:
        message = f"loop `{child.name}` has `maintain: true`, so state `{name}` would never end"
        yield Problem("LL221", message, at, "remove `maintain` from that loop")
    for path in child.scope:
        inside = any(contains(outer, path) for outer in loop.scope)
        if not inside and child.scope != EVERYTHING:
            message = f"loop `{child.name}` works on `{path}`, which is outside this loop's scope"
            yield Problem("LL221", message, at, f"add `{path}` to `scope` here")


def _check_given(
    loop: FSMLoop,
    name: str,
    state: StateConfig,
    definition: Definition,
    place: Callable[..., Any],
) -> Iterator[Problem]:
    """Yield the problems with the values that a state gives to its loop."""
    from little_loops.authoring.checks.check import check  # only where values are given

    child = state.loop
    assert child is not None, "the state has a loop"
    for key in state.with_:
        if key not in child.context:
            message = f"loop `{child.name}` has no context variable `{shown(key)}`"
            known = ", ".join(f"`{each}`" for each in child.context)
            help = did_you_mean(key, child.context) or (
                f"known: {known}" if known else "add it to that loop's `context`"
            )
            yield Problem("LL219", message, place("states", name, "with", key, part="key"), help)
    marked = {
        key: Data("x")
        for key, value in state.with_.items()
        if _has_data(as_text(value), loop.context)
    }
    if not marked:
        return
    # Alone, the other loop has no errors, or it would not have been read.
    with_data = child._replace(context={**child.context, **marked})
    used_at = place("states", name, "with")
    where = "" if used_at is None else f" (with the values of {used_at.file}:{used_at.line})"
    for problem in check(with_data, definition.places):
        if problem.severity == "error":
            yield problem._replace(message=problem.message + where)


def _has_data(text: str, context: Mapping[str, Any]) -> bool:
    """Return whether any reference to data is in a text; False if it is invalid."""
    try:
        return any(is_data(piece) for piece in spliced(text, context))
    except (TemplateError, Unresolved):
        return False
