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
from little_loops.fsm.spending import session
from little_loops.fsm.step_builder import StepBuilder
from little_loops.fsm.turn_hosts import host_of


def admission_due(builder: StepBuilder) -> Admit | None:
    """Return the request to start the next attempt of an agent's action, or the session that a
    handoff asks for, with the most it may cost.

    None if the run is not metered or no agent runs the action.
    """
    run = builder.run
    if run.phase == "judged":
        from little_loops.fsm.judges import admission  # few loops have a judge

        return admission(builder)
    if not run.metered or not is_agent(builder.loop, run):
        return None
    if run.spawns:
        expected = session(builder.loop, run)
        most_usd = None if expected is None else expected.cost_usd
        return Admit(run.current_state, run.step, run.attempt, most_usd, is_session=True)
    host = host_of(builder.loop, run)
    limits = (host.max_cost_usd, cost_left_usd(builder.loop, run))
    most_usd = min((limit for limit in limits if limit is not None), default=None)
    return Admit(run.current_state, run.step, run.attempt + 1, most_usd)


def limited(command: RunAction, admitted: Admitted | None) -> RunAction:
    """Return the command with the reserved amount as its cost limit; unchanged if no amount is
    reserved or no agent runs it."""
    match command:
        case RunAgent() if admitted is not None and admitted.reserved_usd is not None:
            return command._replace(cost_left_usd=admitted.reserved_usd)
        case _:
            return command


def queue(builder: StepBuilder, queued: Queued) -> Command:
    """Record what the turn waits for. Return the request again, now as one that waits."""
    builder.note(AgentWait(builder.run.current_state, queued.wait_for, queued.reason))
    due = admission_due(builder)
    assert due is not None, "only a turn that asked for a slot is queued"
    return due._replace(waits=True)


def deny(builder: StepBuilder, denied: Denied) -> Command:
    """Record why the turn may not start, and return a wait until it may. Without a time until which
    to wait, or after the loop's timeout, return the ending instead."""
    if denied.limit is not None:
        return EndLeftovers(endings.failed(denied.limit, denied.reason))
    if denied.until_wall_ms is None:
        return EndLeftovers(endings.BUDGET._replace(message=denied.reason))
    here = builder.run.current_state
    if builder.run.timed_out_in is not None:  # the loop's timeout leaves no time to wait
        builder.note(RunWarning(f"{did_not_run(here)}{denied.reason}", here))
        return EndLeftovers(endings.LOOP_TIMEOUT)
    until_ms = denied.until_wall_ms
    wait_ms = max(0, until_ms - builder.at.wall_ms)
    builder.note(AgentWait(here, denied.wait_for, denied.reason, until_ms, wait_ms))
    return wait_for(builder.loop, builder.run, builder.at)


def did_not_run(state: str) -> str:
    """Return how the warning begins that an agent could not start before the loop's timeout."""
    return f"`{state}` did not run: "
