"""A budget that the run shares with other runs, which reserve, spend, overshoot and die.

The rules are the real ones (`fsm.budgets`, `fsm.ledger`); what the others do is drawn.

9. Reservations and actual costs together never exceed the budget, except by one call of a model for
   each turn that goes on at once; and nothing that costs money starts without a reservation.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from little_loops.fsm.budgets import Allowed, Budget, Calendar, Deny, Limited, WaitForTurns, decide
from little_loops.fsm.commands import Admit
from little_loops.fsm.happenings import Admitted, Denied, Queued
from little_loops.fsm.ledger import (
    AgentTurn,
    Line,
    Released,
    Reservation,
    account,
    session_id,
    turn_id,
)
from little_loops.fsm.state import LoopState
from little_loops.fsm.timestamps import Moment
from tests.simulation.ledger import ContractBroken

LAW = 9
DAY_MS = 86_400_000
OTHERS = 3
CALL_USD = 0.05
"""What a program may spend beyond its limit, because it checks after each call."""


class Booked(NamedTuple):
    line: Reservation
    is_over: bool = False


class Purse:
    """What a budget knows, and those who share it."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        day = dice.choice([1.0, 2.0, 5.0])
        self.budget = Budget(
            day=day,
            week=dice.choice([None, 3 * day]),
            launches_hour=dice.choice([None, None, 12]),
            turn=dice.choice([None, day / 4]),
            when_reached=dice.choice(["pause", "pause", "wait"]),
        )
        self.lines: list[Line] = []
        self.over_usd = 0.0
        self._own: Booked | None = None
        self._others: list[Booked] = []
        self._number = 0

    # ── the run ────────────────────────────────────────────────────────────────────────────────

    def admit(
        self, run: LoopState, command: Admit, at: Moment, *, over_budget: bool
    ) -> Admitted | Queued | Denied:
        name = session_id if command.is_session else turn_id
        turn = name(run.run, command.step, command.attempt)
        if self._own is not None and self._own.line.id == turn:
            return Admitted(at, self._own.line.usd)
        if not command.waits and self.dice.random() < 0.1:
            return Queued(at, "slot", "all agent slots are in use")
        for _ in range(self.dice.randrange(4)):
            self._let_others_act(at)
        answer = self._reserve(turn, run.run, command.most_usd, at, over_budget=over_budget)
        match answer:
            case Booked():
                self._own = answer
                return Admitted(at, answer.line.usd)
            case WaitForTurns():
                return Queued(at, "budget", answer.reason)
            case Deny():
                return Denied(at, *answer)

    def settle(self, cost_usd: float | None) -> None:
        """The turn of the run has ended; what it does not report costs what was reserved."""
        if self._own is not None:
            booked, self._own = self._own, None
            most_usd = booked.line.usd + CALL_USD
            self._end(booked, booked.line.usd if cost_usd is None else min(cost_usd, most_usd))

    def starts(self, turn: str) -> None:
        """An agent's turn or a session starts, and must have a reservation."""
        if self._own is None or self._own.line.id != turn:
            raise ContractBroken(LAW, f"{turn} starts without a reservation")

    def release(self) -> None:
        """The turn that was admitted did not start."""
        if self._own is not None:
            booked, self._own = self._own, None
            self._add(Released(booked.line.id, booked.line.at_ms))

    def die(self) -> None:
        """The runner is gone, and its reservation stays."""
        self._own = None

    # ── the others ─────────────────────────────────────────────────────────────────────────────

    def let_one_end(self, at: Moment) -> None:
        """While the run waits, one of the turns it waits for ends."""
        if self._others:
            self._end(self._others.pop(), self.dice.uniform(0, 1))

    def _let_others_act(self, at: Moment) -> None:
        what = self.dice.choice(["reserve", "reserve", "end", "die"])
        if what == "reserve" and len(self._others) < OTHERS:
            self._number += 1
            run = f"other-{self._number}"
            answer = self._reserve(f"{run}/1/1", run, None, at)
            if isinstance(answer, Booked):
                self._others.append(answer)
        elif what == "end" and self._others:
            booked = self._others.pop(self.dice.randrange(len(self._others)))
            self._end(booked, self.dice.uniform(0, booked.line.usd + CALL_USD))
        elif what == "die" and self._others:
            self._others.pop()

    # ── the ledger ─────────────────────────────────────────────────────────────────────────────

    def _reserve(
        self,
        turn: str,
        run: str,
        most_usd: float | None,
        at: Moment,
        *,
        over_budget: bool = False,
    ) -> Booked | WaitForTurns | Deny:
        spent = account(line for line in self.lines if line.at_ms >= _calendar(at).oldest_ms)
        others = tuple(each for each in spent.reservations if each.id != turn)
        limits = [Limited(self.budget, spent._replace(reservations=others))]
        live = [each.line.id for each in self._others]
        answer = decide(limits, most_usd, _calendar(at), live, over_budget=over_budget)
        if not isinstance(answer, Allowed):
            return answer
        line = Reservation(turn, at.wall_ms, "/p", "l", run, answer.usd or 0.0)
        self.over_usd += line.usd + CALL_USD if over_budget else 0.0
        self._add(line)
        return Booked(line, over_budget)

    def _end(self, booked: Booked, cost_usd: float) -> None:
        line = booked.line
        cost_usd = min(cost_usd, line.usd + CALL_USD)
        self._add(AgentTurn(line.id, line.at_ms, "/p", "l", line.run, "claude", cost_usd=cost_usd))

    def _add(self, line: Line) -> None:
        self.lines.append(line)
        self.check()

    def check(self) -> None:
        """Raise if more is spent or reserved in a day or a week than the law allows."""
        spent = account(self.lines)
        for length_ms, limit in ((DAY_MS, self.budget.day), (7 * DAY_MS, self.budget.week)):
            if limit is None:
                continue
            sums: dict[int, float] = {}
            for turn in spent.turns:
                period = turn.at_ms // length_ms
                sums[period] = sums.get(period, 0.0) + (turn.cost_usd or 0.0)
            for each in spent.reservations:
                period = each.at_ms // length_ms
                sums[period] = sums.get(period, 0.0) + each.usd
            most = max(sums.values(), default=0.0)
            allowed = limit + CALL_USD * (OTHERS + 1) + self.over_usd
            if most > allowed + 1e-6:
                raise ContractBroken(
                    LAW, f"${most:.2f} is spent or reserved, ${allowed:.2f} may be"
                )


def _calendar(at: Moment) -> Calendar:
    day, week = (at.wall_ms - at.wall_ms % length for length in (DAY_MS, 7 * DAY_MS))
    return Calendar(at.wall_ms, day, day + DAY_MS, week, week + 7 * DAY_MS)
