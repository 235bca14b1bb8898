"""Run a machine: decide, write down, do.

`drive` is all there is to running: `run`, `resume`, background and tests differ only in the `World`
they bring.  A world has a performer for each type of command.

Not here: decisions (`machine`), processes and files (`local_world`), the library's own actions
(`runner_world`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from little_loops.fsm.commands import Command, Ending, Finish
from little_loops.fsm.events import Entry, LoopStart
from little_loops.fsm.evolve import first_state
from little_loops.fsm.happenings import Happening, Moment
from little_loops.fsm.machine import Step, advance
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import Limits, LoopState, Result, SignalLine
from little_loops.records import NamedTuple

NO_LIMITS = Limits()


class World(Protocol):
    """Everything a run may do to the computer it runs on."""

    def emit(self, step: Step) -> None: ...
    def save(self, run: LoopState) -> None: ...
    def perform(self, run: LoopState, command: Command) -> Happening: ...


Performer = Callable[[Any, LoopState, Any], Happening]
"""Carries out one type of command: given its world, the run and the command."""
Performers = Mapping[type[Command], Performer]


class ActionOutcome(NamedTuple):
    """What came of an action."""

    result: Result
    signal_line: SignalLine | None = None
    warnings: tuple[str, ...] = ()


def drive(
    loop: FSMLoop, run: LoopState, happening: Happening, world: World
) -> tuple[LoopState, Ending]:
    while True:
        step = advance(loop, run, happening)
        world.emit(step)  # its events, durably: the log is the truth
        world.save(step.run)  # a snapshot of it; before the effect, so a crash repeats, never skips
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
) -> LoopState:
    """A run that has not begun: headed for its first state, no event written yet.

    `evidence` is `on`, or why the run keeps none; None where nobody would expect any.
    """
    start = LoopStart(
        loop.name, loop.initial, scope or loop.scope, limits=limits, evidence=evidence
    )
    entry = Entry(start, at.wall_ms, at.ran_ms, run_id)
    return first_state(entry, {**loop.context, **(context or {})})
