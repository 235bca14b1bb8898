"""A world without effects: the results of actions come from a script, and no time passes.

`ll-loop test`, `simulate` and `replay` drive the real machine in it and differ only in their
`Script`. Templates are filled in and conditions are judged as in a real run; processes, files and
clocks are not touched. (A pattern or a jq filter is judged in a forked child, as always.)

Not here: running anything (`local_world`), where the results come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from little_loops.engine.drive import NO_LIMITS, Performers, drive, new_run
from little_loops.engine.resolve import Filled, Values, fill, judge_now, shown_text
from little_loops.engine.scripted_trees import ScriptedTrees
from little_loops.fsm.commands import (
    Admit,
    Command,
    Ending,
    EndLeftovers,
    Judge,
    PutBack,
    RestoreProtected,
    RunAction,
    RunAgent,
    RunBuiltin,
    RunShell,
    TakeSnapshot,
    Wait,
)
from little_loops.fsm.events import Entry
from little_loops.fsm.evidence import wants_evidence
from little_loops.fsm.evolve import first_state, replay
from little_loops.fsm.happenings import (
    ActionEnded,
    Admitted,
    Happening,
    Judged,
    LeftoversEnded,
    PathsRestored,
    Resumed,
    Started,
    WaitOver,
)
from little_loops.fsm.machine import Step
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import Judgement, Limits, LoopState, Note, Result, SignalLine
from little_loops.fsm.timestamps import Moment
from little_loops.fsm.waits import left_ms
from little_loops.records import NamedTuple

RUN = "scripted"
START_MS = 1_767_225_600_000  # 2026-01-01, midnight
ON = "on"


class Answer(NamedTuple):
    """What an action did; `changes` are the paths it changed, None if the script does not say."""

    result: Result
    signal_line: SignalLine | None = None
    changes: tuple[str, ...] | None = None


class Script(Protocol):
    """Where the results of actions come from."""

    def answer(self, run: LoopState, command: RunAction, text: str) -> Answer:
        """Return the result of an action; `text` is its script or prompt with all values."""
        ...


class ScriptedValues(Values):
    """Values without files: a reference to the file of a result gives a name only."""

    def _file_of(self, field: str, name: str, result: Result) -> str | None:
        return f"{name}.{field}"


class Taken(NamedTuple):
    """The files as they were after so many events."""

    events: int
    trees: ScriptedTrees


class ScriptedWorld:
    """The world of one run; `log` has its events, `ran_ms` its time."""

    def __init__(self, loop: FSMLoop, environ: Mapping[str, str], trees: ScriptedTrees) -> None:
        self.loop = loop
        self.environ = environ
        self.trees = trees
        self.log: list[Entry] = []
        self.history: list[Taken] = []
        self.ran_ms = 0
        self.script: Script

    def now(self) -> Moment:
        return Moment(START_MS + self.ran_ms, self.ran_ms)

    def emit(self, step: Step) -> None:
        self.log.extend(step.events)
        self.history.append(Taken(len(self.log), self.trees))

    def save(self, run: LoopState) -> None:
        """Store nothing: an interrupted run is rebuilt from its events."""

    def notes(self, run: LoopState) -> tuple[Note, ...]:
        """Return nothing; a test of a loop sends no notes."""
        return ()

    def perform(self, run: LoopState, command: Command) -> Happening:
        return PERFORM[type(command)](self, run, command)

    def values(self, run: LoopState) -> Values:
        return ScriptedValues(self.loop, run, self.environ)

    def judge(self, run: LoopState, command: Judge) -> Judgement:
        return judge_now(command, run, self.values(run))

    def pass_time(self, ms: int) -> None:
        self.ran_ms += ms


class Ran(NamedTuple):
    """A run that has come to its end."""

    run: LoopState
    ending: Ending
    world: ScriptedWorld


def start(world: ScriptedWorld, script: Script, limits: Limits = NO_LIMITS) -> Ran:
    """Run a loop from its first state to its ending."""
    evidence = ON if wants_evidence(world.loop) else None
    run = new_run(world.loop, RUN, world.now(), limits=limits, evidence=evidence)
    return _drive(world, script, run, Started(world.now()))


def resume_after(ran: Ran, count: int, script: Script) -> Ran:
    """Continue a run that was killed when `count` of its events were written, in a new world.

    `ran` stays as it is.
    """
    loop, old = ran.world.loop, ran.world
    entries = old.log[:count]
    run = replay(first_state(entries[0], loop.context), entries)
    trees = next(taken.trees for taken in old.history if taken.events >= count)
    world = ScriptedWorld(loop, old.environ, trees)
    world.log, world.ran_ms = entries, run.ran_ms
    return _drive(world, script, run, Resumed(world.now()))


def _drive(world: ScriptedWorld, script: Script, run: LoopState, happening: Happening) -> Ran:
    world.script = script
    return Ran(*drive(world.loop, run, happening, world), world)


# ── a performer for each type of command ───────────────────────────────────────────────────────


def _act(world: ScriptedWorld, run: LoopState, command: RunAction) -> ActionEnded:
    """Get the result of an action from the script; its time passes, and the files it changes
    change.

    A check in a clean copy changes none. An action that cannot be filled in does not reach the
    script.
    """
    values = world.values(run)
    filled = fill(command, values)
    if not isinstance(filled, Filled):
        return ActionEnded(world.now(), Result(None, 0, failure=filled))
    answer = world.script.answer(run, command, shown_text(_text(command), command, filled, values))
    result = _within_deadline(command, answer.result)
    world.pass_time(result.duration_ms)
    if not (isinstance(command, RunShell) and command.copy is not None):
        world.trees = world.trees.changed_by(_changes(world, run, answer))
    return ActionEnded(world.now(), result, answer.signal_line)


def _text(command: RunAction) -> str:
    """Return the script, the prompt or the name of an action, as written."""
    match command:
        case RunShell():
            return command.script
        case RunAgent():
            return command.text
        case RunBuiltin():
            return command.name


def _within_deadline(command: RunAction, result: Result) -> Result:
    """Return the result, cut at the deadline of the action or of the loop if it takes longer."""
    deadline_ms = command.job.deadline_ms
    if deadline_ms is None or result.duration_ms < deadline_ms:
        return result
    return result._replace(
        exit_code=None, signal=None, duration_ms=deadline_ms, cut_by=command.job.deadline_of
    )


def _changes(world: ScriptedWorld, run: LoopState, answer: Answer) -> tuple[str, ...]:
    """Return the changed paths. Where the script does not say, everything but a check changes a
    file of its own."""
    if answer.changes is not None:
        return answer.changes
    if world.loop.states[run.current_state].check:
        return ()
    return (world.trees.own_file(run.current_state),)


def _judge(world: ScriptedWorld, run: LoopState, command: Judge) -> Judged:
    return Judged(world.now(), world.judge(run, command))


def _wait(world: ScriptedWorld, run: LoopState, command: Wait) -> WaitOver:
    """Let the time of a wait pass at once, but not beyond its deadline."""
    left = left_ms(command.wait, world.now())
    if command.deadline_ms is not None:
        left = min(left, command.deadline_ms - world.ran_ms)
    world.pass_time(max(0, left))
    return WaitOver(world.now())


def _take_snapshot(world: ScriptedWorld, run: LoopState, command: TakeSnapshot) -> Happening:
    return world.trees.taken(world.now(), command)


def _restore(world: ScriptedWorld, run: LoopState, command: RestoreProtected) -> PathsRestored:
    world.trees, paths = world.trees.restored(command.reference)
    return PathsRestored(world.now(), "protected", paths, (), command.ending)


def _put_back(world: ScriptedWorld, run: LoopState, command: PutBack) -> PathsRestored:
    world.trees, paths = world.trees.put_back(command.project, command.reference)
    return PathsRestored(world.now(), "outside", paths, (), command.ending)


def _end_leftovers(world: ScriptedWorld, run: LoopState, command: EndLeftovers) -> LeftoversEnded:
    return LeftoversEnded(world.now(), command.ending)


def _admit(world: ScriptedWorld, run: LoopState, command: Admit) -> Admitted:
    return Admitted(world.now())  # nothing starts, so there is nothing to wait for


PERFORM: Performers = {
    Admit: _admit,
    RunShell: _act,
    RunAgent: _act,
    RunBuiltin: _act,
    Judge: _judge,
    Wait: _wait,
    TakeSnapshot: _take_snapshot,
    RestoreProtected: _restore,
    PutBack: _put_back,
    EndLeftovers: _end_leftovers,
}
