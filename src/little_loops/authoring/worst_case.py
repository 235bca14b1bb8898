"""What to expect of a loop: its limits, its outcomes, and how its patterns are interpreted."""

from __future__ import annotations

from collections import defaultdict
from itertools import islice

from little_loops.authoring.checks.flow import flow_of
from little_loops.authoring.messages import shown
from little_loops.authoring.texts import conditions
from little_loops.fsm.conditions import reading
from little_loops.fsm.schema import FAILURE_TRANSITIONS, FSMLoop, OutputContains, outcome_of
from little_loops.fsm.values import author_context, duration_text
from little_loops.templates.render import splice

MOST_PATTERNS = 50
_READ_AS = {"regex": "a regular expression", "substring": "plain text"}


def worst_case(loop: FSMLoop) -> str:
    """Return how far a run can go: `3 states, at most 50 iterations, no time limit`."""
    cycle = " in each cycle" if loop.maintain else ""
    rounds = _count(loop.max_iterations, "iteration")
    limits = [_count(len(loop.states), "state"), f"at most {rounds}{cycle}"]
    if loop.timeout is None:
        limits.append("no time limit")
    else:
        limits.append(f"at most {duration_text(round(loop.timeout * 1000))}")
    if loop.max_cost_usd is not None:
        limits.append(f"at most ${loop.max_cost_usd:g} for agents")
    if loop.max_tokens is not None:
        limits.append(f"at most {_count(loop.max_tokens, 'token')} for agents")
    return ", ".join(limits)


def outcomes(loop: FSMLoop) -> dict[str, str]:
    """Return for each terminal state the outcome of a run that ends there, with its exceptions."""
    entered: defaultdict[str, set[str]] = defaultdict(set)
    # It makes no difference here who runs an action.
    for edges in flow_of(loop, frozenset()).edges.values():
        for edge in edges:
            entered[edge.target].add(edge.reason)
    found = {}
    for name, state in loop.states.items():
        if state.terminal:
            usual = outcome_of(name, state, None)
            bad = sorted(entered[name] & FAILURE_TRANSITIONS) if state.outcome is None else []
            otherwise = f", failure when entered via {' or '.join(bad)}"
            found[name] = usual + (otherwise if bad and usual == "success" else "")
    return found


def pattern_readings(loop: FSMLoop) -> list[str]:
    """Return how each pattern is interpreted that does not say; only the first of very many."""
    patterns = (
        (part.state, _with_own_values(loop, part.state, part.condition))
        for part in conditions(loop)
        if isinstance(part.condition, OutputContains) and part.condition.regex is None
    )
    return [
        f"state `{state}` searches for `{shown(condition.pattern)}`, read as {_READ_AS[reading(condition)]}"
        for state, condition in islice(patterns, MOST_PATTERNS)
        if "${" not in condition.pattern  # data is not known yet
    ]


def _with_own_values(loop: FSMLoop, state: str, condition: OutputContains) -> OutputContains:
    context = author_context(loop.context, loop.states[state])
    return condition._replace(pattern=splice(condition.pattern, context))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
