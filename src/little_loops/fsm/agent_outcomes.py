"""How an agent's turn can end, and what the machine makes of each ending."""

from __future__ import annotations

from collections.abc import Mapping

from little_loops.fsm.state import AgentResult
from little_loops.light_typing import Final, Literal

Kind = Literal[
    "cancelled",
    "timed_out",
    "not_started",
    "unknown_command",
    "command_failed",
    "auth",
    "billing",
    "rate_limited",
    "overloaded",
    "context_exhausted",
    "limit_reached",
    "cost_limit_reached",
    "refused",
    "bad_output",
    "permission_denied",
    "truncated",
    "no_verdict",
    "failed",
    "success",
]

# None: the engine ended the turn itself, and knows better than the host why.
TRANSITIONS: Final[Mapping[Kind, AgentResult | None]] = {
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
EXIT_CODES: Final = {"pass": 0, "fail": 1}
ERROR_EXIT: Final = 2


def agent_exit_code(agent_result: AgentResult, verdict: str | None) -> int:
    """Return the exit code for the end of an agent's turn: 1 for `fail`, 2 for other failures.
    After a success the verdict decides: 1 for `fail`, 0 for any other or none."""
    if agent_result == "success":
        return EXIT_CODES.get(verdict or "pass", 0)
    return EXIT_CODES["fail"] if agent_result == "fail" else ERROR_EXIT
