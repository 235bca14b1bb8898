"""The limits of a run, as an ordered tuple of small guards asked before an action is begun."""

from __future__ import annotations

from little_loops.fsm import endings
from little_loops.fsm.commands import Ending, Wait
from little_loops.fsm.happenings import Moment
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import LoopState


def iterations_allowed(loop: FSMLoop, run: LoopState) -> int:
    given = run.limits.max_iterations
    return loop.max_iterations if given is None else given


def time_left_ms(loop: FSMLoop, run: LoopState, at: Moment) -> int | None:
    """What is left of the loop's own time; None without a limit."""
    timeout = loop.timeout if run.limits.timeout is None else run.limits.timeout
    return None if timeout is None else max(0, round(timeout * 1000) - at.ran_ms)


def wait_for(loop: FSMLoop, run: LoopState, at: Moment) -> Wait:
    """The wait a run is in, no longer than the loop's time allows."""
    assert run.wait is not None, "a waiting run knows until when"
    left = time_left_ms(loop, run, at)
    return Wait(run.wait, None if left is None else at.ran_ms + left)


def cost_left_usd(loop: FSMLoop, run: LoopState) -> float | None:
    if loop.max_cost_usd is None:
        return None
    return loop.max_cost_usd - sum(receipt.cost_usd for receipt in run.costs.values())


def exceeded(loop: FSMLoop, run: LoopState, at: Moment) -> Ending | None:
    """The first limit that forbids another action."""
    for guard in GUARDS:
        if (ending := guard(loop, run, at)) is not None:
            return ending
    return None


def _time(loop: FSMLoop, run: LoopState, at: Moment) -> Ending | None:
    return endings.LOOP_TIMEOUT if time_left_ms(loop, run, at) == 0 else None


def _cost(loop: FSMLoop, run: LoopState, at: Moment) -> Ending | None:
    left = cost_left_usd(loop, run)
    if left is None or left > 0:
        return None
    return endings.limit("max_cost", f"the agents have used ${loop.max_cost_usd:g}")


def _tokens(loop: FSMLoop, run: LoopState, at: Moment) -> Ending | None:
    used = sum(receipt.tokens for receipt in run.costs.values())
    if loop.max_tokens is None or used < loop.max_tokens:
        return None
    return endings.limit("max_tokens", f"the agents have used {used} tokens")


GUARDS = (_time, _cost, _tokens)
