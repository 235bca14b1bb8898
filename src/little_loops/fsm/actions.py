"""What a state runs, as a type: a shell script, an agent's turn, a built-in action, or other loops.

Files and events describe an action with two fields, `action` and `action_type`. They are parsed
here, once; all other code matches on the type, so that mypy finds every place a new kind needs.

Not here: running actions (`engine`), building the command line of an agent CLI (`hosts`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from little_loops.fsm.schema import ActionType, StateConfig
from little_loops.light_modules import re
from little_loops.light_typing import Any, assert_never, get_args
from little_loops.records import NamedTuple
from little_loops.templates.parse import SLASH_COMMAND


class Shell(NamedTuple):
    script: str


class Agent(NamedTuple):
    """A slash command or a prompt for an agent CLI."""

    text: str
    is_slash: bool


class Builtin(NamedTuple):
    """A built-in action, by name; only `compile` writes these."""

    name: str


class Loop(NamedTuple):
    """A run of another loop, by the name of that loop; the state has its machine."""

    name: str


Action = Shell | Agent | Builtin | Loop

TYPES: tuple[ActionType, ...] = get_args(ActionType)
BUILTINS = ("relay.prepare", "relay.settle", "relay.report")


def parse_action(text: str, declared: ActionType | None) -> Action:
    """Return the action for a text and its declared type. Without a type, a text that starts with a
    slash command is for an agent, and any other is a shell script."""
    match declared:
        case "shell":
            return Shell(text)
        case "slash" | "prompt":
            return Agent(text, declared == "slash")
        case "builtin":
            return Builtin(text)
        case "loop":
            return Loop(text)
        case None:
            first = text.lstrip()
            is_slash = first.startswith("/") and re.match(SLASH_COMMAND, first) is not None
            return Agent(text, is_slash) if is_slash else Shell(text)
        case _:
            assert_never(declared)


@lru_cache(maxsize=8)  # cached, because each line about an action asks for it
def action_of_event(text: str, action_type: str) -> Action:
    """Return the action of an event. An unknown type, from a newer version, becomes `Shell`."""
    declared: Any = action_type
    return parse_action(text, declared if declared in TYPES else "shell")


def action_of(state: StateConfig, context: Mapping[str, Any]) -> Action:
    """Return the action of a state; `context` is filled in first, because a value may decide its
    type.

    Raises `Unresolved` or `TemplateError` if it refers to something that does not exist.
    """
    from little_loops.templates.render import splice  # readers of events do not need templates

    assert state.action is not None, "only a state with an action has a type of action"
    return parse_action(splice(state.action, context), state.action_type)


def type_of(action: Action) -> ActionType:
    """Return the value of `action_type` for this action."""
    match action:
        case Shell():
            return "shell"
        case Agent():
            return "slash" if action.is_slash else "prompt"
        case Builtin():
            return "builtin"
        case Loop():
            return "loop"
        case _:
            assert_never(action)


def text_of(action: Action) -> str:
    """Return the value of `action` for this action."""
    match action:
        case Shell():
            return action.script
        case Agent():
            return action.text
        case Builtin() | Loop():
            return action.name
        case _:
            assert_never(action)


def prompt_sign(action: Action, host: str) -> str:
    """Return what screens print before the action to show who runs it; empty for a built-in
    action."""
    match action:
        case Shell():
            return "$ "
        case Agent():
            return f"{host}: "
        case Builtin():
            return ""
        case Loop():
            return "loop "
        case _:
            assert_never(action)


def is_shells(action: Action | None) -> bool:
    """Return whether a shell runs this action, so that its text is a script; False for None."""
    match action:
        case Shell():
            return True
        case Agent() | Builtin() | Loop() | None:
            return False
        case _:
            assert_never(action)


def is_agents(action: Action | None) -> bool:
    """Return whether an agent runs this action, so that it costs tokens and can give a verdict;
    False for None."""
    match action:
        case Agent():
            return True
        case Shell() | Builtin() | Loop() | None:
            return False
        case _:
            assert_never(action)


def starts_a_loop(action: Action | None) -> bool:
    """Return whether this action is other runs, so that it may pause with them; False for None."""
    match action:
        case Loop():
            return True
        case Shell() | Agent() | Builtin() | None:
            return False
        case _:
            assert_never(action)


def is_builtin(action: Action) -> bool:
    """Return whether this is a built-in action, of which only the result is displayed."""
    match action:
        case Builtin():
            return True
        case Shell() | Agent() | Loop():
            return False
        case _:
            assert_never(action)
