"""Find the file of a slash command, and check whether it runs a shell on its arguments.

A command file may contain `` !`grep $ARGUMENTS …` ``: there the arguments are shell code, so the
output of a command must not get into them.

Not here: what counts as data (`templates.parse`), what is reported about it (`cli`,
`engine.agent_actions`).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Sequence

_NAME = re.compile(r"/([\w-]+(?::[\w-]+)*)")
_SHELL_BLOCK = re.compile(r"!`[^`]*`|^```!.*?^```", re.DOTALL | re.MULTILINE)
_ARGUMENT = re.compile(r"\$(?:ARGUMENTS|\d|\{?[A-Za-z_]\w*)")
MAX_COMMAND_BYTES = 1 << 20


def command_name(action: str) -> str | None:
    """Return the name of a slash command: `ll:check` for `/ll:check types`; None for other text."""
    found = _NAME.match(action.lstrip())
    return found[1] if found else None


def find_command_file(
    name: str, project: str, home: str | None, plugin_dirs: Sequence[str] = ()
) -> str | None:
    """Return the first existing file for a slash command: of the project, the user, or a plugin.

    None if there is none. Without `home`, the user's files are not searched.
    """
    places = _candidates(name.split(":"), project, home, plugin_dirs)
    return next((path for path in places if os.path.exists(path)), None)


def _candidates(
    parts: Sequence[str], project: str, home: str | None, plugin_dirs: Sequence[str]
) -> Iterable[str]:
    """Yield the paths where the file of a command may be, in order of precedence."""
    for base in (project, home):
        if base is not None:
            yield os.path.join(base, ".claude", "commands", *parts) + ".md"
            if len(parts) == 1:
                yield os.path.join(base, ".claude", "skills", parts[0], "SKILL.md")
    for directory in plugin_dirs if len(parts) == 2 else ():
        yield os.path.join(directory, "commands", parts[1]) + ".md"
        yield os.path.join(directory, "skills", parts[1], "SKILL.md")


def read_command(path: str) -> bytes | None:
    """Return up to 1 MiB of a command file; None if it is unreadable or no regular file."""
    try:
        # Opening a named pipe would block until its other end is opened.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
            is_file = stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
            return stream.read(MAX_COMMAND_BYTES) if is_file else None
    except OSError:
        return None


def runs_shell_on_arguments(path: str) -> bool:
    """Return whether a shell block in the command file contains one of its arguments."""
    text = (read_command(path) or b"").decode("utf-8", "replace")
    return any(_ARGUMENT.search(block[0]) for block in _SHELL_BLOCK.finditer(text))


def shell_runs_arguments(action: str, project: str, home: str | None) -> bool:
    """Return whether the file of a slash command is found and runs a shell on its arguments."""
    name = command_name(action)
    path = None if name is None else find_command_file(name, project, home)
    return path is not None and runs_shell_on_arguments(path)
