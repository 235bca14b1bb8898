"""What a turn has used, where its host said so and where nobody could."""

from __future__ import annotations

from typing import Any

import pytest

from little_loops.fsm.schema import FSMLoop, HostOptions, StateConfig
from little_loops.fsm.spending import REQUEST_USD, SESSION_USD, owed, session, used
from little_loops.fsm.state import LoopState, Result, Spending
from tests.fsm.scripted import Crash, Says, ScriptedWorld, Stop, begin, go_on

CUT: dict[str, Any] = {"agent": "error", "cut_by": "action"}


def loop(**fields: Any) -> FSMLoop:
    states = {"fix": StateConfig(action="/fix", timeout=9, on_timeout="fix", next="done")}
    states["done"] = StateConfig(terminal=True)
    return FSMLoop("l", initial="fix", states=states, **fields)


def run(**costs: Spending) -> LoopState:
    now = "2026-01-15T10:30:00.000Z"
    return LoopState("r", "l", "fix", now, now, costs=costs)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        pytest.param({}, None, id="a command"),
        pytest.param({"cut_by": "action"}, None, id="a command that was cut"),
        pytest.param({"agent": "success"}, None, id="an agent that reports nothing"),
        pytest.param(
            {"agent": "success", "tokens": 7, "cost_usd": 0.5, "turns": 2},
            Spending(7, 0.5, 2),
            id="reported",
        ),
        pytest.param({**CUT, "cost_usd": 0.2}, Spending(0, 0.2), id="cut, but reported"),
        pytest.param(CUT, Spending(0, REQUEST_USD, 0, REQUEST_USD), id="cut before any report"),
        pytest.param(
            {**CUT, "tokens": 100_000}, Spending(100_000, 0.3, 0, 0.3), id="cut after some tokens"
        ),
        pytest.param(
            {"agent": "error", "tokens": 1000}, Spending(1000, 0.003, 0, 0.003), id="died half-way"
        ),
        pytest.param(
            {"agent": "error", "tokens": 1}, Spending(1, 3e-6, 0, 3e-6), id="after its first token"
        ),
    ],
)
def test_a_turn(result, expected):
    assert used(loop(), run(), Result(0, 5, **result)) == expected


@pytest.mark.parametrize(
    ("fields", "costs", "estimate"),
    [
        pytest.param({}, {"fix": Spending(1000, 0.1)}, 10.0, id="by the price in this run"),
        pytest.param(
            {}, {"fix": Spending(1000, 0.1, 0, 0.1)}, 0.3, id="no price: that was a guess too"
        ),
        pytest.param({}, {"fix": Spending(0, 0.1)}, 0.3, id="no price: nothing was counted"),
        pytest.param(
            {},
            {"ask": Spending(9000, 0.0), "fix": Spending(1000, 0.1)},
            10.0,
            id="only by turns that had a price",
        ),
        pytest.param({"host": HostOptions(max_cost_usd=0.2)}, {}, 0.2, id="what a turn may use"),
        pytest.param({"max_cost_usd": 1.0}, {"ask": Spending(0, 0.9)}, 0.1, id="what is left"),
        pytest.param(
            {"max_cost_usd": 0.5}, {"ask": Spending(0, 0.9)}, 0.3, id="the limit was lowered since"
        ),
        pytest.param({"host": HostOptions("codex")}, {}, 0.0, id="a host without prices"),
    ],
)
def test_an_estimate(fields, costs, estimate):
    receipt = used(loop(**fields), run(**costs), Result(None, 5, tokens=100_000, **CUT))
    assert receipt is not None
    assert receipt.tokens == 100_000
    assert receipt.cost_usd == pytest.approx(estimate)
    assert receipt.estimated_usd == receipt.cost_usd


GUESS = Spending(0, REQUEST_USD, 0, REQUEST_USD)
ENDED = Result(0, 5, agent="success", tokens=7, cost_usd=0.5)


@pytest.mark.parametrize(
    ("fields", "lost", "expected"),
    [
        pytest.param({}, None, None, id="no turn"),
        pytest.param({"phase": "running"}, None, None, id="a command"),
        pytest.param({"phase": "running", "session_id": "s"}, None, GUESS, id="not yet recorded"),
        pytest.param({"owes": True}, None, GUESS, id="recorded as lost"),
        pytest.param(
            {"owes": True},
            Result(None, 0, tokens=1000, **CUT),
            Spending(1000, 0.003, 0, 0.003),
            id="its host had reported tokens",
        ),
        pytest.param(
            {"owes": True, "phase": "judging", "captured": {"fix": ENDED}},
            Result(None, 0, tokens=1000, **CUT),
            Spending(7, 0.5),
            id="its result is recorded",
        ),
    ],
)
def test_what_a_killed_runner_has_not_recorded(fields, lost, expected):
    assert owed(loop(), run()._replace(**fields), lost) == expected


def test_a_host_without_prices_is_not_charged_for_silence():
    assert used(loop(host=HostOptions("command")), run(), Result(None, 5, **CUT)) is None


@pytest.mark.parametrize(
    ("host", "expected"),
    [("claude", Spending(0, SESSION_USD, 0, SESSION_USD)), ("codex", None)],
)
def test_a_spawned_session(host, expected):
    assert session(loop(host=HostOptions(host)), run()) == expected


def costs(world: ScriptedWorld) -> list[tuple[float, bool]]:
    told = [each for each in world.log if each["event"] == "cost"]
    return [(each["cost_usd"], each.get("estimated", False)) for each in told]


def test_turns_that_are_cut_use_up_the_money():
    late = Says(0, agent="success", takes_ms=10_000)
    world = ScriptedWorld(loop(max_cost_usd=0.25), [late] * 9)
    _, ending = begin(world)
    assert costs(world) == [(0.1, True), (0.1, True), (0.04999999999999999, True)]
    assert (ending.reason, ending.message) == (
        "max_cost",
        "agents have used $0.25 of $0.25, $0.25 of it estimated",
    )


@pytest.mark.parametrize(
    ("lost", "expected"),
    [
        pytest.param(None, (REQUEST_USD, True), id="nothing is known of it"),
        pytest.param(Result(None, 0, tokens=2000, **CUT), (0.006, True), id="its tokens are"),
        pytest.param(Result(None, 0, cost_usd=0.7, **CUT), (0.7, False), id="its cost is"),
    ],
)
def test_a_turn_that_is_lost_with_its_runner_is_paid_for_once(lost, expected):
    world = ScriptedWorld(loop(), [Crash])
    with pytest.raises(Crash):
        begin(world)
    go_on(world, [Says(0, agent="success", cost_usd=0.5)], lost=lost)
    assert costs(world) == [expected, (0.5, False)]


def test_a_turn_that_was_never_begun_costs_nothing():
    world = ScriptedWorld(loop(), [Stop(15)])
    begin(world)
    go_on(world, [Says(0, agent="success", cost_usd=0.5)])
    assert costs(world) == [(0.5, False)]
