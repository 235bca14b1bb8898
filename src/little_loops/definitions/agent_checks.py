"""Check a loop's agents: options of hosts, data in slash commands, and judges.

These checks read host modules and command files, which the pure checks of a definition cannot.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from little_loops.authoring.branch_view import unfolded
from little_loops.authoring.filling import Filling
from little_loops.authoring.load import Definition
from little_loops.errors import Place, Problem
from little_loops.fsm.actions import Agent, Builtin, Loop, Shell
from little_loops.fsm.schema import FSMLoop, HostOptions, item_hosts, with_host_name
from little_loops.fsm.turn_hosts import completed, judge_host
from little_loops.light_typing import TYPE_CHECKING
from little_loops.templates.splice import is_data

if TYPE_CHECKING:
    from little_loops.hosts.base import Host


def agent_problems(definition: Definition, root: str) -> tuple[Problem, ...]:
    """Return the problems with the agents that act or judge in a valid loop, each once; without those
    in loops that its states start."""
    assert definition.loop is not None, "only a valid loop has agents"
    loop, places = unfolded(definition.loop, definition.places)
    definition = definition._replace(loop=loop, places=places)
    filling = Filling(loop)
    found: list[Problem] = []
    for name in loop.states:
        if name in filling.agents:
            found += _check_options(definition, filling, name)
            found += _check_command(definition, filling, name, root)
        if loop.states[name].judge is not None:
            found += _check_judge(definition, loop, name)
    return tuple(dict.fromkeys(found))


def _place(definition: Definition, *path: str) -> Place | None:
    return definition.places.at(*path)


def _check_options(definition: Definition, filling: Filling, name: str) -> Iterator[Problem]:
    """Yield the problems with the agents of a state: their options, and limits they cannot
    enforce."""
    state, written = filling.loop.states[name], _paths_of_host(definition, name)
    for who in item_hosts(state):
        each = state if who is None else with_host_name(state, who)
        first = filling.loop.host.under(each.host)
        yield from _check_host(definition, filling, name, first, written)
        yield from _check_fallback(definition, filling, name, first)


def _check_fallback(
    definition: Definition, filling: Filling, name: str, first: HostOptions
) -> Iterator[Problem]:
    """Yield the problems with the agents that may take the turns of the first one."""
    loop, own = filling.loop, filling.loop.states[name].fallback
    path = ("fallback",) if own is None else ("states", name, "fallback")
    for index, other in enumerate(loop.fallback if own is None else own):
        here = (*path, index)
        yield from _check_host(definition, filling, name, completed(first, other), [here])
        if other.max_wait is not None:
            yield Problem(
                "LL230",
                "`max_wait` has no effect in `fallback`: the one in `host` limits all waits together",
                definition.places.at(*here, "max_wait", part="key"),
                "set it in `host`",
            )


Path = tuple[str | int, ...]


def _paths_of_host(definition: Definition, name: str) -> list[Path]:
    """Return where the options of a state's `host` are written: in the state, in the loop."""
    paths: list[Path] = [("states", name, "host"), ("host",)]
    return [path for path in paths if definition.places.has(*path)] or [("host",)]


def _check_judge(definition: Definition, loop: FSMLoop, name: str) -> Iterator[Problem]:
    """Yield the problems with the judge of a state: its options, and whether it can only read."""
    from little_loops.hosts.base import check_options, host_named  # only where agents act

    judge = loop.states[name].judge
    options = judge_host(loop, loop.states[name])
    place = _place(definition, "states", name, "condition")
    problems = check_options(options)
    if judge is not None and judge.host is not None and judge.host.args:
        problems = ["a judge cannot have `args`, because they could let it do more than read"]
    for message in problems:
        yield Problem("LL230", message, place, "change or remove that option in the judge's `host`")
    if not problems and host_named(options.host).read_only(options) is None:
        yield Problem(
            "LL236",
            f"`{options.host}` cannot judge, because it has no mode in which it can only read",
            place,
            "set `host: claude` or `host: codex` for the judge",
        )


