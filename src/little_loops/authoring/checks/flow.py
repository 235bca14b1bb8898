"""A loop as a graph: its edges, which states can be reached, and which results may be missing.

Every transition is an edge: verdicts, the loop's own handlers, a resume after an interruption, the
next cycle of a `maintain` loop, and the continuation after a review.

Not here: what to report about it (`check`), how it is drawn (`graph`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from little_loops.fsm.schema import (
    AS_ERROR,
    CURRENT,
    ERROR,
    FAIL,
    PASS,
    PROGRESS,
    PROOF_VERDICTS,
    SOFT_VERDICTS,
    STALL,
    TARGET,
    TIMEOUT,
    Convergence,
    FSMLoop,
    StateConfig,
    Transition,
    VerdictWords,
    effective_condition,
    inner_steps,
    transitions,
)
from little_loops.records import NamedTuple


class Edge(NamedTuple):
    """A transition from one state to another.

    `acted` is false if the action may not have left a result; `last` is true if the run ends with
    the target, whatever its transitions.
    """

    source: str
    target: str
    reason: str
    acted: bool = True
    last: bool = False


class Flow(NamedTuple):
    """All edges of a loop, by source state; only between states that exist."""

    initial: str
    edges: Mapping[str, tuple[Edge, ...]]


class UnsetNames(NamedTuple):
    """The names that some path to a state does not set, as one bit set per state."""

    bit: Mapping[str, int]
    by_state: Mapping[str, int]

    def lacks(self, state: str, name: str) -> bool:
        return bool(self.by_state.get(state, 0) & self.bit.get(name, 0))


def possible_verdicts(state: StateConfig, *, agent: bool) -> tuple[str, ...]:
    """Return the verdicts that a state's condition can give, besides error and timeout."""
    if state.terminal:
        return ()
    condition = effective_condition(state)
    match condition:
        case VerdictWords():
            return condition.words
        case Convergence():
            return (TARGET, PROGRESS, STALL)
        case None if state.capture_exit and not agent:
            return (PASS,)
        case _:
            return (PASS, FAIL)


def flow_of(loop: FSMLoop, agents: frozenset[str]) -> Flow:
    """Return the graph of a loop; `agents` are the states whose action an agent runs."""
    edges = {
        name: tuple(
            edge
            for edge in _edges(loop, name, state, agent=name in agents)
            if edge.target in loop.states
        )
        + _edges_to_branches(loop, name, state)
        for name, state in loop.states.items()
    }
    return Flow(loop.initial, edges)


def _edges_to_branches(loop: FSMLoop, name: str, state: StateConfig) -> tuple[Edge, ...]:
    """Return the edges to the branches of a state, where those are states (`branch_view`)."""
    reached = (f"{name}/{key}" for key in inner_steps(state))
    return tuple(
        Edge(name, each, "branches", acted=False) for each in reached if each in loop.states
    )


def _edges(loop: FSMLoop, name: str, state: StateConfig, *, agent: bool) -> Iterator[Edge]:
    """Yield all edges from a state."""
    if state.terminal:
        yield from _edges_from_terminal(loop, name, state)
    else:
        for verdict in (*possible_verdicts(state, agent=agent), ERROR, TIMEOUT, *PROOF_VERDICTS):
            for transition in _transitions_of(loop, name, state, verdict):
                yield Edge(name, transition.target, transition.reason)
    if state.action is not None:
        yield from _edges_after_interrupt(loop, name, state)
        if loop.timeout is not None and loop.on_timeout is not None:
            yield Edge(name, loop.on_timeout, "on_timeout", acted=False, last=True)


def _edges_from_terminal(loop: FSMLoop, name: str, state: StateConfig) -> Iterator[Edge]:
    """Yield the edge after a review, or to the next cycle of a `maintain` loop."""
    if state.outcome == "review":
        yield Edge(name, state.next or loop.initial, "next")
        if state.on_rejected is not None:
            yield Edge(name, state.on_rejected, "on_rejected")
        for choice in state.choices:
            yield Edge(name, choice, "choices")
    elif loop.maintain:
        yield Edge(name, state.on_maintain or loop.initial, "on_maintain")


