"""A world made of a script: what each action will say, and a clock that moves only with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

from little_loops.engine.drive import Performers, drive, new_run
from little_loops.engine.following import follow
from little_loops.engine.scripted_worktrees import answer
from little_loops.fsm.branching import branch_names, written_items
from little_loops.fsm.codec import from_record, to_record
from little_loops.fsm.commands import (
    WORKTREE_COMMANDS,
    Admit,
    AskJudge,
    CollectJudge,
    Command,
    Ending,
    EndLeftovers,
    FindBranches,
    GatherChildren,
    Judge,
    LookUpLimits,
    PutBack,
    RestoreBest,
    RestoreProtected,
    RunAction,
    RunAgent,
    RunBuiltin,
    RunChildren,
    RunHook,
    RunShell,
    TakeSnapshot,
    Wait,
    WorktreeCommand,
)
from little_loops.fsm.conditions import Observation, judge
from little_loops.fsm.events import KINDS, WorktreeEvent
from little_loops.fsm.evolve import evolve, first_state, replay
from little_loops.fsm.happenings import (
    ActionEnded,
    Admitted,
    BranchesFound,
    CannotContinue,
    ChildEnded,
    ChildOutcome,
    ChildrenOutOfTime,
    Happening,
    HookEnded,
    JudgeAnswered,
    Judged,
    LeftoversEnded,
    LimitsKnown,
    NothingCollected,
    PathsRestored,
    Resumed,
    Started,
    StopAsked,
    StoreFailed,
    WaitOver,
    WorktreeFailed,
)
from little_loops.fsm.machine import Step
from little_loops.fsm.schema import Convergence, FSMLoop
from little_loops.fsm.spending import LOST
from little_loops.fsm.state import (
    BranchCount,
    ChildResult,
    Judgement,
    Limits,
    LoopState,
    Note,
    Result,
    SignalLine,
    Uncollected,
)
from little_loops.fsm.timestamps import Moment
from little_loops.fsm.train import result_of
from little_loops.fsm.waits import left_ms
from little_loops.runs.recordings import RecordedDefinition, RecordedRun
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


class Opinion:
    """What a judge answers."""

    def __init__(
        self,
        verdict: str,
        reason: str = "",
        *,
        quotes: tuple[str, ...] = (),
        restored: tuple[str, ...] = (),
        warnings: tuple[str, ...] = (),
        cost_usd: float | None = 0.25,
        stop: int | None = None,
    ) -> None:
        self.judgement = Judgement(verdict, reason)
        self.result = Result(0, 1000, agent="success", cost_usd=cost_usd, tokens=100)
        self.quotes = quotes
        self.restored = restored
        self.warnings = warnings
        self.stop = stop


class Stop:
    """A signal arrives before the action begins."""

    def __init__(self, signal: int) -> None:
        self.signal = signal


Script = Sequence[int | Says | Stop | type[Crash] | ChildOutcome | str]
"""A text is the name of a child that ends next, or `out of time`."""
OUT_OF_TIME = "out of time"
INTERRUPTED = ChildOutcome("interrupted", "signal")


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
        self.stopped_as: ChildOutcome = INTERRUPTED
        self.crashes_in_wait = False
        self.edits_in_wait: dict[str, str | None] = {}
        self.trees = FakeTrees()
        self.admissions: list[Callable[[Moment], Happening]] = []
        self.limited: dict[str, int] = {}
        self.opinions: list[Opinion | Uncollected | Stop | type[Crash]] = []
        self.told: tuple[Note, ...] = ()
        self.hooks: dict[str, list[str | Stop | type[Crash]]] = {}
        self.hook_writes: dict[str, dict[str, str | None]] = {}
        self.definitions: list[RecordedDefinition] = []
        self.is_of_earlier_version = False
        self.result: dict[str, Any] | None = None
        self.branch_items: list[Any] | str = []
        self.git: dict[type[Command], list[Any]] = {}

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
        if isinstance(said, CannotContinue):
            return said._replace(at=self.now())
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

    def run_children(self, run: LoopState, command: RunChildren) -> Happening:
        """The first that is to stop has stopped; otherwise the script says what happens next."""
        if command.stop:
            return ChildEnded(self.now(), command.stop[0], self.stopped_as)
        said = self.script.pop(0)
        if isinstance(said, Says):  # what the next child does before it ends
            self.trees.write(said.writes)
            said = self.script.pop(0)
        if said is Crash:
            raise Crash
        if isinstance(said, Stop):
            return StopAsked(self.now(), said.signal)
        if isinstance(said, CannotContinue):
            return said._replace(at=self.now())
        if said == OUT_OF_TIME:
            self._pass(command.deadline_ms or 0)
            return ChildrenOutOfTime(self.now())
        name = said if isinstance(said, str) else None
        outcome = self.script.pop(0) if name is not None else said
        assert isinstance(outcome, ChildOutcome)
        assert run.children is not None
        at = [
            n
            for n, s in zip(run.children.names, run.children.stages, strict=True)
            if s == "running"
        ]
        self._pass(outcome.duration_ms)
        return ChildEnded(self.now(), name or at[0], outcome)

    def find_branches(self, run: LoopState, command: FindBranches) -> BranchesFound:
        """The items of the definition, or those of `branch_items`; a text is a problem."""
        branches = self.loop.states[command.state].branches
        assert branches is not None
        items = written_items(branches)
        if items is None and isinstance(self.branch_items, str):
            return BranchesFound(self.now(), problem=self.branch_items)
        found = self.branch_items if items is None else items
        return BranchesFound(self.now(), branch_names(branches, found))

    def gather(self, run: LoopState, command: GatherChildren) -> ActionEnded:
        said = command.judgement
        exit_code = {"pass": 0, "fail": 1}.get(said.verdict, 2)
        merge = None if run.train is None else result_of(run.train)
        result = Result(exit_code, 0, verdict=said.verdict, reason=said.reason, merge=merge)
        children = command.children
        if children.several:
            count = BranchCount(len(children.names), children.stages.count("pass"))
            result = result._replace(output=json.dumps(children.stages), branches=count)
        else:
            result = result._replace(child=ChildResult("completed", "terminal", "b", 1, {}))
        return ActionEnded(self.now(), result)

    def on_worktrees(self, run: LoopState, command: WorktreeCommand) -> Happening:
        """All goes well, unless the list for the type of command has something else for it: a stop,
        a crash, a problem, or what differs."""
        answers = self.git.get(type(command))
        said = answers.pop(0) if answers else {}
        if said is Crash:
            raise Crash
        if isinstance(said, Stop):
            return StopAsked(self.now(), said.signal)
        if isinstance(said, str):
            return WorktreeFailed(self.now(), said, getattr(command, "ended", None))
        self._pass(10)
        return answer(self.now(), command)._replace(**said)

    def admit(self, run: LoopState, command: Admit) -> Happening:
        answer = self.admissions.pop(0) if self.admissions else Admitted
        return answer(self.now())

    def ask_judge(self, run: LoopState, command: AskJudge | CollectJudge) -> Happening:
        """The next opinion, of a judge that takes a second; a word says why there is none."""
        said = self.opinions.pop(0)
        if said is Crash:
            raise Crash
        if isinstance(said, Stop):
            return StopAsked(self.now(), said.signal)
        if isinstance(said, str):
            result = LOST._replace(agent=None if said == "not_started" else "error")
            return NothingCollected(self.now(), said, "nobody knows", result)
        assert isinstance(said, Opinion)
        self._pass(1000)
        answer = JudgeAnswered(self.now(), said.judgement, said.result, said.quotes, said.restored)
        return answer._replace(stop=said.stop, warnings=said.warnings)

    def look_up_limits(self, run: LoopState, command: LookUpLimits) -> LimitsKnown:
        known = {name: until for name, until in self.limited.items() if until > self.wall_ms}
        return LimitsKnown(self.now(), known)

    def hook(self, run: LoopState, command: RunHook) -> Happening:
        """A hook succeeds, unless the list of its name has a problem, a stop or a crash for it."""
        said = self.hooks.get(command.name) or [""]
        outcome = said.pop(0)
        if outcome is Crash:
            raise Crash
        self.trees.write(self.hook_writes.get(command.name, {}))
        self._pass(100)
        problem = outcome if isinstance(outcome, str) else ""
        stop = outcome.signal if isinstance(outcome, Stop) else None
        return HookEnded(self.now(), command.name, 100, problem, stop, command.ending)

    def judge(self, run: LoopState, command: Judge) -> Judged:
        assert command.of is not None
        seen = run.captured[command.of]
        context = run.context
        condition = command.condition
        if isinstance(condition, Convergence):
            condition = condition._replace(target=context["target"], tolerance=0)
        observed = Observation(seen.exit_code, seen.signal, seen.output or "")
        judgement = judge(condition, observed._replace(samples=command.samples), command.memory)
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
        kept = self.trees.protected()
        paths, failed = self.trees.restore(command.reference, command.existing_only)
        return PathsRestored(
            self.now(), "protected", paths, failed, command.ending, None, kept if paths else None
        )

    def put_back(self, run: LoopState, command: PutBack) -> PathsRestored:
        paths = self.trees.put_back(command.project, command.reference)
        return PathsRestored(self.now(), "outside", paths, (), command.ending)

    def restore_best(self, run: LoopState, command: RestoreBest) -> PathsRestored:
        paths, failed = self.trees.restore_best(command.project, command.reference)
        project = self.trees.project()
        return PathsRestored(self.now(), "change", paths, failed, command.ending, project)

    def end_leftovers(self, run: LoopState, command: EndLeftovers) -> LeftoversEnded:
        said = (self.leftovers, self.report, self.closing_warnings, self.result)
        return LeftoversEnded(self.now(), command.ending, *said)

    def _pass(self, ms: int) -> None:
        self.ran_ms += ms
        self.wall_ms += ms


PERFORM: Performers = {
    RunShell: ScriptedWorld.act,
    RunAgent: ScriptedWorld.act,
    Admit: ScriptedWorld.admit,
    LookUpLimits: ScriptedWorld.look_up_limits,
    AskJudge: ScriptedWorld.ask_judge,
    CollectJudge: ScriptedWorld.ask_judge,
    RunBuiltin: ScriptedWorld.act,
    RunHook: ScriptedWorld.hook,
    FindBranches: ScriptedWorld.find_branches,
    RunChildren: ScriptedWorld.run_children,
    GatherChildren: ScriptedWorld.gather,
    Judge: ScriptedWorld.judge,
    Wait: ScriptedWorld.wait,
    TakeSnapshot: ScriptedWorld.take_snapshot,
    RestoreProtected: ScriptedWorld.restore,
    PutBack: ScriptedWorld.put_back,
    RestoreBest: ScriptedWorld.restore_best,
    EndLeftovers: ScriptedWorld.end_leftovers,
    **dict.fromkeys(WORKTREE_COMMANDS, ScriptedWorld.on_worktrees),
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
    return driven(world, run, Started(world.now()))


def go_on(world: ScriptedWorld, script: Script, **resumed: Any) -> tuple[LoopState, Ending]:
    assert world.saved is not None
    world.script = list(script)
    return driven(world, world.saved, Resumed(world.now(), **resumed))


def driven(world: ScriptedWorld, run: LoopState, happening: Happening) -> tuple[LoopState, Ending]:
    """Drive a run to its end or its crash. Its log must replay without a difference."""
    if not world.definitions or world.definitions[-1].loop != world.loop:
        before = [each._replace(until=each.until or len(world.log)) for each in world.definitions]
        world.definitions = [*before, RecordedDefinition(world.loop)]
    try:
        ended = drive(world.loop, run, happening, world)
    except Crash:
        check_replays(world)
        raise
    check_replays(world)
    return ended


def recorded(world: ScriptedWorld) -> RecordedRun:
    entries = [from_record(record) for record in world.log]
    return RecordedRun(entries, world.definitions, world.definitions[0].loop.context)


def check_replays(world: ScriptedWorld) -> None:
    if world.is_of_earlier_version:
        return
    mismatch = follow(recorded(world)).mismatch
    assert mismatch is None, mismatch


def crash_and_go_on(
    world: ScriptedWorld, script: Script, **resumed: Any
) -> tuple[LoopState, Ending]:
    try:
        begin(world)
    except Crash:
        return go_on(world, script, **resumed)
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
            case (
                "iteration"
                | "cycle"
                | "retry_wait"
                | "host_wait"
                | "handoff_detected"
                | "action_interrupted"
                | "resume"
                | "warning"
                | "report"
                | "signal"
            ):
                lines.append(_distinguished(record))
            case "child_start" | "child_end" | "children_stop" | "join":
                lines.append(_told_of_child(record))
            case "agent_wait" | "hook":
                lines.append(_told_of_pause(record))
            case "tampered" | "out_of_scope" | "restored" | "reference_moved" | "recheck":
                lines.append(_told_of_tree(record))
            case "sampled" | "keep_best":
                lines.append(_told_of_measurement(record))
            case name if "status" in record:
                lines.append(f"{name}: {record['status']}, {record['reason']}")
            case name if name in WORKTREE_KINDS:
                lines.append(_told_of_worktree(record))
            case _:
                pass
    return "\n".join(lines)


def _told_of_pause(record: dict[str, Any]) -> str:
    if record["event"] == "agent_wait":
        return f"agent wait ({record['reason']})"
    return f"{record['hook']} of {record['state']}{_problem(record)}"


WORKTREE_KINDS = {name for name, kind in KINDS.items() if kind in get_args(WorktreeEvent)}
COMMON = ("event", "ts", "run", "seq", "ran_ms")


def _told_of_worktree(record: dict[str, Any]) -> str:
    """The event with its fields; commits are shortened."""
    fields = [
        f"{name}={str(value)[-4:] if name in ('commit', 'base', 'head') else value}"
        for name, value in record.items()
        if name not in COMMON
    ]
    return " ".join([record["event"], *fields])


def _problem(record: dict[str, Any]) -> str:
    return f": {record['problem']}" if "problem" in record else ""


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


def _told_of_child(record: dict[str, Any]) -> str:
    match record["event"]:
        case "child_start":
            return f"{record['child']} {'continues' if record.get('again') else 'starts'}"
        case "child_end":
            return f"{record['child']} ends: {record['stage']} ({record['reason']})"
        case "join":
            return f"join: {record['verdict']} ({record['reason']})"
        case _:
            return f"children stop ({record['reason']})"


def _told_of_tree(record: dict[str, Any]) -> str:
    paths = ", ".join(record.get("paths", ()))
    match record["event"]:
        case "tampered":
            return f"tampered by {record['by']}: {paths} ({record['tampering']})"
        case "out_of_scope":
            beside = f"{record['beside']}, " if "beside" in record else ""
            return f"out of scope: {paths} ({beside}{record['scope_writes']})"
        case "restored":
            failed = f", not {', '.join(record['failed'])}" if "failed" in record else ""
            return f"restored: {paths}{failed}"
        case "reference_moved":
            return f"reference moved: {paths} ({record['by']})"
        case _:
            return f"recheck {record['state']} {record['place']}: {record['why']}"


def _told_of_measurement(record: dict[str, Any]) -> str:
    if record["event"] == "sampled":
        return f"sampled {record['value']}"
    value, best = record.get("value"), record.get("best")
    numbers = "" if best is None else f": {value} (best {best})"
    return f"{record['decision']}{numbers}"


def _wait_text(record: dict[str, Any]) -> str:
    return f", after {record['wait_ms']} ms" if record.get("wait_ms") else ""
