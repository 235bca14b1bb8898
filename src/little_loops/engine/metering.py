"""Write what agents cost into the user's ledger.

A turn is recorded when it ends, before its result is stored: a runner that is killed in between
records it again when it is resumed, and the ledger counts it once.

Not here: the ledger (`spending.ledger`), what a turn cost (`fsm.spending`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress

from little_loops.engine.action_process import Workplace
from little_loops.engine.drive import ActionOutcome
from little_loops.engine.local_world import LocalWorld
from little_loops.engine.resolve import Filled
from little_loops.errors import StorageError
from little_loops.fsm.commands import Ending, RunAgent
from little_loops.fsm.endings import evidence_of
from little_loops.fsm.ledger import (
    AgentTurn,
    Line,
    OverBudget,
    VerifiedPass,
    account,
    session_id,
    turn_id,
)
from little_loops.fsm.schema import FSMLoop, HostOptions
from little_loops.fsm.spending import session, used
from little_loops.fsm.state import LoopState, Result, Spending
from little_loops.fsm.timestamps import wall_ms_of
from little_loops.fsm.turn_hosts import host_of, name_of, turn_attempt
from little_loops.light_typing import TYPE_CHECKING
from little_loops.spending import host_limits, ledger
from little_loops.system.clock import wall_ms

if TYPE_CHECKING:
    from little_loops.engine.gate import AgentAdmission, Permit

LONGEST_START_MS = 3_600_000
"""A turn is reserved before the snapshot that is taken before it."""
Act = Callable[[Workplace, LoopState, RunAgent, Filled], ActionOutcome]


def recorded(
    world: LocalWorld, act: Act, at: Workplace, run: LoopState, command: RunAgent, filled: Filled
) -> ActionOutcome:
    """Run a turn with `act` and record what it cost; a ledger that cannot be written is a warning.

    Afterwards the turn's slot is free, and a reservation that was not settled is cancelled.
    """
    try:
        return _recorded(world, act, at, run, command, filled)
    finally:
        if world.gate is not None:
            world.gate.release()


def _recorded(
    world: LocalWorld, act: Act, at: Workplace, run: LoopState, command: RunAgent, filled: Filled
) -> ActionOutcome:
    """Run a turn with the slot it was admitted to, and append its cost to the ledger, if it
    started."""
    began_ms, gate = wall_ms(), world.gate
    acted = act(at if gate is None else gate.lend(at), run, command, filled)
    if acted.result.agent is None:  # it did not start
        return acted
    _remember_limit(world.services.environ, command.host, acted.result)
    job = command.job
    root = world.own_request().root  # the project, even if the turn works in one of its worktrees
    line = _turn(world.loop, run, root, command.host, acted.result, began_ms)._replace(
        id=turn_id(run.run, job.step, job.attempt), model=acted.model or command.host.model
    )
    warning = _append(world.services.environ, line, gate)
    return acted if warning is None else acted._replace(warnings=(*acted.warnings, warning))


def _remember_limit(environ: Mapping[str, str], options: HostOptions, result: Result) -> None:
    """Remember for the user's other runs that an agent is limited, or no longer. If that cannot be
    written, they will find out themselves."""
    name, now_ms = name_of(options), wall_ms()
    with suppress(StorageError):
        if result.agent == "wait" and result.retry_at_ms is not None:
            host_limits.remember(environ, name, result.retry_at_ms, now_ms)
        elif result.agent == "success":
            host_limits.forget(environ, name, now_ms)


def record_lost_turn(
    loop: FSMLoop, run: LoopState, root: str, lost: Result, environ: Mapping[str, str]
) -> None:
    """Record a turn whose runner was killed; the last event of that run was its start.

    If it did not report its cost, what was reserved for it counts. A ledger that cannot be written
    is ignored.
    """
    line = _turn(loop, run, root, host_of(loop, run), lost, wall_ms_of(run.updated_at))
    if run.metered:
        from little_loops.engine.gate import charged  # few users have set limits on agents

        spent = account(ledger.read(environ, line.at_ms - LONGEST_START_MS))
        for each in spent.reservations:
            line = charged(line, each) if each.id == line.id else line
    _append(environ, line)


def record_session(
    loop: FSMLoop,
    run: LoopState,
    root: str,
    options: HostOptions,
    environ: Mapping[str, str],
    permit: Permit | None = None,
) -> None:
    """Record a session that was started to resume the run. It reports nothing, so its cost is an
    estimate (what was reserved for it), or unknown. A ledger that cannot be written is ignored."""
    spent = session(loop, run) or Spending()
    line = _line(run, root, options, wall_ms(), spent, is_known=spent.cost_usd > 0)
    _append(environ, line._replace(id=session_id(run.run, run.step, run.attempt)), permit)


def record_pass(
    loop: FSMLoop, run: LoopState, ending: Ending, root: str, environ: Mapping[str, str]
) -> None:
    """Record a completed run if its evidence is verified. A ledger that cannot be written is
    ignored."""
    if evidence_of(loop, run, ending) == "verified":
        _append(environ, VerifiedPass(wall_ms(), os.path.realpath(root), run.loop, run.run))


def record_over_budget(run: LoopState, root: str, environ: Mapping[str, str]) -> None:
    """Record that a person resumed the run without regard to its budget. Raises `StorageError`."""
    line = OverBudget(wall_ms(), os.path.realpath(root), run.loop, run.run)
    ledger.append(environ, line)


def _turn(
    loop: FSMLoop, run: LoopState, root: str, options: HostOptions, result: Result, began_ms: int
) -> AgentTurn:
    """Return the line of a turn that started at `began_ms`; its cost is None if it is neither
    reported nor estimated."""
    spent = used(loop, run, result) or Spending(result.tokens)
    is_known = result.cost_usd is not None or spent.cost_usd > 0
    return _line(run, root, options, began_ms, spent, is_known=is_known)


def _line(
    run: LoopState,
    root: str,
    options: HostOptions,
    at_ms: int,
    spent: Spending,
    *,
    is_known: bool,
) -> AgentTurn:
    """Return a line of the ledger for the run's current step; without `is_known`, its cost is
    None."""
    return AgentTurn(
        id=turn_id(run.run, run.step, turn_attempt(run)),
        at_ms=at_ms,
        project=os.path.realpath(root),
        loop=run.loop,
        run=run.run,
        host=options.host,
        model=options.model,
        tokens=spent.tokens,
        cost_usd=round(spent.cost_usd, 6) if is_known else None,
        estimated=spent.estimated_usd > 0,
    )


def _append(
    environ: Mapping[str, str], line: Line, holder: AgentAdmission | Permit | None = None
) -> str | None:
    """Append a line, in the place of its reservation if `holder` has one. Return a warning if that
    failed, else None."""
    try:
        if holder is None or not isinstance(line, AgentTurn) or holder.settle(line) is not None:
            ledger.append(environ, line)
    except StorageError as error:
        return f"the cost of this turn was not recorded: {error.message}"
    return None
