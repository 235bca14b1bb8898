"""Run the real engine on a disk that can fail, with actions generated and a clock of our own.

One *segment* is the life of one process: it starts or resumes the run and ends by itself, by a
stop, by an error, by a kill or by a loss of power.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from little_loops.engine.drive import ActionOutcome, Performers
from little_loops.engine.lifecycle import RunOutcome, RunRequest, start
from little_loops.engine.local_world import LocalWorld, Services
from little_loops.engine.resolve import fill
from little_loops.engine.resuming import resume
from little_loops.errors import LittleLoopsError, StorageError
from little_loops.fsm.commands import RunAction, RunAgent, RunBuiltin, RunShell
from little_loops.fsm.happenings import ActionEnded
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import LoopState, Result
from little_loops.system.clock import RunClock
from little_loops.system.stops import StopFlag
from tests.simulation.disk import Disk, Fault, Killed, PowerCut, heard
from tests.simulation.machines import Deed, Key, key_of

START_MS = 1_768_473_000_000  # 2026-01-15T10:30:00Z
NAME = "sim"

Acting = Callable[[Key], Deed]


class Clock:
    """Time that passes only when somebody says so."""

    def __init__(self) -> None:
        self.now_ms = 0

    def of_run(self, before_ms: int) -> RunClock:
        return RunClock(before_ms, wall=lambda: START_MS + self.now_ms, steady=lambda: self.now_ms)


class Stop(StopFlag):
    """Waits by the clock of the simulation."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock

    def wait(self, seconds: float | None) -> bool:
        if not self.count and seconds is not None:
            self.clock.now_ms += max(1, round(seconds * 1000))
        return bool(self.count)


def played_by(act: Callable[[LoopState, RunAction], ActionOutcome]) -> Performers:
    """Performers for actions that are generated; what cannot be filled in never gets there."""

    def perform(world: LocalWorld, run: LoopState, command: RunAction) -> ActionEnded:
        filled = fill(command, world.values(run))
        if isinstance(filled, str):
            return world.ended(ActionOutcome(Result(None, 0, failure=filled)))
        return world.ended(act(run, command))

    return dict.fromkeys((RunShell, RunAgent, RunBuiltin), perform)


class Cue(NamedTuple):
    """What happens in the n-th action of a segment, instead of or after what it does."""

    number: int
    what: type[BaseException] | int
    """The process is gone, or a signal asks it to stop."""
    is_after: bool = False
    """After all the action does to the world, but before anybody hears of it."""


class Played:
    """Runs made-up actions, and remembers every one that was begun."""

    def __init__(self, world: Simulation, cue: Cue | None) -> None:
        self.world = world
        self.cue = cue
        self.begun = 0

    def act(self, run: LoopState, command: RunAction) -> ActionOutcome:
        self.begun += 1
        key = key_of(run, command)
        cue = self.cue if self.cue is not None and self.cue.number == self.begun else None
        self.world.begins(key, command)
        deed = self.world.doing(key)
        deadline, took = command.job.deadline_ms, deed.takes_ms
        late = deadline is not None and took >= deadline
        took = deadline if late and deadline is not None else took
        if cue is not None and not cue.is_after:
            took //= 2
        self.world.clock.now_ms += took
        if cue is not None:
            if isinstance(cue.what, int):
                self.world.stop.ask(cue.what)
                return ActionOutcome(Result(None, took, signal=15, cut_by="stop"))
            self.world.disk.kill(cue.what)
        if late:
            return ActionOutcome(Result(None, took, signal=15, cut_by=command.job.deadline_of))
        return ActionOutcome(
            Result(deed.exit_code, took, deed.output.removesuffix("\n")), deed.line
        )


class Ended(NamedTuple):
    """How a segment ended: by itself, with an error in words, or with its process gone."""

    ran: RunOutcome | None = None
    error: LittleLoopsError | None = None
    gone: type[BaseException] | None = None


class Simulation:
    """One run on one disk: its segments, and the actions begun in all of them."""

    def __init__(self, loop: FSMLoop, doing: Acting, disk: Disk) -> None:
        self.loop = loop
        self.doing = doing
        self.disk = disk
        self.clock = Clock()
        self.stop = Stop(self.clock)
        self.begun: list[tuple[Key, int]] = []
        self.forbidden: set[Key] = set()

    def begins(self, key: Key, command: RunAction) -> None:
        assert key not in self.forbidden, f"{key} ran again, though its result was safe"
        assert (key, command.job.attempt) not in self.begun, f"{key}: two attempts of one number"
        self.begun.append((key, command.job.attempt))

    def request(self) -> RunRequest:
        return RunRequest(self.disk.root, NAME)

    def segment(
        self,
        *,
        is_resume: bool,
        fault: Fault | None = None,
        cue: Cue | None = None,
        definition: FSMLoop | None = None,
    ) -> Ended:
        """The life of one process."""
        self.stop.close()
        self.stop = Stop(self.clock)
        services = Services(
            {},
            stop=self.stop,
            performers=played_by(Played(self, cue).act),
            clock=self.clock.of_run,
        )
        self.disk.fault = fault or (lambda what, arguments: None)
        with descriptors_closed(), heard(self.disk):
            try:
                if is_resume:
                    return Ended(ran=resume(definition, self.request(), services))
                return Ended(ran=start(self.loop, self.request(), services))
            except (Killed, PowerCut) as end:
                return Ended(gone=type(end))
            except LittleLoopsError as error:
                return Ended(error=error)
            finally:
                self.disk.death = None
                self.disk.fault = lambda what, arguments: None

    def begin_anew(self) -> Ended:
        """Another run of the same name."""
        self.begun, self.forbidden = [], set()
        return self.segment(is_resume=False)

    def close(self) -> None:
        self.stop.close()


@contextmanager
def descriptors_closed() -> Iterator[None]:
    """What a process had open, locks and all, is closed when it is gone."""
    before = set(os.listdir("/dev/fd"))
    try:
        yield
    finally:
        for each in set(os.listdir("/dev/fd")) - before:
            try:
                os.close(int(each))
            except OSError:
                continue  # the one the list was read through


def is_about_storage(error: LittleLoopsError | None) -> bool:
    return isinstance(error, StorageError)
