"""Describe an action on one line: `running pytest -q...`, `running "Fix the code."...`.

A state's `label` is used if it has one. Otherwise a script is represented by the line that does the
work: checks for installed programs, settings and comments before it say little about what runs.

Not here: the lines of all the other events (`lines`).
"""

from __future__ import annotations

from functools import lru_cache

from little_loops.fsm.actions import Action, Agent, Builtin, Loop, Shell, action_of_event, is_shells
from little_loops.fsm.events import ActionStart
from little_loops.light_modules import re

MAX_SHOWN = 80
"""Maximum length; with the state's name, this is wider than most terminals."""

_SETUP = r"#|(?:set|shopt|export|cd|source|\.|umask|trap)\s[^&|;]*$|\w+=[^\s(]*$"
_GUARD = r".*\|\|\s*(?:exit\b|return\b|\{.*\bexit\b)"
_RUN_FILE = r"(?<!\S)/\S*/(\.loops/\.running/)"
"""A file of the run, which is shown relative to the project to save space."""
_CAPTURED = r"\w+=\$\((?P<command>.+?)(?:\s+2>&1)?\)(?:;.*)?$"


@lru_cache(maxsize=8)  # cached, because the log and the screen have the same lines
def running(event: ActionStart) -> str:
    """Return `running ACTION...` for an action that starts, shortened to one line; a prompt is quoted."""
    text = _name_or_line(event)
    if event.filled is not None and "/.loops/.running/" in text:
        text = re.sub(_RUN_FILE, r"\1", text)
    short = _shortened(text)
    if event.label is None and _is_prompt(_action(event)):
        return f'running "{text if short == text else short + "…"}"...'
    return _running_plainly(short, event)


def _running_plainly(text: str, event: ActionStart) -> str:
    if text.endswith(".") and event.label is None and is_shells(_action(event)):
        return f"running {text} ..."  # in `ruff check .`, the dot is an operand
    return f"running {text.rstrip(' .:…')}..."


def _shortened(text: str) -> str:
    if len(text) <= MAX_SHOWN:
        return text
    words = text[:MAX_SHOWN].rsplit(" ", 1)[0]
    return words if len(words) > MAX_SHOWN // 2 else text[:MAX_SHOWN]


def _is_prompt(action: Action) -> bool:
    match action:
        case Agent(is_slash=is_slash):
            return not is_slash
        case _:
            return False


def shown_action(event: ActionStart) -> str:
    """Return the action on one line, however long."""
    if event.label is not None:
        return _flat(event.label)
    match _action(event):
        case Shell(script):  # with its references, because values are passed in the environment
            return _flat(work_line(script))
        case Agent() | Builtin() | Loop():
            return _flat((event.filled or event.action).strip().partition("\n")[0])


def _name_or_line(event: ActionStart) -> str:
    """Return the action on one line; only the name for a slash command."""
    text = shown_action(event)
    match _action(event):
        case Agent(is_slash=True) if event.label is None:
            return text.partition(" ")[0]
        case _:
            return text


def prompt_mark(event: ActionStart) -> str:
    """Return what precedes the lines of an action: `$` for a shell, `>` for an agent."""
    return "$" if is_shells(_action(event)) else ">"


def _action(event: ActionStart) -> Action:
    return action_of_event(event.action, event.action_type)


def work_line(script: str) -> str:
    """Return the first line of a script that is more than preparation, or else its first line; of
    `x=$(command)`, only the command. A script of one line is returned unchanged."""
    lines = [line.strip().removesuffix("\\") for line in script.strip().splitlines()]
    if len(lines) < 2:
        return script
    work = (line for line in lines if line and not re.match(f"{_SETUP}|{_GUARD}", line))
    found = next(work, lines[0])
    captured = re.match(_CAPTURED, found)
    return captured["command"] if captured else found


def _flat(text: str) -> str:
    return " ".join(text.split())
