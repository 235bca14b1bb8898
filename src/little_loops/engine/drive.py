"""Run a machine: decide, record, act.

`drive` is the whole main loop: `run`, `resume`, background runs and tests differ only in the
`World` they pass. A world has a performer for each type of command.

Not here: decisions (`machine`), processes and files (`local_world`), the library's own actions
(`runner_world`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from little_loops.fsm.commands import Command, Ending, Finish
from little_loops.fsm.events import Entry, LoopStart
from little_loops.fsm.evolve import first_state
from little_loops.fsm.happenings import Happening
from little_loops.fsm.machine import Step, advance
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import Limits, LoopState, Note, Result, SignalLine
from little_loops.fsm.timestamps import Moment
from little_loops.light_typing import Any, Protocol
from little_loops.records import NamedTuple

NO_LIMITS = Limits()


class World(Protocol):
    """Everything a run may do to the computer it runs on."""

    def emit(self, step: Step) -> None: ...
    def save(self, run: LoopState) -> None: ...
    def perform(self, run: LoopState, command: Command) -> Happening: ...
    def notes(self, run: LoopState) -> tuple[Note, ...]: ...


Performer = Callable[[Any, LoopState, Any], Happening]
"""Carries out one type of command, given its world, the run and the command."""
Performers = Mapping[type[Command], Performer]
Drive = Callable[[FSMLoop, LoopState, Happening, Any], tuple[LoopState, Ending]]
"""A main loop, given a world."""


class ActionOutcome(NamedTuple):
    """The result of an action, with its signal line and warnings; `model`: what the agent used, if
    it reported that."""

    result: Result
    signal_line: SignalLine | None = None
    warnings: tuple[str, ...] = ()
    model: str | None = None


def drive(
    loop: FSMLoop, run: LoopState, happening: Happening, world: World
) -> tuple[LoopState, Ending]:
    """Run a machine from `happening` to its end. Return the final state and the ending.

    The events and the state of each step are stored before its command is carried out.
    """
    while True:
        step = advance(loop, run, happening, world.notes(run))
        world.emit(step)  # the events are durable: the log is the source of truth
        # A snapshot, taken before the effect, so a crash repeats an action but never skips one.
        world.save(step.run)
        if isinstance(step.command, Finish):
            return step.run, step.command.ending
        run, happening = step.run, world.perform(step.run, step.command)


def new_run(
    loop: FSMLoop,
    run_id: str,
    at: Moment,
    *,
    context: Mapping[str, Any] | None = None,
    scope: tuple[str, ...] | None = None,
    limits: Limits = NO_LIMITS,
    evidence: str | None = None,
    metered: bool = False,
) -> LoopState:
    """Return a run that has not started: about to enter its first state, with no event written yet.

    `evidence` is `on`, or why the run keeps none; None if the loop does not ask for any. `metered`:
    agents need a slot or a reservation before they start.
    """
    start = LoopStart(
        loop.name,
        loop.initial,
        scope or loop.scope,
        limits=limits,
        evidence=evidence,
        metered=metered,
    )
    entry = Entry(start, at.wall_ms, at.ran_ms, run_id)
    return first_state(entry, {**loop.context, **(context or {})})
