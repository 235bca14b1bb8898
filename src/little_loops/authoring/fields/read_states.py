"""Read states and the mappings that stand in them, with the rules that need no other state.

Also commands of paradigms, which are states without their ways.
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
    """All states by their names; one with a broken name is still there under it."""
    if type(node) is not Map:
        help = "write each state as `name:` with its fields below"
        return reader.wrong(label, "a mapping of states", node, help)
    if not node.entries:
        return reader.note(
            "LL111", f"{label} is empty", node.mark, "a loop needs at least one state"
        )
    if len(node.entries) > MOST_STATES:
        key = node.entries[MOST_STATES].key
        message = f"{len(node.entries):,} states; a loop can have at most {MOST_STATES:,}"
        return reader.note("LL123", message, key.mark, "split it into several loops")
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
    """A state for each word; whether the condition has these words is seen with the state."""
    if type(node) is not Map:
        return reader.wrong(label, "a mapping of words and states", node)
    found: dict[str, str] = {}
    for key, value in node.entries:
        if key.kind != "str":
            reader.trapped("this word", key, STATE_NAME)
        elif key.text in found:
            message = f"the key `{shown(key.text)}` is given twice"
            reader.note("LL012", message, key.mark, "keep one of them")
        else:
            to = reader.read(OR_AGAIN, value, f"`{shown(key.text)}`")
            if to is not INVALID:
                found[key.text] = to
    return found


def agent(reader: Reader, kind: Agent, node: Node, label: str) -> Any:
    """The options of a host; a name alone is short for `{name: …}`."""
    if isinstance(node, Map):
        return reader.record(node, HOST, label)
    name = reader.read(OneOf(HOST_NAMES), node, label)
    return name if name is INVALID else {"name": name}


def part(reader: Reader, kind: Part, node: Node, label: str) -> Any:
    return reader.record(node, PARTS[kind.table], label)


def evidence(reader: Reader, kind: Proof, node: Node, label: str) -> Any:
    """`true` or `false`, or the settings by their names."""
    if isinstance(node, Map):
        return reader.record(node, EVIDENCE, label)
    if isinstance(node, Text) and node.kind == "bool":
        return node.value
    return reader.wrong(label, "true, false or a mapping of settings", node)


def protected(reader: Reader, kind: Protected, node: Node, label: str) -> Any:
    """A list of patterns; in a mapping by `existing`, where new files are allowed."""
    if isinstance(node, Map):
        found = reader.record(node, EXISTING, label)
        return found if "existing" in found else INVALID
    return reader.read(_PATTERNS, node, label)


def command(reader: Reader, kind: Command, node: Node, label: str) -> Any:
    """An action of a paradigm; what becomes of it is the paradigm's to say."""
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
    if key.kind != "str":
        reader.trapped("this state's name", key, STATE_NAME)
    elif twice:
        reader.states.setdefault(key.text, set())
        message = f"two states would be named `{key.text}`"
        reader.note("LL124", message, key.mark, "rename one of the items they are made from")
    elif not fits(key.text, STATE_NAME):
        reader.note("LL106", f"`{shown(key.text)}` is not a valid state name", key.mark, _NAME_HELP)


def _state(reader: Reader, key: Text, node: Node) -> Any:
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
    """The condition of a state, also under a misspelt name if it lists words."""
    written = node.get("condition") or node.get("check_condition")
    if written is not None:
        return written
    for key, value in node.entries:
        if isinstance(value, Map) and "words" in value and key.text not in STATE.by_name:
            return value
    return None


def _no_state(reader: Reader, key: Text, node: Node, where: str) -> Any:
    reader.states[key.text] = {ANYTHING}
    if isinstance(node, Text) and node.kind == "null":
        help = "add `action: …`, or `terminal: true` if the run ends here"
        return reader.note("LL107", f"{where} has no fields", key.mark, help)
    text = f"`{{action: {shown(node.text)}}}`" if isinstance(node, Text) else "`{action: …}`"
    return reader.wrong(where, "a mapping of fields", node, f"write it as {text}")


def _routes(
    reader: Reader, node: Map, given: dict[str, Any], words: tuple[str, ...], where: str
) -> None:
    """Every word of `route` is one of the condition's, and has one place only."""
    written = node.get("route")
    if not isinstance(written, Map):
        return
    if not words and given.get("condition", {}).get("type") == "verdict":
        words = (PASS, FAIL)
    if not words:
        message = f"{where} has a `route` but no condition with `words`"
        help = "add `condition: {type: verdict, words: […]}`"
        reader.note("LL117", message, written.mark, help)
        return
    for key, _ in written.entries:
        if key.text not in words and key.kind == "str":
            message = f"`{shown(key.text)}` is not one of this condition's words"
            help = reader.meant(key.text, words) or f"its words: {listed(words)}"
            reader.note("LL117", message, key.mark, help)
        elif f"on_{key.text}" in given:
            message = f"`route` and `on_{shown(key.text)}` both set the target of this word"
            reader.note("LL117", message, key.mark, "keep one of them")


def _needs_something_to_judge(reader: Reader, key: Text, given: dict[str, Any], where: str) -> None:
    """Without an action, a condition must say what it judges."""
    if "action" in given or given.get("terminal"):
        return
    condition = given.get("condition")
    if condition is None:
        message = f"{where} has neither an `action` nor a `condition`"
        help = "add `action: …`, or `terminal: true` if the run ends here"
        reader.note("LL119", message, key.mark, help)
        reader.spoiled.add("action")
    elif not has_source(condition):
        message = f"{where} has no `action`, and its condition no `source`"
        help = "add `action: …`, or `source: …` to judge an earlier result"
        reader.note("LL119", message, key.mark, help)
        reader.spoiled.add("action")
