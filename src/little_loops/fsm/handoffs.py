"""What happens when an action hands off: the run pauses, ends, or continues in a fresh session.

The functions return the next command, or None if the action simply runs again.
"""

from __future__ import annotations

from little_loops.fsm import endings
from little_loops.fsm.commands import Ending, EndLeftovers, Wait
from little_loops.fsm.events import HandoffDetected
from little_loops.fsm.limits import cost_allowed_usd, cost_left_usd, exceeded, wait_for
from little_loops.fsm.record_events import note_receipt
from little_loops.fsm.spending import session
from little_loops.fsm.turn import Turn
from little_loops.fsm.waits import spacing_ms


def hand_off(turn: Turn, continuation: str) -> EndLeftovers | Wait | None:
    """Record a handoff. Return the ending or the wait that it leads to, or None if this process
    continues at once."""
    run, loop = turn.run, turn.loop
    if loop.on_handoff == "terminate":
        turn.note(HandoffDetected(run.current_state, run.iteration, continuation, ends_run=True))
        return EndLeftovers(
            endings.TERMINATED._replace(message="context handoff, and `on_handoff` is `terminate`")
        )
    rest = _pause_or_limit(turn)
    spacing = 0 if rest is not None else spacing_ms(run, turn.result.duration_ms)
    # Whoever resumed before the handoff was handled is the fresh session that it asks for.
    spawns = not run.late and rest is None and loop.on_handoff == "spawn"
    here = run.current_state
    turn.note(HandoffDetected(here, run.iteration, continuation, spacing, spawns))
    if rest is not None:
        return EndLeftovers(rest)
    return wait_for(turn.loop, turn.run, turn.at) if spacing else after_handoff(turn)


def _pause_or_limit(turn: Turn) -> Ending | None:
    """Return how the run pauses or ends, or None if it continues by itself."""
    run, loop = turn.run, turn.loop
    allowed = run.limits.max_continuations or loop.max_continuations
    if run.continuations >= allowed:
        times = f"{allowed} handoff{'' if allowed == 1 else 's'}"
        message = f"more than {times} in a row in `{run.current_state}`"
        return endings.HANDED_OFF._replace(message=message)
    if not _continues_by_itself(turn):
        return endings.HANDED_OFF
    return _limit_reached(turn)


def _continues_by_itself(turn: Turn) -> bool:
    """Return whether the run continues by itself: `continue`, or `spawn` for an agent's handoff.

    The output of a shell command never starts a session.
    """
    by_agent = turn.result.agent is not None
    return turn.loop.on_handoff == "continue" or (turn.loop.on_handoff == "spawn" and by_agent)


def _limit_reached(turn: Turn) -> Ending | None:
    """Return the limit that the agents have reached, if any; a fresh session would only use
    more."""
    ending = exceeded(turn.loop, turn.run, turn.at, turn.run.current_state)
    if ending is None and turn.loop.on_handoff == "spawn":
        return _too_costly_to_spawn(turn)
    # The loop's timeout is handled by the next action's deadline, which knows `on_timeout`.
    return None if ending is None or ending.reason == "loop_timeout" else ending


def _too_costly_to_spawn(turn: Turn) -> Ending | None:
    """Return the ending for the cost limit if nothing would be left after another session."""
    left, receipt = cost_left_usd(turn.loop, turn.run), session(turn.loop, turn.run)
    if left is None or receipt is None or left > receipt.cost_usd:
        return None
    needs = f"a session may use ${receipt.cost_usd:g}"
    message = f"${left:g} of ${cost_allowed_usd(turn.loop, turn.run):g} is left, but {needs}"
    return endings.failed("max_cost", message)


def after_handoff(turn: Turn) -> EndLeftovers | None:
    """Return the ending that spawns a session, after recording an estimate of its cost; None if
    this process continues."""
    if not turn.run.spawns:
        return None
    note_receipt(turn, session(turn.loop, turn.run))
    message = "a fresh session continues the run"
    return EndLeftovers(endings.HANDED_OFF._replace(spawn=True, message=message))
