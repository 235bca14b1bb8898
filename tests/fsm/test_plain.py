"""Records as plain data: what the marks on their fields do."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

from little_loops.fsm.events import (
    KINDS,
    ActionComplete,
    ActionInterrupted,
    Entry,
    Event,
    LoopError,
    PartialResult,
    Resume,
    StateEnter,
    event_types,
)
from little_loops.fsm.plain import keys, masked, reader, to_plain
from little_loops.fsm.state import Result, SignalLine


def hide(text: str) -> str:
    return text.replace("hunter2", "***")


@pytest.mark.parametrize(
    ("event", "shown"),
    [
        pytest.param(
            LoopError("failed", "error", "a", 1, 2, "a", "no hunter2"),
            LoopError("failed", "error", "a", 1, 2, "a", "no ***"),
            id="a string from outside",
        ),
        pytest.param(StateEnter("hunter2", 1, 1, "next"), None, id="the author's own words"),
        pytest.param(
            Resume("a", 1, "failed", continuation=None, context={"k": "hunter2"}),
            None,
            id="no text, and values from the command line",
        ),
        pytest.param(
            ActionComplete("a", Result(0, 1, "hunter2", None), SignalLine("stop", "hunter2")),
            ActionComplete("a", Result(0, 1, "***", None), SignalLine("stop", "***")),
            id="in inner records",
        ),
        pytest.param(
            ActionComplete("a", Result(0, 1, structured={"x": ["hunter2", 1, True, None]})),
            ActionComplete("a", Result(0, 1, structured={"x": ["***", 1, True, None]})),
            id="anywhere in a structured answer",
        ),
        pytest.param(
            ActionInterrupted("a", 1, "stop", result=PartialResult(None, 1, "hunter2", "")),
            ActionInterrupted("a", 1, "stop", result=PartialResult(None, 1, "***", "")),
            id="in part of a result",
        ),
    ],
)
def test_secrets_are_masked_where_a_text_comes_from_outside(event: Event, shown: Event | None):
    entry = Entry(event, 1, 2, "hunter2", 3)
    assert masked(entry, hide) == entry._replace(event=event if shown is None else shown)


@pytest.mark.parametrize("given", [["a", "b"], ("a", "b")])
def test_a_list_is_read_from_a_list_or_a_tuple(given: Any) -> None:
    assert reader(tuple[str, ...])(given) == ("a", "b")


def test_an_inline_record_is_the_last_of_its_fields():
    """Its fields are written where they stand in the class."""
    for kind in (ActionComplete, ActionInterrupted):
        always, optional = keys(kind)
        written = kind._fields[: len(kind._fields) - len(kind._field_defaults)]
        assert "result" in (written[-1], kind._fields[-1])
        assert {*always, *optional}.isdisjoint({"result"})


def test_the_catalogue_has_every_kind_with_its_meaning():
    described = event_types()
    assert list(described) == list(KINDS)
    assert all(one.meaning.endswith(".") for one in described.values())
    assert described["transition"].fields == ("from", "to", "reason")
    assert described["transition"].optional == ("retry", "loop_timeout", "passed")


def test_any_mapping_becomes_a_dict():
    assert to_plain(MappingProxyType({"a": (1, ("b",))})) == {"a": [1, ["b"]]}
