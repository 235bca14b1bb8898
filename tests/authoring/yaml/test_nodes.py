"""Nodes without YAML: from plain data and back, made by paradigms."""

from __future__ import annotations

import datetime
import math
from typing import Any

import pytest

from little_loops.authoring.yaml.nodes import (
    List,
    Map,
    MapEntry,
    Mark,
    Text,
    mapping,
    node_of,
    plain,
    text,
    walk,
)

HERE = Text("x", "str", "x", Mark(3, 4, 5))


@pytest.mark.parametrize(
    ("data", "node"),
    [
        pytest.param("a", Text("a", "str", "a", quoted=True), id="text"),
        pytest.param(1, Text("1", "int", 1), id="int"),
        pytest.param(1.5, Text("1.5", "float", 1.5), id="float"),
        pytest.param(True, Text("true", "bool", True), id="true"),
        pytest.param(False, Text("false", "bool", False), id="false"),
        pytest.param(None, Text("null", "null", None), id="null"),
        pytest.param(2**2000, Text("∞", "int", math.inf), id="a number beyond all numbers"),
        pytest.param(b"x", Text("bytes", "other", None), id="bytes"),
        pytest.param(datetime.date(2024, 1, 15), Text("date", "other", None), id="a date"),
        pytest.param({1, 2}, Text("set", "other", None), id="a set"),
        pytest.param((1,), List((Text("1", "int", 1),)), id="tuple"),
        pytest.param(
            {1: "a"},
            Map((MapEntry(Text("1", "int", 1), Text("a", "str", "a", quoted=True)),)),
            id="number as key",
        ),
    ],
)
def test_plain_data_as_nodes(data: Any, node: Any) -> None:
    assert node_of(data) == node


def test_there_and_back() -> None:
    data = {"a": [1, None, {"b": "c"}], "d": True}
    assert plain(node_of(data)) == data


def test_walk_visits_all_in_order() -> None:
    nodes = [node.text for node in walk(node_of({"a": [1, 2], "b": "c"})) if isinstance(node, Text)]
    assert nodes == ["1", "2", "c"]


def test_what_a_paradigm_makes_stands_where_its_reason_stands() -> None:
    made = mapping({"action": text("pytest", HERE)}, HERE)
    assert made.mark == HERE.mark
    assert made.entries[0].key.mark == HERE.mark
    assert made.get("action") == Text("pytest", "str", "pytest", HERE.mark, quoted=True)
    assert made.get("other") is None
    assert "action" in made
    assert "other" not in made


def test_made_of_nothing_it_stands_nowhere() -> None:
    made = mapping([("a", text("b"))], None)
    assert made == Map((MapEntry(text("a"), text("b")),))
