"""What happens when an action hands off: the run pauses, ends, or continues in a fresh session.

The functions return the next command, or None if the action simply runs again.
"""

from __future__ import annotations

from little_loops.fsm import endings
from little_loops.fsm.admission import admission_due
from little_loops.fsm.commands import Admit, Ending, EndLeftovers, Wait
from little_loops.fsm.events import HandoffDetected
from little_loops.fsm.happenings import Admitted
from little_loops.fsm.limits import agents_exceeded, cost_allowed_usd, cost_left_usd, wait_for
from little_loops.fsm.record_events import note_spending
from little_loops.fsm.spending import session
from little_loops.fsm.step_builder import StepBuilder
from little_loops.fsm.waits import spacing_ms


def hand_off(builder: StepBuilder, continuation: str) -> Admit | EndLeftovers | Wait | None:
    """Record a handoff. Return what it leads to: the ending, a wait, or the request to start a
    session; None if this process continues at once."""
    run, loop = builder.run, builder.loop
    if loop.on_handoff == "terminate":
        builder.note(HandoffDetected(run.current_state, run.iteration, continuation, ends_run=True))
        return EndLeftovers(
            endings.TERMINATED._replace(message="context handoff, and `on_handoff` is `terminate`")
        )
    rest = _pause_or_limit(builder)
    spacing = 0 if rest is not None else spacing_ms(run, builder.result.duration_ms)
    # Whoever resumed before the handoff was handled is the fresh session that it asks for.
    spawns = not run.late and rest is None and loop.on_handoff == "spawn"
    here = run.current_state
    builder.note(HandoffDetected(here, run.iteration, continuation, spacing, spawns))
    if rest is not None:
        return EndLeftovers(rest)
    return wait_for(builder.loop, builder.run, builder.at) if spacing else after_handoff(builder)


def _pause_or_limit(builder: StepBuilder) -> Ending | None:
    """Return how the run pauses or ends, or None if it continues by itself."""
    run, loop = builder.run, builder.loop
    allowed = run.limits.max_continuations or loop.max_continuations
    if run.continuations >= allowed:
        times = f"{allowed} handoff{'' if allowed == 1 else 's'}"
        message = f"more than {times} in a row in `{run.current_state}`"
        return endings.HANDED_OFF._replace(message=message)
    if not _continues_by_itself(builder):
        return endings.HANDED_OFF
    return _limit_reached(builder)


def _continues_by_itself(builder: StepBuilder) -> bool:
    """Return whether the run continues by itself: `continue`, or `spawn` for an agent's handoff.

    The output of a shell command never starts a session.
    """
    by_agent = builder.result.agent is not None
    return builder.loop.on_handoff == "continue" or (
        builder.loop.on_handoff == "spawn" and by_agent
    )


def _limit_reached(builder: StepBuilder) -> Ending | None:
    """Return the limit that the agents have reached, if any; a fresh session would only use
    more."""
    # The loop's timeout is handled by the next action's deadline, which knows `on_timeout`.
    ending = agents_exceeded(builder.loop, builder.run, builder.at, builder.run.current_state)
    if ending is None and builder.loop.on_handoff == "spawn":
        return _too_costly_to_spawn(builder)
    return ending


def _too_costly_to_spawn(builder: StepBuilder) -> Ending | None:
    """Return the ending for the cost limit if nothing would be left after another session."""
    left, expected = cost_left_usd(builder.loop, builder.run), session(builder.loop, builder.run)
    if left is None or expected is None or left > expected.cost_usd:
        return None
    needs = f"a session may use ${expected.cost_usd:g}"
    message = f"${left:g} of ${cost_allowed_usd(builder.loop, builder.run):g} is left, but {needs}"
    return endings.failed("max_cost", message)


def after_handoff(
    builder: StepBuilder, admitted: Admitted | None = None
) -> Admit | EndLeftovers | None:
    """Return the ending that spawns a session, after recording an estimate of its cost; None if
    this process continues.

    Where agents have limits, return the request to start the session first, unless it is
    `admitted`.
    """
    if not builder.run.spawns:
        return None
    if admitted is None and (request := admission_due(builder)) is not None:
        return request
    reserved_usd = None if admitted is None else admitted.reserved_usd
    note_spending(builder, session(builder.loop, builder.run, reserved_usd))
    message = "a fresh session continues the run"
    return EndLeftovers(endings.HANDED_OFF._replace(spawn=True, message=message))
