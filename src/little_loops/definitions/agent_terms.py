"""Everything that an agent gets besides its text, for the user's consent.

The author's own values are filled in, data stays a reference, and the caller's environment is not
part of it: consent is compared with what the files say, in whichever file it is written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from little_loops.fsm.schema import FSMLoop, HostOptions, StateConfig
from little_loops.fsm.values import author_context
from little_loops.hosts.command_files import command_name, find_command_file, read_command
from little_loops.light_typing import Any
from little_loops.templates.render import splice

Settings = tuple[tuple[str, str], ...]


def settings_of(
    loop: FSMLoop,
    state: StateConfig,
    options: HostOptions,
    context: Mapping[str, Any],
    text: str,
    root: str,
) -> Settings:
    """Return the settings of an agent's action, as sorted pairs of name and text; without unset
    ones. `options` are those of the agent, which may be one of several."""
    own = author_context(context, state)
    env = {**loop.env, **state.env, **(options.env or {})}
    found: dict[str, Any] = {
        "context": {name: _spliced(value, own) for name, value in state.context.items()},
        "environment": {name: _spliced(value, own) for name, value in env.items()},
        "directory": state.cwd or loop.cwd,
        "slash command": _command_file(text, root),
        **_host_settings(options),
    }
    return tuple(sorted((name, _text(value)) for name, value in found.items() if value))


def _host_settings(options: HostOptions) -> dict[str, Any]:
    """Return the host options that consent covers."""
    return {
        "mode": options.permission_mode,
        "model": options.model,
        "allow": list(options.allow or ()),
        "deny": list(options.deny or ()),
        "arguments": list(options.args or ()),
        "command": list(options.command or ()),
    }


def _spliced(value: Any, context: Mapping[str, Any]) -> Any:
    return splice(value, context) if isinstance(value, str) else value


def _command_file(text: str, root: str) -> str | None:
    """Return the hash of the project's own file for a slash command.

    None if the text is not a slash command, or the project has no readable file for it.
    """
    name = command_name(text)
    path = find_command_file(name, root, home=None) if name is not None else None
    content = read_command(path) if path is not None else None
    return None if content is None else f"sha256 {hashlib.sha256(content).hexdigest()[:16]}"


def _text(value: Any) -> str:
    return (
        value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)
    )
