"""Decide what an operation changes in a loop file.

`plan` returns the changes, or raises `Refused` with the reason and what to do instead.

Not here: how a change is written into the text (`splices`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from little_loops.authoring.edits.changes import Change, Drop, Put, RenameKey, RenameResult, changed
from little_loops.authoring.edits.operations import (
    CHOICE,
    NEXT,
    AddState,
    Connect,
    DeleteState,
    Disconnect,
    Operation,
    Path,
    RemoveField,
    RenameState,
    SetField,
    SetInitial,
)
from little_loops.authoring.edits.references import Found, texts
from little_loops.authoring.fields.kinds import STATE_NAME
from little_loops.authoring.messages import shown
from little_loops.authoring.yaml.nodes import List, Map, Node, Text, plain
from little_loops.authoring.yaml.places import spellings
from little_loops.errors import UsageError
from little_loops.light_typing import Any, assert_never


class Refused(UsageError):
    """The operation does not fit this file."""


def plan(root: Map, operation: Operation) -> list[Change]:
    """Return what an operation changes. Raises `Refused`."""
    match operation:
        case AddState(name, fields, after):
            return _add(root, name, dict(fields), after)
        case RenameState(state, to):
            return list(_rename(root, state, to))
        case DeleteState(state):
            return list(_delete(root, state))
        case Connect(state, on, target):
            return _connect(root, state, on, target)
        case Disconnect(state, on, target):
            return _disconnect(root, state, on, target)
        case SetInitial(state):
            _state(root, state)
            return _set(root, ("initial",), state)
        case SetField(path, value):
            return _set(root, path, value)
        case RemoveField(path):
            return [Drop(_existing(root, path))]
        case _:
            assert_never(operation)


# ── States ─────────────────────────────────────────────────────────────────────────────────────


def _states(root: Map) -> Map:
    """Return the states of a native file."""
    found = root.get("states")
    if isinstance(found, Map):
        return found
    if found is None:
        message = "this loop is not written with states"
        raise Refused(message, "edit its own fields, or convert it to states first")
    raise Refused("`states` is not a mapping", "fix it in the text")


def _state(root: Map, name: str) -> Map:
    """Return the fields of a state."""
    found = _states(root).get(name)
    if found is None:
        raise Refused(f"there is no state `{shown(name)}`")
    if not isinstance(found, Map):
        raise Refused(f"state `{shown(name)}` is not a mapping of fields", "fix it in the text")
    return found


def _check_new_name(root: Map, name: str) -> None:
    if re.fullmatch(STATE_NAME, name) is None:
        help = "use letters, digits, `_` and `-`; begin with a letter or `_`"
        raise Refused(f"`{shown(name)}` is not a valid state name", help)
    if name in _states(root):
        raise Refused(f"there is already a state `{name}`", "choose another name")


def _add(root: Map, name: str, fields: dict[str, Any], after: str | None) -> list[Change]:
    _check_new_name(root, name)
    if after is not None:
        _state(root, after)
    return [Put(("states", name), fields, after, block="action" in fields or "loop" in fields)]


def _rename(root: Map, state: str, to: str) -> Iterator[Change]:
    """Yield the changes to a state's key and to all references to it."""
    _state(root, state)
    _check_new_name(root, to)
    yield RenameKey(("states", state), to)
    for found in texts(root):
        if found.node.kind != "str":
            continue
        if (found.is_target or found.is_source) and found.node.text == state:
            yield Put(found.path, to)
        elif f"captured.{state}" in found.node.text:
            yield RenameResult(found.path, state, to)


def _delete(root: Map, state: str) -> Iterator[Change]:
    """Yield the removal of a state and of the transitions that lead to it."""
    _state(root, state)
    initial = root.get("initial")
    if isinstance(initial, Text) and initial.text == state:
        message = f"`{state}` is the initial state"
        raise Refused(message, "choose another initial state first")
    yield Drop(("states", state))
    leading = [each for each in texts(root) if _leads_to(each, state)]
    for path in dict.fromkeys(_emptied(root, each.path, leading) for each in leading):
        if "hooks" in path[:1] and not isinstance(path[-1], int):
            name = ".".join(map(str, path[:-1]))
            help = "remove the hook, or name other states there"
            raise Refused(f"`{name}` is only for state `{state}`", help)
        yield Drop(path)


def _leads_to(each: Found, state: str) -> bool:
    """Return whether a text is a transition to a state that another one has, or a mention in a
    list of states."""
    inside = each.path[:2] == ("states", state)
    return each.is_target and each.node.text == state and not inside


