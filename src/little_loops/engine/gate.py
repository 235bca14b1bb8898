"""Let the agents of one run start: each turn needs a slot, and then what it may cost.

A turn that was admitted keeps what it has until its action has ended, or until the run does
something else. While it waits, the run's clock stands still: waiting for others is queueing.

Not here: the rules (`fsm.admission`, `fsm.budgets`), slots (`spending.slots`) and reservations
(`spending.reservations`) themselves.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from little_loops.engine.action_process import Workplace
from little_loops.engine.local_world import LocalWorld, Services
from little_loops.errors import StorageError
from little_loops.fsm.budgets import Deny, Wait
from little_loops.fsm.commands import Admit
from little_loops.fsm.happenings import Admitted, Denied, Happening, Queued, StopAsked
from little_loops.fsm.ledger import AgentTurn, Reservation, turn_id
from little_loops.fsm.state import AgentWaitKind, LoopState
from little_loops.records import NamedTuple
from little_loops.runs.claims import nesting
from little_loops.spending.reservations import Reserved, reserve
from little_loops.spending.rules import Rules
from little_loops.spending.slots import VARIABLE, Busy, Queue, Slot, Turn

POLL_S = 0.1
MOST_NAMED = 3


class Blocked(NamedTuple):
    """What a turn waits for: turns of others that have not ended."""

    wait_for: AgentWaitKind
    reason: str


class Gate:
    """What the agents of one run have to ask before they start."""

    def __init__(self, rules: Rules, root: str, *, over_budget: bool = False) -> None:
        """`root` is the project. With `over_budget`, amounts are not checked, only how often agents
        start."""
        self._rules = rules
        self._project = os.path.realpath(root)
        self._over_budget = over_budget
        self._queue: Queue | None = None
        self._slot: Slot | None = None
        self._reserved: Reserved | None = None
        self._admitted: tuple[int, int] | None = None

    def admit(self, world: LocalWorld, run: LoopState, command: Admit) -> Happening:
        """Admit a turn: take a slot and reserve its cost. A turn that is already admitted stays so.

        If it has to wait, return `Queued`; with `command.waits`, wait first, as long as the kind of
        wait is the same. `Denied` and `StopAsked` give everything back. Raises `StorageError`.
        """
        turn = (command.step, command.attempt)
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
                return Admitted(at, None if self._reserved is None else self._reserved.usd)

    def _wait(
        self, world: LocalWorld, run: LoopState, command: Admit, blocked: Blocked
    ) -> Blocked | Deny | StopAsked | None:
        """Wait for others to end their turns; meanwhile the run's clock stands still.

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
        return self._take_slot(world, run) or self._reserve(world, run, command)

    def _take_slot(self, world: LocalWorld, run: LoopState) -> Blocked | None:
        """Take a slot, or a place in the queue. Return None if the turn has a slot or does not need
        one."""
        if self._rules.slots is None or self._slot is not None:
            return None
        if self._queue is None:
            turn = Turn(self._project, run.loop, run.run, os.getpid())
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
        turn = turn_id(run.run, command.step, command.attempt)
        found = reserve(
            self._rules,
            Reservation(turn, 0, self._project, run.loop, run.run),
            command.most_usd,
            environ,
            nesting(environ).runs,
            over_budget=self._over_budget,
        )
        match found:
            case Wait():
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
        if self._reserved is None:
            return turn
        reserved, self._reserved = self._reserved, None
        reserved.release(charged(turn, reserved.line))
        return None

    def release(self) -> None:
        """Cancel the reservation, free the slot and leave the queue; a second call does nothing."""
        self._admitted = None
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


def slot_of_session(slots: int, run: LoopState, root: str, services: Services) -> int | None:
    """Wait for the slot of a session that outlives this process. Return its lock, which the session
    has to inherit and the caller has to close; None if a stop was requested meanwhile."""
    turn = Turn(os.path.realpath(root), run.loop, run.run, os.getpid())
    queue = Queue(slots, turn, services.environ)
    is_announced = False
    try:
        while isinstance(found := queue.take(), Busy):
            if not is_announced:
                services.say(f"Waiting to start a session: {busy_text(found)}")
                is_announced = True
            if services.stop is None:
                time.sleep(POLL_S)
            elif services.stop.wait(POLL_S):
                return None
        return found.descriptor
    finally:
        queue.leave()


def charged(turn: AgentTurn, reservation: Reservation) -> AgentTurn:
    """Return the turn at the time of its reservation; if it did not report its cost, with the
    reserved amount as an estimate."""
    turn = turn._replace(at_ms=reservation.at_ms)
    if (turn.cost_usd is not None and not turn.estimated) or not reservation.usd:
        return turn
    return turn._replace(cost_usd=reservation.usd, estimated=True)


def busy_text(busy: Busy) -> str:
    """Return what a turn waits for: `both agent slots are in use, by fix-types in shop and …`."""
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
        return f"other agents are first in the queue for a slot{queued}"
    return f"{number} in use, by {by}{queued}"
