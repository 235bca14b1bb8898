"""Read the branches of a state: which ones it has, what each runs, and how they become one verdict."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from math import prod

from little_loops.authoring.branch_view import as_step
from little_loops.authoring.fields.kinds import (
    BRANCH_NAME,
    BranchMap,
    ForEach,
    Join,
    Matrix,
    Resolver,
    Str,
    Whole,
)
from little_loops.authoring.fields.read_values import INVALID, data, fits, names
from little_loops.authoring.fields.table import BRANCH, GLOB, HOST
from little_loops.authoring.fields.what_runs import (
    check_action_of_branch,
    check_loop,
    check_named,
    check_no_loop,
)
from little_loops.authoring.messages import did_you_mean, listed, shown
from little_loops.authoring.yaml.nodes import List, Map, Node, Text, text
from little_loops.fsm.branching import MOST_BRANCHES, RESERVED
from little_loops.fsm.schema import HOST_NAMES, HOST_OF_BRANCH, RESOLVE
from little_loops.light_typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from little_loops.authoring.fields.reader import Reader

KINDS = ("for_each", "branches", "matrix")
"""The fields that define a state's branches; a state has only one of them."""
JOINS = ("all", "any")
LITERAL = 'list items are used as they are; to fill in values, write a string: `for_each: "${…}"`'
_REFERENCE = r"\$\{\w+\."
_STR = Str()
_NUMBER = Whole(1, MOST_BRANCHES)


def read_for_each(reader: Reader, kind: ForEach, node: Node, label: str) -> Any:
    """Read a list of items, a text that has them at run time, or a pattern of files."""
    if isinstance(node, List):
        return _items(reader, node, label)
    if isinstance(node, Map):
        found = reader.record(node, GLOB, label)
        return found if "glob" in found else INVALID
    if isinstance(node, Text) and node.kind == "str":
        return reader.read(_STR, node, label)
    help = 'write a list, a string such as `${captured.files.output}`, or `{glob: "src/*.py"}`'
    return reader.wrong(label, "a list, text or a mapping with `glob`", node, help)


def _items(reader: Reader, node: List, label: str) -> Any:
    """Read items that are in the file: any plain data without templates."""
    if len(node.items) > MOST_BRANCHES:
        return _too_many(reader, len(node.items), node)
    found = [data(reader, item, f"an item in {label}") for item in node.items]
    for item, value in zip(node.items, found, strict=True):
        if re.search(_REFERENCE, str(value)):
            return reader.report("LL222", f"an item of {label} is a template", item.mark, LITERAL)
    return INVALID if any(value is INVALID for value in found) else found


def _too_many(reader: Reader, count: int, node: Node) -> Any:
    message = f"{count:,} branches; a state can have at most {MOST_BRANCHES:,}"
    return reader.report("LL222", message, node.mark, "remove some of them")


def matrix(reader: Reader, kind: Matrix, node: Node, label: str) -> Any:
    """Read names with a list of values each; their combinations are the branches."""
    entries = names(reader, node, label, "a mapping of names and lists of values", "variable")
    if entries is INVALID:
        return INVALID
    found: dict[str, Any] = {}
    for key, value in entries:
        if not isinstance(value, List) or not value.items:
            return reader.wrong(f"`{key.text}`", "a list of values", value, "write it as `[a, b]`")
        items = _items(reader, value, f"`{key.text}`")
        if items is INVALID:
            return INVALID
        found[key.text] = items
    if not found:
        return reader.report("LL111", f"{label} is empty", node.mark)
    count = prod(map(len, found.values()))
    return found if count <= MOST_BRANCHES else _too_many(reader, count, node)


def read_join(reader: Reader, kind: Join, node: Node, label: str) -> Any:
    """Read how many branches must pass, as written: `all`, `any`, a number from 1, or a percentage
    such as `80%`. Return `INVALID` if it is none of these."""
    if isinstance(node, Text) and node.kind == "int":
        return reader.read(_NUMBER, node, label)
    if isinstance(node, Text) and node.kind == "str":
        if node.text in JOINS or re.fullmatch(r"(?:[1-9][0-9]?|100)%", node.text):
            return node.text
    help = 'write `all`, `any`, a number such as 2, or a percentage such as "80%"'
    return reader.wrong(label, "`all`, `any`, a number or a percentage", node, help)


# ── branches that are written out ──────────────────────────────────────────────────────────────


