"""The limits of a run, one row each: its field, the reason it ends a run for, what it counts, its name
(`iteration limit`) and its flag."""

from __future__ import annotations

from little_loops.light_typing import Final
from little_loops.records import NamedTuple


class LimitKind(NamedTuple):
    field: str
    reason: str
    noun: str
    name: str
    flag: str


LIMITS: Final = (
    LimitKind(
        "max_iterations", "max_iterations", "iterations", "iteration limit", "--max-iterations"
    ),
    LimitKind("timeout", "loop_timeout", "time", "time limit", "--timeout"),
    LimitKind("max_cost_usd", "max_cost", "cost", "cost limit", "--max-cost"),
    LimitKind("max_tokens", "max_tokens", "tokens", "token limit", "--max-tokens"),
)
BY_REASON: Final = {limit.reason: limit for limit in LIMITS}
