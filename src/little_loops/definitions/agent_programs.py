"""Find the agent programs that a loop needs and that cannot be run here.

This happens before anything is run: nobody should wait half an hour for a check, only to learn that
there is no agent to fix what it finds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from little_loops.errors import UsageError
from little_loops.fsm.actions import action_of, is_agents
from little_loops.fsm.schema import FSMLoop, HostOptions, StateConfig
from little_loops.fsm.values import author_context
from little_loops.records import NamedTuple
from little_loops.templates.render import TemplateError, Unresolved

NEEDED_BY = ("goal", "convergence", "invariants", "relay")
"""Paradigms that certainly run their agents, unless there is nothing to do."""


class MissingAgent(NamedTuple):
    state: str
    why: str


def missing_agent(
    loop: FSMLoop, context: Mapping[str, Any], root: str, path: str | None
) -> MissingAgent | None:
    """Return the first state whose agent program cannot be run; None if all can.

    `context` overrides that of the loop, and `path` is searched for programs. States with their own
    PATH are not checked.
    """
    for name, options in _agents(loop, {**loop.context, **context}):
        from little_loops.hosts.programs import find_program  # only agents pay for it

        program = (options.command or (options.host,))[0]
        if (why := find_program(program, path, root).why_not) is not None:
            return MissingAgent(name, why)
    return None


def refusal(loop: FSMLoop, missing: MissingAgent) -> UsageError | None:
    """Return the error for a run that needs the agent; None if it may complete without it."""
    if loop.paradigm not in NEEDED_BY:
        return None
    return UsageError(
        f"{missing.why}, but state `{missing.state}` needs it to run an agent",
        "install it (`ll-loop doctor` shows what is installed), choose another with `--host`, or name your own "
        'in the loop: `host: {name: command, command: [my-agent, "{prompt}"]}`',
    )


def _agents(loop: FSMLoop, context: Mapping[str, Any]) -> Iterator[tuple[str, HostOptions]]:
    """Yield the states that run an agent, with their host options.

    States with their own PATH are left out, because that is filled in only when the action is run.
    """
    for name, state in loop.states.items():
        options = loop.host.under(state.host)
        # Such a PATH is filled in when the action is run.
        own_path = any("PATH" in env for env in (loop.env, state.env, options.env or {}))
        if not own_path and _runs_agent(state, context):
            yield name, options


def _runs_agent(state: StateConfig, context: Mapping[str, Any]) -> bool:
    """Return whether a state's action is for an agent; False if it cannot be filled in."""
    if state.action is None:
        return False
    try:
        return is_agents(action_of(state, author_context(context, state)))
    except (TemplateError, Unresolved):
        return False  # it will never run
