"""A loop reduced to its checks."""

from __future__ import annotations

import pytest

from little_loops.fsm.check_machine import check_machine, checks_of, decided_by, shell_checks_of
from little_loops.fsm.schema import PROOF_VERDICTS, Evidence, FSMLoop, StateConfig

LOOP = FSMLoop.from_dict(
    {
        "name": "quality",
        "initial": "types",
        "maintain": True,
        "on_error": "fix",
        "states": {
            "types": {"action": "mypy", "check": True, "on_pass": "size", "on_fail": "fix"},
            "size": {
                "action": "wc -l",
                "check": True,
                "on_target": "done",
                "on_progress": "fix",
                "on_stall": "fix",
                "retry": {"max": 3},
            },
            "review": {"action": "/review", "check": True, "on_pass": "done", "on_fail": "fix"},
            "broken": {"action": "${context.gone}", "check": True, "next": "done"},
            "fix": {"action": "make fix", "next": "types"},
            "decide": {"check": True, "condition": {"type": "exit_code"}, "next": "done"},
            "done": {"terminal": True},
        },
    }
)


def test_checks_are_found_in_their_order():
    assert checks_of(LOOP) == ("types", "size", "review", "broken")
    assert shell_checks_of(LOOP) == ("types", "size", "broken")


def test_the_checks_lead_to_each_other_and_failures_to_the_end():
    assert check_machine(LOOP, ("types", "size")).to_dict() == {
        "name": "quality",
        "initial": "types",
        "max_iterations": 4,
        "evidence": False,
        "states": {
            "types": {
                "action": "mypy",
                "check": True,
                "on_pass": "size",
                "on_fail": "not passed",
                "on_progress": "not passed",
                "on_stall": "not passed",
            },
            "size": {
                "action": "wc -l",
                "check": True,
                "on_pass": "all passed",
                "on_target": "all passed",
                "on_fail": "not passed",
                "on_progress": "not passed",
                "on_stall": "not passed",
            },
            "all passed": {"terminal": True, "outcome": "success"},
            "not passed": {"terminal": True, "outcome": "failure"},
        },
    }


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        (LOOP._replace(name="renamed", max_iterations=3, on_error=None), True),
        (LOOP._replace(states={**LOOP.states, "fix": StateConfig(action="other")}), True),
        (LOOP._replace(states={**LOOP.states, "types": StateConfig("true", check=True)}), False),
        (LOOP._replace(states={}), False),
        (LOOP._replace(env={"CI": "1"}), False),
        (LOOP._replace(cwd="web"), False),
        (LOOP._replace(shell="bash"), False),
        (LOOP._replace(context={"gone": "true"}), False),
        (LOOP._replace(evidence=Evidence(setup="make")), False),
    ],
)
def test_loops_decide_alike_where_their_checks_are_the_same(other, is_same):
    assert (decided_by(other) == decided_by(LOOP)) is is_same


def test_a_check_alone_keeps_nothing():
    condition = {"type": "convergence", "target": 5, "keep": "best", "min_gain": 1}
    size = {"action": "wc -l", "check": True, "repeat": 3, "condition": condition}
    states = {"size": {**size, "on_target": "done", "next": "size"}, "done": {"terminal": True}}
    loop = FSMLoop.from_dict({"name": "l", "initial": "size", "states": states})
    alone = check_machine(loop, ("size",)).states["size"].to_dict()
    assert (alone["condition"], alone["repeat"]) == ({"type": "convergence", "target": 5}, 3)


def test_a_check_alone_leads_nowhere_else():
    others = {f"on_{verdict}": "fix" for verdict in (*PROOF_VERDICTS, "error", "timeout")}
    states = {
        "check": {"action": "make", "check": True, "on_pass": "done", **others},
        "fix": {"action": "fix", "next": "check"},
        "done": {"terminal": True},
    }
    loop = FSMLoop.from_dict({"name": "l", "initial": "check", "states": states})
    alone = check_machine(loop, ("check",)).states["check"]
    assert [getattr(alone, name) for name in others] == [None] * len(others)


def stored_then_judged() -> FSMLoop:
    states = {
        "count": {"action": "cat bugs", "check": True, "capture_exit": True, "next": "pause"},
        "pause": {"action": "sleep 0", "next": "evaluate"},
        "evaluate": {
            "condition": {"type": "output_numeric", "source": "count", "target": 0},
            "on_pass": "done",
            "on_fail": "count",
        },
        "done": {"terminal": True},
    }
    return FSMLoop.from_dict({"name": "l", "initial": "count", "states": states})


def test_a_check_whose_result_is_stored_is_judged_by_the_state_that_judges_it():
    states = check_machine(stored_then_judged(), ("count",)).to_dict()["states"]
    assert states["count"] == {
        "action": "cat bugs",
        "check": True,
        "capture_exit": True,
        "next": "count, judged",
    }
    assert states["count, judged"] == {
        "condition": {"type": "output_numeric", "source": "count", "target": 0},
        "on_pass": "all passed",
        "on_fail": "not passed",
        "on_progress": "not passed",
        "on_stall": "not passed",
    }


@pytest.mark.parametrize(
    "evaluate",
    [
        pytest.param(StateConfig("sleep 0", next="pause"), id="a circle"),
        pytest.param(StateConfig(terminal=True), id="the end"),
        pytest.param(StateConfig("sleep 0", on_pass="done"), id="another check"),
    ],
)
def test_a_stored_result_that_no_state_judges_counts_by_itself(evaluate):
    loop = stored_then_judged()
    loop = loop._replace(states={**loop.states, "evaluate": evaluate})
    assert "count, judged" not in check_machine(loop, ("count",)).states
