"""Suggestions for a valid loop, printed by `validate`; they are not problems."""

from __future__ import annotations

from collections.abc import Iterator

from little_loops.authoring.filling import Filling
from little_loops.fsm.actions import is_shells
from little_loops.fsm.schema import FAIL, PASS, TARGET, FSMLoop, outcome_of, transitions


def hints(loop: FSMLoop) -> list[str]:
    """Return suggestions: states that decide success, but are not marked as a check."""
    filling = Filling(loop)
    if loop.evidence.enabled is False or not (filling.agents or loop.evidence.enabled):
        return []
    unmarked = [
        name
        for name in dict.fromkeys(_deciding(loop))
        if is_shells(filling.actions.get(name)) and not loop.states[name].check
    ]
    return [
        f"`{name}` decides success: mark it `check: true`, so that its pass counts only for the "
        "files it was run on"
        for name in unmarked
    ]


def _deciding(loop: FSMLoop) -> Iterator[str]:
    """Yield the states whose pass leads to success and whose failure leads elsewhere."""
    for name, state in loop.states.items():
        table = transitions(state)
        passed, failed = table.get(PASS) or table.get(TARGET), table.get(FAIL)
        if state.terminal or passed is None or (failed and failed.target == passed.target):
            continue
        end = loop.states.get(passed.target)
        if end is not None and end.terminal:
            if outcome_of(passed.target, end, passed.reason) == "success":
                yield _judged_by(loop, name)


def _judged_by(loop: FSMLoop, name: str) -> str:
    """Return the state itself, or the one whose result its condition judges."""
    condition = loop.states[name].condition
    source = condition.source if condition is not None else None
    return source if source is not None and source in loop.states else name
