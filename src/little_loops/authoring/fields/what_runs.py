"""Check what a state, or a branch of one, runs: an action, or a loop that it starts."""

from __future__ import annotations

from collections.abc import Sequence

from little_loops.authoring.fields.table import STATE
from little_loops.authoring.yaml.nodes import Map, Text
from little_loops.light_typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from little_loops.authoring.fields.reader import Reader

_ONLY_WITH_LOOP = ("with", "limits", "worktree", "runs_on")
_OF_ACTION = (
    *("action", "action_type", "context", "env", "cwd", "shell"),
    *("kill_grace", "idle_timeout", "host", "fallback", "fallback_on"),
)
NOT_WITH_RUNS = ("capture_exit", "check", "repeat", "terminal")
"""Fields of an action that is the state's own."""
_NOT_WITH_LOOP = (*_OF_ACTION, *NOT_WITH_RUNS)
_INSTEAD = {
    "action": "keep one of them; a state runs an action or a loop",
    "condition": "the verdict comes from how that loop ends",
    "terminal": "add a transition from this state to a terminal one",
    "context": "pass values with `with`",
}


def check_loop(
    reader: Reader, name: str, key: Text, node: Map, given: dict[str, Any], where: str
) -> None:
    """Record the loop that a state or branch starts, by its full name, and report fields that only
    an action has."""
    definition, reader.child = reader.child, None
    if definition is not None:
        reader.children[name] = definition
    if "loop" not in given:  # it could not be read
        for field in _ONLY_WITH_LOOP:
            given.pop(field, None)
    written = node.get("loop")
    if isinstance(written, Map) and "name" not in written and "loop" in given:
        if given["loop"]["name"] == "loop":
            given["loop"]["name"] = key.text.lstrip("_") or "loop"
    useless = _NOT_WITH_LOOP if reader.has_branches else (*_NOT_WITH_LOOP, "condition")
    report_useless(reader, node, given, useless, f"{where}, which starts a loop", "in that loop")


def report_useless(
    reader: Reader, node: Map, given: dict[str, Any], fields: Sequence[str], why: str, instead: str
) -> None:
    """Report and remove fields that have no effect; `instead` is where they belong."""
    for field in [each for each in fields if each in given]:
        at = next(entry.key.mark for entry in node.entries if _is_field(entry.key.text, field))
        help = _INSTEAD.get(field, f"set `{field}` {instead}")
        reader.report("LL220", f"`{field}` has no effect in {why}", at, help)
        del given[field]


def check_no_loop(
    reader: Reader, node: Map, given: dict[str, Any], where: str, only: Sequence[str]
) -> None:
    """Report fields that only go with a loop."""
    for key, _ in node.entries:
        if key.text in only:
            message = f"`{key.text}` has no effect in {where}, which starts no loop"
            reader.report("LL220", message, key.mark, "add `loop: …`, or remove it")
            given.pop(key.text, None)


def check_own_action(reader: Reader, node: Map, given: dict[str, Any], where: str) -> None:
    """Report fields that an action of the state's own does not have."""
    check_no_loop(reader, node, given, where, _ONLY_WITH_LOOP)


def check_action_of_branch(reader: Reader, node: Map, given: dict[str, Any], where: str) -> None:
    """Report fields that the action of a branch does not have."""
    check_no_loop(reader, node, given, where, ("with",))
    why = f"{where}, which has branches"
    report_useless(reader, node, given, NOT_WITH_RUNS, why, "in another state")


def check_named(reader: Reader, node: Map, given: dict[str, Any], where: str) -> None:
    """Report fields of a state that its branches say themselves."""
    why = f"{where}, whose branches say what they run"
    useless = (*_NOT_WITH_LOOP, "loop", "with")
    report_useless(reader, node, given, useless, why, "in its branches")


def _is_field(key: str, field: str) -> bool:
    return key in STATE.by_name and STATE.by_name[key].name == field
