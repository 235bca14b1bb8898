"""The end of an action is told with the sign of its verdict, and nothing changes its place."""

from __future__ import annotations

from typing import Any

import pytest

from little_loops.reporting.held_end import HeldEnd

END = {"event": "action_complete", "exit_code": 1}


def told(*records: dict[str, Any]) -> list[tuple[str, bool | None]]:
    held = HeldEnd()
    return [(each["event"], each.get("good")) for record in records for each in held.feed(record)]


def evaluated(result: str) -> dict[str, Any]:
    return {"event": "condition_eval", "result": result}


def taken(reason: str) -> dict[str, Any]:
    return {"event": "transition", "reason": reason}


@pytest.mark.parametrize(
    ("record", "good"),
    [
        pytest.param(evaluated("pass"), True, id="passed"),
        pytest.param(evaluated("progress"), True, id="nearer"),
        pytest.param(evaluated("stall"), False, id="no nearer"),
        pytest.param(evaluated("error"), False, id="not to be judged"),
        pytest.param(evaluated("partial"), None, id="a word of the loop's own"),
        pytest.param(taken("on_pass"), True, id="by on_pass"),
        pytest.param(taken("on_timeout"), False, id="by on_timeout"),
        pytest.param(taken("next"), None, id="by next"),
        pytest.param({"event": "loop_interrupted"}, None, id="nobody judged"),
    ],
)
def test_the_verdict_says_whether_it_went_well(record: dict[str, Any], good: bool | None):
    assert told(END) == []
    assert told(END, record) == [("action_complete", good), (record["event"], None)]


def test_what_stands_between_stays_there():
    cost, warning = {"event": "cost"}, {"event": "warning"}
    assert told(warning, END, cost, warning, evaluated("pass"), warning) == [
        ("warning", None),
        ("action_complete", True),
        ("cost", None),
        ("warning", None),
        ("condition_eval", None),
        ("warning", None),
    ]


def test_one_end_after_another():
    assert told(END, END, taken("on_fail")) == [
        ("action_complete", None),
        ("action_complete", False),
        ("transition", None),
    ]
