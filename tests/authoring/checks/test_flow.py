"""A loop as a graph: where its ways lead, and what is surely captured by then."""

from __future__ import annotations

import pytest
from hypothesis import given

from little_loops.authoring.checks.flow import (
    Edge,
    Flow,
    flow_of,
    may_be_missing,
    possible_verdicts,
    reachable,
    shortest_path,
)
from little_loops.fsm.schema import (
    Convergence,
    ExitCode,
    FSMLoop,
    Retry,
    StateConfig,
    VerdictWords,
)
from tests.authoring.machines import NAMES, loops

ACTS = StateConfig(action="x")
ENDS = StateConfig(terminal=True)


@pytest.mark.parametrize(
    ("wanted", "edges"),
    [
        pytest.param("$current", [], id="in the same state"),
        pytest.param("b", [Edge("a", "b", "on_interrupt", acted=False)], id="in another state"),
        pytest.param("$error", [Edge("a", "c", "on_error", acted=False)], id="as after an error"),
    ],
)
def test_where_a_resume_continues_after_an_interruption(wanted: str, edges: list[Edge]) -> None:
    for own, of_the_loop in ((wanted, "d"), (None, wanted)):
        states = {
            "a": ACTS._replace(next="a", on_error="c", on_interrupt=own),
            **dict.fromkeys("bcd", ENDS),
        }
        found = flow_of(FSMLoop("l", "a", states, on_interrupt=of_the_loop), frozenset()).edges["a"]
        assert [edge for edge in found if not edge.acted] == edges


def test_what_is_missing_spreads_through_loops_within_loops():
    edges = {
        "a": (Edge("a", "e", "pass"), Edge("a", "c", "error", acted=False)),
        "b": (Edge("b", "c", "pass"), Edge("b", "e", "error", acted=False)),
        "c": (Edge("c", "b", "error", acted=False),),
        "d": (Edge("d", "e", "pass"),),
        "e": (Edge("e", "b", "pass"), Edge("e", "d", "error", acted=False)),
    }
    sets = dict.fromkeys("ace", ("x",))
    assert may_be_missing(Flow("a", edges), sets).by_state == dict.fromkeys("abcde", 1)


@pytest.mark.parametrize(
    ("state", "agent", "expected"),
    [
        pytest.param(ACTS, False, ("pass", "fail"), id="an action"),
        pytest.param(ACTS._replace(capture_exit=True), False, ("pass",), id="judged later"),
        pytest.param(ACTS._replace(capture_exit=True), True, ("pass", "fail"), id="an agent"),
        pytest.param(
            ACTS._replace(capture_exit=True, condition=ExitCode()),
            False,
            ("pass", "fail"),
            id="judged later and now",
        ),
        pytest.param(
            ACTS._replace(on_target="a"), False, ("target", "progress", "stall"), id="implied"
        ),
        pytest.param(
            ACTS._replace(condition=Convergence(0)),
            False,
            ("target", "progress", "stall"),
            id="convergence",
        ),
        pytest.param(
            ACTS._replace(condition=VerdictWords(("a", "b"))), True, ("a", "b"), id="words"
        ),
        pytest.param(ENDS._replace(action="x"), False, (), id="terminal"),
    ],
)
def test_what_a_state_can_answer(
    state: StateConfig, agent: bool, expected: tuple[str, ...]
) -> None:
    assert possible_verdicts(state, agent=agent) == expected


def told(loop: FSMLoop, agents: frozenset[str] = frozenset()) -> list[str]:
    return [
        f"{edge.source} -> {edge.target} ({edge.reason})"
        + ("" if edge.acted else ", before")
        + (", last" if edge.last else "")
        for edges in flow_of(loop, agents).edges.values()
        for edge in edges
    ]


