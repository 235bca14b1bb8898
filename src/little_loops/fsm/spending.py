"""What an agent's turn has used: as its host reported it, or an estimate.

An interrupted turn, or one lost with its runner, has reported its tokens at most; a spawned session
reports nothing. Their cost is estimated, so that it is counted before the next agent starts.
"""

from __future__ import annotations

from little_loops.fsm.limits import cost_left_usd
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import LoopState, Result, Spending
from little_loops.fsm.turn_hosts import host_of, is_turn_open

TOKEN_USD = 3e-6
"""The cost of a token in a coding session, where most tokens are read from the cache."""
REQUEST_USD = 0.1
"""The cost of a first request with an empty cache: the minimum for a turn without a
report."""
SESSION_USD = 0.25
"""How much a spawned session may spend; it only has to run one command."""
WITH_PRICES = ("claude",)
"""Hosts that report the cost of each turn; for these, a missing cost is estimated."""
LOST = Result(None, 0, cut_by="stop", agent="error")
"""A turn for which only the start is known."""


def used(loop: FSMLoop, run: LoopState, result: Result) -> Spending | None:
    """Return what a turn has used, with an estimate if its cost is unknown; None if no agent ran or
    nothing was used."""
    if result.agent is None:
        return None
    tokens, turns = result.tokens, result.turns or 0
    is_gap = result.cost_usd is None and (tokens > 0 or result.cut_by != "none")
    if is_gap and (estimate := _estimated_usd(loop, run, tokens)):
        return Spending(tokens, estimate, turns, estimate)
    if tokens or result.cost_usd:
        return Spending(tokens, result.cost_usd or 0.0, turns)
    return None


def owed(loop: FSMLoop, run: LoopState, lost: Result | None) -> Spending | None:
    """Return what the last turn has used, if its runner was killed before it could record that: by
    its result, if there is one, else by `lost`, which its host had reported, or by nothing.

    It is the same before a resume has recorded that the turn was lost, and after."""
    if not run.owes and not is_turn_open(run):
        return None
    has_result = run.phase == "judging"
    return used(loop, run, run.captured[run.current_state] if has_result else lost or LOST)


def session(loop: FSMLoop, run: LoopState, reserved_usd: float | None = None) -> Spending | None:
    """Return an estimate for a session spawned to resume the run: all that it may cost, at most
    `reserved_usd`. None if its host has no prices."""
    host = loop.host.under(loop.states[run.current_state].host)
    if host.host not in WITH_PRICES:
        return None
    limits = (SESSION_USD, host.max_cost_usd, reserved_usd)
    most_usd = min(limit for limit in limits if limit is not None)
    return Spending(0, most_usd, 0, most_usd)


def _estimated_usd(loop: FSMLoop, run: LoopState, tokens: int) -> float:
    """Return an estimate of what a turn cost, at most what it was allowed; 0 if its host has no
    prices."""
    host = host_of(loop, run)
    if host.host not in WITH_PRICES:
        return 0.0
    guess = tokens * _token_usd(run) if tokens else REQUEST_USD
    # Nothing is left only if the limit was lowered since: the turn started under a higher one.
    limits = (host.max_cost_usd, cost_left_usd(loop, run))
    return min([guess, *(limit for limit in limits if limit is not None and limit > 0)])


def _token_usd(run: LoopState) -> float:
    """Return what a token has cost in this run so far, as reported, or `TOKEN_USD` if nothing
    was."""
    reported = [each for each in run.costs.values() if each.cost_usd and not each.estimated_usd]
    tokens = sum(spent.tokens for spent in reported)
    return sum(spent.cost_usd for spent in reported) / tokens if tokens else TOKEN_USD
