"""What the end of an agent's turn means for its run."""

from __future__ import annotations

import pytest

from little_loops.fsm.agent_outcomes import TRANSITIONS, agent_exit_code


def test_the_end_of_a_turn_means():
    assert TRANSITIONS == {
        "cancelled": None,
        "timed_out": None,
        "not_started": "error",
        "unknown_command": "error",
        "command_failed": "error",
        "auth": "auth",
        "billing": "billing",
        "rate_limited": "wait",
        "overloaded": "wait",
        "context_exhausted": "handoff",
        "limit_reached": "fail",
        "cost_limit_reached": "fail",
        "refused": "fail",
        "bad_output": "fail",
        "permission_denied": "fail",
        "truncated": "error",
        "no_verdict": "error",
        "failed": "fail",
        "success": "success",
    }


@pytest.mark.parametrize(
    ("result", "verdict", "code"),
    [
        ("success", None, 0),
        ("success", "pass", 0),
        ("success", "fail", 1),
        ("success", "other", 0),
        ("fail", None, 1),
        ("fail", "pass", 1),
        ("error", None, 2),
        ("auth", "pass", 2),
        ("wait", None, 2),
    ],
)
def test_the_exit_code_of_a_turn(result, verdict, code):
    assert agent_exit_code(result, verdict) == code