def _emptied(root: Map, path: Path, gone: list[Found]) -> Path:
    """Return the path of the list or `route` that an entry is in, if nothing would be left of it;
    else the path itself."""
    above = node_at(root, path[:-1])
    nested = isinstance(above, List) or path[-2:-1] == ("route",)
    if not nested:
        return path
    count = len(above.items) if isinstance(above, List) else len(above.entries)  # type: ignore[union-attr]
    return path[:-1] if count == sum(each.path[:-1] == path[:-1] for each in gone) else path


# ── Transitions ────────────────────────────────────────────────────────────────────────────────


def _connect(root: Map, state: str, on: str, target: str) -> list[Change]:
    fields = _state(root, state)
    if not target.startswith("$"):
        _state(root, target)
    above: Path = ("states", state)
    if on == CHOICE:
        choices = fields.get("choices")
        count = len(choices.items) if isinstance(choices, List) else 0
        return _set(root, (*above, "choices", count), target)
    return _set(root, _transition(fields, above, on), target)


def _disconnect(root: Map, state: str, on: str, target: str | None) -> list[Change]:
    fields = _state(root, state)
    path = _transition(fields, ("states", state), on)
    if on == CHOICE:
        choices = plain(fields.get("choices") or List(()))
        if target not in choices:
            raise Refused(f"state `{state}` has no choice `{shown(str(target))}`")
        path = ("states", state, "choices", choices.index(target))
    path = _existing(root, path)
    above = node_at(root, path[:-1])
    alone = len(above.items if isinstance(above, List) else above.entries) == 1  # type: ignore[union-attr]
    return [Drop(path[:-1] if len(path) > 3 and alone else path)]


def _transition(fields: Map, above: Path, on: str) -> Path:
    """Return where a state has the target for a verdict or word, or would have it."""
    if on == NEXT:
        return (*above, NEXT)
    route = fields.get("route")
    if isinstance(route, Map) and f"on_{on}" not in fields:
        judge = fields.get("condition") or fields.get("check_condition")
        words = judge.get("words") if isinstance(judge, Map) else None
        if on in route or on in plain(words or List(())):
            return (*above, "route", on)
    return (*above, f"on_{on}")


# ── Fields ─────────────────────────────────────────────────────────────────────────────────────


def _set(root: Map, path: Path, value: Any) -> list[Change]:
    """Return the change that sets a field, with what is missing above it."""
    spelled = _spelled(root, path)
    depth = next(
        (at for at in range(1, len(path)) if _is_missing(node_at(root, spelled[:at]))), len(path)
    )
    for step in reversed(spelled[depth:]):
        value = [value] if isinstance(step, int) else {step: value}
    here = spelled[:depth]
    _check_holder(node_at(root, here[:-1]), here)
    if changed(plain(root), [Put(here, value)]) == plain(root):
        return []
    return [Put(here, value, _neighbour(root) if len(here) == 1 else None)]


def _is_missing(node: Node | None) -> bool:
    return node is None or (isinstance(node, Text) and node.kind == "null")


def _check_holder(holder: Node | None, path: Path) -> None:
    """Raise `Refused` if a value cannot be inserted at the end of this path."""
    match holder, path[-1]:
        case Map(), str():
            return
        case List(items), int() as index if index <= len(items):
            return
        case _:
            where = ".".join(map(str, path[:-1]))
            message = f"`{shown(where)}` cannot contain `{shown(str(path[-1]))}`"
            raise Refused(message, "set the whole value instead")


def _neighbour(root: Map) -> str | None:
    """Return the field of the loop after which a new one is inserted: the last before `states`."""
    names = [entry.key.text for entry in root.entries]
    before = names[: names.index("states")] if "states" in names else names
    return before[-1] if before else None


def _existing(root: Map, path: Path) -> Path:
    """Return a path in the file's own spelling; raise `Refused` if nothing is there."""
    spelled = _spelled(root, path)
    if node_at(root, spelled) is None:
        raise Refused(f"there is no `{shown('.'.join(map(str, path)))}` in this file")
    return spelled


def _spelled(root: Map, path: Path) -> Path:
    """Return a path with its fields named as in the file, which may use aliases."""
    done: Path = ()
    for step in path:
        names = spellings(done, step)
        used = next((each for each in names if node_at(root, (*done, each)) is not None), step)
        done = (*done, used)
    return done


def node_at(root: Node, path: Path) -> Node | None:
    """Return the node at a path; None if there is none."""
    found: Node | None = root
    for step in path:
        match found, step:
            case Map(), str():
                found = found.get(step)
            case List(items), int() if step < len(items):
                found = items[step]
            case _:
                return None
    return found
