"""What users write about slots and budgets."""

from __future__ import annotations

import pytest

from little_loops.fsm.budgets import Budget, Refused, read_budget, read_slots

BUDGET = "budget: {day: 20, week: 80, launches_hour: 30, turn: 1, when_reached: pause}"
AGENTS = "agents: {slots: 3}"


@pytest.mark.parametrize(("written", "slots"), [({}, None), ({"slots": 1}, 1), ({"slots": 16}, 16)])
def test_slots(written, slots) -> None:
    assert read_slots(written) == slots


def test_a_budget() -> None:
    assert read_budget({}) == Budget()
    written = {"day": 20, "week": 80.5, "launches_hour": 30, "turn": 1, "when_reached": "wait"}
    assert read_budget(written) == Budget(20.0, 80.5, 30, 1.0, "wait")


@pytest.mark.parametrize(
    ("written", "why"),
    [
        (7, "`agents` must be a mapping"),
        ({"slot": 3}, "`agents` has no setting `slot`; known: `slots`"),
        ({"slots": 0}, "`agents.slots` must be a whole number, at least 1"),
        ({"slots": True}, "`agents.slots` must be a whole number, at least 1"),
        ({"slots": 1.5}, "`agents.slots` must be a whole number, at least 1"),
    ],
)
def test_wrong_slots(written, why) -> None:
    with pytest.raises(Refused) as raised:
        read_slots(written)
    assert (str(raised.value), raised.value.help) == (why, AGENTS)


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ([], "`budget` must be a mapping"),
        (
            {"month": 3},
            (
                "`budget` has no setting `month`; known: `day`, `week`, `launches_hour`, `turn`, "
                "`when_reached`"
            ),
        ),
        ({"day": 0}, "`budget.day` must be an amount in US dollars, more than 0"),
        ({"week": "80"}, "`budget.week` must be an amount in US dollars, more than 0"),
        ({"turn": True}, "`budget.turn` must be an amount in US dollars, more than 0"),
        ({"day": float("nan")}, "`budget.day` must be an amount in US dollars, more than 0"),
        ({"launches_hour": 0}, "`budget.launches_hour` must be a whole number, at least 1"),
        ({"when_reached": "stop"}, "`budget.when_reached` must be `pause` or `wait`"),
    ],
)
def test_wrong_budgets(written, why) -> None:
    with pytest.raises(Refused) as raised:
        read_budget(written)
    assert (str(raised.value), raised.value.help) == (why, BUDGET)
