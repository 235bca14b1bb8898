"""The real world of one run: processes, files, clocks.

What the machine decides is written down here before it is done, and done here.

Not here: decisions (`machine`), claims and the life of a run around this (`lifecycle`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import assert_never

from little_loops.engine.drive import Actor, act_filled
from little_loops.engine.resolve import Values, judge_now
from little_loops.fsm.codec import to_record
from little_loops.fsm.commands import Command, EndLeftovers, Finish, Judge, RunAction, Wait
from little_loops.fsm.events import Entry
from little_loops.fsm.happenings import (
    ActionEnded,
    Happening,
    Judged,
    LeftoversEnded,
    StopAsked,
    WaitOver,
)
from little_loops.fsm.plain import masked
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import LoopState, Result
from little_loops.records import NamedTuple
from little_loops.reporting.masking import Masker
from little_loops.reporting.observers import Onlooker
from little_loops.runs.layout import SESSION
from little_loops.runs.storage import RunWriter
from little_loops.system import process_tree
from little_loops.system.clock import RunClock
from little_loops.system.files import Folder, to_json
from little_loops.system.output import Scanner, SignalScanner
from little_loops.system.stops import STOPS, StopFlag
from little_loops.system.waiting import wait_until

HEARD_TOGETHER_S = 0.2


class Surroundings(NamedTuple):
    """What a run needs of the process it is in.

    `owns_process`: nothing else goes on in it, so that every orphan below it is the run's.  `actor`
    makes whoever runs the actions, where that is not to be the real thing; `clock` makes the run's
    clock, given the milliseconds it has run before; `scanner` looks for signals in one output.
    """

    environ: Mapping[str, str]
    stop: StopFlag | None = None
    onlookers: Sequence[Onlooker] = ()
    say: Callable[[str], None] = lambda _: None
    warn: Callable[[str], None] = lambda _: None
    ready: Callable[[LoopState], None] = lambda _: None
    owns_process: bool = False
    actor: Callable[[RunWriter], Actor] | None = None
    clock: Callable[[int], RunClock] = RunClock
    scanner: Callable[[], Scanner] = SignalScanner


class RunWorld:
    """The real world of one run: processes, files, clocks."""

    def __init__(
        self,
        loop: FSMLoop,
        writer: RunWriter,
        actor: Actor,
        clock: RunClock,
        masker: Masker,
        onlookers: Onlooker,
        around: Surroundings,
    ) -> None:
        self.loop = loop
        self.writer = writer
        self.actor = actor
        self.clock = clock
        self.masker = masker
        self.around = around
        self.onlookers = onlookers
        self.run_dir = writer.files.data
        self.is_ready = False

    def emit(self, events: Sequence[Entry]) -> None:
        if not events:
            return
        if self.masker.words:
            events = [masked(entry, self.masker.mask) for entry in events]
        self.writer.append(map(to_record, events), sync=True)
        self.onlookers.records(events)

    def save(self, run: LoopState) -> None:
        self.writer.save(run)
        if not self.is_ready:
            self.is_ready = True
            self.around.ready(run)

    def perform(self, run: LoopState, command: Command) -> Happening:
        if (asked := self._stop_asked()) and not isinstance(command, EndLeftovers):
            return asked
        values = Values(self.loop, run, self.around.environ, self.run_dir)
        match command:
            case RunAction():
                return self._act(run, command, values)
            case Judge():
                judgement = judge_now(command, run, values)
                # A stop that came meanwhile counts first; a resume judges again.
                return self._stop_asked() or Judged(self.clock.now(), judgement)
            case Wait():
                return self._wait(command)
            case EndLeftovers():
                return self._end_leftovers(run, command)
            case Finish():
                raise AssertionError("`drive` ends with a finish")
            case _:
                assert_never(command)

    def _stop_asked(self) -> StopAsked | None:
        stop = self.around.stop
        if stop is None or stop.signal is None:
            return None
        return StopAsked(self.clock.now(), stop.signal)

    def _act(self, run: LoopState, command: RunAction, values: Values) -> ActionEnded:
        acted = act_filled(self.actor, run, command, values)
        return ActionEnded(self.clock.now(), *acted, self._stopped_by(acted.result))

    def _stopped_by(self, result: Result) -> int | None:
        """The signal that ended the action by way of us, or together with us.

        A shutdown, or the stop of a run around this one, signals the action and its runner at
        once: whichever hears it first, the action was interrupted and did not fail.
        """
        stop = self.around.stop
        if stop is None:
            return None
        together = result.signal in STOPS and stop.wait(HEARD_TOGETHER_S)
        return stop.signal if together or result.cut_by == "stop" else None

    def _wait(self, command: Wait) -> Happening:
        stop = self.around.stop
        if wait_until(command, self.clock, stop, self.onlookers.tick) and stop is not None:
            return StopAsked(self.clock.now(), stop.signal or 0)
        return WaitOver(self.clock.now())

    def _end_leftovers(self, run: LoopState, command: EndLeftovers) -> LeftoversEnded:
        if process_tree.is_adopting() and process_tree.reap():
            return LeftoversEnded(self.clock.now(), command.ending)
        # All that is below us: also an orphan that left its session and cleared its environment.
        roots = [os.getpid()] if process_tree.is_adopting() else []
        ended = process_tree.sweep(
            run.run, (), self.loop.kill_grace, roots=roots, stop=self.around.stop
        )
        names = tuple(f"{member.name} (pid {member.pid})" for member in ended)
        return LeftoversEnded(self.clock.now(), command.ending, names)


class SessionNote:
    """The session of the action under way, kept for whoever has to clean up after us.

    A few bytes written over, not synced: what a power cut loses has no processes left either.
    """

    WIDTH = 120

    def __init__(self, data: Folder) -> None:
        self._descriptor = data.open(SESSION, os.O_WRONLY | os.O_CREAT)

    def keep(self, pid: int) -> None:
        os.pwrite(self._descriptor, to_json(process_tree.session(pid)).ljust(self.WIDTH) + b"\n", 0)

    def close(self) -> None:
        os.close(self._descriptor)

    @classmethod
    def read(cls, data: Folder) -> list[process_tree.Session]:
        with suppress(ValueError, TypeError):
            raw = data.read(SESSION, 4096)
            return [process_tree.Session(*json.loads(raw))] if raw else []
        return []
