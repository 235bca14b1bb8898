"""Which agent actions of a loop run without permission prompts, and so need the user's consent.

A judge can only read, so it alone needs none. But whoever lets agents act on their own relies on it,
so it is part of what the user agrees to: another question or agent is asked about again.

Not here: asking for it (`cli.consent`), where it is kept (`trust`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from little_loops.definitions.agent_programs import given_to_child
from little_loops.fsm.actions import Agent, Builtin, Loop, Shell, action_of
from little_loops.fsm.schema import FSMLoop, StateConfig, acting_states
from little_loops.fsm.turn_hosts import hosts_of, judge_host
from little_loops.fsm.values import author_context
from little_loops.light_typing import TYPE_CHECKING, Any
from little_loops.templates.render import TemplateError, Unresolved

if TYPE_CHECKING:
    from little_loops.definitions.trust import AgentAction


def actions_needing_consent(
    loop: FSMLoop, context: Mapping[str, Any], root: str
) -> tuple[AgentAction, ...]:
    """Return the agent actions of a loop, and of those that it starts, that run without permission
    prompts; if there are any, also its judges."""
    acting = list(_acting(loop, context))
    found = dict.fromkeys(each for one in acting for each in _of_state(*one, root))
    if not found:
        return ()
    judges = (each for one in acting for each in _judge_of(*one, root))
    return (*found, *(each for each in dict.fromkeys(judges) if each not in found))


def _acting(
    loop: FSMLoop, context: Mapping[str, Any]
) -> Iterator[tuple[FSMLoop, StateConfig, Mapping[str, Any]]]:
    """Yield the states with actions of a loop, and of those that it starts, each with its loop and
    the values of that."""
    merged = {**loop.context, **context}
    acting = [state for _, state in acting_states(loop)]
    yield from ((loop, state, merged) for state in acting)
    for state in acting:
        if state.loop is not None:
            yield from _acting(state.loop, given_to_child(state, merged))


def _of_state(
    loop: FSMLoop, state: StateConfig, context: Mapping[str, Any], root: str
) -> Iterator[AgentAction]:
    """Yield a state's action once for each agent that may run it and needs consent."""
    if state.action is None:
        return
    own = author_context(context, state)
    try:
        action = action_of(state, own)
    except (TemplateError, Unresolved):
        return  # it will never run
    match action:
        case Agent():
            yield from _needing_consent(loop, state, context, action.text.strip(), root)
        case Shell() | Builtin() | Loop():
            return


def _needing_consent(
    loop: FSMLoop, state: StateConfig, context: Mapping[str, Any], text: str, root: str
) -> Iterator[AgentAction]:
    """Yield the action with its settings for each of the state's agents whose mode skips prompts."""
    # Only agents pay for hosts and hashing.
    from little_loops.definitions.agent_terms import settings_of
    from little_loops.definitions.trust import AgentAction
    from little_loops.hosts.base import host_named

    for options in hosts_of(loop, state):
        host = host_named(options.host)
        if host.needs_consent(options.permission_mode):
            settings = settings_of(loop, state, options, context, text, root)
            yield AgentAction(host.name, text, settings)


def _judge_of(
    loop: FSMLoop, state: StateConfig, context: Mapping[str, Any], root: str
) -> Iterator[AgentAction]:
    """Yield the question of a state's judge, with what it sees and the settings that let it only
    read."""
    if state.judge is None:
        return
    from little_loops.definitions.agent_terms import settings_of  # as above
    from little_loops.definitions.trust import READS, AgentAction
    from little_loops.hosts.base import host_named

    options = judge_host(loop, state)
    reading = host_named(options.host).read_only(options)
    if reading is not None:  # otherwise it is never asked
        text = state.judge.question.strip()
        settings = settings_of(loop, state, reading, context, text, root)
        more = (READS, ("sees", ", ".join(state.judge.sees)))
        yield AgentAction(options.host, text, tuple(sorted((*settings, *more))))
