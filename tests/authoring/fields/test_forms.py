"""Forms describe every field of the table, and only tables that exist."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from little_loops.authoring.fields.forms import forms
from little_loops.authoring.fields.table import LOOP, STATE


def test_every_field_has_a_control():
    found = forms()
    assert [each["name"] for each in found["loop"]] == [field.name for field in LOOP.fields]
    assert [each["name"] for each in found["state"]] == [field.name for field in STATE.fields]


def test_every_field_is_explained():
    for each in forms()["state"]:
        field = STATE.by_name[each["name"]]
        assert (each["help"], each["default"]) == (field.help, field.default)


def test_controls_name_tables_that_exist():
    found = forms()
    named = {
        name for table in found.values() for field in table for name in tables(field["control"])
    }
    assert named - found.keys() == set()


def tables(control: dict[str, Any]) -> Iterator[str]:
    if "table" in control:
        yield control["table"]
    yield from control.get("tables", {}).values()


def test_the_controls_of_a_state():
    controls = {each["name"]: each["control"] for each in forms()["state"]}
    assert controls["action"] == {"type": "lines"}
    assert controls["timeout"] == {"type": "time"}
    assert controls["next"] == {"type": "target", "words": ["$current"]}
    assert controls["choices"] == {"type": "list", "item": {"type": "target", "words": []}}
    assert controls["outcome"] == {"type": "choice", "words": ["success", "failure", "review"]}
    assert controls["env"] == {"type": "variables"}
    assert controls["retry"] == {"type": "record", "table": "retry"}
    assert controls["before"] == {"type": "record", "table": "state_hook", "short": "action"}
    assert controls["host"] == {"type": "record", "table": "host", "short": "name"}
    assert controls["worktree"] == {"type": "record", "table": "worktree", "flag": True}
    assert controls["matrix"] == {"type": "yaml"}
    assert controls["condition"]["tables"]["exit_code"] == "condition exit_code"


def test_groups():
    groups = {each["name"]: each["group"] for each in forms()["state"]}
    names = ("action", "on_pass", "terminal", "outcome")
    assert [groups[name] for name in names] == ["fields", "transitions", "fields", "fields"]
    assert {each["name"] for each in forms()["loop"] if each["group"] == "drawn"} == {
        "initial",
        "states",
    }