def branch_map(reader: Reader, kind: BranchMap, node: Node, label: str) -> Any:
    """Read branches by their names, each with what it runs."""
    if type(node) is not Map:
        help = "write each branch as `name:` with its fields below"
        return reader.wrong(label, "a mapping of branches", node, help)
    if not node.entries:
        return reader.report("LL111", f"{label} is empty", node.mark)
    if len(node.entries) > MOST_BRANCHES:
        return _too_many(reader, len(node.entries), node)
    found: dict[str, Any] = {}
    for key, value in node.entries:
        if _is_new_name(reader, key, found):
            branch = _branch(reader, key, value)
            found[key.text] = {} if branch is INVALID else branch
    return found


def _is_new_name(reader: Reader, key: Text, found: Iterable[str]) -> bool:
    """Return whether a key can name a branch; report it otherwise."""
    if key.kind != "str":
        reader.not_text("this branch's name", key, BRANCH_NAME)
    elif not fits(key.text, BRANCH_NAME):
        help = "letters, digits, `.`, `_` and `-`, beginning with a letter or digit; at most 80"
        reader.report("LL106", f"`{shown(key.text)}` is not a valid branch name", key.mark, help)
    elif key.text.lower() in (each.lower() for each in found):
        message = f"there is another branch `{shown(key.text)}`"
        reader.report(
            "LL222", message, key.mark, "rename one of them; names are compared case-insensitively"
        )
    else:
        return True
    reader.spoiled.add("branches")
    return False


def _branch(reader: Reader, key: Text, node: Node) -> Any:
    """Read what a branch runs: an action or a loop."""
    where = f"branch `{shown(key.text)}`"
    if type(node) is not Map:
        example = f"`{{action: {shown(node.text)}}}`" if isinstance(node, Text) else "`{action: …}`"
        return reader.wrong(where, "a mapping of fields", node, f"write it as {example}")
    return _step(reader, key, node, where)


def resolver(reader: Reader, kind: Resolver, node: Node, label: str) -> Any:
    """Read what resolves a branch: the name of a loop, or a mapping as for a branch."""
    if isinstance(node, Text) and node.kind == "str":
        node = as_step(node)
    if type(node) is not Map:
        help = "write the name of a loop, or `{action: …}`"
        return reader.wrong(label, "the name of a loop, or a mapping of fields", node, help)
    child, reader.child = reader.child, None  # the state's agent, which is recorded later
    given = _step(reader, text(RESOLVE, node), node, "`resolve`")
    reader.child = child
    return given


def _step(reader: Reader, key: Text, node: Map, where: str) -> Any:
    """Read a mapping with an action or a loop."""
    before = len(reader.problems)
    outer, reader.spoiled = reader.spoiled, set()
    given = reader.fields(node, BRANCH, where)
    _check_runs(reader, key, node, given, where)
    source = given.get("condition", {}).get("source")
    if source is not None:
        message = f"the condition of {where} names a `source`"
        help = "a branch is judged by its own action; remove `source`"
        reader.report("LL222", message, node.mark, help)
    if reader.spoiled or len(reader.problems) > before:
        reader.states[f"{reader.state}/{key.text}"] = reader.spoiled
    reader.spoiled = outer
    return given


def _check_runs(reader: Reader, key: Text, node: Map, given: dict[str, Any], where: str) -> None:
    """Report a branch that does not run exactly one thing."""
    if "loop" in node:
        outer, reader.has_branches = reader.has_branches, False
        check_loop(reader, f"{reader.state}/{key.text}", key, node, given, where)
        reader.has_branches = outer
        return
    check_no_loop(reader, node, given, where, ("with",))
    if "action" not in given and not reader.hidden("action"):
        _runs_nothing(reader, key, where)


def _runs_nothing(reader: Reader, key: Text, where: str) -> None:
    help = "add `action: …` or `loop: …`"
    reader.report("LL222", f"{where} has neither an `action` nor a `loop`", key.mark, help)
    reader.spoiled.add("action")


# ── whether they fit together ──────────────────────────────────────────────────────────────────


def kinds_of(node: Map) -> list[str]:
    """Return the fields of a state that say which branches it has."""
    return [name for name in KINDS if name in node]


