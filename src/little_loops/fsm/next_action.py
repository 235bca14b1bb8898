"""The action a state is due to run: everything the edge must know, nothing it must decide.

The author's own context is spliced in here, because it decides what kind of action this is; data
(what commands printed, the environment) stay references for the edge to fill in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from little_loops.fsm.action_types import type_of_text
from little_loops.fsm.commands import RunAction
from little_loops.fsm.happenings import Moment
from little_loops.fsm.limits import cost_left_usd, iterations_allowed, time_left_ms
from little_loops.fsm.schema import FSMLoop, StateConfig
from little_loops.fsm.state import LoopState
from little_loops.fsm.values import author_context, values_of
from little_loops.fsm.verdicts import asks_verdict
from little_loops.records import NamedTuple
from little_loops.templates.render import lookup_in, references, show, splice

HANDLER_TIMEOUT_MS = 60_000


class Due(NamedTuple):
    command: RunAction
    shown: str


def action_due(loop: FSMLoop, run: LoopState, at: Moment) -> Due:
    """Raises `Unresolved` or `TemplateError` when a text names what is not there."""
    state = loop.states[run.current_state]
    assert state.action is not None, "a state without an action is not due"
    run = run._replace(attempt=run.attempt + 1, ran_ms=at.ran_ms)
    context = author_context(run.context, state)
    action = splice(state.action, context)
    own_context = {name: _spliced(value, context) for name, value in state.context.items()}
    env = {name: splice(value, context) for name, value in {**loop.env, **state.env}.items()}
    shown = _shown(action, [*own_context.values(), *env.values()], loop, run)
    kind = state.action_type or type_of_text(action)
    deadline_ms, deadline_of = _deadline(loop, run, state, at)
    command = RunAction(
        state=run.current_state,
        step=run.step,
        attempt=run.attempt,
        iteration=run.iteration,
        kind=kind,
        action=action,
        context=own_context,
        env=env,
        cwd=state.cwd or loop.cwd,
        shell=state.shell or loop.shell,
        kill_grace_s=loop.kill_grace if state.kill_grace is None else state.kill_grace,
        deadline_ms=deadline_ms,
        deadline_of=deadline_of,
        host=loop.host.under(state.host),
        iteration_limit=iterations_allowed(loop, run),
        session_id=None if kind == "shell" else session_id(run),
        words=None if kind == "shell" else asks_verdict(state),
        continuation=run.continuation_prompt,
        cost_left_usd=cost_left_usd(loop, run),
    )
    return Due(command, shown)


def session_id(run: LoopState) -> str:
    """One session per attempt, known before it starts and the same after a crash."""
    from uuid import NAMESPACE_URL, uuid5  # 10 ms only agents pay

    return str(uuid5(NAMESPACE_URL, f"little-loops:{run.run}/{run.step}/{run.attempt}"))


def _spliced(value: Any, context: Mapping[str, Any]) -> Any:
    return splice(value, context) if isinstance(value, str) else value


def _shown(action: str, others: Iterable[Any], loop: FSMLoop, run: LoopState) -> str:
    """The action for people; raises, before it is announced, if a text names what is not there."""
    texts = [text for text in (action, *others) if isinstance(text, str) and "${" in text]
    if not texts:  # as most, and looking values up takes a fifth of a decision
        return action
    values = values_of(loop, run)
    lookup = lookup_in(values)
    for reference in (each for text in texts for each in references(text)):
        if reference.namespace != "env" and reference.fallback is None:
            lookup(reference)
    return show(action, lookup, values["context"])


def _deadline(
    loop: FSMLoop, run: LoopState, state: StateConfig, at: Moment
) -> tuple[int | None, Any]:
    own = None if state.timeout is None else round(state.timeout * 1000)
    if run.timed_out_in is not None:  # the loop's time is up; its last state gets its own
        return own or HANDLER_TIMEOUT_MS, "action"
    left = time_left_ms(loop, run, at)
    if left is not None and (own is None or left < own):
        return left, "loop"
    return own, "action"
