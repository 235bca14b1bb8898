"""Check that each template can be parsed and refers to a value that can exist.

Not here: the parser (`templates.parse`), texts with the author's values filled in (`check_filled`),
whether a result exists in time (`check_results`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice

from little_loops.authoring.checks.inspection import Inspection
from little_loops.authoring.checks.references import MOST_IN_ONE
from little_loops.authoring.fields.refused_texts import WHERE_TEMPLATES_BELONG
from little_loops.authoring.messages import did_you_mean, shown
from little_loops.authoring.texts import LocatedText, plain_texts, templates
from little_loops.errors import Problem
from little_loops.fsm.schema import RESOLVE
from little_loops.templates.render import (
    FIELDS,
    NAMESPACES,
    RESULT_FIELDS,
    Reference,
    TemplateError,
    Unresolved,
)
from little_loops.templates.splice import value_at

IN_A_HOOK = "a hook reads values such as `context` as JSON from its standard input"
MOST_PROBLEMS = 20_000
"""More problems are not reported: locating this many takes a fifth of a second."""


def check_plain_texts(of: Inspection) -> Iterator[Problem]:
    """Report templates in texts where nothing is filled in."""
    for each in plain_texts(of.loop):
        for reference in of.read(each.text).references[:1]:
            yield of.inside(
                "LL406",
                f"`{shown(reference.text)}` is not filled in here",
                each,
                (reference.start, reference.end),
                IN_A_HOOK if _is_of_hook(each) else WHERE_TEMPLATES_BELONG,
            )


def _is_of_hook(each: LocatedText) -> bool:
    return each.path[0] == "hooks" or each.path[2:3] in (("before",), ("after",))


def check_templates(of: Inspection) -> Iterator[Problem]:
    """Report templates that cannot be parsed, or that refer to nothing."""
    return islice(_template_problems(of), MOST_PROBLEMS)


def _template_problems(of: Inspection) -> Iterator[Problem]:
    """Yield all problems of all templates."""
    for each in templates(of.loop):
        found = of.read(each.text)
        for error in found.errors:
            code = "LL402" if error.message.startswith("unknown namespace") else "LL401"
            yield unreadable(of, code, error, each)
        distinct = {reference.text: reference for reference in reversed(found.references)}
        problems = (
            problem for ref in reversed(distinct.values()) for problem in _reference(of, each, ref)
        )
        yield from islice(problems, MOST_IN_ONE)


def unreadable(of: Inspection, code: str, error: TemplateError, each: LocatedText) -> Problem:
    """Return the problem for a template that cannot be parsed."""
    help = error.help or None
    if code == "LL402":
        help = _other_namespace(error.message.split("`")[1])
    return of.inside(code, error.message, each, (error.start, error.end), help)


def _other_namespace(name: str) -> str:
    """Return the help for an unknown namespace: the most similar one, if any, and the known
    ones."""
    near = did_you_mean(name, NAMESPACES)
    known = (
        f"known: {', '.join(f'`{each}`' for each in NAMESPACES)}; write `$${{` for a literal `${{`"
    )
    return f"{near} {known}" if near is not None else known


def _reference(of: Inspection, each: LocatedText, reference: Reference) -> Iterator[Problem]:
    """Report a reference to a value that cannot exist."""
    match reference.namespace:
        case "context":
            yield from _context(of, each, reference)
        case "captured":
            yield from _captured(of, each, reference)
        case "env":
            pass
        case "branch":
            yield from _branch(of, each, reference)
        case namespace:
            yield from _field(of, each, reference, namespace, reference.path, FIELDS[namespace])


def _context(of: Inspection, each: LocatedText, reference: Reference) -> Iterator[Problem]:
    """Report a reference to a `context` value that does not exist."""
    # A loop-wide text may be used in any state.
    context = of.all_context if each.state is None else of.context_of(each.state)
    key = reference.path[0]
    if key not in context:
        if of.gaps.hides_variable(key, each.state):
            return
        message = f"`context` has no `{shown(key)}`"
        help = of.suggest_name(key, context.keys()) if context else "the loop has no `context`"
        yield _missing(of, "LL403", message, each, reference, help)
        return
    try:
        value_at(context, reference.path, "context")
    except Unresolved:
        message = f"`{shown(reference.name)}` does not exist"
        help = f"`context.{key}` has no such value"
        yield _missing(of, "LL403", message, each, reference, help)


def _branch(of: Inspection, each: LocatedText, reference: Reference) -> Iterator[Problem]:
    """Report a reference to a value of a branch where there is none."""
    state = each.state or ""
    if of.gaps.in_state(state, "for_each", "branches", "matrix", "as"):
        return
    known = _values_of_branch(of, each)
    if not known:
        message = f"`{shown(reference.text)}` has no value here"
        help = "`branch` has values in a state with `for_each`, `branches` or `matrix`"
        yield _missing(of, "LL405", message, each, reference, help)
    elif reference.path[0] not in known:
        message = f"`branch` has no `{shown(reference.path[0])}`"
        near = of.suggest_name(reference.path[0], known)
        yield _missing(of, "LL405", message, each, reference, near)


def _values_of_branch(of: Inspection, each: LocatedText) -> tuple[str, ...]:
    """Return the names of the values that `branch` has in a text; none if it is not that of a
    branch."""
    if each.state is None or (each.after and "/" not in each.state) or "for_each" in each.path:
        return ()
    name, _, key = each.state.partition("/")
    branches = of.loop.states[name].branches
    own = () if branches is None or branches.named else (*branches.matrix,) or (branches.as_,)
    if key == RESOLVE:
        return ("index", "name", *own, "conflict")
    return ("index", "name", *own) if branches is not None else ()


def _captured(of: Inspection, each: LocatedText, reference: Reference) -> Iterator[Problem]:
    """Report a reference to a capture, or to a field of one, that does not exist."""
    name, *path = reference.path
    if name in of.results:
        owner = f"captured.{name}"
        yield from _field(of, each, reference, owner, tuple(path), RESULT_FIELDS)
    elif of.may_be_captured(name):
        return
    elif name in of.loop.states:
        message = f"state `{name}` has no action, so there is no `captured.{name}`"
        help = "name a state with an action, or a capture"
        yield _missing(of, "LL404", message, each, reference, help)
    else:
        message = f"there is no capture named `{shown(name)}`"
        yield _missing(of, "LL404", message, each, reference, of.suggest_name(name, of.results))


def _field(
    of: Inspection,
    each: LocatedText,
    reference: Reference,
    owner: str,
    path: tuple[str, ...],
    fields: Collection[str],
) -> Iterator[Problem]:
    """Report a reference whose path is not a field of `owner`."""
    help: str | None
    if not path:
        message = f"`{shown(reference.text)}` needs a field"
        help = f"write `${{{owner}.output}}`, or another field"
    elif path[0] not in fields:
        message = f"`{owner}` has no field `{shown(path[0])}`"
        help = of.suggest_name(path[0], fields)
    elif len(path) > 1 and path[0] not in ("structured", "result"):
        message = f"`{owner}.{path[0]}` has no fields"
        help = f"write `${{{owner}.{path[0]}}}`"
    else:
        return
    yield _missing(of, "LL405", message, each, reference, help)


def _missing(
    of: Inspection,
    code: str,
    message: str,
    each: LocatedText,
    reference: Reference,
    help: str | None,
) -> Problem:
    """Return an error for a missing value; with a fallback, a warning that it is always used."""
    span = (reference.start, reference.end)
    if reference.fallback is None:
        return of.inside(code, message, each, span, help)
    message = f"`{shown(reference.text)}` always uses its fallback: {message}"
    return of.inside("LL311", message, each, span, help, "warning")


def check_context(of: Inspection) -> Iterator[Problem]:
    """Report `context` values that refer to each other in a circle."""
    for circle in circles(of.refers_to):
        chain = " → ".join(f"`{name}`" for name in circle)
        yield of.error(
            "LL212",
            f"circular reference between `context` values: {chain}",
            *("context", circle[0]),
            help="give one of them a plain value",
        )


def circles(refers: Mapping[str, Collection[str]]) -> Iterator[list[str]]:
    """Yield one circle for each group of names that refer back to themselves; it begins and ends
    with the same name."""
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
