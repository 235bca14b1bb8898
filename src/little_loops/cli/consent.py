"""Ask once before agents may act without permission prompts.

`claude -p` asks nobody, so this question is the only one a user ever sees.  Plain shell loops need
none: typing `run` is the consent, as with make.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from little_loops.definitions.trust import AgentAction, agree, trust_of
from little_loops.errors import UsageError
from little_loops.fsm.action_types import action_type
from little_loops.fsm.schema import FSMLoop, StateConfig
from little_loops.fsm.timestamps import timestamp
from little_loops.fsm.values import author_context
from little_loops.reporting.escape import visible
from little_loops.system.clock import wall_ms
from little_loops.templates.render import TemplateError, Unresolved, splice
from little_loops.terminal.console import talk

ALLOW = "LL_ALLOW_SKIP_PERMISSIONS"
SHOWN = 100
"""How much of an action a refusal tells; whoever is asked sees all of it."""


def skip_permissions(
    loop: FSMLoop, context: Mapping[str, Any], root: str, *, allowed: bool
) -> bool:
    """Whether agents of this run may skip permission prompts; raises where nobody agreed to it."""
    wanted = actions_to_agree_to(loop, context)
    if not wanted:
        return False
    check_root_user(wanted)
    if allowed or os.environ.get(ALLOW) == "1" or trust_of(root, os.environ).covers(wanted):
        return True
    if not can_ask():
        raise _nobody_agreed(wanted)
    _ask(wanted, root)
    agree(root, wanted, timestamp(wall_ms()), os.environ)
    return True


def actions_to_agree_to(loop: FSMLoop, context: Mapping[str, Any]) -> tuple[AgentAction, ...]:
    """The agent actions of a loop that run without permission prompts."""
    merged = {**loop.context, **context}
    found = (_of_state(loop, state, merged) for state in loop.states.values())
    return tuple(dict.fromkeys(action for action in found if action is not None))


def _of_state(loop: FSMLoop, state: StateConfig, context: Mapping[str, Any]) -> AgentAction | None:
    if state.action is None:
        return None
    own = author_context(context, state)
    try:
        if action_type(state, own) == "shell":
            return None
        text = splice(state.action, own).strip()
    except (TemplateError, Unresolved):
        return None  # it will never run
    from little_loops.hosts.base import host_named  # only agents pay for hosts

    options = loop.host.under(state.host)
    host = host_named(options.host)
    return AgentAction(host.name, text) if host.needs_consent(options.permission_mode) else None


def can_ask() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty() and not os.environ.get("CI")


def _ask(wanted: Sequence[AgentAction], root: str) -> None:
    talk("This loop runs agents that act without asking for permission, in")
    talk(f"  {visible(root, newlines=False)}")
    for action in wanted:
        talk(f"  {visible(str(action), newlines=False)}")
    talk("They can run any command and change any file you can.")
    sys.stderr.write("Let them, from now on in this project? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError(
            "nothing was run",
            "a milder `permission_mode` (`acceptEdits`, `plan`) needs no consent",
        )


def _nobody_agreed(wanted: Sequence[AgentAction]) -> UsageError:
    from little_loops.hosts.json_lines import one_line  # only to refuse

    listed = "; ".join(f"`{one_line(str(action), SHOWN)}`" for action in wanted)
    return UsageError(
        f"this loop runs agents without permission prompts, and nobody has agreed to that: {listed}",
        "agree once with `ll-loop trust`, for this run with `--allow-skip-permissions` "
        f"or `{ALLOW}=1`, or set a milder `permission_mode` in the loop",
    )


def check_root_user(wanted: Sequence[AgentAction]) -> None:
    of_claude = any(action.host == "claude" for action in wanted)
    if of_claude and os.geteuid() == 0 and os.environ.get("IS_SANDBOX") != "1":
        raise UsageError(
            "`claude` refuses to skip permissions as root",
            "run as another user, or say `IS_SANDBOX=1` if this machine is a sandbox",
        )
