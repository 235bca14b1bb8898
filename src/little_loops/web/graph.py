"""A state machine as data for a drawing: states, and one edge for each pair of states."""

from __future__ import annotations

import os
from collections.abc import Mapping

from little_loops.authoring.filling import Filling
from little_loops.authoring.graph import all_arrows, handlers
from little_loops.authoring.worst_case import outcomes
from little_loops.fsm.actions import Action, Agent, Builtin, Loop, Shell, text_of
from little_loops.fsm.schema import CURRENT, Branches, FSMLoop, StateConfig
from little_loops.light_typing import Any, assert_never
from little_loops.reporting.escape import visible
from little_loops.reporting.masking import Masker
from little_loops.web.kinds import StateKind

LONGEST_ACTION = 400


def machine_json(
    loop: FSMLoop,
    visits: Mapping[str, int] | None = None,
    taken: Mapping[tuple[str, str], int] | None = None,
    current: str | None = None,
    last: Mapping[tuple[str, str], int] | None = None,
) -> dict[str, Any]:
    """Return a machine as a graph; for a run, with how often states and edges were used.

    `last` has the number of the event that took an edge last, if it was not long ago.
    """
    filling, ends = Filling(loop), outcomes(loop)
    mask = Masker(os.environ).mask
    return {
        "name": loop.name,
        "paradigm": loop.paradigm,
        "initial": loop.initial,
        "states": [
            {
                "name": name,
                "kind": kind_of(state, filling.actions.get(name)),
                "action": _action(filling, name, mask),
                "host": loop.host.under(state.host).host if name in filling.agents else None,
                "terminal": state.terminal,
                "outcome": _outcome(ends.get(name)),
                "is_check": bool(state.check),
                "visits": (visits or {}).get(name, 0),
                "current": name == current,
            }
            for name, state in loop.states.items()
        ],
        "edges": _edges(loop, taken or {}, last or {}),
    }


def _outcome(end: str | None) -> str | None:
    if end is None:
        return None
    return end.partition(",")[0]  # without its exceptions


def _action(filling: Filling, name: str, mask: Any) -> str | None:
    """Return the text of a state's action, shortened; None if it has none."""
    action = filling.actions.get(name)
    branches = filling.loop.states[name].branches
    if branches is not None and not filling.loop.states[name].label:
        return _branches(branches)
    if action is None:
        return None
    text = mask(filling.loop.states[name].label or text_of(action)).strip()
    return visible(text if len(text) <= LONGEST_ACTION else f"{text[:LONGEST_ACTION]}…")


def _branches(branches: Branches) -> str:
    """Return what a state with branches runs, in a few words."""
    if branches.named:
        return visible(", ".join(branches.named), newlines=False)
    if branches.matrix:
        return visible(" × ".join(branches.matrix), newlines=False)
    items = branches.for_each
    count = f"{len(items)} " if isinstance(items, tuple) else ""
    return visible(
        f"for each {branches.as_} of {count}items" if count else f"for each {branches.as_}"
    )


def kind_of(state: StateConfig | None, action: Action | None) -> StateKind:
    """Return what a state runs."""
    if state is not None and state.branches is not None:
        return "branches"
    match action:
        case None:
            return "terminal" if state is not None and state.terminal else "decision"
        case Shell():
            return "shell"
        case Agent():
            return "agent"
        case Builtin():
            return "builtin"
        case Loop():
            return "loop"
        case _:
            assert_never(action)


def _edges(
    loop: FSMLoop, taken: Mapping[tuple[str, str], int], last: Mapping[tuple[str, str], int]
) -> list[dict[str, Any]]:
    """Return the transitions between two states as one edge, and those that were taken although the
    machine does not have them, such as a resume elsewhere."""
    labels: dict[tuple[str, str], list[str]] = {}
    general = {arrow.label: arrow.target for arrow in handlers(loop)}
    for source, arrow in all_arrows(loop):
        target = source if arrow.target == CURRENT else arrow.target
        if target in loop.states:
            labels.setdefault((source, target), []).append(arrow.label)
    for pair in taken:
        if pair not in labels and set(pair) <= loop.states.keys():
            labels[pair] = ["other"]
    return [
        {
            "from": source,
            "to": target,
            "label": ", ".join(dict.fromkeys(found)),
            "labels": list(dict.fromkeys(found)),
            "from_loop": all(general.get(label) == target for label in found),
            "taken": taken.get((source, target), 0),
            "last_seq": last.get((source, target)),
        }
        for (source, target), found in labels.items()
    ]
