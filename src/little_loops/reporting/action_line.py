"""An action on one line: `running pytest -q...`.

A state's `label` is shown if it has one.  Else a script is shown by the line that does the work:
checks that a program is installed, settings and comments before it say little about what runs.

Not here: the lines of all the other events (`lines`).
"""

from __future__ import annotations

import re

from little_loops.fsm.actions import Action, Agent, Builtin, Shell, action_of_event
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
    text = _name_or_line(event)
    if event.filled is not None:
        text = re.sub(_RUN_FILE, r"\1", text)
    if len(text) > MAX_SHOWN:
        words = text[:MAX_SHOWN].rsplit(" ", 1)[0]
        text = words if len(words) > MAX_SHOWN // 2 else text[:MAX_SHOWN]
    if text.endswith(".") and event.label is None and isinstance(_action(event), Shell):
        return f"running {text} ..."  # `ruff check .`: that dot is an operand
    return f"running {text.rstrip(' .:…')}..."


def shown_action(event: ActionStart) -> str:
    """The action in one line, however long."""
    if event.label is not None:
        return _flat(event.label)
    match _action(event):
        case Shell(script):  # with its references: values are handed to it in the environment
            return _flat(work_line(script))
        case Agent() | Builtin():
            return _flat((event.filled or event.action).strip().partition("\n")[0])


def _name_or_line(event: ActionStart) -> str:
    """The action in one line; of a slash command only the name, which says enough."""
    text = shown_action(event)
    match _action(event):
        case Agent(is_slash=True) if event.label is None:
            return text.partition(" ")[0]
        case _:
            return text


def prompt_mark(event: ActionStart) -> str:
    """What stands before the lines of an action: a shell's prompt, or a quotation."""
    return "$" if isinstance(_action(event), Shell) else ">"


def _action(event: ActionStart) -> Action:
    return action_of_event(event.action, event.action_type)


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
