"""Ask once before agents may act without permission prompts, and refuse a run whose agent programs
are missing.

`claude -p` asks nobody, so this is the only question that a user ever sees. Plain shell loops need
no consent: typing `run` is the consent, as with make.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from little_loops.definitions.agent_programs import missing_agent, refusal
from little_loops.definitions.consent import actions_needing_consent
from little_loops.errors import UsageError
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.timestamps import timestamp
from little_loops.light_typing import TYPE_CHECKING, Any
from little_loops.reporting.escape import visible
from little_loops.system.clock import wall_ms
from little_loops.terminal.console import can_ask, talk

if TYPE_CHECKING:
    from little_loops.definitions.trust import AgentAction, Trust

ALLOW = "LL_ALLOW_SKIP_PERMISSIONS"
SHOWN = 100
"""The maximum length of an action in an error message; the question shows all of it."""


def skip_permissions(
    loop: FSMLoop, context: Mapping[str, Any], root: str, *, allowed: bool, has_file: bool = True
) -> bool:
    """Return whether agents of this run skip permission prompts; ask for consent and record it.

    False if none needs consent, or if there is no consent yet and an agent program is missing.
    Raises `UsageError` if the user refuses or cannot be asked, if the run needs a program that is
    missing, and for `claude` as root.
    """
    is_installed = _check_programs(loop, context, root)
    wanted = actions_needing_consent(loop, context, root)
    if not wanted:
        return False
    check_root_user(wanted)
    from little_loops.definitions.trust import agree, trust_of  # only agents need consent
    from little_loops.runs.editing import is_allowed

    trust = trust_of(root, os.environ)
    if allowed or os.environ.get(ALLOW) == "1" or trust.covers(wanted):
        return True
    if has_file and is_allowed(root, loop.name, wall_ms(), os.environ):
        return True
    if not is_installed:
        return False  # do not ask about an agent that is not installed
    if not can_ask():
        raise _without_consent(wanted, trust, has_file=has_file)
    _ask(wanted, trust)
    agree(root, wanted, timestamp(wall_ms()), os.environ)
    return True


def _check_programs(loop: FSMLoop, context: Mapping[str, Any], root: str) -> bool:
    """Return whether all agents can be run; print a warning about one that cannot.

    Raises `UsageError` if the run certainly needs it.
    """
    missing = missing_agent(loop, context, root, os.environ.get("PATH"))
    if missing is None:
        return True
    if (error := refusal(loop, missing)) is not None:
        raise error
    talk(f"warning: {missing.why}; state `{missing.state}` needs it")
    return False


def _ask(wanted: Sequence[AgentAction], trust: Trust) -> None:
    """Ask the user at the terminal; raise `UsageError` unless the answer is yes."""
    talk("This loop runs agents that act without asking for permission, in")
    talk(f"  {visible(trust.project, newlines=False)}")
    for action in wanted:
        for line in described(action, trust):
            talk(f"  {line}")
    talk("They can run any command and change any file you can.")
    sys.stderr.write("Always allow this in this project? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError(
            "nothing was run",
            "a safer `permission_mode` (`acceptEdits`, `plan`) needs no consent",
        )


def described(action: AgentAction, trust: Trust) -> list[str]:
    """Return the lines about an action for the question: its text, its settings, what has changed."""
    first, *others = visible(str(action)).splitlines() or [""]
    lines = [first, *(f"  {line}" for line in others)]
    changes = trust.changes(action)
    if changes:
        lines.append("  changed since you agreed to it:")
        return lines + [f"    {visible(change, newlines=False)}" for change in changes]
    return lines + [
        f"  {visible(f'{name}: {value}', newlines=False)}" for name, value in action.settings
    ]


def _without_consent(wanted: Sequence[AgentAction], trust: Trust, *, has_file: bool) -> UsageError:
    """Return the error for actions that nobody has agreed to."""
    from little_loops.hosts.json_lines import one_line  # only to refuse

    missing = [action for action in wanted if action not in trust.actions]
    listed = "; ".join(f"`{one_line(str(action), SHOWN)}`" for action in missing)
    changes = [change for action in missing for change in trust.changes(action)]
    if changes:
        listed += f" (changed since you agreed to it: {one_line('; '.join(changes), SHOWN)})"
    how = (
        "to agree permanently, run `ll-loop trust`; for this run only, use"
        if has_file
        else "agree with"
    )
    safer = "in the loop" if has_file else "with `ll-loop until --permission-mode acceptEdits`"
    return UsageError(
        f"this loop runs agents without permission prompts, and you have not agreed to that: {listed}",
        f"{how} `--allow-skip-permissions` or `{ALLOW}=1`; or set a safer `permission_mode` {safer}",
    )


def check_root_user(wanted: Sequence[AgentAction]) -> None:
    """Raise `UsageError` if `claude` would refuse to skip permission prompts as root."""
    of_claude = any(action.host == "claude" and not action.can_only_read for action in wanted)
    if of_claude and os.geteuid() == 0 and os.environ.get("IS_SANDBOX") != "1":
        raise UsageError(
            "`claude` refuses to skip permission prompts when run as root",
            "run as another user, or set `IS_SANDBOX=1` if this machine is a sandbox",
        )
