"""Run a machine: decide, write down, do.

`drive` is all there is to running: `run`, `resume`, background and tests differ only in the `World`
they bring.  Here is also the smallest such world, in which an `ActionRunner` runs the actions and
nothing is written.

Not here: decisions (`machine`), real processes (`process_actions`), files (`local_world`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, assert_never

from little_loops.engine.resolve import Filled, Values, fill_action, judge_now, without_newline
from little_loops.fsm.codec import to_record
from little_loops.fsm.commands import Command, Ending, EndLeftovers, Finish, Judge, RunAction, Wait
from little_loops.fsm.events import Entry, LoopStart
from little_loops.fsm.evolve import first_state
from little_loops.fsm.happenings import (
    ActionEnded,
    Happening,
    Judged,
    LeftoversEnded,
    Moment,
    WaitOver,
)
from little_loops.fsm.machine import advance
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import (
    AgentWay,
    Limits,
    LoopState,
    Result,
    SignalLine,
)
from little_loops.records import NamedTuple
from little_loops.system.clock import RunClock
from little_loops.system.waiting import wait_until

if TYPE_CHECKING:
    from little_loops.fsm.signal_detector import SignalDetector

NO_LIMITS = Limits()
EventCallback = Callable[[dict[str, Any]], None]


class World(Protocol):
    """Everything a run may do to the computer it runs on."""

    def emit(self, events: Sequence[Entry]) -> None: ...
    def save(self, run: LoopState) -> None: ...
    def perform(self, run: LoopState, command: Command) -> Happening: ...


def drive(
    loop: FSMLoop, run: LoopState, happening: Happening, world: World
) -> tuple[LoopState, Ending]:
    while True:
        step = advance(loop, run, happening)
        world.emit(step.events)  # durable: the log is the truth
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
) -> LoopState:
    """A run that has not begun: headed for its first state, no event written yet."""
    start = LoopStart(loop.name, loop.initial, scope or loop.scope, limits=limits)
    entry = Entry(start, at.wall_ms, at.ran_ms, run_id)
    return first_state(entry, {**loop.context, **(context or {})})


class ActionResult(NamedTuple):
    exit_code: int
    output: str
    stderr: str
    duration_ms: int
    timed_out: bool = False
    """It was ended because its time was up; its exit code then says nothing."""


class ActionRunner(Protocol):
    def run(
        self,
        action: str,
        *,
        timeout: float | None = None,
        action_type: str = "shell",
        env: Mapping[str, str] | None = None,
    ) -> ActionResult: ...


class RunnerWorld:
    """A world in which actions are run by an `ActionRunner` and nothing is written."""

    def __init__(
        self, loop: FSMLoop, actor: RunnerActor, tell: Callable[[dict[str, Any]], None]
    ) -> None:
        self.loop = loop
        self.actor = actor
        self.tell = tell
        self.clock = RunClock()

    def emit(self, events: Sequence[Entry]) -> None:
        for entry in events:
            self.tell(to_record(entry))

    def save(self, run: LoopState) -> None:
        """Nothing is kept."""

    def perform(self, run: LoopState, command: Command) -> Happening:
        values = Values(self.loop, run, os.environ)
        match command:
            case RunAction():
                acted = act_filled(self.actor, run, command, values)
                return ActionEnded(self.clock.now(), *acted)
            case Judge():
                judgement = judge_now(command, run, values)
                return Judged(self.clock.now(), judgement)
            case Wait():
                wait_until(command, self.clock)
                return WaitOver(self.clock.now())
            case EndLeftovers():
                return LeftoversEnded(self.clock.now(), command.ending)
            case Finish():
                raise AssertionError("`drive` ends with a finish")
            case _:
                assert_never(command)


class Acted(NamedTuple):
    result: Result
    signal_line: SignalLine | None = None
    warnings: tuple[str, ...] = ()


class Actor(Protocol):
    """Whoever runs actions: real processes (`actions`), or a runner the library was given."""

    def act(self, run: LoopState, command: RunAction, filled: Filled) -> Acted: ...


def act_filled(actor: Actor, run: LoopState, command: RunAction, values: Values) -> Acted:
    filled = fill_action(command, values)
    if isinstance(filled, Filled):
        return actor.act(run, command, filled)
    return Acted(Result(None, 0, failure=filled))


class RunnerActor:
    """Acts through an `ActionRunner`; `keep` says what becomes of its outputs."""

    def __init__(
        self,
        runner: ActionRunner,
        detector: SignalDetector | None,
        keep: Callable[[RunAction, str], dict[str, Any]] | None = None,
    ) -> None:
        self.runner = runner
        self.detector = detector
        self.keep = keep or (lambda _, output: {"output": without_newline(output)})

    def act(self, run: LoopState, command: RunAction, filled: Filled) -> Acted:
        timeout = None if command.deadline_ms is None else command.deadline_ms / 1000
        done = self.runner.run(
            filled.text, timeout=timeout, action_type=command.kind, env=filled.env
        )
        result = Result(
            done.exit_code,
            done.duration_ms,
            stderr=without_newline(done.stderr),
            cut_by=command.deadline_of if done.timed_out else "none",
            **self.keep(command, done.output),
        )
        if command.kind != "shell":
            result = _as_agent(result)
        return Acted(result, self._signal(done.output))

    def _signal(self, output: str) -> SignalLine | None:
        found = self.detector.detect_first(output) if self.detector is not None else None
        return None if found is None else SignalLine(found.signal_type, found.payload or "")


AGENT_ENDS: dict[int, tuple[AgentWay, str | None]] = {0: ("success", "pass"), 1: ("fail", "fail")}


def _as_agent(result: Result) -> Result:
    """A runner of the user's own tells only an exit code: 0 pass, 1 fail, else error."""
    way, verdict = AGENT_ENDS.get(result.exit_code or 0, ("error", None))
    return result._replace(agent=way, verdict=verdict, reason=f"exit {result.exit_code}")