def loop_of(a: StateConfig, **fields: object) -> FSMLoop:
    return FSMLoop("l", "a", {"a": a, "b": ENDS, "c": ENDS}, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        pytest.param(
            loop_of(ACTS._replace(next="b", on_fail="c", on_error="c", on_timeout="a")),
            ["a -> b (next)", "a -> c (on_fail)", "a -> c (on_error)", "a -> a (on_timeout)"],
            id="verdicts",
        ),
        pytest.param(
            loop_of(ACTS._replace(next="nowhere", on_pass="b")),
            ["a -> b (on_pass)"],
            id="only what exists",
        ),
        pytest.param(
            loop_of(ACTS._replace(next="b", on_pass="b", on_fail="$current")),
            ["a -> b (on_pass)"],
            id="again, without end",
        ),
        pytest.param(
            loop_of(
                ACTS._replace(
                    next="c",
                    on_pass="b",
                    on_fail="$current",
                    on_error="$current",
                    retry=Retry(max=3),
                ),
                on_error="b",
            ),
            ["a -> b (on_pass)", "a -> c (next)", "a -> b (on_error)"],
            id="again, until the retries are used up",
        ),
        pytest.param(
            loop_of(ACTS._replace(on_pass="$current", next="$current", retry=Retry(max=3))),
            [],
            id="again, and then nowhere",
        ),
        pytest.param(
            loop_of(
                ACTS._replace(
                    condition=VerdictWords(("x", "y", "z")), on_words={"x": "b"}, route={"y": "c"}
                )
            ),
            ["a -> b (on_x)", "a -> c (route)"],
            id="words",
        ),
        pytest.param(
            loop_of(ACTS._replace(next="b"), on_error="c", on_timeout="b"),
            ["a -> b (next)", "a -> b (next)", "a -> c (on_error)", "a -> b (on_timeout)"],
            id="the loop's handlers",
        ),
        pytest.param(
            loop_of(ACTS._replace(next="b"), on_error="a", on_timeout="b", timeout=1.0),
            [
                *("a -> b (next)", "a -> b (next)", "a -> b (on_timeout)"),
                "a -> b (on_timeout), before, last",
            ],
            id="a handler is not handled by itself; the loop's own timeout",
        ),
        pytest.param(
            loop_of(ACTS._replace(next="b"), on_interrupt="c"),
            ["a -> b (next)", "a -> b (next)", "a -> c (on_interrupt), before"],
            id="interrupted, the loop's way",
        ),
        pytest.param(
            loop_of(ACTS._replace(next="b", on_interrupt="$error", on_error="c")),
            [
                *("a -> b (next)", "a -> b (next)", "a -> c (on_error)"),
                "a -> c (on_error), before",
            ],
            id="interrupted, an error",
        ),
        pytest.param(
            FSMLoop("l", "b", {"b": ENDS, "c": ENDS._replace(on_maintain="b")}, maintain=True),
            ["b -> b (on_maintain)", "c -> b (on_maintain)"],
            id="the next cycle",
        ),
        pytest.param(
            FSMLoop(
                "l",
                "b",
                {
                    "b": ENDS._replace(outcome="review"),
                    "c": ENDS._replace(outcome="review", next="c"),
                },
            ),
            ["b -> b (next)", "c -> c (next)"],
            id="after a gate",
        ),
        pytest.param(
            FSMLoop(
                "l",
                "b",
                {
                    "b": ENDS._replace(outcome="review", on_rejected="c", choices=("b", "c")),
                    "c": ENDS,
                },
            ),
            ["b -> b (next)", "b -> c (on_rejected)", "b -> b (choices)", "b -> c (choices)"],
            id="after an answer",
        ),
    ],
)
def test_every_way_is_an_edge(loop: FSMLoop, expected: list[str]) -> None:
    assert told(loop) == expected


def test_a_shortest_path_avoids_what_it_is_told_to() -> None:
    flow = Flow(
        "a",
        {
            "a": (Edge("a", "b", "next"), Edge("a", "c", "next")),
            "b": (Edge("b", "d", "next"),),
            "c": (Edge("c", "b", "next"), Edge("c", "e", "on_timeout", last=True)),
            "d": (),
            "e": (Edge("e", "f", "next"),),
            "f": (),
        },
    )
    assert shortest_path(flow, "d", frozenset()) == ["a", "b", "d"]
    assert shortest_path(flow, "a", frozenset()) == ["a"]
    assert shortest_path(flow, "d", frozenset({"b"})) == []
    assert shortest_path(flow, "e", frozenset()) == ["a", "c", "e"]
    assert shortest_path(flow, "f", frozenset()) == []


def test_without_a_start_nothing_is_reached_and_nothing_missing() -> None:
    flow = Flow("nowhere", {"a": ()})
    assert reachable(flow) == set()
    assert not may_be_missing(flow, {"a": ["a"]}).lacks("a", "a")


@given(loops)
def test_what_is_missing_is_what_a_path_can_avoid(loop: FSMLoop) -> None:
    flow = flow_of(loop, frozenset())
    sets = {name: (name,) for name, state in loop.states.items() if state.action is not None}
    missing = may_be_missing(flow, sets)
    for name in sets:
        for state in NAMES:
            avoiding = state in flow.edges and shortest_path(flow, state, frozenset({name}))
            assert missing.lacks(state, name) == bool(avoiding and flow.initial in flow.edges)


@given(loops)
def test_what_is_reached_has_a_path_and_what_has_a_path_is_reached(loop: FSMLoop) -> None:
    flow = flow_of(loop, frozenset())
    has_a_path = {state for state in flow.edges if shortest_path(flow, state, frozenset())}
    assert reachable(flow) == has_a_path
