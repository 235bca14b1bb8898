"""Find the agent programs that a loop needs and that cannot be run here.

This happens before anything is run: nobody should wait half an hour for a check, only to learn that
there is no agent to fix what it finds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from little_loops.errors import UsageError
from little_loops.fsm.actions import action_of, is_agents
from little_loops.fsm.schema import FSMLoop, HostOptions, StateConfig, acting_states
from little_loops.fsm.turn_hosts import hosts_of, judge_host
from little_loops.fsm.values import author_context
from little_loops.light_typing import Any
from little_loops.records import NamedTuple
from little_loops.templates.render import TemplateError, Unresolved, splice

NEEDED_BY = ("goal", "convergence", "invariants", "relay")
"""Paradigms that certainly run their agents, unless there is nothing to do."""


class MissingAgent(NamedTuple):
    state: str
    why: str


def missing_agent(
    loop: FSMLoop, context: Mapping[str, Any], root: str, path: str | None
) -> MissingAgent | None:
    """Return the first state none of whose agent programs can be run; None if all have one.

    `context` overrides that of the loop, and `path` is searched for programs. States with their own
    PATH are not checked.
    """
    merged = {**loop.context, **context}
    for name, state in acting_states(loop):
        if state.loop is not None:
            found = missing_agent(state.loop, given_to_child(state, merged), root, path)
            if found is not None:
                return found._replace(state=f"{name}/{found.state}")
    for name, hosts in _agents(loop, merged):
        from little_loops.hosts.programs import find_program  # only agents pay for it

        programs = [(options.command or (options.host,))[0] for options in hosts]
        reasons = [find_program(program, path, root).why_not for program in programs]
        if reasons[0] is not None and None not in reasons:
            return MissingAgent(name, reasons[0])
    return None


def given_to_child(state: StateConfig, context: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that a state gives to the loop that it starts, as written: with the
    author's context filled in, and references to data left as they are."""
    own = author_context(context, state)
    return {name: _as_written(value, own) for name, value in state.with_.items()}


def _as_written(value: Any, context: Mapping[str, Any]) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return splice(value, context)
    except (TemplateError, Unresolved):
        return value


def refusal(loop: FSMLoop, missing: MissingAgent) -> UsageError | None:
    """Return the error for a run that needs the agent; None if it may complete without it."""
    if loop.paradigm not in NEEDED_BY:
        return None
    return UsageError(
        f"{missing.why}, but state `{missing.state}` needs it to run an agent",
        "install it (`ll-loop doctor` shows what is installed), choose another with `--host`, or name your own "
        'in the loop: `host: {name: command, command: [my-agent, "{prompt}"]}`',
    )


def _agents(
    loop: FSMLoop, context: Mapping[str, Any]
) -> Iterator[tuple[str, tuple[HostOptions, ...]]]:
    """Yield the name of each state that runs an agent, and of each that has a judge, with the
    options of their hosts. A state with both comes twice.

    States with their own PATH are left out, because that is filled in only when the action is run.
    """
    for name, state in acting_states(loop):
        hosts = hosts_of(loop, state)
        variables = (loop.env, state.env, *(options.env or {} for options in hosts))
        own_path = any("PATH" in env for env in variables)
        if not own_path and _runs_agent(state, context):
            yield name, hosts
        if not own_path and state.judge is not None:
            yield name, (judge_host(loop, state),)


def _runs_agent(state: StateConfig, context: Mapping[str, Any]) -> bool:
    """Return whether a state's action is for an agent; False if it cannot be filled in."""
    if state.action is None:
        return False
    try:
        return is_agents(action_of(state, author_context(context, state)))
    except (TemplateError, Unresolved):
        return False  # it will never run
