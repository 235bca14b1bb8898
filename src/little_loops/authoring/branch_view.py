"""A loop whose named branches are states of their own, so that everything that is checked in a state
is checked in a branch.

Branch `types` of state `checks` becomes the state `checks/types`, a name that nobody can write. It
is reached from `checks`, before that has a result, and leads back to it. So does what makes the
branches of a state fit, as `checks/worktree/resolve`.
"""

from __future__ import annotations

from collections.abc import Iterator

from little_loops.authoring.yaml.nodes import Map, MapEntry, Node, Text, text
from little_loops.authoring.yaml.places import Places
from little_loops.fsm.schema import RESOLVE, FSMLoop, StateConfig, inner_steps
from little_loops.records import NamedTuple


class View(NamedTuple):
    loop: FSMLoop
    places: Places


def unfolded(loop: FSMLoop, places: Places) -> View:
    """Return the loop with its named branches as states, and the places of their parts."""
    added = {
        f"{name}/{key}": _as_state(name, state, each)
        for name, state in loop.states.items()
        for key, each in inner_steps(state).items()
    }
    if not added:
        return View(loop, places)
    states = {**loop.states, **added}
    return View(loop._replace(states=states), places._replace(root=_with_places(places.root)))


def _as_state(name: str, state: StateConfig, branch: StateConfig) -> StateConfig:
    """Return a branch as a state that leads back to the state it belongs to."""
    handled = name if state.on_error is not None else None
    return branch._replace(next=name, on_error=handled, on_interrupt=state.on_interrupt)


def _with_places(root: object) -> Map | None:
    """Return the document with the entries of branches among the states."""
    if not isinstance(root, Map):
        return None
    return root._replace(entries=tuple(map(_with_branches, root.entries)))


def _with_branches(entry: MapEntry) -> MapEntry:
    """Return the entry of `states` with those of branches added; others stay the same."""
    if entry.key.text != "states" or not isinstance(entry.value, Map):
        return entry
    added = [
        MapEntry(branch.key._replace(text=f"{state.key.text}/{branch.key.text}"), branch.value)
        for state in entry.value.entries
        if isinstance(state.value, Map)
        for branch in _steps_in(state.value)
    ]
    return entry._replace(value=entry.value._replace(entries=(*entry.value.entries, *added)))


def _steps_in(state: Map) -> Iterator[MapEntry]:
    """Yield the entries of the branches of a state, and of what resolves their conflicts."""
    branches, worktree = state.get("branches"), state.get("worktree")
    if isinstance(branches, Map):
        yield from branches.entries
    resolve = worktree.get("resolve") if isinstance(worktree, Map) else None
    if resolve is not None:
        yield MapEntry(text(RESOLVE, resolve), as_step(resolve))


def as_step(resolve: Node) -> Node:
    """Return what resolves conflicts as a mapping, also if only the name of a loop is written."""
    if not isinstance(resolve, Text):
        return resolve
    return Map((MapEntry(text("loop", resolve), resolve),), resolve.mark)
