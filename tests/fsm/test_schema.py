from __future__ import annotations

from typing import Any

import pytest

from little_loops.fsm.schema import (
    All,
    AnyOf,
    Convergence,
    ExitCode,
    FSMLoop,
    HostOptions,
    Not,
    OutputContains,
    OutputJson,
    OutputNumeric,
    Retry,
    StateConfig,
    Transition,
    VerdictWords,
    condition_from_dict,
    effective_condition,
    outcome_of,
    transitions,
)

FULL = FSMLoop(
    name="full",
    initial="a",
    states={
        "a": StateConfig(
            action="x",
            condition=All(
                (
                    ExitCode(target=0, fail=(1, 2)),
                    AnyOf((OutputContains("a", negate=True), OutputJson(".n", None))),
                    Not(OutputNumeric(3, "lt", source="b")),
                )
            ),
            on_words={"maybe": "b"},
            route={"no": "b"},
            retry=Retry(3, 1.0),
            host=HostOptions("claude", allow=("Edit",), env={"A": "1"}),
        ),
        "b": StateConfig(condition=VerdictWords(("yes", "no"), "a"), on_pass="c"),
        "c": StateConfig(terminal=True, outcome="review", next="a"),
    },
    scope=("src", "tests"),
    host=HostOptions("codex", model="m"),
    timeout=5.0,
)


def test_a_loop_goes_through_plain_data_unchanged():
    again = FSMLoop.from_dict(FULL.to_dict())
    assert again == FULL
    assert again.to_dict() == FULL.to_dict()


def test_defaults_are_left_out():
    loop = FSMLoop("l", "a", {"a": StateConfig(terminal=True)})
    assert loop.to_dict() == {"name": "l", "initial": "a", "states": {"a": {"terminal": True}}}


@pytest.mark.parametrize(
    ("kind", "data", "said"),
    [
        (StateConfig, {"action": "x", "nxt": "b"}, "unknown state fields: nxt"),
        (
            FSMLoop,
            {"name": "l", "initial": "a", "states": {}, "retries": 2},
            "unknown loop fields: retries",
        ),
    ],
)
def test_unknown_fields_are_refused(kind: Any, data: dict[str, Any], said: str):
    with pytest.raises(ValueError, match=said):
        kind.from_dict(data)


def test_ways_fold_next_and_every_other_field_into_one_table():
    state = StateConfig(
        action="x", next="n", on_fail="f", on_error="e", on_words={"maybe": "m"}, route={"no": "r"}
    )
    assert transitions(state) == {
        "pass": Transition("n", "next"),
        "fail": Transition("f", "on_fail"),
        "target": Transition("n", "next"),
        "progress": Transition("n", "next"),
        "stall": Transition("n", "next"),
        "error": Transition("e", "on_error"),
        "maybe": Transition("m", "on_maybe"),
        "no": Transition("r", "route"),
    }


@pytest.mark.parametrize(
    ("state", "condition"),
    [
        (StateConfig(action="x"), None),
        (StateConfig(action="x", condition=ExitCode()), ExitCode()),
        (
            StateConfig(action="x", on_target="d"),
            Convergence("${context.target}", "${context.tolerance:-0}"),
        ),
        (StateConfig(action="x", on_target="d", condition=Convergence(3)), Convergence(3)),
    ],
    ids=["default", "written", "implied by on_target", "written beats implied"],
)
def test_the_condition_in_force(state, condition):
    assert effective_condition(state) == condition


@pytest.mark.parametrize(
    ("name", "written", "entered_by", "outcome"),
    [
        ("done", None, "on_pass", "success"),
        ("done", None, "on_stall", "failure"),
        ("done", None, "on_error", "failure"),
        ("done", None, "on_timeout", "failure"),
        ("done", "success", "on_error", "success"),
        ("notify_fail", None, "next", "failure"),
        ("Abort-now", None, "next", "failure"),
        ("failover", None, "next", "success"),
        ("look", "review", "on_error", "review"),
    ],
)
def test_outcomes(name, written, entered_by, outcome):
    assert outcome_of(name, StateConfig(terminal=True, outcome=written), entered_by) == outcome


def test_conditions_of_conditions_are_read_whole():
    data = {"type": "not", "of": {"type": "any", "of": [{"type": "exit_code", "fail": [1, 5]}]}}
    assert condition_from_dict(data) == Not(AnyOf((ExitCode(fail=(1, 5)),)))


def test_a_states_host_overrides_key_by_key():
    loop = HostOptions("claude", model="big", max_turns=9)
    assert loop.under(None) is loop
    assert loop.under(HostOptions(model="small")) == HostOptions("claude", "small", max_turns=9)


def test_all_unknown_fields_are_named_in_order():
    with pytest.raises(ValueError, match="b, z"):
        StateConfig.from_dict({"z": 1, "b": 2})
    with pytest.raises(ValueError, match="b, z"):
        FSMLoop.from_dict({"name": "l", "initial": "a", "states": {}, "z": 1, "b": 2})


def test_lists_of_a_host_are_read_as_tuples():
    lists = {key: ["x"] for key in ("allow", "deny", "args", "command")}
    read = StateConfig.from_dict({"host": lists}).host
    assert read == HostOptions(allow=("x",), deny=("x",), args=("x",), command=("x",))
