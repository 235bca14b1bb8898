"""Agents of a metered run ask before they start."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest

from little_loops.fsm.commands import Admit, RunAgent, TakeSnapshot, Wait
from little_loops.fsm.happenings import Admitted, Denied, Queued, StopAsked
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import Limits, SignalLine
from little_loops.fsm.timestamps import Moment
from tests.fsm.scripted import START_MS, Says, ScriptedWorld, begin, go_on, told

STATES = {
    "check": {"action": "test -e fixed", "on_pass": "done", "on_fail": "fix", "check": True},
    "fix": {"action": "/fix", "next": "check"},
    "done": {"terminal": True},
}
FIXED = Says(agent="success", cost_usd=0.5, tokens=5)


def world(*script: Any, **fields: Any) -> ScriptedWorld:
    data = {"name": "fix", "initial": "check", "states": STATES, **fields}
    return ScriptedWorld(FSMLoop.from_dict(data), script)


def queued(at: Moment) -> Queued:
    return Queued(at, "slot", "the agent slot is in use by docs in blog")


def too_many(at: Moment) -> Denied:
    return Denied(at, "launches", "30 launches in the last hour", at.wall_ms + 60_000)


def spent(at: Moment) -> Denied:
    return Denied(at, "budget", "$20 of $20 a day is spent")


def stopped(at: Moment) -> StopAsked:
    return StopAsked(at, 15)


def of_kind(run: ScriptedWorld, *kinds: type) -> list[Any]:
    return [command for command in run.commands if isinstance(command, kinds)]


def test_only_agents_of_a_metered_run_ask() -> None:
    free, metered = world(1, FIXED, 0), world(1, FIXED, 0)
    begin(free)
    begin(metered, metered=True)
    assert of_kind(free, Admit) == []
    assert of_kind(metered, Admit) == [Admit("fix", 2, 1)]
    assert told(free) == told(metered)


@pytest.mark.parametrize(
    ("fields", "limits", "most_usd"),
    [
        pytest.param({}, Limits(), None, id="no limit"),
        pytest.param({"max_cost_usd": 3.0}, Limits(), 3.0, id="the run's"),
        pytest.param({"host": {"max_cost_usd": 2.0}}, Limits(), 2.0, id="the host's"),
        pytest.param(
            {"host": {"max_cost_usd": 2.0}}, Limits(max_cost_usd=1.0), 1.0, id="the lower one"
        ),
    ],
)
def test_what_a_turn_may_cost_at_most(fields, limits, most_usd) -> None:
    run = world(1, FIXED, 0, **fields)
    begin(run, limits, metered=True)
    assert of_kind(run, Admit) == [Admit("fix", 2, 1, most_usd)]


def test_the_reserved_amount_is_the_limit_of_the_turn() -> None:
    run = world(1, FIXED, 0, max_cost_usd=3.0)
    run.admissions = [lambda at: Admitted(at, 0.75)]
    begin(run, metered=True)
    assert [command.cost_left_usd for command in of_kind(run, RunAgent)] == [0.75]


def test_a_turn_is_admitted_before_the_snapshot_that_precedes_it() -> None:
    run = world(1, Says(agent="success", writes={"src/a": "1"}), 0, 0, evidence=True)
    begin(run, evidence="on", metered=True)
    of_fix = [each for each in of_kind(run, Admit, TakeSnapshot, RunAgent) if _state(each) == "fix"]
    assert [type(each).__name__ for each in of_fix] == [
        "Admit",
        "TakeSnapshot",
        "Admit",
        "RunAgent",
        "TakeSnapshot",
    ]


def _state(command: Any) -> str:
    return str(command.job.state if isinstance(command, RunAgent) else command.state)


def test_a_queued_turn_asks_again_and_waits() -> None:
    run = world(1, FIXED, 0)
    run.admissions = [queued]
    begin(run, metered=True)
    assert of_kind(run, Admit) == [Admit("fix", 2, 1), Admit("fix", 2, 1, waits=True)]
    assert told(run) == dedent("""\
        check -> fix (on_fail)
        agent wait (the agent slot is in use by docs in blog)
        fix -> check (next)
        iteration 2
        check -> done (on_pass)
        loop_complete: completed, terminal""")


def test_a_turn_that_may_start_later_waits_until_then() -> None:
    run = world(1, FIXED, 0)
    run.admissions = [too_many]
    begin(run, metered=True)
    (wait,) = of_kind(run, Wait)
    assert wait.wait.kind == "budget"
    assert wait.wait.until_wall_ms == START_MS + 61_000
    assert "agent wait (30 launches in the last hour)" in told(run)


def test_a_handler_of_the_timeout_does_not_wait_for_a_budget() -> None:
    run = world(Says(1, takes_ms=4_000), timeout=4, on_timeout="fix")
    run.admissions = [too_many]
    _, ending = begin(run, metered=True)
    assert ending[:2] == ("failed", "loop_timeout")
    assert of_kind(run, Wait) == []
    assert "`fix` did not run: 30 launches in the last hour" in told(run)


def test_a_spent_budget_pauses_the_run_and_a_resume_starts_the_same_turn() -> None:
    run = world(1)
    run.admissions = [spent]
    _, ending = begin(run, metered=True)
    assert ending[:4] == ("needs_review", "budget", "loop_paused", 4)
    assert ending.message == "$20 of $20 a day is spent"
    go_on(run, [FIXED, 0], metered=True, over_budget=True)
    assert told(run) == dedent("""\
        check -> fix (on_fail)
        loop_paused: needs_review, budget
        resume in fix
        fix -> check (next)
        iteration 2
        check -> done (on_pass)
        loop_complete: completed, terminal""")


def test_a_run_is_metered_by_the_config_of_its_last_start() -> None:
    run = world(1)
    run.admissions = [spent]
    begin(run, metered=True)
    run.commands.clear()
    go_on(run, [FIXED, 0])
    assert of_kind(run, Admit) == []


def test_a_wait_for_others_does_not_outlive_the_process() -> None:
    """After a stop while it was queued, the run asks again at once."""
    run = world(1)
    run.admissions = [queued, stopped]
    _, ending = begin(run, metered=True)
    assert ending.status == "interrupted"
    go_on(run, [FIXED, 0], metered=True)
    assert told(run).endswith("loop_complete: completed, terminal")


# ── sessions that a handoff starts ─────────────────────────────────────────────────────────────

HANDS_OFF = Says(0, line=SignalLine("handoff", "3 left"), agent="success", cost_usd=0.5)


def spawning(*script: Any, **fields: Any) -> ScriptedWorld:
    states = {"port": {"action": "/port", "next": "done"}, "done": {"terminal": True}}
    data = {"name": "p", "initial": "port", "states": states, "on_handoff": "spawn", **fields}
    return ScriptedWorld(FSMLoop.from_dict(data), script)


def session_costs(run: ScriptedWorld) -> list[float]:
    return [each["cost_usd"] for each in run.log if each["event"] == "cost"][1:]


@pytest.mark.parametrize(
    ("host", "most_usd"),
    [
        pytest.param({}, 0.25, id="what a session may cost"),
        pytest.param({"max_cost_usd": 0.2}, 0.2, id="what the host may"),
        pytest.param({"name": "codex"}, None, id="no price is known"),
    ],
)
def test_a_session_asks_before_it_starts(host, most_usd) -> None:
    run = spawning(HANDS_OFF, host=host)
    _, ending = begin(run, metered=True)
    assert ending.spawn
    turn, session = of_kind(run, Admit)
    assert not turn.is_session
    assert session == Admit("port", 1, 1, most_usd, is_session=True)


def test_a_session_costs_the_run_what_is_reserved_for_it() -> None:
    run = spawning(HANDS_OFF)
    run.admissions = [Admitted, lambda at: Admitted(at, 0.1)]
    begin(run, metered=True)
    assert session_costs(run) == [0.1]


def test_a_session_waits_for_a_slot_and_for_its_hour() -> None:
    run = spawning(HANDS_OFF)
    run.admissions = [Admitted, queued, too_many]
    _, ending = begin(run, metered=True)
    assert ending.spawn
    asked = Admit("port", 1, 1, 0.25, is_session=True)
    assert of_kind(run, Admit)[1:] == [asked, asked._replace(waits=True), asked]
    assert len(of_kind(run, Wait)) == 1
    assert session_costs(run) == [0.25]


def test_a_session_without_money_pauses_the_run_and_a_resume_replaces_it() -> None:
    run = spawning(HANDS_OFF)
    run.admissions = [Admitted, spent]
    _, ending = begin(run, metered=True)
    assert (ending[:4], ending.spawn) == (("needs_review", "budget", "loop_paused", 4), False)
    assert session_costs(run) == []
    _, ending = go_on(run, [Says(0, agent="success")], metered=True)
    assert ending.status == "completed"
    acted = of_kind(run, RunAgent)
    assert [each.job.continuation for each in acted] == [None, "3 left"]
