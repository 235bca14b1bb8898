"""Random edits: nothing outside of the splices changes, and the file means what was intended.

What is intended is computed on the machine, without the text and without the module under test.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from little_loops.authoring.edits.apply import Edited, apply
from little_loops.authoring.edits.operations import (
    OPERATIONS,
    AddState,
    Connect,
    DeleteState,
    Disconnect,
    Operation,
    RemoveField,
    RenameState,
    SetField,
    SetInitial,
)
from little_loops.authoring.load import load, load_data
from tests.authoring.edits.files import FILES

NAMES = ("retry_it", "wait-a-bit", "yes", "null", "_x", "a1", "No", "prüfen", "check_2", "on")
TARGETS = ("on_pass", "on_fail", "on_error", "on_timeout", "on_interrupt", "next")
ACTIONS = (
    "true",
    "make all # now",
    "echo 'a: b'",
    "first\nsecond",
    "if true; then\n  echo $HOME\nfi\n",
    "a\n\n\nb\n\n",
    "tab\there",
    "café ✓ 日本 🎉",
    '"quoted" \\ back',
    "- dash",
    "{a: b}",
    "[x, y]",
    "12",
    " leading and trailing ",
    "%x @y `z`",
    "it's",
)
STATE_FIELDS: dict[str, tuple[Any, ...]] = {
    "action": ACTIONS,
    "timeout": ("5m", 90, "2h"),
    "env": ({"A": "1"}, {"LONG": "x" * 90, "B": "y: z"}, {}),
    "retry": ({"max": 3}, {"max": 2, "backoff": "10s"}),
    "label": ("linting", "yes", "7"),
    "condition": (
        {"type": "exit_code", "fail": [2, "5-7"]},
        {"type": "output_contains", "pattern": "ok\n"},
    ),
    "shell": ("bash",),
    "context": ({"a": [1, {"b": None}], "c": "x\ny\n"}, {"d": True}),
}
LOOP_FIELDS: dict[str, tuple[Any, ...]] = {
    "description": ("short", "a: b # c", "two\nlines\n", "ü"),
    "max_iterations": (7, 100),
    "timeout": ("1h",),
    "scope": (["src/", "tests/"], ["."]),
    "context": ({"target": "lib/", "n": 4},),
    "backoff": (0, "2s"),
}


# ── What is intended ───────────────────────────────────────────────────────────────────────────


def intended(machine: dict[str, Any], operation: Operation) -> dict[str, Any]:
    """The machine after an operation, as data."""
    data: dict[str, Any] = json.loads(json.dumps(machine))
    match operation:
        case AddState(name, fields):
            data["states"][name] = dict(fields)
        case RenameState(state, to):
            data = renamed(data, state, to)
        case DeleteState(state):
            del data["states"][state]
            data = without(data, state)
        case Connect() | Disconnect():
            reconnect(data["states"][operation.state], operation)
        case SetInitial(state):
            data["initial"] = state
        case SetField(path, value):
            at(data, path)[path[-1]] = value
        case RemoveField(path):
            del at(data, path)[path[-1]]
    return data


def reconnect(state: dict[str, Any], operation: Connect | Disconnect) -> None:
    """Change one transition of a state."""
    on, target = operation.on, operation.target
    if on == "choice":
        own = [each for each in state.get("choices", []) if each != target]
        state["choices"] = [*own, *([target] if isinstance(operation, Connect) else [])]
    else:
        where = state["route"] if on in state.get("route", {}) else state
        key = on if where is not state or on == "next" else f"on_{on}"
        where.pop(key, None)
        if isinstance(operation, Connect):
            where[key] = target
    for name in ("choices", "route"):
        if state.get(name) in ([], {}):
            del state[name]


def at(data: Any, path: Any) -> Any:
    for step in path[:-1]:
        data = data[step]
    return data


def renamed(data: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    """The machine with another name for a state: by a substitution in its JSON form, as all names
    of states in the files are distinct from their other texts."""

    def walk(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {
                (new if k == old and key == "states" else k): walk(v, k) for k, v in value.items()
            }
        if isinstance(value, list):
            return [walk(each, key) for each in value]
        if isinstance(value, str):
            is_reference = key in (
                "source",
                "next",
                "initial",
                "choices",
                "states",
            ) or key.startswith("on_")
            if value == old and (is_reference or key in ("clean", "messy")):
                return new
            pattern = rf"(?<!\$)\$\{{captured\.{re.escape(old)}(?=[.:}}])"
            return re.sub(pattern, lambda _: f"${{captured.{new}", value)
        return value

    result: dict[str, Any] = walk(data)
    return result


def without(data: Any, state: str) -> Any:
    """The machine without the transitions to a state."""

    def is_transition(key: str, value: Any) -> bool:
        return value == state and (
            key == "next" or key.startswith("on_") or key in ("clean", "messy")
        )

    if isinstance(data, list):
        return [without(each, state) for each in data]
    if not isinstance(data, dict):
        return data
    kept = {k: without(v, state) for k, v in data.items() if not is_transition(k, v)}
    for name in ("choices", "states", "route"):
        if isinstance(kept.get(name), list):
            kept[name] = [each for each in kept[name] if each != state]
        if kept.get(name) in ([], {}) and data[name]:
            del kept[name]
    return kept


# ── Random operations ──────────────────────────────────────────────────────────────────────────


def draw(random: Random, kind: type[Operation], machine: dict[str, Any]) -> Operation | None:
    """A random operation of a kind, if the machine has a place for it."""
    states = machine["states"]
    state = random.choice(list(states))
    if kind is AddState:
        fields: dict[str, Any] = random.choice(
            [
                {"terminal": True},
                {"terminal": True, "outcome": "failure"},
                {"action": random.choice(ACTIONS), "next": state},
                {
                    "action": random.choice(ACTIONS),
                    "timeout": 60,
                    "on_pass": state,
                    "env": {"A": "b"},
                },
            ]
        )
        after = random.choice([None, state])
        return AddState(random.choice(NAMES), fields, after)
    if kind is RenameState:
        return RenameState(state, random.choice(NAMES))
    if kind is DeleteState:
        return DeleteState(state)
    if kind is SetInitial:
        return SetInitial(state)
    if kind in (Connect, Disconnect):
        return _transition(random, kind, state, states)
    return _field(random, kind, state, machine)


def _transition(
    random: Random, kind: type[Operation], state: str, states: dict[str, Any]
) -> Operation | None:
    if kind is Connect:
        labels = [each.removeprefix("on_") for each in TARGETS]
        if "choices" in states[state]:
            labels.append("choice")
        labels += states[state].get("route", {})
        return Connect(state, random.choice(labels), random.choice([*states, "$current"]))
    own = states[state]
    found = [
        *(Disconnect(state, each.removeprefix("on_")) for each in TARGETS if each in own),
        *(Disconnect(state, word) for word in own.get("route", {})),
        *(Disconnect(state, "choice", each) for each in own.get("choices", [])),
    ]
    return random.choice(found) if found else None


def _field(
    random: Random, kind: type[Operation], state: str, machine: dict[str, Any]
) -> Operation | None:
    of_loop = random.random() < 0.4
    fields = LOOP_FIELDS if of_loop else STATE_FIELDS
    above: tuple[str, ...] = () if of_loop else ("states", state)
    here = machine if of_loop else machine["states"][state]
    if kind is SetField:
        name = random.choice(list(fields))
        return SetField((*above, name), random.choice(fields[name]))
    own = [name for name in here if name in fields and not isinstance(here[name], float)]
    return RemoveField((*above, random.choice(own))) if own else None


def edits(seed: int) -> Iterator[tuple[str, str, Operation, Edited, dict[str, Any]]]:
    """An edit of each kind, one after another on the same file, which all give sound loops."""
    random = Random(seed)
    name = list(FILES)[seed % len(FILES)]
    text = FILES[name]
    kinds = list(OPERATIONS.values())
    random.shuffle(kinds)
    for kind in kinds:
        found = _one(random, kind, text)
        if found is not None:
            operation, edited, wanted = found
            yield name, text, operation, edited, wanted
            text = edited.text


def _one(
    random: Random, kind: type[Operation], text: str
) -> tuple[Operation, Edited, dict[str, Any]] | None:
    machine = machine_of(text)
    assert machine is not None
    for _ in range(30):
        operation = draw(random, kind, machine)
        if operation is None or not fits(operation, machine):
            continue
        wanted = load_data(intended(machine, operation), "loop").loop
        if wanted is not None:
            return operation, apply(text, operation), json.loads(json.dumps(wanted.to_dict()))
    return None


def fits(operation: Operation, machine: dict[str, Any]) -> bool:
    """Whether the operation is not one that is refused by intention; `test_apply` has those."""
    match operation:
        case AddState(name) | RenameState(_, name):
            return name not in machine["states"] and name.isascii()
        case DeleteState(state):
            hook = machine.get("hooks", {}).get("before_state", {})
            return bool(machine["initial"] != state and hook.get("states") != [state])
        case Connect(state, "choice", target):
            return target not in machine["states"][state]["choices"]
        case _:
            return True


def machine_of(text: str) -> dict[str, Any] | None:
    loop = load(text.encode(), "loop.yaml", "loop").loop
    return None if loop is None else json.loads(json.dumps(loop.to_dict()))


# ── The laws ───────────────────────────────────────────────────────────────────────────────────


def check_edit(text: str, edited: Edited, wanted: dict[str, Any]) -> None:
    assert machine_of(edited.text) == wanted
    old, new = text.encode(), edited.text.encode()
    done = shift = 0
    for start, end, inserted in edited.splices:
        first, last = len(text[:start].encode()), len(text[:end].encode())
        assert done <= first <= last, "splices are in order and do not overlap"
        assert old[done:first] == new[done + shift : first + shift]
        assert new[first + shift :].startswith(inserted.encode())
        shift += len(inserted.encode()) - (last - first)
        done = last
    assert old[done:] == new[done + shift :]


def check_small(text: str, edited: Edited, operation: Operation) -> None:
    """Comments outside of what is removed or replaced as a whole are all there."""
    if isinstance(operation, (Connect, SetInitial, RenameState, AddState)):
        assert _comments(text) <= _comments(edited.text)
        assert text.count("\r\n") <= edited.text.count("\r\n")
    if "\r\n" in text:
        assert re.search(r"(?<!\r)\n", edited.text) is None


def _comments(text: str) -> Counter[str]:
    return Counter(re.findall(r"(?<=\s)# \w+", text))


def test_random_edits_change_nothing_else_and_mean_what_was_intended():
    kinds: Counter[type[Operation]] = Counter()
    styles: Counter[str] = Counter()
    for seed in range(40):
        for name, text, operation, edited, wanted in edits(seed):
            check_edit(text, edited, wanted)
            check_small(text, edited, operation)
            kinds[type(operation)] += 1
            styles[name] += 1
    assert sum(kinds.values()) >= 200
    assert min(kinds[kind] for kind in OPERATIONS.values()) >= 10, kinds
    assert min(styles[name] for name in FILES) >= 20, styles


@pytest.mark.soak
def test_many_more_random_edits():
    for seed in range(40, 2_000):
        for _, text, operation, edited, wanted in edits(seed):
            check_edit(text, edited, wanted)
            check_small(text, edited, operation)
