"""Check actions: who runs them, and what would go wrong when they run twice or not at all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from little_loops.authoring.inspection import Inspection
from little_loops.authoring.messages import shown
from little_loops.authoring.texts import Path, Text
from little_loops.errors import Problem
from little_loops.fsm.schema import CURRENT, HostOptions, StateConfig

# A whole word where a command begins; a longer path is a program, not a slash command.
_SLASH_IN_SCRIPT = re.compile(
    r"(?:(?<!\\\n)^|[;&|({]|\b(?:then|else|do)\s)[ \t]*(/[\w-]+(?::[\w-]+)*)(?=[\s;&|)]|$)",
    re.MULTILINE,
)
# Options (`--release`), directories (`target/release/`) and longer words do not deploy anything.
_LOOKS_LIKE_A_DEPLOY = re.compile(
    r"(?<![\w-])(?:(?:deploy|publish|push|migrate)(?![\w/])|release(?![\w/-]))", re.IGNORECASE
)
_DEPLOY_WORDS = frozenset({"deploy", "publish", "push", "release", "migrate"})


class HostRules(NamedTuple):
    """What the hosts say about themselves; handed in, because nothing here may know them."""

    has_slash: Callable[[str], bool]
    wrong_with: Callable[[HostOptions], list[str]]


def check_scripts(of: Inspection) -> Iterator[Problem]:
    """A slash command inside a script is no command to any shell."""
    for name, kind in of.kinds.items():
        action = of.loop.states[name].action or ""
        if kind == "shell" and "/" in action:
            for command in dict.fromkeys(_SLASH_IN_SCRIPT.findall(action)):
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
    words = re.split(r"[-_]", name.lower())
    named = not _DEPLOY_WORDS.isdisjoint(words)
    return named or bool(_LOOKS_LIKE_A_DEPLOY.search(state.action or ""))


def check_hosts(of: Inspection, rules: HostRules) -> Iterator[Problem]:
    """Each agent can be started as it is described, and understands its action."""
    loop = of.loop
    inheriting = any(loop.states[name].host is None for name in of.agents)
    if inheriting or loop.host != HostOptions():
        yield from _options(of, rules, loop.host, ("host",))
    for name, state in loop.states.items():
        host = loop.host.under(state.host)
        if state.host is not None:
            yield from _options(of, rules, host, ("states", name, "host"))
        called = host.name or "claude"
        if of.kinds.get(name) == "slash" and not rules.has_slash(called):
            yield of.error(
                "LL213",
                f"host `{called}` has no slash commands, and the action of state `{name}` is one",
                *("states", name, "action"),
                help="write it as a prompt (`action_type: prompt`), or use `host: claude`",
            )


def _options(of: Inspection, rules: HostRules, host: HostOptions, path: Path) -> Iterator[Problem]:
    for message in rules.wrong_with(host):
        yield of.error("LL214", message, *path)
