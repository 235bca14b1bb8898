"""Check that a result exists when it is used: find paths that skip its capture.

The results that a state's texts use, with the author's values filled in, are compared with those
that every path to the state has captured.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from little_loops.authoring.checks.flow import UnsetNames, may_be_missing, shortest_path
from little_loops.authoring.checks.inspection import Inspection
from little_loops.authoring.texts import LocatedText, templates
from little_loops.errors import Problem
from little_loops.records import NamedTuple
from little_loops.templates.render import Reference
from little_loops.templates.splice import AuthorValue, Spliced

PREV = ".prev"
"""Stands for `prev`, which every action sets; not a valid capture name, so there is no clash."""
MOST_PATHS = 20
"""The number of problems for which an example path is searched."""


class UsedResult(NamedTuple):
    """A result that a text uses: its name, and where the reference to it is."""

    name: str
    text: LocatedText
    span: tuple[int, int]


def check_results(of: Inspection) -> Iterator[Problem]:
    """Warn about results that may not have been captured where they are used."""
    sets = _results_of_states(of)
    missing = may_be_missing(of.flow, sets)
    setters = _setters(sets)
    found = 0
    for wanted in wanted_results(of):
        state = _state_lacking(of, missing, sets, wanted)
        if state is not None:
            found += 1
            path = (
                shortest_path(of.flow, state, setters[wanted.name]) if found <= MOST_PATHS else []
            )
            yield _skipped(of, wanted, state, path)


def _results_of_states(of: Inspection) -> dict[str, tuple[str, ...]]:
    """Return the names of the results that each state's action sets."""
    return {
        name: (name, PREV, *filter(None, (of.loop.states[name].capture,))) for name in of.actions
    }


def _setters(sets: Mapping[str, tuple[str, ...]]) -> Mapping[str, frozenset[str]]:
    """Return the states that set each result."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for state, names in sets.items():
        for name in names:
            found[name].add(state)
    return {name: frozenset(states) for name, states in found.items()}


def wanted_results(of: Inspection) -> Iterator[UsedResult]:
    """Yield every result that is used without a fallback, once per text."""
    for each in templates(of.loop):
        asked = dict[str, UsedResult]()
        if each.path[-1] == "source" and each.text in of.results:
            asked[each.text] = UsedResult(each.text, each, (0, len(each.text)))
        for reference in _references(of, each):
            name = PREV if reference.namespace == "prev" else reference.path[0]
            if reference.namespace == "prev" or name in of.results:
                asked.setdefault(name, UsedResult(name, each, (reference.start, reference.end)))
        yield from asked.values()


def _references(of: Inspection, each: LocatedText) -> Iterator[Reference]:
    """Yield references to results without a fallback; loop variables count where they are used."""
    # A value of `result` without a value is null.
    if "${" not in each.text or each.path[0] in ("context", "result"):
        return
    # The loop's `env` applies in every state; differences in states' variables do not matter.
    state = each.state if each.state is not None else next(iter(of.loop.states))
    found = of.filled(state, each.text)
    for reference in _flat(found) if isinstance(found, tuple) else ():
        if reference.namespace in ("captured", "prev") and reference.fallback is None:
            yield reference


def _flat(pieces: tuple[Spliced, ...]) -> Iterator[Reference]:
    """Yield all references, each with the position of the one in the text that contains it."""
    for piece in pieces:
        if isinstance(piece, Reference):
            yield piece
        elif isinstance(piece, AuthorValue):
            start, end = piece.reference.start, piece.reference.end
            for part in piece.parts:
                for inner in _flat(part):
                    yield inner._replace(start=start, end=end)


def _state_lacking(
    of: Inspection, missing: UnsetNames, sets: Mapping[str, tuple[str, ...]], wanted: UsedResult
) -> str | None:
    """Return a state that may use the result before it is captured; None if there is none."""
    each = wanted.text
    if each.state is None:
        return next((name for name in of.actions if missing.lacks(name, wanted.name)), None)
    if each.after and wanted.name in sets.get(each.state, ()):
        return None
    return each.state if missing.lacks(each.state, wanted.name) else None


def _skipped(of: Inspection, wanted: UsedResult, state: str, path: list[str]) -> Problem:
    """Return the warning about a result that may be missing."""
    if wanted.name == PREV:
        message = f"`prev` may be unset: state `{state}` can be reached before any action has run"
    else:
        message = f"state `{state}` can be reached before `{wanted.name}` is captured"
    transition = " → ".join(f"`{name}`" for name in path)
    help = f"for example by {transition}; " if len(path) > 1 else ""
    snippet = wanted.text.text[wanted.span[0] : wanted.span[1]]
    if snippet.startswith("${") and not snippet.startswith("${context."):
        bare = snippet.removesuffix("}")
        number = wanted.text.path[-1] in ("target", "tolerance")
        otherwise = f"`{bare}:-0}}` gives 0 then" if number else f"`{bare}:-}}` is empty then"
        help += f"add a fallback: {otherwise}"
    else:
        help += "capture it on every path to this state"
    return of.inside("LL304", message, wanted.text, wanted.span, help, "warning")