def _transitions_of(
    loop: FSMLoop, name: str, state: StateConfig, verdict: str
) -> Iterator[Transition]:
    """Yield the transition for a verdict, and the one used once its retries are exhausted."""
    transition = transitions(state).get(verdict)
    if transition is not None and transition.target != CURRENT:
        yield transition
        return
    if transition is not None and (state.retry is None or state.retry.max is None):
        return
    handler = {ERROR: loop.on_error, TIMEOUT: loop.on_timeout}.get(verdict)
    if handler is not None and handler != name:
        yield Transition(handler, f"on_{verdict}")
    elif verdict in SOFT_VERDICTS and state.next not in (None, CURRENT):
        yield Transition(str(state.next), "next")


def _edges_after_interrupt(loop: FSMLoop, name: str, state: StateConfig) -> Iterator[Edge]:
    """Yield the edges that a resume takes if the action was interrupted: to `on_interrupt`, or those of
    an error. The target may be `$current`, which is no state; `flow_of` drops it.
    """
    request = state.on_interrupt or loop.on_interrupt
    if request == AS_ERROR:
        for transition in _transitions_of(loop, name, state, ERROR):
            yield Edge(name, transition.target, transition.reason, acted=False)
    else:
        yield Edge(name, request, "on_interrupt", acted=False)  # `$current` leads nowhere


def reachable(flow: Flow) -> set[str]:
    """Return the states that some run can be in."""
    if flow.initial not in flow.edges:
        return set()
    found = _in_order(flow)
    last = (edge.target for state in found for edge in flow.edges[state] if edge.last)
    return {*found, *last}


def _in_order(flow: Flow) -> list[str]:
    """Return the states that can be reached and left again, in topological order as far as
    possible."""
    done: list[str] = []
    seen = {flow.initial}
    stack = [(flow.initial, iter(flow.edges[flow.initial]))]
    while stack:
        name, rest = stack[-1]
        for edge in rest:
            if edge.target not in seen and not edge.last:
                seen.add(edge.target)
                stack.append((edge.target, iter(flow.edges[edge.target])))
                break
        else:
            done.append(name)
            stack.pop()
    return done[::-1]


def may_be_missing(flow: Flow, sets: Mapping[str, Iterable[str]]) -> UnsetNames:
    """Return the names that may not have been set when a state is entered.

    `sets` are the names that each state's action sets. All names are computed together, so their
    number hardly affects the cost.
    """
    names = sorted({name for each in sets.values() for name in each})
    bit = {name: 1 << index for index, name in enumerate(names)}
    if flow.initial not in flow.edges:
        return UnsetNames(bit, {})
    gives = {state: sum(bit[name] for name in set(each)) for state, each in sets.items()}
    return UnsetNames(bit, _propagate(flow, gives, (1 << len(names)) - 1))


def _propagate(flow: Flow, gives: Mapping[str, int], everything: int) -> dict[str, int]:
    """Return the bits of the names that may be missing in each reachable state. `gives` has the
    bits that each state's action sets, `everything` those of all names."""
    order = _in_order(flow)
    missing = dict.fromkeys(reachable(flow), 0)
    missing[flow.initial] = everything
    changed = True
    while changed:
        changed = False
        for edge, bits in _missing_along_edges(flow, order, gives, missing):
            if not edge.last and bits & ~missing[edge.target]:
                missing[edge.target] |= bits
                changed = True
    for edge, bits in list(_missing_along_edges(flow, order, gives, missing)):
        missing[edge.target] |= bits
    return missing


def _missing_along_edges(
    flow: Flow, order: list[str], gives: Mapping[str, int], missing: Mapping[str, int]
) -> Iterator[tuple[Edge, int]]:
    """Yield each edge with the names that are missing after taking it."""
    for state in order:
        for edge in flow.edges[state]:
            given = gives.get(state, 0) if edge.acted else 0
            yield edge, missing[state] & ~given


def shortest_path(flow: Flow, target: str, avoid: frozenset[str]) -> list[str]:
    """Return the shortest path from the start to `target` on which no state in `avoid` has acted;
    empty if there is none."""
    came_from: dict[str, str | None] = {flow.initial: None}
    queue = deque([flow.initial])
    while queue:
        state = queue.popleft()
        if state == target:
            return _path_to(came_from, state)
        for edge in flow.edges.get(state, ()):
            passes = not edge.acted or state not in avoid
            if edge.last and edge.target != target:
                continue
            if passes and edge.target not in came_from:
                came_from[edge.target] = state
                queue.append(edge.target)
    return []


def _path_to(came_from: Mapping[str, str | None], state: str) -> list[str]:
    """Return the path to a state, from the predecessors."""
    path = [state]
    while (before := came_from[path[-1]]) is not None:
        path.append(before)
    return path[::-1]
