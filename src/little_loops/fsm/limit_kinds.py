"""The limits of a run, one row each: its field, the reason it ends a run for, its name and its
flag."""

from __future__ import annotations

from little_loops.light_typing import Final
from little_loops.records import NamedTuple


class LimitKind(NamedTuple):
    field: str
    reason: str
    noun: str
    flag: str


LIMITS: Final = (
    LimitKind("max_iterations", "max_iterations", "iterations", "--max-iterations"),
    LimitKind("timeout", "loop_timeout", "time", "--timeout"),
    LimitKind("max_cost_usd", "max_cost", "cost", "--max-cost"),
    LimitKind("max_tokens", "max_tokens", "tokens", "--max-tokens"),
)
BY_REASON: Final = {limit.reason: limit for limit in LIMITS}
