"""Warn of actions that would not do what they look like, or would do it twice.

Not here: what hosts say about their options and commands; that takes more than a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from little_loops.authoring.inspection import Inspection
from little_loops.authoring.messages import shown
from little_loops.authoring.texts import Text
from little_loops.errors import Problem
from little_loops.fsm.schema import CURRENT, StateConfig

# Texts, not compiled: `re` compiles them when a loop has something to look at.
# A whole word where a command begins; a longer path is a program, not a slash command.
_SLASH_IN_SCRIPT = (
    r"(?m)(?:(?<!\\\n)^|[;&|({]|\b(?:then|else|do)\s)[ \t]*(/[\w-]+(?::[\w-]+)*)(?=[\s;&|)]|$)"
)
# Options (`--release`), directories (`target/release/`) and longer words do not deploy anything.
_LOOKS_LIKE_A_DEPLOY = r"(?<![\w-])(?:(?:deploy|publish|push|migrate)(?![\w/])|release(?![\w/-]))"
_DEPLOY_WORDS = frozenset({"deploy", "publish", "push", "release", "migrate"})


def check_scripts(of: Inspection) -> Iterator[Problem]:
    """A slash command inside a script is no command to any shell."""
    for name, kind in of.kinds.items():
        action = of.loop.states[name].action or ""
        if kind == "shell" and "/" in action:
            for command in dict.fromkeys(re.findall(_SLASH_IN_SCRIPT, action)):
                yield of.inside(
                    "LL305",
                    f"`{shown(command)}` looks like a slash command, but stands in a shell action",
                    Text(action, ("states", name, "action")),
                    command,
                    "give it a state of its own, with the slash command as its whole action",
                    "warning",
                )


def check_deploys(of: Inspection) -> Iterator[Problem]:
    """What must not run twice says what is to happen when it is cut short."""
    loop = of.loop
    if loop.on_interrupt != CURRENT or loop.on_error is not None:
        return
    for name in of.kinds:
        state = loop.states[name]
        handled = state.on_interrupt is not None or state.on_error is not None
        if not handled and looks_like_a_deploy(name, state):
            yield of.warning(
                "LL306",
                f"state `{name}` looks like one that must not run twice, but would after a crash",
                *("states", name),
                help="add `on_interrupt: <state>` (or `$error`), or `on_error: <state>`; "
                "`on_interrupt: $current` says that it may",
            )


def looks_like_a_deploy(name: str, state: StateConfig) -> bool:
    if not _DEPLOY_WORDS.isdisjoint(re.split(r"[-_]", name.lower())):
        return True
    action = (state.action or "").lower()
    mentioned = any(word in action for word in _DEPLOY_WORDS)
    return mentioned and re.search(_LOOKS_LIKE_A_DEPLOY, action) is not None
