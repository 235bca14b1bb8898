"""An action on one line: `running pytest -q...`.

A state's `label` is shown if it has one.  Else a script is shown by the line that does the work:
checks that a program is installed, settings and comments before it say little about what runs.

Not here: the lines of all the other events (`lines`).
"""

from __future__ import annotations

import re

from little_loops.fsm.actions import Agent, Builtin, Shell, action_of_event
from little_loops.fsm.events import ActionStart

MAX_SHOWN = 80
"""Characters; with the state's name before it this is more than one row of most terminals."""

_SETUP = r"#|(?:set|shopt|export|cd|source|\.|umask|trap)\s[^&|;]*$|\w+=[^\s(]*$"
_GUARD = r".*\|\|\s*(?:exit\b|return\b|\{.*\bexit\b)"
_RUN_FILE = r"(?<!\S)/\S*/(\.loops/\.running/)"
"""A file of the run: as seen from the project it is short enough to leave room for other words."""
_CAPTURED = r"\w+=\$\((?P<command>.+?)(?:\s+2>&1)?\)(?:;.*)?$"


def running(event: ActionStart) -> str:
    """What is running, with the dots that say so."""
    text = shown_action(event)
    if event.label is None and event.action_type == "slash":
        text = text.partition(" ")[0]  # its name says enough
    if event.filled is not None:
        text = re.sub(_RUN_FILE, r"\1", text)
    if len(text) > MAX_SHOWN:
        words = text[:MAX_SHOWN].rsplit(" ", 1)[0]
        text = words if len(words) > MAX_SHOWN // 2 else text[:MAX_SHOWN]
    if event.label is None and event.action_type == "shell" and text.endswith("."):
        return f"running {text} ..."  # `ruff check .`: that dot is an operand
    return f"running {text.rstrip(' .:…')}..."


def shown_action(event: ActionStart) -> str:
    """The action in one line, however long."""
    if event.label is not None:
        return _flat(event.label)
    is_script = event.action_type == "shell"  # its values do not stand in it
    text = event.action if is_script else event.filled or event.action
    match action_of_event(text, event.action_type):
        case Shell(script):
            return _flat(work_line(script))
        case Agent(text) | Builtin(text):
            return _flat(text.strip().partition("\n")[0])


def work_line(script: str) -> str:
    """The first line of a script that is more than preparation; its first line if none is."""
    lines = [line.strip().removesuffix("\\") for line in script.strip().splitlines()]
    if len(lines) < 2:
        return script
    work = (line for line in lines if line and not re.match(f"{_SETUP}|{_GUARD}", line))
    found = next(work, lines[0])
    captured = re.match(_CAPTURED, found)
    return captured["command"] if captured else found


def _flat(text: str) -> str:
    return " ".join(text.split())
