"""Check templates: that each can be read, and names a value there can be.

Not here: the parser (`fsm.template`), what a text becomes once the author's values are in it
(`check_filled`), whether a result is there in time (`check_results`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from little_loops.authoring.inspection import Inspection
from little_loops.authoring.messages import shown
from little_loops.authoring.texts import Text, plain_texts, templates, values
from little_loops.errors import Problem
from little_loops.fsm.interpolation import (
    FIELDS,
    RESULT_FIELDS,
    Reference,
    TemplateError,
    Unresolved,
    references,
    template_errors,
)
from little_loops.fsm.splicing import value_at

MOST_IN_ONE = 100
"""Of problems in one text; no more of them are ever shown."""


def check_plain_texts(of: Inspection) -> Iterator[Problem]:
    """Templates stand where they are filled in, and nowhere else."""
    for each in plain_texts(of.loop):
        for reference in read(each.text).references[:1]:
            yield of.inside(
                "LL406",
                f"`{shown(reference.text)}` stands where nothing is filled in",
                each,
                reference.text,
                "templates are for `action`, `context` and `env` values, and a condition's "
                "`source`, `target`, `pattern`, `path` and `tolerance`",
            )


class Read(NamedTuple):
    """A text, read: its references, or its mistakes."""

    references: tuple[Reference, ...] = ()
    errors: tuple[TemplateError, ...] = ()


def read(text: str) -> Read:
    """What a text refers to; of one that is full of mistakes only the first is told."""
    if "${" not in text:
        return Read()
    try:
        return Read(references(text))
    except TemplateError as error:
        many = text.count("${") > MOST_IN_ONE
        return Read(errors=(error,) if many else tuple(template_errors(text)))


def check_templates(of: Inspection) -> Iterator[Problem]:
    """Each template can be read and names something."""
    for each in templates(of.loop):
        found = read(each.text)
        for error in found.errors:
            code = "LL402" if error.message.startswith("unknown namespace") else "LL401"
            yield unreadable(of, code, error, each)
        distinct = {reference.text: reference for reference in found.references}
        problems = (problem for ref in distinct.values() for problem in _reference(of, each, ref))
        yield from islice(problems, MOST_IN_ONE)


def unreadable(of: Inspection, code: str, error: TemplateError, each: Text) -> Problem:
    snippet = each.text[error.start : error.end]
    return of.inside(code, error.message, each, snippet, error.help or None)


def _reference(of: Inspection, each: Text, reference: Reference) -> Iterator[Problem]:
    match reference.namespace:
        case "context":
            yield from _context(of, each, reference)
        case "captured":
            yield from _captured(of, each, reference)
        case "env":
            pass
        case namespace:
            yield from _field(of, each, reference, namespace, reference.path, FIELDS[namespace])


def _context(of: Inspection, each: Text, reference: Reference) -> Iterator[Problem]:
    # A value of the loop's may be used in any state.
    context = of.all_context if each.state is None else of.context_of(each.state)
    key = reference.path[0]
    if key not in context:
        message = f"`context` has no `{shown(key)}`"
        help = of.meant(key, context.keys()) if context else "the loop has no `context`"
        yield _missing(of, "LL403", message, each, reference, help)
        return
    try:
        value_at(context, reference.path, "context")
    except Unresolved:
        message = f"`{shown(reference.name)}` leads to nothing"
        help = f"`context.{key}` holds no such thing"
        yield _missing(of, "LL403", message, each, reference, help)


def _captured(of: Inspection, each: Text, reference: Reference) -> Iterator[Problem]:
    name, *path = reference.path
    if name in of.results:
        owner = f"captured.{name}"
        yield from _field(of, each, reference, owner, tuple(path), RESULT_FIELDS)
    elif name in of.loop.states:
        message = f"state `{name}` has no action, so there is no `captured.{name}`"
        help = "name a state that acts, or a capture"
        yield _missing(of, "LL404", message, each, reference, help)
    else:
        message = f"nothing is captured as `{shown(name)}`"
        yield _missing(of, "LL404", message, each, reference, of.meant(name, of.results))


def _field(
    of: Inspection,
    each: Text,
    reference: Reference,
    owner: str,
    path: tuple[str, ...],
    fields: Collection[str],
) -> Iterator[Problem]:
    help: str | None
    if not path:
        message = f"`{shown(reference.text)}` names no field"
        help = f"write `${{{owner}.output}}`, or another of its fields"
    elif path[0] not in fields:
        message = f"`{owner}` has no field `{shown(path[0])}`"
        help = of.meant(path[0], fields)
    elif len(path) > 1 and path[0] != "structured":
        message = f"`{owner}.{path[0]}` has no fields of its own"
        help = f"write `${{{owner}.{path[0]}}}`"
    else:
        return
    yield _missing(of, "LL405", message, each, reference, help)


def _missing(
    of: Inspection, code: str, message: str, each: Text, reference: Reference, help: str | None
) -> Problem:
    """What is not there is an error, or, with a fallback, a text that is always the fallback."""
    if reference.fallback is None:
        return of.inside(code, message, each, reference.text, help)
    message = f"`{shown(reference.text)}` is always its fallback: {message}"
    return of.inside("LL311", message, each, reference.text, help, "warning")


def check_context(of: Inspection) -> Iterator[Problem]:
    """The loop's variables do not refer to each other in a circle."""
    for circle in circles(refers_to(of.loop.context)):
        chain = " → ".join(f"`{name}`" for name in circle)
        yield of.error(
            "LL212",
            f"`context` values refer to each other in a circle: {chain}",
            *("context", circle[0]),
            help="let one of them stand for itself",
        )


def refers_to(context: Mapping[str, Any]) -> dict[str, list[str]]:
    """For each variable the others its texts refer to."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for each in values(context, ()):
        for reference in read(each.text).references:
            if reference.namespace == "context" and reference.path[0] in context:
                found[str(each.path[0])].append(reference.path[0])
    return found


def circles(refers: Mapping[str, Collection[str]]) -> Iterator[list[str]]:
    """A circle for each group of names that lead back to themselves."""
    done: set[str] = set()
    for start in list(refers):
        trail, rests = {start: None}, [iter(refers[start])]
        while rests and start not in done:
            onward = next(rests[-1], None)
            if onward is None:
                done.add(trail.popitem()[0])
                rests.pop()
            elif onward in trail:
                names = list(trail)
                yield [*names[names.index(onward) :], onward]
                done.update(trail)
            elif onward not in done:
                trail[onward] = None
                rests.append(iter(refers.get(onward, ())))
