"""How an action runs: in a shell, as an agent's slash command, or as its prompt."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from little_loops.fsm.schema import ActionType, StateConfig
from little_loops.templates.parse import SLASH_COMMAND
from little_loops.templates.render import splice


def action_type(state: StateConfig, context: Mapping[str, Any]) -> ActionType:
    """What the author declared, or what the text is once the author's own values are in it."""
    if state.action_type is not None:
        return state.action_type
    assert state.action is not None, "only an action has a type"
    return type_of_text(splice(state.action, context))


def type_of_text(action: str) -> ActionType:
    return "slash" if re.match(SLASH_COMMAND, action.lstrip()) else "shell"
