"""Whether an agent's turn may start: a slot first, then the budget.

Only a run that is `metered` asks: its user has set slots or a budget. It asks before the snapshot
that precedes an agent's action, so whatever changes while it waits is not blamed on the agent.

Not here: what a budget allows (`budgets`), slots and the ledger (`spending`).
"""

from __future__ import annotations

from little_loops.fsm import endings
from little_loops.fsm.commands import Admit, Command, EndLeftovers, RunAction, RunAgent
from little_loops.fsm.events import AgentWait, RunWarning
from little_loops.fsm.evidence import is_agent
from little_loops.fsm.happenings import Admitted, Denied, Queued
from little_loops.fsm.limits import cost_left_usd, wait_for
from little_loops.fsm.turn import Turn


def admission_due(turn: Turn) -> Admit | None:
    """Return the request to start the next attempt of an agent's action, with the most it may cost.
    None if the run is not metered or no agent runs the action."""
    run = turn.run
    if not run.metered or not is_agent(turn.loop, run):
        return None
    host = turn.loop.host.under(turn.state.host)
    limits = (host.max_cost_usd, cost_left_usd(turn.loop, run))
    most_usd = min((limit for limit in limits if limit is not None), default=None)
    return Admit(run.current_state, run.step, run.attempt + 1, most_usd)


def limited(command: RunAction, admitted: Admitted | None) -> RunAction:
    """Return the command with the reserved amount as its cost limit; unchanged if no amount is
    reserved or no agent runs it."""
    if admitted is None or admitted.reserved_usd is None or not isinstance(command, RunAgent):
        return command
    return command._replace(cost_left_usd=admitted.reserved_usd)


def queue(turn: Turn, queued: Queued) -> Command:
    """Record what the turn waits for. Return the request again, now as one that waits."""
    turn.note(AgentWait(turn.run.current_state, queued.wait_for, queued.reason))
    due = admission_due(turn)
    assert due is not None, "only a turn that asked is queued"
    return due._replace(waits=True)


def deny(turn: Turn, denied: Denied) -> Command:
    """Record why the turn may not start, and return a wait until it may. Without a time until which
    to wait, or after the loop's timeout, return the ending instead."""
    if denied.until_wall_ms is None:
        return EndLeftovers(endings.BUDGET._replace(message=denied.reason))
    here = turn.run.current_state
    if turn.run.timed_out_in is not None:  # the loop's timeout leaves no time to wait
        turn.note(RunWarning(f"`{here}` did not run: {denied.reason}", here))
        return EndLeftovers(endings.LOOP_TIMEOUT)
    turn.note(AgentWait(here, denied.wait_for, denied.reason, denied.until_wall_ms))
    return wait_for(turn.loop, turn.run, turn.at)
