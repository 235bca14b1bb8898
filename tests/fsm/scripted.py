"""A world made of a script: what each action will say, and a clock that moves only with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from little_loops.engine.drive import Performers, drive, new_run
from little_loops.fsm.codec import from_record, to_record
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
from little_loops.fsm.conditions import Observation, judge
from little_loops.fsm.evolve import evolve, first_state, replay
from little_loops.fsm.happenings import (
    ActionEnded,
    Admitted,
    Happening,
    Judged,
    LeftoversEnded,
    PathsRestored,
    Resumed,
    Started,
    StopAsked,
    StoreFailed,
    WaitOver,
)
from little_loops.fsm.machine import Step
from little_loops.fsm.schema import Convergence, FSMLoop
from little_loops.fsm.state import Limits, LoopState, Note, Result, SignalLine
from little_loops.fsm.timestamps import Moment
from little_loops.fsm.waits import left_ms
from tests.fsm.fake_trees import FakeTrees

START_MS = 1_768_473_000_000  # 2026-01-15T10:30:00Z


class Crash(Exception):
    """The process is gone."""


class Says:
    """What one action does: its exit code and output, or how it is cut."""

    def __init__(
        self,
        exit_code: int | None = 0,
        output: str = "",
        *,
        takes_ms: int = 1000,
        line: SignalLine | None = None,
        stop: int | None = None,
        writes: Mapping[str, str | None] | None = None,
        **result: Any,
    ) -> None:
        self.writes = writes or {}
        self.result = Result(exit_code, takes_ms, output, **result)
        self.line = line
        self.warnings: tuple[str, ...] = ()
        self.stop = stop


class Stop:
    """A signal arrives before the action begins."""

    def __init__(self, signal: int) -> None:
        self.signal = signal


Script = Sequence[int | Says | Stop | type[Crash]]


class ScriptedWorld:
    """Carries out commands from a script; checks on the way that the log tells the whole story."""

    def __init__(self, loop: FSMLoop, script: Script, ran_ms: int = 0) -> None:
        self.loop = loop
        self.script = list(script)
        self.wall_ms = START_MS + ran_ms
        self.ran_ms = ran_ms
        self.log: list[dict[str, Any]] = []
        self.commands: list[Command] = []
        self.saved: LoopState | None = None
        self._known: tuple[list[dict[str, Any]], int, LoopState | None] = ([], 0, None)
        self.leftovers: tuple[str, ...] = ()
        self.report = ""
        self.closing_warnings: tuple[str, ...] = ()
        self.stops_in_wait: int | None = None
        self.crashes_in_wait = False
        self.edits_in_wait: dict[str, str | None] = {}
        self.trees = FakeTrees()
        self.admissions: list[Callable[[Moment], Happening]] = []
        self.told: tuple[Note, ...] = ()

    def now(self) -> Moment:
        return Moment(self.wall_ms, self.ran_ms)

    def emit(self, step: Step) -> None:
        for entry in step.events:
            record = json.loads(json.dumps(to_record(entry)))
            assert from_record(record) == entry
            self.log.append(record)

    def save(self, run: LoopState) -> None:
        self.saved = LoopState.from_dict(json.loads(json.dumps(run.to_dict())))
        assert self.saved == run
        assert self._replayed() == run

    def _replayed(self) -> LoopState:
        """The run by its log alone; what was replayed before is not replayed again."""
        log, known, run = self._known
        if log is not self.log or known > len(log) or run is None:
            run, known = first_state(from_record(self.log[0]), self.loop.context), 0
        for record in self.log[known:]:
            run = evolve(run, from_record(record))
        self._known = self.log, len(self.log), run
        return run

    def notes(self, run: LoopState) -> tuple[Note, ...]:
        if not run.seq:
            return ()
        known = {note.id for note in run.notes}
        told, self.told = self.told, ()
        return tuple(note for note in told if note.id not in known)

    def perform(self, run: LoopState, command: Command) -> Happening:
        self.commands.append(command)
        return PERFORM[type(command)](self, run, command)

    def act(self, run: LoopState, command: RunAction) -> Happening:
        said = self.script.pop(0)
        if said is Crash:
            raise Crash
        if isinstance(said, Stop):
            return StopAsked(self.now(), said.signal)
        says = said if isinstance(said, Says) else Says(said)  # type: ignore[arg-type]
        result = says.result
        deadline_ms = command.job.deadline_ms
        if deadline_ms is not None and result.duration_ms >= deadline_ms:
            result = result._replace(
                exit_code=None, duration_ms=deadline_ms, cut_by=command.job.deadline_of
            )
        self._pass(result.duration_ms)
        if not (isinstance(command, RunShell) and command.copy is not None):
            self.trees.write(says.writes)
        return ActionEnded(self.now(), result, says.line, says.warnings, says.stop)

    def admit(self, run: LoopState, command: Admit) -> Happening:
        answer = self.admissions.pop(0) if self.admissions else Admitted
        return answer(self.now())

    def judge(self, run: LoopState, command: Judge) -> Judged:
        assert command.of is not None
        seen = run.captured[command.of]
        context = run.context
        condition = command.condition
        if isinstance(condition, Convergence):
            condition = condition._replace(target=context["target"], tolerance=0)
        judgement = judge(
            condition, Observation(seen.exit_code, seen.signal, seen.output or ""), command.memory
        )
        return Judged(self.now(), judgement)

    def wait(self, run: LoopState, command: Wait) -> WaitOver | StopAsked:
        if self.crashes_in_wait:
            raise Crash
        if self.stops_in_wait is not None:
            return StopAsked(self.now(), self.stops_in_wait)
        left = left_ms(command.wait, self.now())
        if command.deadline_ms is not None:
            left = min(left, command.deadline_ms - self.ran_ms)
        self._pass(max(0, left))
        self.trees.write(self.edits_in_wait)
        return WaitOver(self.now())

    def take_snapshot(self, run: LoopState, command: TakeSnapshot) -> Happening:
        if self.trees.is_damaged:
            return StoreFailed(self.now(), "the tree store is damaged")
        return self.trees.last_look(self.now(), command)

    def restore(self, run: LoopState, command: RestoreProtected) -> PathsRestored:
        paths, failed = self.trees.restore(command.reference, command.existing_only)
        return PathsRestored(self.now(), "protected", paths, failed, command.ending)

    def put_back(self, run: LoopState, command: PutBack) -> PathsRestored:
        paths = self.trees.put_back(command.project, command.reference)
        return PathsRestored(self.now(), "outside", paths, (), command.ending)

    def end_leftovers(self, run: LoopState, command: EndLeftovers) -> LeftoversEnded:
        said = (self.leftovers, self.report, self.closing_warnings)
        return LeftoversEnded(self.now(), command.ending, *said)

    def _pass(self, ms: int) -> None:
        self.ran_ms += ms
        self.wall_ms += ms


PERFORM: Performers = {
    RunShell: ScriptedWorld.act,
    RunAgent: ScriptedWorld.act,
    Admit: ScriptedWorld.admit,
    RunBuiltin: ScriptedWorld.act,
    Judge: ScriptedWorld.judge,
    Wait: ScriptedWorld.wait,
    TakeSnapshot: ScriptedWorld.take_snapshot,
    RestoreProtected: ScriptedWorld.restore,
    PutBack: ScriptedWorld.put_back,
    EndLeftovers: ScriptedWorld.end_leftovers,
}


def rebuilt(log: Sequence[dict[str, Any]], loop: FSMLoop) -> LoopState:
    """The run, from nothing but its log."""
    entries = [from_record(record) for record in log]
    return replay(first_state(entries[0], loop.context), entries)


NO_LIMITS = Limits()


def begin(
    world: ScriptedWorld,
    limits: Limits = NO_LIMITS,
    evidence: str | None = None,
    *,
    metered: bool = False,
) -> tuple[LoopState, Ending]:
    now = world.now()
    run = new_run(world.loop, "run-1", now, limits=limits, evidence=evidence, metered=metered)
    return drive(world.loop, run, Started(world.now()), world)


def go_on(world: ScriptedWorld, script: Script, **resumed: Any) -> tuple[LoopState, Ending]:
    assert world.saved is not None
    world.script = list(script)
    return drive(world.loop, world.saved, Resumed(world.now(), **resumed), world)


def crash_and_go_on(world: ScriptedWorld, script: Script) -> tuple[LoopState, Ending]:
    try:
        begin(world)
    except Crash:
        return go_on(world, script)
    raise AssertionError("it did not crash")


def cut(world: ScriptedWorld, count: int) -> None:
    """So much of the log is left when the process is gone."""
    world.log = world.log[:count]
    world.saved = rebuilt(world.log, world.loop)
    world.ran_ms = world.saved.ran_ms


def told(world: ScriptedWorld) -> str:
    """The story: each way taken, and how it ended."""
    lines = []
    for record in world.log:
        match record["event"]:
            case "transition":
                lines.append(f"{record['from']} -> {record['to']} ({record['reason']})")
            case "iteration" | "cycle" | "retry_wait" | "host_wait" | "handoff_detected":
                lines.append(_distinguished(record))
            case "agent_wait":
                lines.append(f"agent wait ({record['reason']})")
            case "action_interrupted" | "resume" | "warning" | "report" | "signal":
                lines.append(_distinguished(record))
            case "tampered" | "out_of_scope" | "restored" | "reference_moved" | "recheck":
                lines.append(_told_of_tree(record))
            case name if "status" in record:
                lines.append(f"{name}: {record['status']}, {record['reason']}")
            case _:
                pass
    return "\n".join(lines)


def _distinguished(record: dict[str, Any]) -> str:
    match record["event"]:
        case "iteration":
            return f"iteration {record['iteration']}" + _wait_text(record)
        case "cycle":
            return f"cycle {record['cycle']}" + _wait_text(record)
        case "retry_wait":
            return f"retry {record['attempt']}" + _wait_text(record)
        case "host_wait":
            return f"host wait ({record['reason']})"
        case "handoff_detected":
            return f"handoff ({record['continuation']})" + _wait_text(record)
        case "action_interrupted":
            begun = "" if record.get("started", True) else ", never begun"
            return f"{record['state']} interrupted by {record['cause']}{begun}"
        case "resume":
            return f"resume in {record['state']}"
        case "warning":
            return f"warning: {record['message']}"
        case "report":
            return f"report: {record['text']}"
        case _:
            return f"signal {record['type']} ({record['payload']})"


def _told_of_tree(record: dict[str, Any]) -> str:
    paths = ", ".join(record.get("paths", ()))
    match record["event"]:
        case "tampered":
            return f"tampered by {record['by']}: {paths} ({record['tampering']})"
        case "out_of_scope":
            return f"out of scope: {paths} ({record['scope_writes']})"
        case "restored":
            failed = f", not {', '.join(record['failed'])}" if "failed" in record else ""
            return f"restored: {paths}{failed}"
        case "reference_moved":
            return f"reference moved: {paths} ({record['by']})"
        case _:
            return f"recheck {record['state']} {record['place']}: {record['why']}"


def _wait_text(record: dict[str, Any]) -> str:
    return f", after {record['wait_ms']} ms" if record.get("wait_ms") else ""
