"""Limits that are checked before an action starts, as an ordered tuple of guards.

A limit on agents prevents another agent action, but not the check that judges their work.
"""

from __future__ import annotations

from little_loops.fsm import endings
from little_loops.fsm.actions import action_of, is_agents
from little_loops.fsm.commands import Ending, Wait
from little_loops.fsm.schema import FSMLoop, StateConfig, starts_runs
from little_loops.fsm.state import LoopState
from little_loops.fsm.timestamps import Moment
from little_loops.fsm.values import author_context
from little_loops.templates.render import TemplateError, Unresolved


def iterations_allowed(loop: FSMLoop, run: LoopState) -> int:
    given = run.limits.max_iterations
    return loop.max_iterations if given is None else given


def time_left_ms(loop: FSMLoop, run: LoopState, at: Moment) -> int | None:
    """Return what is left of the loop's timeout, or None without one."""
    timeout = loop.timeout if run.limits.timeout is None else run.limits.timeout
    return None if timeout is None else max(0, round(timeout * 1000) - at.ran_ms)


def wait_for(loop: FSMLoop, run: LoopState, at: Moment) -> Wait:
    """Return the command for the run's current wait, at most until the loop's timeout."""
    assert run.wait is not None, "a waiting run has an end of its wait"
    left = time_left_ms(loop, run, at)
    return Wait(run.wait, None if left is None else at.ran_ms + left)


def cost_allowed_usd(loop: FSMLoop, run: LoopState) -> float | None:
    given = run.limits.max_cost_usd
    return loop.max_cost_usd if given is None else given


def cost_left_usd(loop: FSMLoop, run: LoopState) -> float | None:
    allowed = cost_allowed_usd(loop, run)
    return None if allowed is None else allowed - _spent_usd(run)


def _spent_usd(run: LoopState) -> float:
    return sum(spent.cost_usd for spent in run.costs.values())


def exceeded(loop: FSMLoop, run: LoopState, at: Moment, state: str) -> Ending | None:
    """Return the ending for the first limit that prevents the action of this state, or None. A
    state without an action needs nothing."""
    if loop.states[state].action is None:
        return None
    for guard in GUARDS:
        if (ending := guard(loop, run, at, loop.states[state])) is not None:
            return ending
    return None


def agents_exceeded(loop: FSMLoop, run: LoopState, at: Moment, state: str) -> Ending | None:
    """Return the ending for the limit of the agents that prevents the action of this state, or None,
    however much time is left."""
    config = loop.states[state]
    return _cost(loop, run, at, config) or _tokens(loop, run, at, config)


def exceeded_by_agent(loop: FSMLoop, run: LoopState, at: Moment) -> Ending | None:
    """Return the ending for the first limit that prevents an agent's turn now, or None."""
    agent = StateConfig(action="/judge")
    endings_found = (guard(loop, run, at, agent) for guard in GUARDS)
    return next((ending for ending in endings_found if ending is not None), None)


def _time(loop: FSMLoop, run: LoopState, at: Moment, state: StateConfig) -> Ending | None:
    """Return the ending if the loop's timeout has passed, else None; never for its `on_timeout`
    state."""
    # The loop's timeout has passed; its last state has its own time.
    if run.timed_out_in is not None:
        return None
    return endings.LOOP_TIMEOUT if time_left_ms(loop, run, at) == 0 else None


def _cost(loop: FSMLoop, run: LoopState, at: Moment, state: StateConfig) -> Ending | None:
    """Return the ending if this is an agent's action and the cost limit is used up, else None."""
    left = cost_left_usd(loop, run)
    if left is None or left > 0 or not _is_agents(state, run):
        return None
    spent = f"agents have used ${_spent_usd(run):g} of ${cost_allowed_usd(loop, run):g}"
    guessed = sum(spent.estimated_usd for spent in run.costs.values())
    return endings.failed(
        "max_cost", f"{spent}, ${guessed:g} of it estimated" if guessed else spent
    )


def _tokens(loop: FSMLoop, run: LoopState, at: Moment, state: StateConfig) -> Ending | None:
    """Return the ending if this is an agent's action and the token limit is used up, else None."""
    given = run.limits.max_tokens
    allowed = loop.max_tokens if given is None else given
    if allowed is None:
        return None
    used = sum(spent.tokens for spent in run.costs.values())
    if used < allowed or not _is_agents(state, run):
        return None
    return endings.failed("max_tokens", f"agents have used {used} of {allowed} tokens")


def _is_agents(state: StateConfig, run: LoopState) -> bool:
    """Return whether an agent runs the state's action, or one of the loop that it starts; False if
    the action is invalid."""
    if starts_runs(state):
        from little_loops.fsm.evidence import starts_agents  # few loops start others

        return starts_agents(state, run.context)
    try:
        return is_agents(action_of(state, author_context(run.context, state)))
    # The action is invalid, which is reported when it is due to run.
    except (TemplateError, Unresolved):
        return False


GUARDS = (_time, _cost, _tokens)