def _check_host(
    definition: Definition,
    filling: Filling,
    name: str,
    options: HostOptions,
    written: Sequence[Path],
) -> Iterator[Problem]:
    """Yield the problems with the options of an agent, which are written at these places, and with
    limits it cannot enforce."""
    from little_loops.hosts.base import check_options, host_named  # only where agents act

    loop = filling.loop
    problems = check_options(options)
    for message in problems:
        place = _place_of_option(definition, message, written)
        yield Problem("LL230", message, place, "change or remove that option in `host`")
    if loop.on_handoff == "spawn" and options.host != "claude":
        yield Problem(
            "LL232",
            f"`on_handoff: spawn` only works with `claude`; `{options.host}` cannot resume the run",
            _place(definition, "on_handoff"),
            "use `on_handoff: continue`, or `host: claude` for this state",
            "warning",
        )
    if problems:
        return
    host = host_named(options.host)
    if _is_slash(filling, name) and not host.has_slash:
        yield Problem(
            "LL231",
            f"host `{host.name}` has no slash commands",
            _place(definition, "states", name, "action"),
            "write a prompt with `action_type: prompt`, or use `host: claude`",
        )
    yield from _check_limits(definition, loop, host)


def _is_slash(filling: Filling, name: str) -> bool:
    match filling.actions[name]:
        case Agent(is_slash=is_slash):
            return is_slash
        case Shell() | Builtin() | Loop():
            return False


def _place_of_option(definition: Definition, message: str, written: Sequence[Path]) -> Place | None:
    """Return where the option is written that the message names, or else its host."""
    for option in message.split("`")[1::2]:
        for path in written:
            if definition.places.has(*path, option):
                return definition.places.at(*path, option, part="key")
    return definition.places.at(*written[0])


def _check_limits(definition: Definition, loop: FSMLoop, host: Host) -> Iterator[Problem]:
    """Yield a warning for each spending limit for which the host reports no spending."""
    for limit, what in (("max_cost_usd", "cost"), ("max_tokens", "tokens")):
        if getattr(loop, limit) is not None and limit not in host.counts:
            others = (*host.counts, "max_iterations", "timeout")
            yield Problem(
                "LL233",
                f"`{limit}` cannot limit host `{host.name}`, which does not report {what}",
                _place(definition, limit),
                f"limit the run with {' or '.join(f'`{other}`' for other in others)}",
                "warning",
            )


def _check_command(
    definition: Definition, filling: Filling, name: str, root: str
) -> Iterator[Problem]:
    """Yield the problem with a slash command whose file is unreadable, or passes data to a shell."""
    from little_loops.hosts.command_files import (  # only where data meets an agent
        command_name,
        find_command_file,
        read_command,
        runs_shell_on_arguments,
    )

    if not _is_slash(filling, name):
        return
    command = command_name(filling.as_text(name, filling.loop.states[name].action or ""))
    place = _place(definition, "states", name, "action")
    if command is None:
        return
    path = find_command_file(command, root, os.environ.get("HOME"), _plugin_dirs(command))
    if path is not None and read_command(path) is None:
        shown = os.path.relpath(path, root) if path.startswith(os.path.join(root, "")) else path
        yield Problem(
            "LL422",
            f"`{shown}`, the file of `/{command}`, cannot be read, or is not a regular file",
            place,
            "replace it with a regular file that you can read, or remove it",
        )
    elif not has_data(filling, name):
        return
    elif path is None:
        yield Problem(
            "LL421",
            f"`/{command}` receives data, but its file was not found, so there is no way to know what it does with the data",
            place,
            "make sure that the command does not pass its arguments to a shell",
            "warning",
        )
    elif runs_shell_on_arguments(path):
        yield Problem(
            "LL420",
            f"`/{command}` passes its arguments to a shell, so it must not receive data",
            place,
            "pass the data in a file: `${captured.x.file}` holds the whole output",
        )


def has_data(filling: Filling, name: str) -> bool:
    """Return whether an agent's action or `context` contains more than the author's own text."""
    state = filling.loop.states[name]
    texts = [state.action or "", *(v for v in state.context.values() if isinstance(v, str))]
    filled = (filling.filled(name, text) for text in texts)
    return any(is_data(piece) for each in filled if isinstance(each, tuple) for piece in each)


def _plugin_dirs(command: str) -> tuple[str, ...]:
    """Return the directory of our own plugin, if the command is one of its commands."""
    if not command.startswith("ll:"):
        return ()
    from little_loops.hosts.plugin import plugin_directory  # our own commands

    return (plugin_directory(),)
