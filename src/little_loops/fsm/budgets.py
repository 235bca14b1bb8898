"""What a budget allows: pure rules about money, launches and slots.

Not here: the ledger (`spending.ledger`), asking before a turn (`admission`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from little_loops.fsm.ledger import Account, Reservation
from little_loops.fsm.state import AgentWaitKind
from little_loops.light_typing import Any, Final, Literal
from little_loops.records import NamedTuple

MOST_USD: Final = 1e6
MOST: Final = 100_000
HOUR_MS: Final = 3_600_000
ROUNDING_USD: Final = 1e-9
"""Sums of amounts such as 0.1 are not exact."""


class Budget(NamedTuple):
    """What agents may cost, in US dollars, and how often they may start; None: no limit."""

    day: float | None = None
    week: float | None = None
    launches_hour: int | None = None
    turn: float | None = None
    when_reached: Literal["pause", "wait"] = "pause"


class WrongSetting(ValueError):
    """A setting with a value that it does not take; `help` says what it takes."""

    def __init__(self, why: str, help: str) -> None:
        super().__init__(why)
        self.help = help


def read_slots(written: Any) -> int | None:
    """Return the number of slots in `agents: {slots: 3}`, or None if it is not set. Raises
    `WrongSetting`."""
    example = "agents: {slots: 3}"
    given = _mapping("agents", written, ("slots",), example)
    return None if "slots" not in given else _count("agents.slots", given["slots"], example)


def read_budget(written: Any) -> Budget:
    """Return the budget in `budget: {day: 20, …}`. Raises `WrongSetting` for an unknown key or an
    invalid value."""
    example = "budget: {day: 20, week: 80, launches_hour: 30, turn: 1, when_reached: pause}"
    given = _mapping("budget", written, Budget._fields, example)
    for name in ("day", "week", "turn"):
        if name in given:
            given[name] = _amount(f"budget.{name}", given[name], example)
    if "launches_hour" in given:
        _count("budget.launches_hour", given["launches_hour"], example)
    if given.get("when_reached", "pause") not in ("pause", "wait"):
        raise WrongSetting("`budget.when_reached` must be `pause` or `wait`", example)
    return Budget(**given)


def _mapping(name: str, written: Any, known: tuple[str, ...], example: str) -> dict[str, Any]:
    """Return a setting as a dict. Raises `WrongSetting` if it is not a mapping, or has a key that is not
    in `known`."""
    if not isinstance(written, Mapping):
        raise WrongSetting(f"`{name}` must be a mapping", example)
    if unknown := [key for key in written if key not in known]:
        listed = ", ".join(f"`{key}`" for key in known)
        raise WrongSetting(f"`{name}` has no setting `{unknown[0]}`; known: {listed}", example)
    return dict(written)


def _amount(name: str, value: Any, example: str) -> float:
    """Return an amount in US dollars. Raises `WrongSetting` unless it is above 0 and at most
    `MOST_USD`."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value <= MOST_USD:
        raise WrongSetting(f"`{name}` must be an amount in US dollars, more than 0", example)
    return float(value)


