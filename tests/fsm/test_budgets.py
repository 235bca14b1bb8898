"""What users write about slots and budgets, and what a budget allows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.fsm.budgets import (
    HOUR_MS,
    Allowed,
    Budget,
    Calendar,
    Deny,
    Limited,
    WaitForTurns,
    WrongSetting,
    decide,
    read_budget,
    read_slots,
    turn_usd,
)
from little_loops.fsm.ledger import AgentTurn, Line, Reservation, account

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
    with pytest.raises(WrongSetting) as raised:
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
    with pytest.raises(WrongSetting) as raised:
        read_budget(written)
    assert (str(raised.value), raised.value.help) == (why, BUDGET)


# ── what is allowed ────────────────────────────────────────────────────────────────────────────

HOUR, DAY = HOUR_MS, 24 * HOUR_MS
NOW = 1000 * DAY + 12 * HOUR
CALENDAR = Calendar(NOW, NOW - 12 * HOUR, NOW + 12 * HOUR, NOW - 60 * HOUR, NOW + 108 * HOUR)
DAY_OF_5 = Budget(day=5.0, turn=1.0)


def spent(usd: float | None, at_ms: int = NOW - 2 * HOUR, number: int = 1) -> AgentTurn:
    return AgentTurn(f"r/{number}/1", at_ms, "/p", "fix", "r", "claude", cost_usd=usd)


def reserved(usd: float, number: int = 9, run: str = "s") -> Reservation:
    return Reservation(f"{run}/{number}/1", NOW - HOUR, "/p", "fix", run, usd)


def asked(budget: Budget, *lines: Line, most_usd: float | None = None, **more: Any) -> Any:
    limits = [Limited(budget, account(lines))]
    return decide(limits, most_usd, CALENDAR, more.pop("live", ()), **more)


@pytest.mark.parametrize(
    ("budget", "usd"),
    [
        (Budget(), None),
        (Budget(launches_hour=3), None),
        (Budget(day=20.0), 2.0),
        (Budget(day=20.0, week=10.0), 1.0),
        (Budget(day=20.0, turn=5.0), 5.0),
        (Budget(turn=0.5), 0.5),
    ],
)
def test_what_a_turn_may_cost(budget, usd) -> None:
    assert turn_usd(budget) == usd
    assert asked(budget) == Allowed(usd)


def test_the_smallest_of_all_amounts_is_reserved() -> None:
    limits = [Limited(Budget(turn=2.0), account([])), Limited(Budget(turn=1.5), account([]))]
    assert decide(limits, None, CALENDAR, ()) == Allowed(1.5)
    assert decide(limits, 0.25, CALENDAR, ()) == Allowed(0.25)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([], id="nothing spent"),
        pytest.param([spent(4.0)], id="exactly enough left"),
        pytest.param([spent(99.0, NOW - 13 * HOUR)], id="another day"),
        pytest.param([spent(None)], id="a turn without a known cost"),
        pytest.param([spent(0.1, number=n) for n in range(40)], id="sums that are not exact"),
    ],
)
def test_a_turn_that_fits(lines) -> None:
    assert asked(DAY_OF_5, *lines) == Allowed(1.0)


def test_a_spent_day_pauses() -> None:
    assert asked(DAY_OF_5, spent(4.5)) == Deny(
        "budget",
        "$4.50 of $5 per day is already spent or reserved, and the next turn may cost $1.00",
    )


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([spent(None, number=2), spent(4.5)], id="and a cost that is not known"),
        pytest.param([spent(4.5, CALENDAR.day_ms)], id="at midnight"),
    ],
)
def test_a_turn_that_no_longer_fits(lines) -> None:
    assert isinstance(asked(DAY_OF_5, *lines), Deny)


def test_a_spent_week_counts_other_days_too() -> None:
    answer = asked(Budget(day=5.0, week=8.0, turn=1.0), spent(7.5, NOW - 40 * HOUR))
    assert answer == Deny(
        "budget",
        "$7.50 of $8 per week is already spent or reserved, and the next turn may cost $1.00",
    )


@pytest.mark.parametrize(
    ("budget", "until_ms"),
    [
        (Budget(day=5.0, turn=1.0, when_reached="wait"), CALENDAR.next_day_ms),
        (Budget(week=5.0, turn=1.0, when_reached="wait"), CALENDAR.next_week_ms),
    ],
)
def test_a_spent_budget_may_wait_instead(budget, until_ms) -> None:
    assert asked(budget, spent(5.0)).until_wall_ms == until_ms


def test_a_project_is_named() -> None:
    limits = [Limited(DAY_OF_5, account([spent(5.0)]), " in this project")]
    answer = decide(limits, None, CALENDAR, ())
    assert isinstance(answer, Deny)
    assert answer.reason.startswith(
        "$5.00 of $5 per day in this project is already spent or reserved"
    )


def test_turns_that_have_not_ended_are_waited_for() -> None:
    lines: list[Line] = [spent(3.0), reserved(1.5)]
    assert asked(DAY_OF_5, *lines, live=["s/9/1"]) == WaitForTurns(
        "$4.50 of $5 per day is already spent or reserved, and the next turn may cost $1.00; "
        "$1.50 is reserved for turns that have not ended"
    )


@pytest.mark.parametrize(
    ("lines", "more"),
    [
        pytest.param([spent(3.0), reserved(1.5)], {}, id="its process is dead"),
        pytest.param([spent(4.5), reserved(0.5)], {"live": ["s/9/1"]}, id="it would not help"),
        pytest.param(
            [spent(3.0), reserved(1.5)],
            {"live": ["s/9/1"], "enclosing": ["s"]},
            id="it waits for this one",
        ),
    ],
)
def test_there_is_nothing_to_wait_for(lines, more) -> None:
    assert isinstance(asked(DAY_OF_5, *lines, **more), Deny)


def test_a_limit_that_denies_beats_one_that_waits() -> None:
    lines = account([spent(4.0), reserved(0.5)])
    limits = [Limited(DAY_OF_5, lines), Limited(Budget(day=4.0), lines)]
    assert isinstance(decide(limits, None, CALENDAR, ["s/9/1"]), Deny)


def test_over_budget_disregards_money_and_not_launches() -> None:
    budget = DAY_OF_5._replace(launches_hour=1)
    assert asked(budget, spent(99.0), over_budget=True) == Allowed(1.0)
    launched = asked(budget, spent(0.0, NOW - 1), over_budget=True)
    assert isinstance(launched, Deny)


def test_launches_wait_until_the_oldest_one_is_an_hour_ago() -> None:
    minutes = [NOW - 50 * 60_000, NOW - 30 * 60_000, NOW - 10 * 60_000]
    lines = [spent(0.0, at_ms, number) for number, at_ms in enumerate(minutes)]
    assert asked(Budget(launches_hour=4), *lines) == Allowed(None)
    assert asked(Budget(launches_hour=3), *lines) == Deny(
        "launches", "3 agents have started in the last hour; the limit is 3", minutes[0] + HOUR
    )
    assert asked(Budget(launches_hour=1), *lines).until_wall_ms == minutes[2] + HOUR
    assert asked(Budget(launches_hour=1), lines[2]).reason == (
        "1 agent has started in the last hour; the limit is 1"
    )


def test_what_has_to_be_read() -> None:
    assert CALENDAR.oldest_ms == CALENDAR.week_ms
    monday = CALENDAR._replace(week_ms=NOW - 1)
    assert monday.oldest_ms == NOW - HOUR


# ── a law ──────────────────────────────────────────────────────────────────────────────────────


@given(st.data())
def test_reservations_and_costs_never_exceed_the_budget(data: st.DataObject) -> None:
    """Whatever turns reserve, report or leave unreported, in whatever order."""
    budget = Budget(day=5.0, turn=data.draw(st.sampled_from([0.5, 1.0, 1.7])))
    lines: list[Line] = []
    under_way: list[Reservation] = []
    for number in range(data.draw(st.integers(1, 30))):
        if len(under_way) > 0 and data.draw(st.booleans()):
            ended = under_way.pop(data.draw(st.integers(0, len(under_way) - 1)))
            reports = data.draw(st.floats(0, ended.usd) | st.none())
            if reports is not None:  # else it was killed
                lines.append(spent(reports)._replace(id=ended.id, at_ms=ended.at_ms))
            continue
        live = [each.id for each in under_way]
        answer = asked(budget, *lines, live=live)
        if isinstance(answer, Allowed) and answer.usd is not None:
            under_way.append(reserved(answer.usd, number))
            lines.append(under_way[-1])
        booked = account(lines)
        committed = sum(turn.cost_usd or 0 for turn in booked.turns)
        committed += sum(each.usd for each in booked.reservations)
        assert committed <= 5.0 + 1e-6


@pytest.mark.parametrize(
    ("ago_ms", "answer"),
    [
        (3_600_000, Allowed(None)),
        (
            3_599_999,
            Deny("launches", "1 agent has started in the last hour; the limit is 1", NOW + 1),
        ),
    ],
)
def test_a_start_counts_for_exactly_an_hour(ago_ms, answer) -> None:
    assert asked(Budget(launches_hour=1), spent(0.1, NOW - ago_ms)) == answer
