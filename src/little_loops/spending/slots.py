"""Slots: how many agents of a user run at once on this machine, first come, first served.

A slot is a locked file. The agent's program inherits the lock, so a killed runner frees its slot
when the agent has ended too, and not before. The runner unlocks it when the turn is over, whatever
the agent has left running.

A run that an agent starts works within the slot of that agent, one turn at a time: it holds
`slot-1.in` while the agent around it holds `slot-1`. If it waited for a slot of its own, agents
that wait for their loops could hold all of them.

Files are locked and read under the guard, which is held only during a decision.

Not here: when a turn asks for a slot (`fsm.admission`), waiting (`engine.gate`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from fcntl import LOCK_UN, flock

from little_loops.errors import StorageError
from little_loops.light_typing import Any
from little_loops.records import NamedTuple
from little_loops.system.files import PRIVATE_FOLDER, Folder, failure, to_json
from little_loops.system.lock_files import guarded, held, hold
from little_loops.system.user_state import state_home

FOLDER = "slots"
SLOT = "slot-"
INNER = ".in"
TICKET = "ticket-"
VARIABLE = "LL_SLOT"
"""`slot-1:TOKEN`: the slot of the agent that this process runs in."""
GUARD_S = 60.0
"""On a busy machine, many runs may be waiting for the guard."""


class QueuePosition(NamedTuple):
    """Whose turn it is: for people who wait for it."""

    project: str
    loop: str
    run: str
    pid: int


class Busy(NamedTuple):
    """No slot is free; `holders` are the turns that have them, `before` are earlier in the queue."""

    slots: int
    holders: tuple[QueuePosition, ...]
    before: int = 0


class Slot:
    """A slot that this process holds. `descriptor` is the lock, to be inherited by the agent."""

    def __init__(self, name: str, token: str, descriptor: int) -> None:
        self.variable = f"{name}:{token}"
        self.descriptor = descriptor

    def release(self) -> None:
        """Unlock the slot, even if a process that the agent left running has inherited it."""
        with suppress(OSError):
            os.ftruncate(self.descriptor, 0)
            flock(self.descriptor, LOCK_UN)
        os.close(self.descriptor)


class Queue:
    """The way of one turn to a slot; its place in the queue is kept until it has one."""

    def __init__(self, slots: int, turn: QueuePosition, environ: Mapping[str, str]) -> None:
        """`slots` is how many there are. If `environ` has `LL_SLOT`, this process is within an
        agent's turn."""
        self._slots = slots
        self._turn = turn
        self._path = os.path.join(state_home(environ), FOLDER)
        self._outer = environ.get(VARIABLE, "")
        self._ticket: tuple[str, int] | None = None

    def take(self) -> Slot | Busy:
        """Return a slot if one is free and nobody is earlier in the queue; otherwise keep a place
        in it.

        Within another agent's turn, only that agent's slot counts, and there is no queue. Raises
        `StorageError`.
        """
        with self._folder() as folder, guarded(folder, GUARD_S):
            if (outer := _enclosing(folder, self._outer)) is not None:
                return self._take_inner(folder, outer + INNER)
            return self._take_own(folder)

    def leave(self) -> None:
        """Give up the place in the queue and remove its ticket; a second call does nothing."""
        if self._ticket is None:
            return
        (name, descriptor), self._ticket = self._ticket, None
        # Whatever becomes of the file, closing it gives the place up.
        with suppress(StorageError), self._folder() as folder, guarded(folder, GUARD_S):
            folder.remove(name)
        os.close(descriptor)

    def _take_inner(self, folder: Folder, name: str) -> Slot | Busy:
        if (holder := held(folder, name)) is not None:
            return Busy(1, (_turn(holder),))
        return _lock(folder, name, self._turn)

    def _take_own(self, folder: Folder) -> Slot | Busy:
        """Take the first free slot and remove our ticket; if others come first or all slots are
        taken, queue and return `Busy`."""
        names = folder.names()
        taken = _taken(folder, names)
        before = self._before(folder, names)
        if before or len(taken) >= self._slots:
            if self._ticket is None:
                self._queue(folder, names)
            return Busy(self._slots, tuple(map(_turn, taken.values())), before)
        numbered = (f"{SLOT}{number}" for number in range(1, 2 + len(taken)))
        slot = _lock(folder, next(name for name in numbered if name not in taken), self._turn)
        if self._ticket is not None:
            (ticket, descriptor), self._ticket = self._ticket, None
            folder.remove(ticket)
            os.close(descriptor)
        return slot

    def _before(self, folder: Folder, names: list[str]) -> int:
        """Return how many others were in the queue earlier. Remove tickets of dead processes."""
        own = None if self._ticket is None else self._ticket[0]
        count = 0
        for name in sorted(name for name in names if name.startswith(TICKET)):
            if name == own:
                break
            if held(folder, name) is not None:
                count += 1
            else:
                folder.remove(name)
        return count

    def _queue(self, folder: Folder, names: list[str]) -> None:
        """Take the next ticket: a file that stays locked until this turn has a slot or leaves the
        queue."""
        numbers = [name.removeprefix(TICKET) for name in names if name.startswith(TICKET)]
        last = max((int(number) for number in numbers if number.isdigit()), default=0)
        name = f"{TICKET}{last + 1:012}"
        descriptor = folder.open(name, os.O_RDWR | os.O_CREAT)
        hold(descriptor)
        self._ticket = name, descriptor

    def _folder(self) -> Folder:
        """Open the directory of slots and tickets, creating it if necessary. Raises
        `StorageError`."""
        try:
            os.makedirs(self._path, mode=PRIVATE_FOLDER, exist_ok=True)
        except OSError as error:
            raise failure(error, "make", self._path) from error
        folder = Folder.at(self._path)
        if folder is None:
            raise StorageError(f"`{self._path}` was removed while it was being created")
        return folder