def _count(name: str, value: Any, example: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST:
        raise WrongSetting(f"`{name}` must be a whole number, at least 1", example)
    return value


# ── what is allowed ────────────────────────────────────────────────────────────────────────────


class Calendar(NamedTuple):
    """The current day and week where the user is, in milliseconds; weeks begin on Monday."""

    now_ms: int
    day_ms: int
    next_day_ms: int
    week_ms: int
    next_week_ms: int

    @property
    def oldest_ms(self) -> int:
        """Return when the oldest turn started that may still count."""
        return min(self.week_ms, self.now_ms - HOUR_MS)


class Limited(NamedTuple):
    """A budget, and what counts for it; `whose` is the user's or the project's."""

    budget: Budget
    spent: Account
    whose: str = ""


class Allowed(NamedTuple):
    """A turn may start, and cost this much; None: no limit."""

    usd: float | None


class WaitForTurns(NamedTuple):
    """A turn may start if turns that have not ended cost less than was reserved for them."""

    reason: str


class Deny(NamedTuple):
    """A turn may not start, or not before the given time."""

    wait_for: AgentWaitKind
    reason: str
    until_wall_ms: int | None = None
    limit: str | None = None


def turn_usd(budget: Budget) -> float | None:
    """Return what a turn may cost: as set, else a tenth of the smaller limit; None without
    either."""
    if budget.turn is not None:
        return budget.turn
    limits = [limit for limit in (budget.day, budget.week) if limit is not None]
    return min(limits) / 10 if limits else None


def decide(
    limits: Sequence[Limited],
    most_usd: float | None,
    calendar: Calendar,
    live: Collection[str],
    enclosing: Collection[str] = (),
    *,
    over_budget: bool = False,
) -> Allowed | WaitForTurns | Deny:
    """Decide whether a turn may start, and how much to reserve for it.

    `most_usd` is what the run and its host allow, `live` the ids of reservations whose turns have
    not ended, `enclosing` the runs around this one, for which it cannot wait because they wait for
    it. `over_budget` ignores all limits except the number of starts per hour.
    """
    amounts = [most_usd, *(turn_usd(each.budget) for each in limits)]
    usd = min((amount for amount in amounts if amount is not None), default=None)
    for each in limits:
        if (denied := _launches(each, calendar)) is not None:
            return denied
    if over_budget:
        return Allowed(usd)
    waits: WaitForTurns | None = None
    for period in (period for each in limits for period in _periods(each, calendar)):
        answer = _fits(period, usd or 0.0, live, enclosing)
        if isinstance(answer, Deny):
            return answer
        waits = waits or answer
    return waits or Allowed(usd)


def _launches(limited: Limited, calendar: Calendar) -> Deny | None:
    """Return the refusal if no more agents may start in this hour, with the time of the next start;
    else None."""
    most, since_ms = limited.budget.launches_hour, calendar.now_ms - HOUR_MS
    if most is None:
        return None
    starts = [turn.at_ms for turn in limited.spent.turns]
    starts += [each.at_ms for each in limited.spent.reservations]
    starts = sorted(at_ms for at_ms in starts if at_ms > since_ms)
    if len(starts) < most:
        return None
    count = "1 agent has" if len(starts) == 1 else f"{len(starts)} agents have"
    reason = f"{count} started in the last hour{limited.whose}; the limit is {most}"
    return Deny("launches", reason, starts[-most] + HOUR_MS)


class _Period(NamedTuple):
    """One limit of a budget: an amount for a day or a week."""

    limit_usd: float
    since_ms: int
    until_ms: int
    noun: str
    limited: Limited


def _periods(limited: Limited, calendar: Calendar) -> Iterator[_Period]:
    """Yield the day and the week, as far as the budget limits them."""
    day, week = limited.budget.day, limited.budget.week
    if day is not None:
        yield _Period(day, calendar.day_ms, calendar.next_day_ms, "day", limited)
    if week is not None:
        yield _Period(week, calendar.week_ms, calendar.next_week_ms, "week", limited)


def _fits(
    period: _Period, usd: float, live: Collection[str], enclosing: Collection[str]
) -> WaitForTurns | Deny | None:
    """Return None if the turn fits the period's limit, and `WaitForTurns` if it may fit once live turns
    have ended. Else return `Deny`: until the next period, or without a time if the budget is set to
    `pause`."""
    since_ms, spent = period.since_ms, period.limited.spent
    reserved = [each for each in spent.reservations if each.at_ms >= since_ms]
    cost_usd = sum(turn.cost_usd or 0.0 for turn in spent.turns if turn.at_ms >= since_ms)
    committed_usd = cost_usd + sum(each.usd for each in reserved)
    if committed_usd + usd <= period.limit_usd + ROUNDING_USD:
        return None
    shown = f"${committed_usd:.2f} of ${period.limit_usd:g} per {period.noun}{period.limited.whose}"
    reason = f"{shown} is already spent or reserved, and the next turn may cost ${usd:.2f}"
    open_usd = _returnable_usd(reserved, live, enclosing)
    if open_usd and committed_usd - open_usd + usd <= period.limit_usd + ROUNDING_USD:
        return WaitForTurns(f"{reason}; ${open_usd:.2f} is reserved for turns that have not ended")
    pauses = period.limited.budget.when_reached == "pause"
    return Deny("budget", reason, None if pauses else period.until_ms)


def _returnable_usd(
    reserved: Sequence[Reservation], live: Collection[str], enclosing: Collection[str]
) -> float:
    """Return how much of the reservations may become free while a turn waits: those of live turns,
    or 0 if one of these belongs to an enclosing run."""
    under_way = [each for each in reserved if each.id in live]
    if any(each.run in enclosing for each in under_way):
        return 0.0
    return sum(each.usd for each in under_way)
