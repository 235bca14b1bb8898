"""What a state does, as a type: a shell's script, an agent's turn, or an action of our own.

A file says it with two fields, `action` and `action_type`, and so do the events.  They are read
here, once; everything else matches on the type, so that a new kind of action is missing nowhere.

Not here: running any of them (`engine`), what an agent CLI is given (`hosts`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, assert_never, get_args

from little_loops.fsm.schema import ActionType, StateConfig
from little_loops.records import NamedTuple
from little_loops.templates.parse import SLASH_COMMAND


class Shell(NamedTuple):
    script: str


class Agent(NamedTuple):
    """A slash command or a prompt for an agent CLI."""

    text: str
    is_slash: bool


class Builtin(NamedTuple):
    """An action of our own, by its name; only `compile` writes these."""

    name: str


Action = Shell | Agent | Builtin

TYPES: tuple[ActionType, ...] = get_args(ActionType)
BUILTINS = ("relay.prepare", "relay.settle", "relay.report")


def parse_action(text: str, declared: ActionType | None) -> Action:
    """An action by its text and its declared type; without one the text decides."""
    match declared:
        case "shell":
            return Shell(text)
        case "slash" | "prompt":
            return Agent(text, declared == "slash")
        case "builtin":
            return Builtin(text)
        case None:
            first = text.lstrip()
            is_slash = first.startswith("/") and re.match(SLASH_COMMAND, first) is not None
            return Agent(text, is_slash) if is_slash else Shell(text)
        case _:
            assert_never(declared)


def action_of_event(text: str, action_type: str) -> Action:
    """The action of an event; one of a newer version's types is shown as a command."""
    declared: Any = action_type
    return parse_action(text, declared if declared in TYPES else "shell")


def action_of(state: StateConfig, context: Mapping[str, Any]) -> Action:
    """The action of a state with the author's own values in it, which may decide its type.

    Raises `Unresolved` or `TemplateError` when it names what is not there.
    """
    from little_loops.templates.render import splice  # readers of events need no templates

    assert state.action is not None, "only a state with an action has a type of action"
    return parse_action(splice(state.action, context), state.action_type)


def type_of(action: Action) -> ActionType:
    """The word for it in files and events."""
    match action:
        case Shell():
            return "shell"
        case Agent():
            return "slash" if action.is_slash else "prompt"
        case Builtin():
            return "builtin"
        case _:
            assert_never(action)


def text_of(action: Action) -> str:
    """The text of it in files and events."""
    match action:
        case Shell():
            return action.script
        case Agent():
            return action.text
        case Builtin():
            return action.name
        case _:
            assert_never(action)


def prompt_sign(action: Action, host: str) -> str:
    """What stands before it on a screen: who is given it."""
    match action:
        case Shell():
            return "$ "
        case Agent():
            return f"{host}: "
        case Builtin():
            return ""
        case _:
            assert_never(action)


def is_shells(action: Action) -> bool:
    """Whether a shell reads its text: what may stand in it depends on that."""
    match action:
        case Shell():
            return True
        case Agent() | Builtin():
            return False
        case _:
            assert_never(action)


def is_agents(action: Action) -> bool:
    """Whether an agent runs it: what agents use up, and what may be asked of them, depends on it."""
    match action:
        case Agent():
            return True
        case Shell() | Builtin():
            return False
        case _:
            assert_never(action)
