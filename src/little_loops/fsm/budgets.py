"""What a budget allows: pure rules about money, launches and slots.

Not here: the ledger (`spending.ledger`), asking before a turn (`admission`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from little_loops.records import NamedTuple

MOST_USD: Final = 1e6
MOST: Final = 100_000


class Budget(NamedTuple):
    """What agents may cost, in US dollars, and how often they may start; None: no limit."""

    day: float | None = None
    week: float | None = None
    launches_hour: int | None = None
    turn: float | None = None
    when_reached: Literal["pause", "wait"] = "pause"


class Refused(ValueError):
    """A setting with a value that it does not take; `help` says what it takes."""

    def __init__(self, why: str, help: str) -> None:
        super().__init__(why)
        self.help = help


def read_slots(written: Any) -> int | None:
    """Read `agents: {slots: 3}`. Raises `Refused`."""
    example = "agents: {slots: 3}"
    given = _mapping("agents", written, ("slots",), example)
    return None if "slots" not in given else _count("agents.slots", given["slots"], example)


def read_budget(written: Any) -> Budget:
    """Read `budget: {day: 20, …}`. Raises `Refused`."""
    example = "budget: {day: 20, week: 80, launches_hour: 30, turn: 1, when_reached: pause}"
    given = _mapping("budget", written, Budget._fields, example)
    for name in ("day", "week", "turn"):
        if name in given:
            given[name] = _amount(f"budget.{name}", given[name], example)
    if "launches_hour" in given:
        _count("budget.launches_hour", given["launches_hour"], example)
    if given.get("when_reached", "pause") not in ("pause", "wait"):
        raise Refused("`budget.when_reached` must be `pause` or `wait`", example)
    return Budget(**given)


def _mapping(name: str, written: Any, known: tuple[str, ...], example: str) -> dict[str, Any]:
    if not isinstance(written, Mapping):
        raise Refused(f"`{name}` must be a mapping", example)
    if unknown := [key for key in written if key not in known]:
        listed = ", ".join(f"`{key}`" for key in known)
        raise Refused(f"`{name}` has no setting `{unknown[0]}`; known: {listed}", example)
    return dict(written)


def _amount(name: str, value: Any, example: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value <= MOST_USD:
        raise Refused(f"`{name}` must be an amount in US dollars, more than 0", example)
    return float(value)


def _count(name: str, value: Any, example: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST:
        raise Refused(f"`{name}` must be a whole number, at least 1", example)
    return value
