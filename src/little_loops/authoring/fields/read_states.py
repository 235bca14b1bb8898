"""Read states and the mappings in them, and check what needs no other state.

It also reads commands of paradigms, which are states without transitions.
"""

from __future__ import annotations

from little_loops.authoring.fields.gaps import ANYTHING
from little_loops.authoring.fields.kinds import (
    MOST_STATES,
    STATE_NAME,
    VARIABLE_NAME,
    ActionKind,
    BranchMap,
    Commands,
    EventCommands,
    ForEach,
    HookCommand,
    HostKind,
    Join,
    ListOf,
    Machine,
    Matrix,
    Name,
    OneOf,
    OwnTree,
    PartKind,
    PatternKind,
    Ports,
    Proof,
    Protected,
    Recipient,
    Resolver,
    Route,
    Str,
    SubLoop,
    Whole,
)
from little_loops.authoring.fields.read_conditions import has_judge, has_source, written_words
from little_loops.authoring.fields.read_values import INVALID, fits
from little_loops.authoring.fields.table import (
    COMMANDS,
    EVIDENCE,
    EXISTING,
    HOOK_TABLES,
    HOST,
    OR_AGAIN,
    PARTS,
    STATE,
    WORKTREE_TABLES,
)
from little_loops.authoring.fields.what_runs import check_loop, check_own_action
from little_loops.authoring.messages import listed, shown
from little_loops.authoring.yaml.nodes import List, Map, Node, Text
from little_loops.fsm.schema import FAIL, HOST_NAMES, HOST_OF_BRANCH, PASS
from little_loops.light_typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from little_loops.authoring.fields.reader import Reader

_STR = Str()
_PATTERNS = ListOf(PatternKind(), 1)
_NAME_HELP = "letters, digits, `_` and `-`, beginning with a letter or `_`; at most 100 characters"


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
        return reader.wrong(label, "a mapping of words to states", node)
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


def agent(reader: Reader, kind: HostKind, node: Node, label: str) -> Any:
    """Read the options of a host; a name alone is short for `{name: …}`."""
    written = node.get("name") if isinstance(node, Map) else node
    if isinstance(written, Text) and written.text.startswith(HOST_OF_BRANCH):
        from little_loops.authoring.fields.read_branches import host_of_branch  # few loops

        return host_of_branch(reader, node, written, label)
    if isinstance(node, Map):
        return reader.record(node, HOST, label)
    name = reader.read(OneOf(HOST_NAMES), node, label)
    return name if name is INVALID else {"name": name}


def part(reader: Reader, kind: PartKind, node: Node, label: str) -> Any:
    """Read a mapping with its own fields; INVALID if one that it needs could not be read."""
    table = PARTS[kind.table]
    found = reader.record(node, table, label)
    if found is INVALID or any(each.required and each.name not in found for each in table.fields):
        return INVALID
    return found


def evidence(reader: Reader, kind: Proof, node: Node, label: str) -> Any:
    """Read `true` or `false`, or a mapping of evidence settings."""
    if isinstance(node, Map):
        return reader.record(node, EVIDENCE, label)
    if isinstance(node, Text) and node.kind == "bool":
        return node.value
    return reader.wrong(label, "true, false or a mapping of settings", node)


def worktree(reader: Reader, kind: OwnTree, node: Node, label: str) -> Any:
    """Read `true` or `false`, or a mapping with the settings of a worktree."""
    if isinstance(node, Map):
        if (alone := node.get("tries")) is not None and "resolve" not in node:
            help = "add `resolve: …`, or remove it"
            reader.report("LL222", "`tries` has no effect without `resolve`", alone.mark, help)
        return reader.record(node, WORKTREE_TABLES[kind.table], label)
    if isinstance(node, Text) and node.kind == "bool":
        return node.value
    return reader.wrong(label, "true, false or a mapping of settings", node)


def ports(reader: Reader, kind: Ports, node: Node, label: str) -> Any:
    """Read a mapping of variables to numbers."""
    if type(node) is not Map:
        return reader.wrong(label, "a mapping of variables to numbers", node)
    found: dict[str, Any] = {}
    for key, value in node.entries:
        reader.read(_VARIABLE, key, "this variable")
        found[key.text] = reader.read(_PORT, value, f"`{shown(key.text)}`")
    return INVALID if INVALID in found.values() else found


_VARIABLE = Name("variable", VARIABLE_NAME)
_PORT = Whole(1, 65_535)


def protected(reader: Reader, kind: Protected, node: Node, label: str) -> Any:
    """Read a list of patterns, or a mapping with `existing`."""
    if isinstance(node, Map):
        found = reader.record(node, EXISTING, label)
        return found if "existing" in found else INVALID
    return reader.read(_PATTERNS, node, label)


def sub_loop(reader: Reader, kind: SubLoop, node: Node, label: str) -> Any:
    """Read a loop that a state starts."""
    from little_loops.authoring.sub_loops import read_sub_loop  # few loops start others

    return read_sub_loop(reader, node, label)


def of_branches(
    reader: Reader, kind: ForEach | Matrix | Join | BranchMap | Resolver, node: Node, label: str
) -> Any:
    """Read a field of a state with branches."""
    from little_loops.authoring.fields.read_branches import READ  # few states have branches

    return READ[type(kind)](reader, kind, node, label)


def command(reader: Reader, kind: ActionKind, node: Node, label: str) -> Any:
    """Read an action of a paradigm: text, or a mapping with its fields, or with those of a loop."""
    if isinstance(node, Map) and "loop" in node:
        return _loop_command(reader, kind, node, label)
    if isinstance(node, Map):
        return reader.record(node, COMMANDS[kind.table], label)
    if isinstance(node, Text):
        return reader.read(_STR, node, label)
    help = "write the command itself, or `{action: …}`"
    return reader.wrong(label, "a command (a string), or a mapping with `action`", node, help)


