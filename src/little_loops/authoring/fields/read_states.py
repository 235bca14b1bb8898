"""Read states and the mappings in them, and check what needs no other state.

It also reads commands of paradigms, which are states without transitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from little_loops.authoring.fields.gaps import ANYTHING
from little_loops.authoring.fields.kinds import (
    MOST_STATES,
    STATE_NAME,
    Agent,
    Command,
    Commands,
    ListOf,
    Machine,
    OneOf,
    Part,
    Pattern,
    Proof,
    Protected,
    Route,
    Str,
)
from little_loops.authoring.fields.read_conditions import has_source, written_words
from little_loops.authoring.fields.read_values import INVALID, fits
from little_loops.authoring.fields.table import (
    COMMANDS,
    EVIDENCE,
    EXISTING,
    HOST,
    OR_AGAIN,
    PARTS,
    STATE,
)
from little_loops.authoring.messages import listed, shown
from little_loops.authoring.yaml.nodes import List, Map, Node, Text
from little_loops.fsm.schema import FAIL, HOST_NAMES, PASS

if TYPE_CHECKING:
    from little_loops.authoring.fields.reader import Reader

_STR = Str()
_PATTERNS = ListOf(Pattern(), 1)
_COMMAND = Command()
_COMMANDS = ListOf(Command(), 1)
_NAME_HELP = "letters, digits, `_` and `-`, beginning with a letter or `_`; at most 100"


def machine(reader: Reader, kind: Machine, node: Node, label: str) -> Any:
    """Read all states by name, including those with an invalid name."""
    if type(node) is not Map:
        help = "write each state as `name:` with its fields below"
        return reader.wrong(label, "a mapping of states", node, help)
    if not node.entries:
        return reader.report(
            "LL111", f"{label} is empty", node.mark, "a loop needs at least one state"
        )
    if len(node.entries) > MOST_STATES:
        key = node.entries[MOST_STATES].key
        message = f"{len(node.entries):,} states; a loop can have at most {MOST_STATES:,}"
        return reader.report("LL123", message, key.mark, "split it into several loops")
    found: dict[str, Any] = {}
    for key, value in node.entries:
        if key.kind == "broken":
            reader.spoiled.add("states")
            continue
        _state_name(reader, key, twice=key.text in found)
        state = _state(reader, key, value)
        found.setdefault(key.text, {} if state is INVALID else state)
    return found


def route(reader: Reader, kind: Route, node: Node, label: str) -> Any:
    """Read the target state of each word; `_routes` checks the words themselves."""
    if type(node) is not Map:
        return reader.wrong(label, "a mapping of words and states", node)
    found: dict[str, str] = {}
    for key, value in node.entries:
        if key.kind != "str":
            reader.not_text("this word", key, STATE_NAME)
        elif key.text in found:
            message = f"the key `{shown(key.text)}` is given twice"
            reader.report("LL012", message, key.mark, "keep one of them")
        else:
            to = reader.read(OR_AGAIN, value, f"`{shown(key.text)}`")
            if to is not INVALID:
                found[key.text] = to
    return found


def agent(reader: Reader, kind: Agent, node: Node, label: str) -> Any:
    """Read the options of a host; a name alone is short for `{name: …}`."""
    if isinstance(node, Map):
        return reader.record(node, HOST, label)
    name = reader.read(OneOf(HOST_NAMES), node, label)
    return name if name is INVALID else {"name": name}


def part(reader: Reader, kind: Part, node: Node, label: str) -> Any:
    return reader.record(node, PARTS[kind.table], label)


def evidence(reader: Reader, kind: Proof, node: Node, label: str) -> Any:
    """Read `true` or `false`, or a mapping of evidence settings."""
    if isinstance(node, Map):
        return reader.record(node, EVIDENCE, label)
    if isinstance(node, Text) and node.kind == "bool":
        return node.value
    return reader.wrong(label, "true, false or a mapping of settings", node)


def protected(reader: Reader, kind: Protected, node: Node, label: str) -> Any:
    """Read a list of patterns, or a mapping with `existing`."""
    if isinstance(node, Map):
        found = reader.record(node, EXISTING, label)
        return found if "existing" in found else INVALID
    return reader.read(_PATTERNS, node, label)


def command(reader: Reader, kind: Command, node: Node, label: str) -> Any:
    """Read an action of a paradigm: text, or a mapping with its fields."""
    if isinstance(node, Map):
        return reader.record(node, COMMANDS[kind.table], label)
    if isinstance(node, Text):
        return reader.read(_STR, node, label)
    help = "write the command itself, or `{action: …}`"
    return reader.wrong(label, "a command as text, or a mapping with `action`", node, help)


def commands(reader: Reader, kind: Commands, node: Node, label: str) -> Any:
    if isinstance(node, List):
        return reader.read(_COMMANDS, node, label)
    return [command(reader, _COMMAND, node, label)]


def _state_name(reader: Reader, key: Text, twice: bool) -> None:
    """Report a state name that is invalid or used twice."""
    if key.kind != "str":
        reader.not_text("this state's name", key, STATE_NAME)
    elif twice:
        reader.states.setdefault(key.text, set())
        message = f"two states would be named `{key.text}`"
        reader.report("LL124", message, key.mark, "rename one of the items they are made from")
    elif not fits(key.text, STATE_NAME):
        reader.report(
            "LL106", f"`{shown(key.text)}` is not a valid state name", key.mark, _NAME_HELP
        )


def _state(reader: Reader, key: Text, node: Node) -> Any:
    """Read the fields of a state, and record which of them could not be read."""
    where = f"state `{shown(key.text)}`"
    if type(node) is not Map:
        return _no_state(reader, key, node, where)
    before = len(reader.problems)
    words = written_words(_judge_of(node))
    outer, reader.spoiled = reader.spoiled, set()
    given = reader.fields(node, STATE, where, words)
    if words is not None and not reader.hidden("condition"):
        _routes(reader, node, given, words, where)
    if not reader.hidden("action", "condition", "terminal"):
        _needs_something_to_judge(reader, key, given, where)
    if reader.spoiled or len(reader.problems) > before:
        reader.states[key.text] = reader.spoiled
    reader.spoiled = outer
    return given


def _judge_of(node: Map) -> Node | None:
    """Return the condition of a state, even under a misspelt key if it lists words."""
    written = node.get("condition") or node.get("check_condition")
    if written is not None:
        return written
    for key, value in node.entries:
        if isinstance(value, Map) and "words" in value and key.text not in STATE.by_name:
            return value
    return None


def _no_state(reader: Reader, key: Text, node: Node, where: str) -> Any:
    """Report a state that is not a mapping. Return INVALID."""
    reader.states[key.text] = {ANYTHING}
    if isinstance(node, Text) and node.kind == "null":
        help = "add `action: …`, or `terminal: true` if the run ends here"
        return reader.report("LL107", f"{where} has no fields", key.mark, help)
    text = f"`{{action: {shown(node.text)}}}`" if isinstance(node, Text) else "`{action: …}`"
    return reader.wrong(where, "a mapping of fields", node, f"write it as {text}")


def _routes(
    reader: Reader, node: Map, given: dict[str, Any], words: tuple[str, ...], where: str
) -> None:
    """Report words in `route` that the condition does not have, or that have another target, too."""
    written = node.get("route")
    if not isinstance(written, Map):
        return
    if not words and given.get("condition", {}).get("type") == "verdict":
        words = (PASS, FAIL)
    if not words:
        message = f"{where} has a `route` but no condition with `words`"
        help = "add `condition: {type: verdict, words: […]}`"
        reader.report("LL117", message, written.mark, help)
        return
    for key, _ in written.entries:
        if key.text not in words and key.kind == "str":
            message = f"`{shown(key.text)}` is not one of this condition's words"
            help = reader.suggest(key.text, words) or f"its words: {listed(words)}"
            reader.report("LL117", message, key.mark, help)
        elif f"on_{key.text}" in given:
            message = f"`route` and `on_{shown(key.text)}` both set the target of this word"
            reader.report("LL117", message, key.mark, "keep one of them")


def _needs_something_to_judge(reader: Reader, key: Text, given: dict[str, Any], where: str) -> None:
    """Report a state without an action whose condition names no source."""
    if "action" in given or given.get("terminal"):
        return
    condition = given.get("condition")
    if condition is None:
        message = f"{where} has neither an `action` nor a `condition`"
        help = "add `action: …`, or `terminal: true` if the run ends here"
        reader.report("LL119", message, key.mark, help)
        reader.spoiled.add("action")
    elif not has_source(condition):
        message = f"{where} has no `action`, and its condition no `source`"
        help = "add `action: …`, or `source: …` to judge an earlier result"
        reader.report("LL119", message, key.mark, help)
        reader.spoiled.add("action")
