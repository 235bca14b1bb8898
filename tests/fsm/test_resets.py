"""What a run remembers is reset when the reason to remember it is over."""

from __future__ import annotations

from typing import Any

import pytest

from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import SignalLine
from tests.fsm.scripted import Says, ScriptedWorld, Stop, begin


def loop(states: dict[str, Any], **fields: Any) -> FSMLoop:
    return FSMLoop.from_dict(
        {"name": "l", "initial": next(iter(states)), "states": states} | fields
    )


def test_a_new_cycle_measures_from_scratch():
    """With the best of the cycle before, 5 would be no progress and the loop would stall at once."""
    converge = {
        "measure": {
            "action": "count",
            "condition": {"type": "convergence", "target": 0, "patience": 1},
            "on_target": "done",
            "on_progress": "measure",
            "on_stall": "failed",
        },
        "done": {"terminal": True},
        "failed": {"terminal": True},
    }
    outputs: list[Says | Stop] = [Says(output="3"), Says(output="0"), Says(output="5"), Stop(15)]
    world = ScriptedWorld(loop(converge, maintain=True), outputs)
    begin(world)
    judged = [record for record in world.log if record["event"] == "condition_eval"]
    assert [(each["result"], each["best"]) for each in judged] == [
        ("progress", 3.0),
        ("target", 0.0),
        ("progress", 5.0),
    ]


FAST = Says(line=SignalLine("handoff", "3 left"), takes_ms=1000)
SLOW = Says(line=SignalLine("handoff", "3 left"), takes_ms=60_000)
PLAIN = Says(takes_ms=1000)


@pytest.mark.parametrize(
    ("script", "waits"),
    [
        pytest.param([FAST] * 4, [0, 1000, 2000, 4000], id="fast ones wait longer each time"),
        pytest.param(
            [FAST, FAST, FAST, SLOW, FAST], [0, 1000, 2000, 0, 1000], id="a slow one resets it"
        ),
        pytest.param(
            [FAST, FAST, FAST, PLAIN, FAST], [0, 1000, 2000, 0], id="a plain end resets it"
        ),
    ],
)
def test_the_wait_between_handoffs_starts_over(script, waits):
    states = {
        "a": {"action": "x", "next": "b"},
        "b": {"action": "y", "next": "done"},
        "done": {"terminal": True},
    }
    world = ScriptedWorld(loop(states, on_handoff="continue"), [*script, 0, 0])
    begin(world)
    handoffs = [record for record in world.log if record["event"] == "handoff_detected"]
    assert [each.get("wait_ms", 0) for each in handoffs] == waits