def check_state(reader: Reader, key: Text, node: Map, given: dict[str, Any], where: str) -> None:
    """Report what does not go together in a state with branches."""
    if "branches" in node:
        check_named(reader, node, given, where)
    elif "loop" in node:
        check_loop(reader, key.text, key, node, given, where)
    else:
        check_action_of_branch(reader, node, given, where)
        if "action" not in given and not reader.hidden("action"):
            _runs_nothing(reader, key, where)
    _check_kinds(reader, node, given, where)
    _check_partner(reader, node, given, "as", "for_each", where)
    _check_partner(reader, node, given, "exclude", "matrix", where)
    for name in ("join", "fail_fast"):
        if name in given and "condition" in given:
            message = f"`{name}` has no effect in {where}, whose condition judges its branches"
            reader.report("LL222", message, _mark(node, name), "keep one of them")
    _check_names(reader, node, given)


def _check_kinds(reader: Reader, node: Map, given: dict[str, Any], where: str) -> None:
    """Report a state that says in several ways which branches it has."""
    kinds = kinds_of(node)
    if len(kinds) > 1:
        message = f"{where} defines its branches in several ways: {listed(kinds).replace(' or ', ' and ')}"
        reader.report("LL222", message, _mark(node, kinds[1]), "keep one of them")
        for name in kinds[1:]:
            given.pop(name, None)


def _check_partner(
    reader: Reader, node: Map, given: dict[str, Any], name: str, partner: str, where: str
) -> None:
    """Report a field that needs another one."""
    if name in given and partner not in node:
        message = f"`{name}` has no effect in {where} without `{partner}`"
        reader.report("LL222", message, _mark(node, name), f"add `{partner}`, or remove it")
        del given[name]


def _check_names(reader: Reader, node: Map, given: Mapping[str, Any]) -> None:
    """Report names of values that `branch` has already, and excluded names that it does not have."""
    used = [*given.get("matrix", ()), *([given["as"]] if "as" in given else [])]
    for name in used:
        if name in RESERVED:
            field = "as" if name == given.get("as") else "matrix"
            message = f"`{name}` cannot be used as a name here: `${{branch.{name}}}` is reserved"
            reader.report("LL222", message, _mark(node, field), "choose another name")
    known = given.get("matrix", {})
    for entry in given.get("exclude", ()) if known else ():
        for name in entry:
            if name not in known:
                message = f"the matrix has no `{shown(name)}`"
                help = did_you_mean(name, known) or f"known: {listed(known)}"
                reader.report("LL222", message, _mark(node, "exclude"), help)


def _mark(node: Map, name: str) -> Any:
    return next(entry.key.mark for entry in node.entries if entry.key.text == name)


# ── hosts that the items name ──────────────────────────────────────────────────────────────────


def host_of_branch(reader: Reader, node: Node, written: Text, label: str) -> Any:
    """Read a host that the items name, alone or with other options."""
    if not isinstance(node, Map):
        return _host_of_items(reader, written)
    others = tuple(entry for entry in node.entries if entry.key.text != "name")
    given = reader.record(node._replace(entries=others), HOST, label)
    name = _host_of_items(reader, written)
    return INVALID if name is INVALID else {**given, **name}


def _host_of_items(reader: Reader, node: Text) -> Any:
    """Read `${branch.who}` as a host: each item must be in the file, and name a known host."""
    variable = node.text.removeprefix(HOST_OF_BRANCH).removesuffix("}")
    items = reader.items.get(variable)
    if node.text == f"{HOST_OF_BRANCH}{variable}}}" and items:
        wrong = [item for item in items if item not in HOST_NAMES]
        if not wrong:
            return {"name": node.text}
        message = f"`{shown(wrong[0])}` is not a known host, so `{shown(node.text)}` cannot be used as one"
        return reader.report("LL222", message, node.mark, f"known: {listed(HOST_NAMES)}")
    message = f"`{shown(node.text)}` cannot be a host"
    help = "the items must be in the file: `for_each: [claude, codex]` with `as`, or a `matrix`"
    return reader.report("LL222", message, node.mark, help)


def items_in_file(node: Map) -> dict[str, list[str]]:
    """Return the texts that the branches of a state have for each value, if they are in the file."""
    found: dict[str, list[str]] = {}
    each, over = node.get("for_each"), node.get("matrix")
    if isinstance(each, List):
        named = node.get("as")
        found[named.text if isinstance(named, Text) else "item"] = _texts(each)
    for key, value in over.entries if isinstance(over, Map) else ():
        if isinstance(value, List):
            found[key.text] = _texts(value)
    return found


def _texts(node: List) -> list[str]:
    return [item.text if isinstance(item, Text) else "…" for item in node.items]


READ: Mapping[type, Callable[..., Any]] = {
    ForEach: read_for_each,
    Matrix: matrix,
    Join: read_join,
    BranchMap: branch_map,
    Resolver: resolver,
}
"""How each kind of value is read."""
