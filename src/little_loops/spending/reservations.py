"""Reserve what a turn may cost before it starts.

A reservation is a line of the ledger, and a file that is locked while the turn goes on. If its
process is killed, the line stays: the turn may have cost all of it.

Not here: whether it is allowed (`fsm.budgets`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress

from little_loops.errors import StorageError
from little_loops.fsm.budgets import Allowed, Calendar, Deny, Limited, WaitForTurns, decide
from little_loops.fsm.ledger import Account, Line, Released, Reservation, account
from little_loops.spending.ledger import append_to, lines_since, writing
from little_loops.spending.rules import SpendingRules
from little_loops.system.clock import wall_ms
from little_loops.system.files import Folder
from little_loops.system.lock_files import held, hold

LIVE = "live-"


class Reserved:
    """An amount that is reserved for a turn of this process."""

    def __init__(
        self, line: Reservation, usd: float | None, descriptor: int, environ: Mapping[str, str]
    ) -> None:
        """`usd` is what the turn may cost, None without a limit; `descriptor` is the lock."""
        self.line = line
        self.usd = usd
        self._descriptor = descriptor
        self._environ = environ

    def release(self, *lines: Line) -> None:
        """Append these lines to the ledger in place of the reservation, and unlock it.

        Without lines, the reservation stays in the ledger: the turn may have cost all of it. Raises
        `StorageError` if that cannot be written; the lock is released all the same.
        """
        try:
            with writing(self._environ) as folder:
                append_to(folder, lines)
                folder.remove(_name(self.line.id))
        finally:
            os.close(self._descriptor)

    def cancel(self) -> None:
        """Release the reservation, because the turn did not start. If that cannot be written, it
        stays."""
        with suppress(StorageError):
            self.release(Released(self.line.id, self.line.at_ms))


def reserve(
    rules: SpendingRules,
    wanted: Reservation,
    most_usd: float | None,
    environ: Mapping[str, str],
    enclosing: tuple[str, ...] = (),
    *,
    over_budget: bool = False,
) -> Reserved | WaitForTurns | Deny:
    """Write and lock a reservation if every budget allows it; otherwise return why not.

    `most_usd` is what the run and its host allow, `enclosing` are the runs around this one. With
    `over_budget`, amounts are not checked. Raises `StorageError`.
    """
    with writing(environ) as folder:
        calendar = calendar_at(wall_ms())
        spent = account(lines_since(folder, calendar.oldest_ms))
        # A killed runner of the same turn has left its reservation, which this one replaces.
        others = tuple(each for each in spent.reservations if each.id != wanted.id)
        limits = limits_of(rules, spent._replace(reservations=others), wanted.project)
        live = {each.id for each in others if held(folder, _name(each.id)) is not None}
        answer = decide(limits, most_usd, calendar, live, enclosing, over_budget=over_budget)
        if not isinstance(answer, Allowed):
            return answer
        line = wanted._replace(at_ms=calendar.now_ms, usd=answer.usd or 0.0)
        descriptor = _lock(folder, line.id)
        try:
            append_to(folder, [line])
        except StorageError:
            os.close(descriptor)
            raise
    return Reserved(line, answer.usd, descriptor, environ)


def limits_of(rules: SpendingRules, spent: Account, project: str) -> list[Limited]:
    """Return the budgets of the user and the project, each with the turns and reservations that
    count for it."""
    limits = []
    if rules.user is not None:
        limits.append(Limited(rules.user, spent))
    if rules.project is not None:
        own = Account(
            tuple(turn for turn in spent.turns if turn.project == project),
            tuple(each for each in spent.reservations if each.project == project),
        )
        limits.append(Limited(rules.project, own, " in this project"))
    return limits


def calendar_at(now_ms: int) -> Calendar:
    """Return the day and the week of a time in the user's time zone; weeks begin on Monday."""
    today = time.localtime(now_ms / 1000)

    def midnight_ms(days: int) -> int:
        date = (today.tm_year, today.tm_mon, today.tm_mday + days)
        return round(time.mktime((*date, 0, 0, 0, 0, 0, -1)) * 1000)

    monday = -today.tm_wday
    starts = (midnight_ms(days) for days in (0, 1, monday, monday + 7))
    return Calendar(now_ms, *starts)


def _lock(folder: Folder, turn: str) -> int:
    """Create and lock the file of a turn. Return its descriptor; closing it unlocks the file.

    Raises `StorageError` if another process holds it.
    """
    descriptor = folder.open(_name(turn), os.O_RDWR | os.O_CREAT)
    if not hold(descriptor):
        os.close(descriptor)
        raise StorageError(f"the turn `{turn}` has already started in another process")
    return descriptor


def _name(turn: str) -> str:
    return LIVE + turn.replace("/", "-")
