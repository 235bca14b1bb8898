"""What to expect of a loop, in words."""

from __future__ import annotations

from typing import Any

import pytest

from little_loops.authoring.worst_case import outcomes, pattern_readings, worst_case
from little_loops.fsm.schema import AnyOf, FSMLoop, Not, OutputContains, StateConfig

ENDS = StateConfig(terminal=True)
THREE = {"check": StateConfig(action="x", on_pass="done", on_fail="fix"), "fix": ENDS, "done": ENDS}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "3 states, at most 50 iterations, no time limit"),
        ({"max_iterations": 1}, "3 states, at most 1 iteration, no time limit"),
        ({"max_iterations": 5000}, "3 states, at most 5,000 iterations, no time limit"),
        ({"timeout": 1800.0}, "3 states, at most 50 iterations, at most 30m 00s"),
        ({"states": {"a": ENDS}}, "1 state, at most 50 iterations, no time limit"),
        ({"maintain": True}, "3 states, at most 50 iterations in each cycle, no time limit"),
        (
            {"max_cost_usd": 2.5, "max_tokens": 1000},
            (
                "3 states, at most 50 iterations, no time limit, at most $2.5 for agents, "
                "at most 1,000 tokens for agents"
            ),
        ),
    ],
)
def test_how_far_a_run_can_go(fields: dict[str, Any], expected: str) -> None:
    assert worst_case(FSMLoop("a", "check", THREE)._replace(**fields)) == expected


def test_how_a_run_ends_in_each_terminal_state() -> None:
    loop = FSMLoop(
        "a",
        "measure",
        {
            "measure": StateConfig(
                action="x",
                timeout=1.0,
                on_target="done",
                on_progress="measure",
                on_stall="done",
                on_error="broken",
                on_timeout="done",
            ),
            "other": StateConfig(action="x", on_pass="gate", on_fail="notify-Fail", next="settled"),
            "done": ENDS,
            "broken": ENDS,
            "notify-Fail": ENDS,
            "gate": ENDS._replace(outcome="review"),
            "settled": ENDS._replace(outcome="success"),
        },
        on_error="settled",
    )
    assert outcomes(loop) == {
        "done": "success, failure when entered via on_stall or on_timeout",
        "broken": "success, failure when entered via on_error",
        "notify-Fail": "failure",
        "gate": "review",
        "settled": "success",
    }


def test_how_patterns_are_read() -> None:
    loop = FSMLoop(
        "a",
        "a",
        {
            "a": StateConfig(action="x", condition=OutputContains("All tests passed")),
            "b": StateConfig(action="x", condition=Not(OutputContains("^[0-9]+ failed$"))),
            "c": StateConfig(
                action="x",
                condition=AnyOf(
                    (
                        OutputContains("done (all)", regex=False),
                        OutputContains("${context.count} passed"),
                        OutputContains("${captured.a.output}"),
                        OutputContains("passed (all"),
                    )
                ),
            ),
        },
        context={"count": "[0-9]+"},
    )
    assert pattern_readings(loop) == [
        "state `a` searches for `All tests passed`, read as plain text",
        "state `b` searches for `^[0-9]+ failed$`, read as a regular expression",
        "state `c` searches for `[0-9]+ passed`, read as a regular expression",
        "state `c` searches for `passed (all`, read as plain text",
    ]
