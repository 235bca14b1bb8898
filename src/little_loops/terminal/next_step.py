"""The command that a user most likely needs after a run has ended."""

from __future__ import annotations


def next_command(
    name: str, status: str, reason: str | None, *, iteration: int, ran_ms: int
) -> str | None:
    """Return the command for a run with this status and reason; None if nothing is left to do."""
    match status, reason:
        case "failed", "max_iterations":
            return f"ll-loop resume {name} --max-iterations {2 * iteration}"
        case "failed", "max_cost":
            return f"ll-loop resume {name} --max-cost USD"
        case "failed", "max_tokens":
            return f"ll-loop resume {name} --max-tokens N"
        case "failed", "loop_timeout":
            return f"ll-loop resume {name} --timeout {max(2 * ran_ms // 1000, 60)}"
        case "failed", "terminal" | "handoff":
            return f"ll-loop logs {name}"
        case "needs_review", "budget":
            return f"ll-loop resume {name} --over-budget"
        case "needs_review", _:
            return f"ll-loop approve {name}   or   ll-loop reject {name} -m TEXT"
        case "completed" | "stopped", _:
            return None
        case _:
            return f"ll-loop resume {name}"