def _lock(folder: Folder, name: str, turn: QueuePosition) -> Slot:
    """Lock a free slot and write the turn into its file. Only under the guard.

    Raises `StorageError` if another program has locked the file.
    """
    token = os.urandom(8).hex()
    descriptor = folder.open(name, os.O_RDWR | os.O_CREAT)
    try:
        if not hold(descriptor):
            raise StorageError(f"`{folder.place(name)}` is locked by another program")
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, to_json({"token": token, **turn._asdict()}) + b"\n", 0)
    except BaseException:
        os.close(descriptor)
        raise
    return Slot(name, token, descriptor)


def _taken(folder: Folder, names: list[str]) -> dict[str, bytes]:
    """Return the names of the slots in use, each with the content of its file.

    A slot is in use while its agent runs, or a turn that runs inside that agent's turn.
    """
    taken: dict[str, bytes] = {}
    for name in sorted(name for name in names if name.startswith(SLOT)):
        if (raw := held(folder, name)) is not None:
            taken.setdefault(name.partition(".")[0], raw)
    return taken


def _enclosing(folder: Folder, variable: str) -> str | None:
    """Return the slot of the agent around this process; None if there is none or it no longer holds
    it.

    `variable` is the value of `LL_SLOT`: `slot-1:TOKEN`.
    """
    name, _, token = variable.partition(":")
    if not name.startswith(SLOT) or "/" in name:
        return None
    raw = held(folder, name)
    return name if raw is not None and token and _record(raw).get("token") == token else None


def _turn(raw: bytes) -> QueuePosition:
    """Return the turn that a slot's file names; what cannot be read is `?`, or 0 for the pid."""
    record = _record(raw)
    project, loop, run = (str(record.get(name, "?")) for name in ("project", "loop", "run"))
    pid = record.get("pid")
    return QueuePosition(project, loop, run, pid if isinstance(pid, int) else 0)


def _record(raw: bytes) -> dict[str, Any]:
    """Return the JSON object in a slot's file; an empty one if it cannot be read."""
    try:
        record = json.loads(raw)
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}
