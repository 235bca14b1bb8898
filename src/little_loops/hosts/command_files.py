"""Find the file behind a slash command, and see whether it would run a shell on its arguments.

A command file may hold `` !`grep $ARGUMENTS …` ``: there the arguments are shell code, so what a
command printed must not get into them.

Not here: what counts as data (`templates.parse`), what is said about it (`cli`, `engine.agent_actions`).
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
    """`ll:check_code` of `/ll:check_code types`."""
    found = _NAME.match(action.lstrip())
    return found[1] if found else None


def find_command_file(
    name: str, project: str, home: str | None, plugin_dirs: Sequence[str] = ()
) -> str | None:
    places = _places(name.split(":"), project, home, plugin_dirs)
    return next((path for path in places if os.path.exists(path)), None)


def _places(
    parts: Sequence[str], project: str, home: str | None, plugin_dirs: Sequence[str]
) -> Iterable[str]:
    for base in (project, home):
        if base is not None:
            yield os.path.join(base, ".claude", "commands", *parts) + ".md"
            if len(parts) == 1:
                yield os.path.join(base, ".claude", "skills", parts[0], "SKILL.md")
    for directory in plugin_dirs if len(parts) == 2 else ():
        yield os.path.join(directory, "commands", parts[1]) + ".md"
        yield os.path.join(directory, "skills", parts[1], "SKILL.md")


def read_command(path: str) -> bytes | None:
    """What a command file says; None if it cannot be read."""
    try:
        # A named pipe would keep us waiting for its other end.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
            is_file = stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
            return stream.read(MAX_COMMAND_BYTES) if is_file else None
    except OSError:
        return None


def runs_shell_on_arguments(path: str) -> bool:
    text = (read_command(path) or b"").decode("utf-8", "replace")
    return any(_ARGUMENT.search(block[0]) for block in _SHELL_BLOCK.finditer(text))
