"""Let the agents of one run start: each turn needs a slot.

A turn that was admitted keeps what it has until its action has ended, or until the run does
something else. While it waits, the run's clock stands still: waiting for others is queueing.

Not here: the rules (`fsm.admission`), slots themselves (`spending.slots`).
"""

from __future__ import annotations

import os
import time

from little_loops.engine.action_process import Workplace
from little_loops.engine.local_world import LocalWorld
from little_loops.fsm.commands import Admit
from little_loops.fsm.happenings import Admitted, Happening, Queued, StopAsked
from little_loops.fsm.state import LoopState
from little_loops.spending.rules import Rules
from little_loops.spending.slots import VARIABLE, Busy, Queue, Slot, Turn

POLL_S = 0.1
MOST_NAMED = 3


class Gate:
    """What the agents of one run have to ask before they start."""

    def __init__(self, rules: Rules, root: str) -> None:
        self._rules = rules
        self._project = os.path.realpath(root)
        self._queue: Queue | None = None
        self._slot: Slot | None = None
        self._admitted: tuple[int, int] | None = None

    def admit(self, world: LocalWorld, run: LoopState, command: Admit) -> Happening:
        """Start a turn, or return what it has to wait for; with `waits`, wait for that."""
        turn = (command.step, command.attempt)
        if self._admitted != turn:
            blocked = self._try(world, run)
            if blocked is not None and not command.waits:
                return Queued(world.clock.now(), "slot", busy_text(blocked))
            if blocked is not None and not self._wait(world, run, blocked):
                self.release()
                return world.stop_asked() or StopAsked(world.clock.now(), 0)
            self._admitted = turn
        return Admitted(world.clock.now())

    def _wait(self, world: LocalWorld, run: LoopState, blocked: Busy | None) -> bool:
        """Wait for others to end their turns. Return False if a stop was requested meanwhile."""
        stop = world.services.stop
        with world.clock.queueing():
            while blocked is not None:
                world.onlookers.doing(f"Waiting: {busy_text(blocked)}")
                world.onlookers.tick()
                if stop is None:
                    time.sleep(POLL_S)
                elif stop.wait(POLL_S):
                    return False
                blocked = self._try(world, run)
        return True

    def _try(self, world: LocalWorld, run: LoopState) -> Busy | None:
        if self._rules.slots is None or self._slot is not None:
            return None
        if self._queue is None:
            turn = Turn(self._project, run.loop, run.run, os.getpid())
            self._queue = Queue(self._rules.slots, turn, world.services.environ)
        found = self._queue.take()
        if isinstance(found, Busy):
            return found
        self._slot = found
        return None

    def lend(self, at: Workplace) -> Workplace:
        """Return the workplace of the admitted turn: its agent inherits the slot."""
        if self._slot is None:
            return at
        environ = {**at.environ, VARIABLE: self._slot.variable}
        return at._replace(environ=environ, kept_open=(self._slot.descriptor,))

    def release(self) -> None:
        """Give everything back; a second call does nothing."""
        self._admitted = None
        if self._slot is not None:
            slot, self._slot = self._slot, None
            slot.release()
        if self._queue is not None:
            queue, self._queue = self._queue, None
            queue.leave()


def busy_text(busy: Busy) -> str:
    """What a turn waits for: `both agent slots are in use, by fix-types in shop and …`."""
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