def _loop_command(reader: Reader, kind: ActionKind, node: Map, label: str) -> Any:
    """Read a command that is a loop. The loop itself is read in the native form."""
    if not kind.loops:
        return no_loop(reader, node, label)
    library, reader.library = reader.library, reader.library._replace(names_only=True)
    given = reader.record(node, COMMANDS[f"loop {kind.table}"], label)
    reader.library = library
    return given


def no_loop(reader: Reader, node: Map, label: str) -> Any:
    """Report a loop where only a command can be. Return INVALID."""
    at = next(key.mark for key, _ in node.entries if key.text == "loop")
    help = "write a command; a loop can be a `fix`, `using`, a step, or a tool after the first"
    return reader.report("LL221", f"{label} cannot be a loop", at, help)


def commands(reader: Reader, kind: Commands, node: Node, label: str) -> Any:
    item = ActionKind(loops=kind.loops)
    if isinstance(node, List):
        return reader.read(ListOf(item, 1), node, label)
    return [command(reader, item, node, label)]


def hook(reader: Reader, kind: HookCommand, node: Node, label: str) -> Any:
    """Read a hook: the command alone, or a mapping with its settings."""
    if isinstance(node, Map):
        found = reader.record(node, HOOK_TABLES[kind.table], label)
        return found if "action" in found else INVALID
    if isinstance(node, Text):
        return reader.read(_STR, node, label)
    help = "write the command itself, or `{action: …}`"
    return reader.wrong(label, "a command (a string), or a mapping with `action`", node, help)


def event_hooks(reader: Reader, kind: EventCommands, node: Node, label: str) -> Any:
    """Read the hooks for kinds of events; the names must be kinds that can have one."""
    if type(node) is not Map:
        return reader.wrong(label, "a mapping of kinds of events and commands", node)
    from little_loops.fsm.events import HOOK_KINDS  # few loops have hooks

    found: dict[str, Any] = {}
    for key, value in node.entries:
        if key.text not in HOOK_KINDS:
            message = f"there is no event `{shown(key.text)}` that a hook can run for"
            usual = "for example `loop_complete`, `loop_error`, `loop_paused` or `state_enter`"
            help = reader.suggest(key.text, HOOK_KINDS) or usual
            reader.report("LL127", message, key.mark, help)
            continue
        read = reader.read(_EVENT_HOOK, value, f"`{key.text}`")
        if read is not INVALID:
            found[key.text] = read
    return found


def recipient(reader: Reader, kind: Recipient, node: Node, label: str) -> Any:
    """Read who is notified: an address or a command."""
    to = reader.read(_STR, node, label)
    if to is INVALID:
        return INVALID
    from little_loops.fsm.notices import wrong_address  # few loops have notifications

    wrong = wrong_address(to)
    return to if wrong is None else reader.report("LL128", wrong[0], node.mark, wrong[1])


_EVENT_HOOK = HookCommand("beside_hook")


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
        return _not_a_mapping(reader, key, node, where)
    before = len(reader.problems)
    words = written_words(_judge_of(node))
    outer, reader.spoiled = reader.spoiled, set()
    reader.state, reader.items = key.text, {}
    reader.has_branches = any(name in node for name in ("for_each", "branches", "matrix"))
    given = _fields(reader, key, node, words, where)
    if words is not None and not reader.hidden("condition"):
        _routes(reader, node, given, words, where)
    if not reader.hidden("action", "condition", "terminal", "loop"):
        _needs_something_to_judge(reader, key, given, where)
    if len(reader.problems) > before:
        reader.states[key.text] = reader.spoiled
    reader.spoiled = outer
    return given


def _fields(
    reader: Reader, key: Text, node: Map, words: tuple[str, ...] | None, where: str
) -> dict[str, Any]:
    """Read the fields of a state, and report those that do not go with what it runs."""
    if reader.has_branches:
        from little_loops.authoring.fields import read_branches  # few states have branches

        reader.items = read_branches.items_in_file(node)
        given = reader.fields(node, STATE, where, words)
        read_branches.check_state(reader, key, node, given, where)
        return given
    given = reader.fields(node, STATE, where, words)
    for name in [each for each in _ONLY_WITH_BRANCHES if each in given]:
        at = next(entry.key.mark for entry in node.entries if entry.key.text == name)
        message = f"`{name}` has no effect in {where}, which has no branches"
        reader.report("LL220", message, at, "add `for_each`, `branches` or `matrix`, or remove it")
        del given[name]
    if "loop" in node:
        check_loop(reader, key.text, key, node, given, where)
    else:
        check_own_action(reader, node, given, where)
    return given


_ONLY_WITH_BRANCHES = ("as", "exclude", "max_parallel", "join", "fail_fast")


def _judge_of(node: Map) -> Node | None:
    """Return the condition of a state, even under a misspelt key if it lists words."""
    written = node.get("condition") or node.get("check_condition")
    if written is not None:
        return written
    for key, value in node.entries:
        if isinstance(value, Map) and "words" in value and key.text not in STATE.by_name:
            return value
    return None


def _not_a_mapping(reader: Reader, key: Text, node: Node, where: str) -> Any:
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
    if "action" in given or "loop" in given or given.get("terminal") or reader.has_branches:
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
        if has_judge(condition):
            message = f"{where} has a `judge`, but no `action`"
            help = "add `action: …`; a judge gives a second opinion on its own state's result"
        reader.report("LL119", message, key.mark, help)
        reader.spoiled.add("action")
