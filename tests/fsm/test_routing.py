"""From a verdict to where it leads."""

from __future__ import annotations

from typing import Any

import pytest

from little_loops.fsm.routing import find_transition
from little_loops.fsm.schema import (
    CURRENT,
    PROOF_VERDICTS,
    FSMLoop,
    Retry,
    StateConfig,
    Transition,
)
from little_loops.fsm.state import LoopState

RUN = LoopState("r", "l", "a", "", "")


def loop(state: StateConfig, **fields: Any) -> FSMLoop:
    return FSMLoop("l", initial="a", states={"a": state}, **fields)


@pytest.mark.parametrize(
    ("state", "retries", "verdict", "expected"),
    [
        pytest.param(
            {"on_pass": "b"}, 0, "pass", Transition("b", "on_pass"), id="its own transition"
        ),
        pytest.param({"next": "b"}, 0, "fail", Transition("b", "next"), id="next"),
        pytest.param({"on_pass": "b"}, 0, "fail", None, id="none"),
        pytest.param({"on_fail": CURRENT}, 1, "fail", Transition(CURRENT, "on_fail"), id="again"),
        pytest.param(
            {"on_fail": CURRENT, "on_pass": "b"},
            2,
            "pass",
            Transition("b", "on_pass"),
            id="not again",
        ),
        pytest.param({"on_fail": CURRENT}, 2, "fail", None, id="not once more"),
        pytest.param(
            {"on_fail": CURRENT, "next": "b"}, 2, "fail", Transition("b", "next"), id="then next"
        ),
        pytest.param({"on_words": {"maybe": CURRENT}}, 2, "maybe", None, id="not by a word"),
        pytest.param(
            {"on_words": {"maybe": CURRENT}},
            1,
            "maybe",
            Transition(CURRENT, "on_maybe"),
            id="by a word",
        ),
        pytest.param(
            {"route": {"fail": CURRENT}, "next": "b"},
            2,
            "fail",
            Transition("b", "next"),
            id="not by a route",
        ),
        pytest.param(
            {"on_words": {"maybe": "b"}, "route": {"maybe": CURRENT}},
            2,
            "maybe",
            Transition("b", "on_maybe"),
            id="the word instead of the route",
        ),
        pytest.param(
            {"on_words": {"maybe": CURRENT}, "route": {"fail": CURRENT, "maybe": "b"}},
            2,
            "maybe",
            Transition("b", "route"),
            id="the route instead of the word",
        ),
        pytest.param(
            {"next": CURRENT, "on_words": {"maybe": CURRENT}, "route": {"fail": "b"}},
            2,
            "fail",
            Transition("b", "route"),
            id="other routes stay",
        ),
        pytest.param(
            {"route": {"fail": CURRENT}, "on_fail": "b"},
            2,
            "fail",
            Transition("b", "on_fail"),
            id="under",
        ),
    ],
)
def test_where_a_verdict_leads(state, retries, verdict, expected):
    looped = loop(StateConfig("x", retry=Retry(max=3), **state))
    assert find_transition(looped, RUN._replace(retries=retries), verdict) == expected


def test_without_a_limit_it_is_tried_for_ever():
    run = RUN._replace(retries=10**6)
    for retry in (None, Retry()):
        found = find_transition(loop(StateConfig("x", next=CURRENT, retry=retry)), run, "pass")
        assert found == Transition(CURRENT, "next")


@pytest.mark.parametrize(
    ("verdict", "handlers", "expected"),
    [
        ("error", {"on_error": "e", "on_timeout": "t"}, Transition("e", "on_error")),
        ("timeout", {"on_error": "e", "on_timeout": "t"}, Transition("t", "on_timeout")),
        ("timeout", {"on_error": "e"}, None),
        ("error", {"on_timeout": "t"}, None),
        ("fail", {"on_error": "e", "on_timeout": "t"}, None),
        ("error", {"on_error": "a"}, None),
    ],
    ids=["error", "timeout", "no timeout handler", "no error handler", "fail", "in the handler"],
)
def test_the_loops_handlers(verdict, handlers, expected):
    assert find_transition(loop(StateConfig("x"), **handlers), RUN, verdict) == expected


def test_the_states_own_handler_goes_first():
    found = find_transition(loop(StateConfig("x", on_error="b"), on_error="e"), RUN, "error")
    assert found == Transition("b", "on_error")


@pytest.mark.parametrize("verdict", PROOF_VERDICTS)
def test_a_verdict_of_evidence_is_routed_by_its_own_field_only(verdict):
    names = ("next", "on_pass", "on_fail", "on_error", "on_timeout")
    others: dict[str, Any] = dict.fromkeys(names, "b")
    handlers = {"on_error": "e", "on_timeout": "t"}
    without = loop(StateConfig("x", **others), **handlers)
    assert find_transition(without, RUN, verdict) is None
    field = f"on_{verdict}"
    others[field] = "c"
    own = loop(StateConfig("x", **others), **handlers)
    assert find_transition(own, RUN, verdict) == Transition("c", field)
