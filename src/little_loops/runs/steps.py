"""The steps of a run, from its log: what ran in each, what it changed, and what it cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby

from little_loops.fsm.events import (
    ActionComplete,
    ActionStart,
    Cost,
    Entry,
    KeepBest,
    StateEnter,
    Tree,
)
from little_loops.fsm.state import Changed
from little_loops.fsm.step_trees import trees_after
from little_loops.records import NamedTuple
from little_loops.runs.path_taken import visits


class RunStep(NamedTuple):
    """One visit to a state. `changed` is None if no snapshot shows what its action changed, `tree` if
    none shows the files as the step left them, or nothing ran in it."""

    number: int
    iteration: int
    state: str
    verdict: str | None = None
    duration_ms: int = 0
    cost_usd: float = 0.0
    changed: Changed | None = None
    tree: str | None = None
    decision: str | None = None
    """What a loop with `keep: best` decided to do with the files."""


def steps_of(entries: Iterable[Entry]) -> list[RunStep]:
    """Return the steps of a run, oldest first; events before the first one are ignored."""
    known = list(entries)
    trees = trees_after(known)
    number = 0

    def step_number(entry: Entry) -> int:
        nonlocal number
        number += isinstance(entry.event, StateEnter)
        return number

    grouped = [list(group) for _, group in groupby(known, step_number)]
    return [_step(group, trees) for group in grouped if isinstance(group[0].event, StateEnter)]


def _step(entries: list[Entry], trees: Mapping[int, Tree]) -> RunStep:
    """Return one step from its events, the first of which enters its state. Durations and costs of
    its attempts are added up."""
    entered = entries[0].event
    assert isinstance(entered, StateEnter), "a step begins when its state is entered"
    [visit] = visits(entries)
    step = RunStep(entered.step, entered.iteration, entered.state, visit.verdict)
    for entry in entries[1:]:
        match entry.event:
            case ActionComplete(result=result):
                step = step._replace(duration_ms=step.duration_ms + result.duration_ms)
            case Cost(cost_usd=cost_usd):
                step = step._replace(cost_usd=step.cost_usd + cost_usd)
            case ActionStart() if (tree := trees.get(step.number)) is not None:
                step = step._replace(tree=tree.id)
            case Tree(when="after", changed=changed):
                step = step._replace(changed=step.changed or changed)
            case KeepBest(decision=decision):
                step = step._replace(decision=decision)
            case _:
                continue
    return step
