"""The ledger of what agents cost: its lines, and what they add up to.

Each line is one JSON object. A line that cannot be read is skipped, because a power cut leaves half
of one, and a newer version may write kinds that this one does not know.

Not here: the files (`spending.ledger`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping

from little_loops.fsm.plain import WrongShape, decode
from little_loops.light_typing import Any, Final, assert_never
from little_loops.records import NamedTuple


class AgentTurn(NamedTuple):
    """A turn of an agent has ended.

    `at_ms` is when it started. `cost_usd` is None if it is unknown, and `estimated` if the agent's
    program did not report it.
    """

    id: str
    at_ms: int
    project: str
    loop: str
    run: str
    host: str
    model: str | None = None
    tokens: int = 0
    cost_usd: float | None = None
    estimated: bool = False


class Reservation(NamedTuple):
    """A turn is about to start, and may cost this much; the line of the turn replaces it."""

    id: str
    at_ms: int
    project: str
    loop: str
    run: str
    usd: float = 0.0


class Released(NamedTuple):
    """The turn of a reservation did not start."""

    id: str
    at_ms: int


class VerifiedPass(NamedTuple):
    """A run has completed, and its evidence is verified."""

    at_ms: int
    project: str
    loop: str
    run: str


class OverBudget(NamedTuple):
    """A person resumed a run without regard to its budget."""

    at_ms: int
    project: str
    loop: str
    run: str


Line = AgentTurn | Reservation | Released | VerifiedPass | OverBudget
KINDS: Final[Mapping[str, type[Line]]] = {
    "turn": AgentTurn,
    "reservation": Reservation,
    "released": Released,
    "verified_pass": VerifiedPass,
    "over_budget": OverBudget,
}
_NAMES: Final = {kind: name for name, kind in KINDS.items()}


def turn_id(run: str, step: int, attempt: int) -> str:
    return f"{run}/{step}/{attempt}"


def session_id(run: str, step: int, attempt: int) -> str:
    """Return the id of the session that resumes the run after the handoff of this attempt."""
    return f"{turn_id(run, step, attempt)}/session"


def to_record(line: Line) -> dict[str, Any]:
    return {"kind": _NAMES[type(line)], **line._asdict()}


def read_lines(text: bytes) -> Iterator[Line]:
    for raw in text.splitlines():
        if (line := _line(raw)) is not None:
            yield line


def _line(raw: bytes) -> Line | None:
    """Return a line of the ledger; None if it is damaged or of a kind that this version does not
    know."""
    try:
        data = json.loads(raw)
        kind = KINDS.get(data["kind"])
        return None if kind is None else decode(kind, data)
    except (ValueError, TypeError, KeyError, WrongShape, RecursionError):
        return None


# ── what the lines add up to ───────────────────────────────────────────────────────────────────


class Account(NamedTuple):
    """The turns that have ended, the reservations of turns that have not, and the passes."""

    turns: tuple[AgentTurn, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    passes: tuple[VerifiedPass, ...] = ()


def account(lines: Iterable[Line]) -> Account:
    """Return the turns, open reservations and verified passes of these lines.

    The first line of a turn counts: a runner that was killed after writing it writes an estimate
    when it is resumed.
    """
    turns: dict[str, AgentTurn] = {}
    reserved: dict[str, Reservation] = {}
    passes: dict[str, VerifiedPass] = {}
    released: set[str] = set()
    for line in lines:
        match line:
            case AgentTurn():
                turns.setdefault(line.id, line)
            case Reservation():
                reserved[line.id] = line
            case Released():
                released.add(line.id)
            case VerifiedPass():
                passes.setdefault(line.run, line)
            case OverBudget():
                pass  # recorded for people
            case _:
                assert_never(line)
    still = (each for each in reserved.values() if each.id not in turns and each.id not in released)
    return Account(tuple(turns.values()), tuple(still), tuple(passes.values()))


class Total(NamedTuple):
    """What some turns cost together; `unknown` turns have no known cost."""

    name: str
    turns: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    estimated_usd: float = 0.0
    unknown: int = 0
    passes: int = 0

    @property
    def usd_per_pass(self) -> float | None:
        return self.cost_usd / self.passes if self.passes else None


def totals(spent: Account, name_of: Callable[[AgentTurn], str]) -> list[Total]:
    """Return what each group of turns cost, the most expensive first; `name_of` returns the group
    of a turn.

    A verified pass is counted for the group of the last turn of its run; without such a turn, it
    is left out.
    """
    found: dict[str, Total] = {}
    last_of: dict[str, str] = {}
    for turn in spent.turns:
        name = name_of(turn)
        found[name] = _with_turn(found.get(name, Total(name)), turn)
        last_of[turn.run] = name
    for each in spent.passes:
        if (name := last_of.get(each.run, "")) in found:
            found[name] = found[name]._replace(passes=found[name].passes + 1)
    return sorted(found.values(), key=lambda total: (-total.cost_usd, total.name))


def total_of(spent: Account) -> Total:
    """Return what all turns cost together."""
    together = totals(spent, lambda _turn: "")
    return together[0] if together else Total("")


def _with_turn(total: Total, turn: AgentTurn) -> Total:
    """Add a turn to a total; if its cost is unknown, it adds 0 and is counted in `unknown`."""
    cost_usd = turn.cost_usd or 0.0
    return total._replace(
        turns=total.turns + 1,
        tokens=total.tokens + turn.tokens,
        cost_usd=total.cost_usd + cost_usd,
        estimated_usd=total.estimated_usd + (cost_usd if turn.estimated else 0.0),
        unknown=total.unknown + (turn.cost_usd is None),
    )
