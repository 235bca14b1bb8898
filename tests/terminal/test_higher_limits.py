"""The limits that are suggested for a run that has reached one."""

from __future__ import annotations

import pytest

from little_loops.terminal.next_step import higher_limits

ROWS = [
    ("max_iterations", {"max_iterations": "10"}),
    ("loop_timeout", {"timeout": "180s"}),
    ("max_cost", {"max_cost": "1.50"}),
    ("max_tokens", {"max_tokens": "84000"}),
    ("terminal", None),
    (None, None),
]


@pytest.mark.parametrize(("reason", "limits"), ROWS)
def test_a_limit_is_doubled(reason: str | None, limits: dict[str, str] | None):
    found = higher_limits(reason, iteration=5, ran_ms=90_000, cost_usd=0.75, tokens=42_000)
    assert found == limits
