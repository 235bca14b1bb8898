"""What can be wrong with a loop's agent actions: options of hosts, data in slash commands.

These checks look at hosts and at command files, which the pure checks of a definition cannot.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from little_loops.authoring.load import Definition
from little_loops.errors import Place, Problem
from little_loops.fsm.actions_due import action_type
from little_loops.fsm.interpolation import splice
from little_loops.fsm.schema import FSMLoop, StateConfig
from little_loops.fsm.template import classify, references
from little_loops.fsm.values import author_context


def agent_problems(definition: Definition, root: str) -> tuple[Problem, ...]:
    loop = definition.loop
    assert loop is not None, "only a valid loop has agents"
    found: list[Problem] = []
    for name, state in loop.states.items():
        if state.action is not None and _kind(loop, state) != "shell":
            found += _of_options(definition, loop, name, state)
            found += _of_data(definition, loop, name, state, root)
    return tuple(dict.fromkeys(found))


def _kind(loop: FSMLoop, state: StateConfig) -> str:
    return action_type(state, author_context(loop.context, state))


def _place(definition: Definition, *path: str) -> Place | None:
    return definition.places.at(*path)


def _of_options(
    definition: Definition, loop: FSMLoop, name: str, state: StateConfig
) -> Iterator[Problem]:
    from little_loops.hosts.base import check_options, host_named  # only where agents act

    options = loop.host.under(state.host)
    of_state = definition.places.has("states", name, "host")
    place = _place(definition, *(("states", name, "host") if of_state else ("host",)))
    problems = check_options(options)
    for message in problems:
        yield Problem("LL230", message, place)
    if loop.on_handoff == "spawn" and (options.name or "claude") != "claude":
        yield Problem(
            "LL232",
            f"`on_handoff: spawn` starts its session with `claude`; `{options.name}` cannot resume",
            _place(definition, "on_handoff"),
            "use `on_handoff: continue`, or `host: claude` for this state",
            "warning",
        )
    if not problems and _kind(loop, state) == "slash":
        host = host_named(options.name or "claude")
        if not host.has_slash:
            yield Problem(
                "LL231",
                f"host `{host.name}` has no slash commands",
                _place(definition, "states", name, "action"),
                "write a prompt with `action_type: prompt`, or use `host: claude`",
            )


def _of_data(
    definition: Definition, loop: FSMLoop, name: str, state: StateConfig, root: str
) -> Iterator[Problem]:
    """Data in a slash command whose file would run a shell on it."""
    from little_loops.hosts.command_files import (  # only where data meets an agent
        command_name,
        find_command_file,
        runs_shell_on_arguments,
    )

    if _kind(loop, state) != "slash" or not has_data(loop, state):
        return
    assert state.action is not None, "it has a kind"
    command = command_name(splice(state.action, author_context(loop.context, state)))
    place = _place(definition, "states", name, "action")
    if command is None:
        return
    path = find_command_file(command, root, os.environ.get("HOME"), _plugin(command))
    if path is None:
        yield Problem(
            "LL421",
            f"`/{command}` is given data, and its file was not found to see what it does with it",
            place,
            "make sure the command runs no shell on its arguments",
            "warning",
        )
    elif runs_shell_on_arguments(path):
        yield Problem(
            "LL420",
            f"`/{command}` runs a shell on its arguments, so it may not be given data",
            place,
            "pass the data in a file: `${captured.x.file}` holds the whole output",
        )


def has_data(loop: FSMLoop, state: StateConfig) -> bool:
    assert state.action is not None, "only actions hold data"
    text = splice(state.action, author_context(loop.context, state))
    texts = [text, *(value for value in state.context.values() if isinstance(value, str))]
    return any(classify(one) == "data" for each in texts for one in references(each))


def _plugin(command: str) -> tuple[str, ...]:
    if not command.startswith("ll:"):
        return ()
    from little_loops.hosts.plugin import plugin_directory  # our own commands

    return (plugin_directory(),)
