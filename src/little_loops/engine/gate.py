"""Let the agents of one run start: each turn needs a slot, and then what it may cost.

A turn that was admitted keeps what it has until its action has ended, or until the run does
something else; a session that was admitted, until it has started. The run's clock stops while it
waits: waiting for others is queueing.

Not here: the rules (`fsm.admission`, `fsm.budgets`), slots (`spending.slots`) and reservations
(`spending.reservations`) themselves.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress

from little_loops.engine.action_process import Workplace
from little_loops.engine.local_world import LocalWorld
from little_loops.errors import StorageError
from little_loops.fsm.budgets import Deny, WaitForTurns
from little_loops.fsm.commands import Admit
from little_loops.fsm.happenings import Admitted, Denied, Happening, Queued, StopAsked
from little_loops.fsm.ledger import AgentTurn, Reservation, session_id, turn_id
from little_loops.fsm.state import AgentWaitKind, LoopState
from little_loops.light_typing import TYPE_CHECKING
from little_loops.records import NamedTuple
from little_loops.runs.claims import nesting
from little_loops.spending.reservations import Reserved, reserve
from little_loops.spending.rules import SpendingRules
from little_loops.spending.slots import VARIABLE, Busy, Queue, QueuePosition, Slot

if TYPE_CHECKING:
    from little_loops.spending.shares import Share

POLL_S = 0.1
MOST_NAMED = 3


class Blocked(NamedTuple):
    """What a turn waits for: turns of others that have not ended."""

    wait_for: AgentWaitKind
    reason: str


class AgentAdmission:
    """What the agents of one run have to ask before they start."""

    def __init__(self, rules: SpendingRules, root: str, *, over_budget: bool = False) -> None:
        """`root` is the project. With `over_budget`, amounts are not checked, only how often agents
        start."""
        self._rules = rules
        self._project = os.path.realpath(root)
        self._over_budget = over_budget
        self._queue: Queue | None = None
        self._slot: Slot | None = None
        self._reserved: Reserved | None = None
        self._admitted: str | None = None
        self._shares: tuple[Share, ...] = ()
        self._share_usd: float | None = None

    def admit(self, world: LocalWorld, run: LoopState, command: Admit) -> Happening:
        """Admit a turn: take a slot and reserve its cost. A turn that is already admitted stays so.

        If it has to wait, return `Queued`; with `command.waits`, wait first, as long as the kind of
        wait is the same. `Denied` and `StopAsked` give everything back. Raises `StorageError`.
        """
        turn = _turn_of(run, command)
        found: Blocked | Deny | StopAsked | None = None
        if self._admitted != turn:
            found = self._try(world, run, command)
        if isinstance(found, Blocked) and command.waits:
            found = self._wait(world, run, command, found)
        at = world.clock.now()
        match found:
            case Blocked():
                return Queued(at, *found)
            case Deny():
                self.release()
                return Denied(at, *found)
            case StopAsked():
                self.release()
                return found
            case None:
                self._admitted = turn
                return Admitted(at, self._allowed_usd())

    def _allowed_usd(self) -> float | None:
        """Return what the admitted turn may cost: the smaller of its reservation and its share."""
        reserved = None if self._reserved is None else self._reserved.usd
        share = self._share_usd if self._shares else None
        return min((usd for usd in (reserved, share) if usd is not None), default=None)

    def _wait(
        self, world: LocalWorld, run: LoopState, command: Admit, blocked: Blocked
    ) -> Blocked | Deny | StopAsked | None:
        """Wait for others to end their turns; the run's clock stops meanwhile.

        Returns None when the turn can start, or what it has to wait for now, if that is something
        else.
        """
        stop = world.services.stop
        found: Blocked | Deny | None = blocked
        with world.clock.queueing():
            while isinstance(found, Blocked) and found.wait_for == blocked.wait_for:
                world.onlookers.doing(f"Waiting: {found.reason}")
                world.onlookers.tick()
                if stop is None:
                    time.sleep(POLL_S)
                elif stop.wait(POLL_S):
                    return StopAsked(world.clock.now(), stop.signal or 0)
                found = self._try(world, run, command)
        return found

    def _try(self, world: LocalWorld, run: LoopState, command: Admit) -> Blocked | Deny | None:
        """Take a slot, a share of the limits above, and a reservation, in this order."""
        if (busy := self._take_slot(world, run)) is not None:
            return busy
        shares = world.services.shares
        if not shares:
            return self._reserve(world, run, command)
        share = self._take_share(shares, command.most_usd)
        if isinstance(share, Blocked | Deny):
            return share
        found = self._reserve(world, run, command._replace(most_usd=share))
        if found is not None:
            self._give_back()
        return found

    def _take_share(
        self, shares: Sequence[Share], most_usd: float | None
    ) -> Blocked | Deny | float | None:
        """Reserve a share of the limits of the runs above. Return what it is, None for no limit."""
        from little_loops.spending.shares import NoShare, take  # few runs have limits above

        found = take(shares, most_usd)
        if isinstance(found, NoShare):
            if found.waits:
                return Blocked("budget", found.reason)
            return Deny("budget", found.reason, limit=found.limit)
        self._shares, self._share_usd = tuple(shares), found
        return found

    def _give_back(self, turn: AgentTurn | None = None) -> None:
        """Replace the share of the admitted turn by what it cost: all of it, if that is unknown;
        nothing without a turn."""
        if not self._shares:
            return
        from little_loops.spending.shares import settle

        shares, self._shares = self._shares, ()
        cost_usd, tokens = 0.0, 0
        if turn is not None:
            known = turn.cost_usd
            cost_usd = (self._share_usd or 0.0) if known is None else known
            tokens = turn.tokens
        settle(shares, cost_usd, tokens)

    def _take_slot(self, world: LocalWorld, run: LoopState) -> Blocked | None:
        """Take a slot, or a place in the queue. Return None if the turn has a slot or does not need
        one."""
        if self._rules.slots is None or self._slot is not None:
            return None
        if self._queue is None:
            turn = QueuePosition(self._project, run.loop, run.run, os.getpid())
            self._queue = Queue(self._rules.slots, turn, world.services.environ)
        found = self._queue.take()
        if isinstance(found, Busy):
            return Blocked("slot", busy_text(found))
        self._slot = found
        return None

    def _reserve(self, world: LocalWorld, run: LoopState, command: Admit) -> Blocked | Deny | None:
        """Reserve what the turn may cost. Return None if that worked, or if there is no budget."""
        if self._rules.user is None and self._rules.project is None:
            return None
        environ = world.services.environ
        found = reserve(
            self._rules,
            Reservation(_turn_of(run, command), 0, self._project, run.loop, run.run),
            command.most_usd,
            environ,
            nesting(environ).runs,
            over_budget=self._over_budget,
        )
        match found:
            case WaitForTurns():
                return Blocked("budget", found.reason)
            case Deny():
                return found
            case _:
                self._reserved = found
                return None

    def lend(self, at: Workplace) -> Workplace:
        """Return the workplace of the admitted turn: its agent inherits the slot, and `LL_SLOT`
        names it."""
        if self._slot is None:
            return at
        environ = {**at.environ, VARIABLE: self._slot.variable}
        return at._replace(environ=environ, kept_open=(self._slot.descriptor,))

    def settle(self, turn: AgentTurn) -> AgentTurn | None:
        """Replace the reservation by what the turn cost: all of it, if that was not reported.
        Return None.

        Without a reservation, return the turn, for the caller to record. Raises `StorageError`; the
        reservation then stays in the ledger.
        """
        self._give_back(turn)
        if self._reserved is None:
            return turn
        reserved, self._reserved = self._reserved, None
        reserved.release(charged(turn, reserved.line))
        return None

    def hand_over(self) -> Permit:
        """Return what the admitted session holds; this gate no longer has it."""
        permit = Permit(self._slot, self._reserved)
        self._slot = self._reserved = self._admitted = None
        return permit

    def release(self) -> None:
        """Cancel the reservation, free the slot and leave the queue; a second call does nothing."""
        self._admitted = None
        self._give_back()
        if self._reserved is not None:
            reserved, self._reserved = self._reserved, None
            reserved.cancel()
        if self._slot is not None:
            slot, self._slot = self._slot, None
            slot.release()
        if self._queue is not None:
            queue, self._queue = self._queue, None
            with suppress(StorageError):
                queue.leave()


def _turn_of(run: LoopState, command: Admit) -> str:
    """Return the id that the ledger has for what asks to start."""
    name = session_id if command.is_session else turn_id
    return name(run.run, command.step, command.attempt)


class Permit:
    """What an admitted session holds until it has started: a slot, and what it may cost."""

    def __init__(self, slot: Slot | None, reserved: Reserved | None) -> None:
        self._slot = slot
        self._reserved = reserved

    @property
    def usd(self) -> float | None:
        return None if self._reserved is None else self._reserved.usd

    @property
    def kept_open(self) -> tuple[int, ...]:
        """Return the lock of the slot, which the session has to inherit."""
        return () if self._slot is None else (self._slot.descriptor,)

    def settle(self, turn: AgentTurn) -> AgentTurn | None:
        """Charge the session what was reserved for it, because it reports nothing. Return None;
        without a reservation, return the turn, for the caller to record. Raises `StorageError`."""
        if self._reserved is None:
            return turn
        reserved, self._reserved = self._reserved, None
        reserved.release(charged(turn, reserved.line))
        return None

    def close(self) -> None:
        """Close the slot, which stays locked while the session runs; a reservation that was not
        settled is cancelled."""
        if self._reserved is not None:
            reserved, self._reserved = self._reserved, None
            reserved.cancel()
        if self._slot is not None:
            slot, self._slot = self._slot, None
            os.close(slot.descriptor)


def charged(turn: AgentTurn, reservation: Reservation) -> AgentTurn:
    """Return the turn at the time of its reservation; if it did not report its cost, with the
    reserved amount as an estimate."""
    turn = turn._replace(at_ms=reservation.at_ms)
    if (turn.cost_usd is not None and not turn.estimated) or not reservation.usd:
        return turn
    return turn._replace(cost_usd=reservation.usd, estimated=True)


def busy_text(busy: Busy) -> str:
    """Return what a turn waits for: `both agent slots are in use by fix-types in shop and …`."""
    number = {1: "the agent slot is", 2: "both agent slots are"}.get(
        busy.slots, f"all {busy.slots} agent slots are"
    )
    names = [f"{turn.loop} in {os.path.basename(turn.project)}" for turn in busy.holders]
    shown, rest = names[:MOST_NAMED], len(names) - MOST_NAMED
    if rest > 0:
        shown.append(f"{rest} more")
    by = " and ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))
    queued = f"; {busy.before} earlier in the queue" if busy.before else ""
    if len(busy.holders) < busy.slots:
        return f"other agents are ahead in the queue for a slot{queued}"
    return f"{number} in use by {by}{queued}"
