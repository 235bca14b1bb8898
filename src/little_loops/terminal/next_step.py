"""The command that a user most likely needs after a run has ended."""

from __future__ import annotations


def next_command(
    name: str, status: str, reason: str | None, *, iteration: int, ran_ms: int
) -> str | None:
    """Return the command for a run with this status and reason, or the two to choose from; None if
    nothing is left to do."""
    return either(next_commands(name, status, reason, iteration=iteration, ran_ms=ran_ms))


def either(commands: tuple[str, ...]) -> str | None:
    return "   or   ".join(commands) or None


def next_commands(
    name: str, status: str, reason: str | None, *, iteration: int, ran_ms: int
) -> tuple[str, ...]:
    match status, reason:
        case "failed", "max_iterations":
            return (f"ll-loop resume {name} --max-iterations {twice(iteration)}",)
        case "failed", "max_cost":
            return (f"ll-loop resume {name} --max-cost USD",)
        case "failed", "max_tokens":
            return (f"ll-loop resume {name} --max-tokens N",)
        case "failed", "loop_timeout":
            return (f"ll-loop resume {name} --timeout {longer_s(ran_ms)}",)
        case "failed", "terminal" | "handoff":
            return (f"ll-loop logs {name}",)
        case "needs_review", "budget":
            return (f"ll-loop resume {name} --over-budget",)
        case "needs_review", _:
            return (f"ll-loop approve {name}", f"ll-loop reject {name} -m TEXT")
        case "completed" | "stopped", _:
            return ()
        case _:
            return (f"ll-loop resume {name}",)


def twice(amount: int) -> int:
    return 2 * amount


def longer_s(ran_ms: int) -> int:
    """Return a time limit for a run that has run for so long."""
    return max(2 * ran_ms // 1000, 60)


def higher_limits(
    reason: str | None, *, iteration: int, ran_ms: int, cost_usd: float, tokens: int
) -> dict[str, str] | None:
    """Return limits that let a run continue that has reached one, by the names of the options of
    `resume`; None if it ended for another reason."""
    match reason:
        case "max_iterations":
            return {"max_iterations": str(twice(iteration))}
        case "loop_timeout":
            return {"timeout": f"{longer_s(ran_ms)}s"}
        case "max_cost":
            return {"max_cost": f"{max(2 * cost_usd, 0.01):.2f}"}
        case "max_tokens":
            return {"max_tokens": str(twice(tokens))}
        case _:
            return None
