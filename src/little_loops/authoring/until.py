"""A goal loop without a file: what `ll-loop until CHECK --fix TEXT` stands for, as a document.

The document is the short form of a goal (`paradigms.check_fix`), so everything after it is the same
as for a file, and `--save` can write it as one.

Not here: proposing a fix, choosing limits, starting the run (`cli.until`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from little_loops.fsm.actions import is_agents, parse_action
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import UNTIL
from little_loops.fsm.values import seconds_text
from little_loops.light_typing import Any
from little_loops.records import NamedTuple

SHELL = "$ "
MOST_WORDS = 4
MOST_CHARACTERS = 60
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


class UntilLimits(NamedTuple):
    """What a run may use; None for a limit that it does not have."""

    max_iterations: int | None = None
    timeout: float | None = None
    max_cost_usd: float | None = None


class UntilCommand(NamedTuple):
    """What the user typed, apart from limits: the same again is the same command."""

    check: str
    fix: str
    host: str | None = None
    model: str | None = None
    protect: tuple[str, ...] = ()
    scope: tuple[str, ...] = ()
    permission_mode: str | None = None
    allow: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        lists = {"protect": self.protect, "scope": self.scope, "allow": self.allow}
        return {**self._asdict(), **{field: list(words) for field, words in lists.items()}}

    def host_options(self) -> dict[str, Any]:
        """Return the options of the agent as the `host` of a loop file."""
        options = {
            "name": self.host,
            "model": self.model,
            "permission_mode": self.permission_mode,
            "allow": list(self.allow),
        }
        return {field: option for field, option in options.items() if option}


def run_name_of(check: str) -> str:
    """Return `until-` and the first words of the check, without its program's directory."""
    words = check.split()
    while words and _ASSIGNMENT.match(words[0]):
        words.pop(0)
    if words:
        words[0] = words[0].rpartition("/")[2]
    found = re.findall(r"[A-Za-z0-9]+", " ".join(words))[:MOST_WORDS] or ["check"]
    return f"{UNTIL}{'-'.join(found)}"[:MOST_CHARACTERS].lower().rstrip("-")


def fix_of(text: str, check: str) -> str | dict[str, Any]:
    """Return the fix as in a loop file: `$ CMD` is a shell command, `/name` a slash command, and
    anything else a prompt."""
    if text.startswith(SHELL):
        return {"action": text.removeprefix(SHELL), "action_type": "shell"}
    if is_agents(parse_action(text, None)):
        return text
    # The agent has seen neither the command nor its output.
    context = {"check": check} if "\n" not in check and "${" not in check else {}
    return {
        "action": text,
        "action_type": "prompt",
        "context": {**context, "check_output": "${prev.log_file}"},
    }


def document(
    name: str, command: UntilCommand, limits: UntilLimits, *, clean: bool = False
) -> dict[str, Any]:
    """Return the loop as the data of a loop file."""
    evidence = {"protect": list(command.protect), "clean": clean}
    fields = {
        "name": name,
        "check": command.check,
        "fix": fix_of(command.fix, command.check),
        "max_iterations": limits.max_iterations,
        "timeout": limits.timeout and _as_written(limits.timeout),
        "max_cost_usd": limits.max_cost_usd and _whole(limits.max_cost_usd),
        "host": command.host_options(),
        "scope": list(command.scope),
        "evidence": {key: value for key, value in evidence.items() if value},
    }
    return {key: value for key, value in fields.items() if value}


def _as_written(seconds: float) -> str | float:
    return seconds_text(seconds) if seconds % 1 == 0 else seconds


def _whole(number: float) -> float:
    return int(number) if number % 1 == 0 else number


def bound(loop: FSMLoop, counts: Sequence[str], agent: str | None) -> str:
    """Describe the limits: `at most 10 iterations, 2 h, $5`.

    `counts` are the limits that the agent's host can count; `agent` is None if no agent runs.
    """
    number = loop.max_iterations
    held = [f"{number:,} iteration{'' if number == 1 else 's'}"]
    if loop.timeout is not None:
        held.append(_time(loop.timeout))
    if agent is not None and loop.max_cost_usd is not None and "max_cost_usd" in counts:
        held.append(f"${loop.max_cost_usd:g}")
    if agent is not None and loop.max_tokens is not None and "max_tokens" in counts:
        held.append(f"{loop.max_tokens:,} tokens")
    is_unknown = agent is not None and "max_cost_usd" not in counts
    return f"at most {', '.join(held)}" + (f"; cost unknown for {agent}" if is_unknown else "")


def _time(seconds: float) -> str:
    """Return a time in the largest unit that gives a whole number: `2 h`, `90 s`."""
    for unit, length_s in (("h", 3600), ("min", 60)):
        if seconds % length_s == 0:
            return f"{int(seconds) // length_s} {unit}"
    return f"{seconds:g} s"


RULE = "Find the cause and fix the code. {}The check will be run again when you finish."
NO_TESTS = "Changes in {} will be reverted. "
TESTS = (
    "Change a test only if the test itself is wrong, and explain why. "
    "Never delete or skip a test to make the check pass. "
)


def proposal(protect: Sequence[str]) -> str:
    """Return a prompt for a check about which nothing else is known."""
    rule = NO_TESTS.format(" and ".join(protect)) if protect else TESTS
    return "This project's check fails.\n" + RULE.format(rule)


def same_command(kept: Mapping[str, Any], command: UntilCommand) -> bool:
    """Return whether a run was started by this command; what an older version did not know was not
    given."""
    return {**UntilCommand("", "").to_dict(), **kept} == command.to_dict()
