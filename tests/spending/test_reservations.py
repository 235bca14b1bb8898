"""Reserving money: many processes, one budget."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from little_loops.fsm.budgets import Budget, Deny, WaitForTurns
from little_loops.fsm.ledger import AgentTurn, Line, Released, Reservation, account
from little_loops.spending.ledger import read
from little_loops.spending.reservations import Reserved, calendar_at, reserve
from little_loops.spending.rules import SpendingRules
from tests.project import SOURCE, noon_zone

DAY_OF_5 = SpendingRules(user=Budget(day=5.0, turn=1.0))


@pytest.fixture(autouse=True)
def _noon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", noon_zone())
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path)}


def wanted(number: int, project: str = "/p") -> Reservation:
    return Reservation(f"r/{number}/1", 0, project, "fix", "r")


def taken(found: object) -> Reserved:
    assert isinstance(found, Reserved), found
    return found


def turn_of(reserved: Reserved, usd: float) -> AgentTurn:
    line = reserved.line
    return AgentTurn(
        line.id, line.at_ms, line.project, line.loop, line.run, "claude", None, 10, usd
    )


def test_a_turn_is_replaced_by_what_it_cost(environ: dict[str, str]) -> None:
    reserved = taken(reserve(DAY_OF_5, wanted(1), None, environ))
    assert reserved.usd == 1.0
    reserved.release(turn_of(reserved, 0.25))
    spent = account(read(environ, 0))
    assert [turn.cost_usd for turn in spent.turns] == [0.25]
    assert spent.reservations == ()


def test_a_turn_that_did_not_start_costs_nothing(environ: dict[str, str]) -> None:
    reserved = taken(reserve(DAY_OF_5, wanted(1), None, environ))
    reserved.cancel()
    assert read(environ, 0) == [reserved.line, Released("r/1/1", reserved.line.at_ms)]
    names = os.listdir(f"{environ['XDG_STATE_HOME']}/little-loops/ledger")
    assert not any(name.startswith("live-") for name in names)


def test_a_waiting_turn_reserves_nothing(environ: dict[str, str]) -> None:
    held = [taken(reserve(DAY_OF_5, wanted(number), None, environ)) for number in range(5)]
    assert isinstance(reserve(DAY_OF_5, wanted(5), None, environ), WaitForTurns)
    assert len(read(environ, 0)) == 5
    held[0].release(turn_of(held[0], 0.0))
    taken(reserve(DAY_OF_5, wanted(5), None, environ)).cancel()
    for each in held[1:]:
        each.cancel()


def test_the_project_can_only_lower_the_budget(environ: dict[str, str]) -> None:
    rules = DAY_OF_5._replace(project=Budget(day=1.0, turn=0.5))
    first = taken(reserve(rules, wanted(1), None, environ))
    assert first.usd == 0.5
    first.release(turn_of(first, 1.0))
    assert isinstance(reserve(rules, wanted(2), None, environ), Deny)
    taken(reserve(rules, wanted(3, "/q"), None, environ)).cancel()


KILLED = """\
import os, sys
from little_loops.fsm.budgets import Budget
from little_loops.fsm.ledger import Reservation
from little_loops.spending.reservations import reserve
from little_loops.spending.rules import SpendingRules
rules = SpendingRules(user=Budget(day=5.0, turn=1.0))
reserve(rules, Reservation("k/1/1", 0, "/p", "fix", "k"), None, {"XDG_STATE_HOME": sys.argv[1]})
os.kill(os.getpid(), 9)
"""


def test_the_reservation_of_a_killed_process_counts_as_spent(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    environment = {"PYTHONPATH": SOURCE, "TZ": os.environ["TZ"]}
    subprocess.run(command, env=environment, check=False)
    assert isinstance(reserve(DAY_OF_5, wanted(1), 4.5, environ), Reserved)
    rules = SpendingRules(user=Budget(day=5.0, turn=4.5))
    assert isinstance(reserve(rules, wanted(2), None, environ), Deny)
    # The same turn again replaces it.
    again = Reservation("k/1/1", 0, "/p", "fix", "k")
    assert len(account(read(environ, 0)).reservations) == 2
    taken(reserve(DAY_OF_5, again, None, environ)).cancel()


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kolkata"])
def test_days_and_weeks_are_those_of_the_user(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    # A Wednesday; summer time ended in New York on the Sunday before.
    noon = time.mktime((2026, 11, 4, 12, 0, 0, 0, 0, -1))
    calendar = calendar_at(round(noon * 1000))
    shown = [time.strftime("%a %d %H:%M", time.localtime(ms / 1000)) for ms in calendar]
    assert shown == [
        "Wed 04 12:00",
        "Wed 04 00:00",
        "Thu 05 00:00",
        "Mon 02 00:00",
        "Mon 09 00:00",
    ]


# ── a race ─────────────────────────────────────────────────────────────────────────────────────

RACER = """\
import random, sys
from little_loops.fsm.budgets import Budget, Deny, WaitForTurns
from little_loops.fsm.ledger import AgentTurn, Reservation
from little_loops.spending.reservations import reserve
from little_loops.spending.rules import SpendingRules

home, number, overshoot = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
chance, environ = random.Random(number), {"XDG_STATE_HOME": home}
rules = SpendingRules(user=Budget(day=5.0, turn=0.5))
sys.stdin.read(1)
for turn in range(1000):
    line = Reservation(f"r{number}/{turn}/1", 0, "/p", "fix", f"r{number}")
    found = reserve(rules, line, None, environ)
    if isinstance(found, Deny):
        break
    if isinstance(found, WaitForTurns):
        continue
    usd = chance.uniform(0, found.usd) + overshoot
    line = found.line
    found.release(AgentTurn(line.id, line.at_ms, "/p", "fix", line.run, "claude", None, 1, usd))
"""


def race(home: Path, racers: int, overshoot: float) -> None:
    """Start all of them, then let them go together."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(home), str(number), str(overshoot)],
            env={"PYTHONPATH": SOURCE, "TZ": os.environ["TZ"]},
            stdin=subprocess.PIPE,
        )
        for number in range(racers)
    ]
    for each in started:
        assert each.stdin is not None
        each.stdin.write(b"!")
        each.stdin.flush()
    for each in started:
        each.communicate()
    assert [each.returncode for each in started] == [0] * racers


def committed(home: Path) -> Iterator[float]:
    """What was spent or reserved after each line of the ledger, in the order of writing."""
    lines: list[Line] = []
    for line in read({"XDG_STATE_HOME": str(home)}, 0):
        lines.append(line)
        spent = account(lines)
        yield sum(turn.cost_usd or 0 for turn in spent.turns) + sum(
            each.usd for each in spent.reservations
        )


@pytest.mark.parametrize("racers", [8, pytest.param(50, marks=pytest.mark.soak)])
def test_a_race_for_five_dollars_never_commits_more(tmp_path: Path, racers: int) -> None:
    race(tmp_path, racers, overshoot=0.0)
    assert max(committed(tmp_path)) <= 5.0 + 1e-6


@pytest.mark.parametrize("racers", [8, pytest.param(50, marks=pytest.mark.soak)])
def test_programs_that_check_too_late_exceed_it_by_one_call_each(
    tmp_path: Path, racers: int
) -> None:
    """All of them may be at their last call at once, and none starts another turn after that."""
    race(tmp_path, racers, overshoot=0.1)
    assert max(committed(tmp_path)) <= 5.0 + 0.1 * min(racers, 10) + 1e-6
