"""The smallest world: an `ActionRunner` runs the actions, and nothing is stored.

Not here: the main loop (`drive`), runs that survive the process (`local_world`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

from little_loops.engine.drive import ActionOutcome, Performers
from little_loops.engine.resolve import Values, fill, judge_now, without_newline
from little_loops.fsm.codec import to_record
from little_loops.fsm.commands import (
    WORKTREE_COMMANDS,
    Admit,
    AskJudge,
    CollectJudge,
    Command,
    EndLeftovers,
    FindBranches,
    GatherChildren,
    Job,
    Judge,
    LookUpLimits,
    PutBack,
    RestoreBest,
    RestoreProtected,
    RunAgent,
    RunBuiltin,
    RunChildren,
    RunHook,
    RunShell,
    TakeSnapshot,
    TreeCommand,
    Wait,
    WorktreeCommand,
)
from little_loops.fsm.happenings import (
    ActionEnded,
    Admitted,
    BranchesFound,
    ChildEnded,
    ChildOutcome,
    Happening,
    HookEnded,
    JudgeAnswered,
    Judged,
    LeftoversEnded,
    LimitsKnown,
    StopAsked,
    StoreFailed,
    WaitOver,
    WorktreeFailed,
)
from little_loops.fsm.machine import Step
from little_loops.fsm.schema import ERROR, FSMLoop
from little_loops.fsm.state import (
    AgentResult,
    CutBy,
    Judgement,
    LoopState,
    Note,
    Result,
    SignalLine,
)
from little_loops.light_typing import TYPE_CHECKING, Any, Protocol
from little_loops.records import NamedTuple
from little_loops.system.clock import RunClock
from little_loops.system.stops import StopFlag
from little_loops.system.waiting import wait_until

if TYPE_CHECKING:
    from little_loops.fsm.signal_detector import SignalDetector

EventCallback = Callable[[dict[str, Any]], None]


class ActionResult(NamedTuple):
    exit_code: int
    output: str
    stderr: str
    duration_ms: int
    timed_out: bool = False
    """It was stopped at its timeout, so its exit code means nothing."""
    stopped: bool = False
    """It was stopped because a stop was requested; `resume` runs it again."""


class ActionRunner(Protocol):
    def run(
        self,
        action: str,
        *,
        timeout: float | None = None,
        action_type: str = "shell",
        env: Mapping[str, str] | None = None,
    ) -> ActionResult:
        """Run a filled-in action to its end and return its result.

        `timeout` is in seconds, `action_type` is `shell`, `slash` or `prompt`, `env` adds variables.
        If it raises, the action fails with that exception as the reason.
        """
        ...


class RunnerWorld:
    """A world in which an `ActionRunner` runs the actions and nothing is stored."""

    def __init__(
        self, loop: FSMLoop, actions: RunnerActions, tell: EventCallback, stop: StopFlag
    ) -> None:
        self.loop = loop
        self.actions = actions
        self.tell = tell
        self.stop = stop
        self.clock = RunClock()

    def emit(self, step: Step) -> None:
        for entry in step.events:
            self.tell(to_record(entry))

    def save(self, run: LoopState) -> None:
        """Do nothing; nothing is stored."""

    def notes(self, run: LoopState) -> tuple[Note, ...]:
        """Return nothing; a run that is not stored has no mailbox."""
        return ()

    def perform(self, run: LoopState, command: Command) -> Happening:
        if self.stop.signal is not None and not isinstance(command, EndLeftovers):
            return StopAsked(self.clock.now(), self.stop.signal)
        return PERFORM[type(command)](self, run, command)

    def values(self, run: LoopState) -> Values:
        return Values(self.loop, run, os.environ)


def _act(world: RunnerWorld, run: LoopState, command: RunShell | RunAgent) -> ActionEnded:
    acted = world.actions.act(command, world.values(run))
    stopped_by = world.stop.signal if acted.result.cut_by == "stop" else None
    return ActionEnded(world.clock.now(), *acted[:3], stopped_by)


def _refuse(world: RunnerWorld, run: LoopState, command: RunBuiltin) -> ActionEnded:
    why = f"`{command.name}` needs a stored run; use `PersistentExecutor`"
    return ActionEnded(world.clock.now(), Result(None, 0, failure=why))


def _run_no_hook(world: RunnerWorld, run: LoopState, command: RunHook) -> HookEnded:
    why = "hooks need a stored run; use `PersistentExecutor`"
    return HookEnded(world.clock.now(), command.name, problem=why, ending=command.ending)


NOT_STORED = "a run that a state starts must be stored; use `PersistentExecutor`"


def _find_no_branches(world: RunnerWorld, run: LoopState, command: FindBranches) -> BranchesFound:
    return BranchesFound(world.clock.now(), problem=NOT_STORED)


def _refuse_worktree(
    world: RunnerWorld, run: LoopState, command: WorktreeCommand
) -> WorktreeFailed:
    why = "a run in a worktree must be stored; use `PersistentExecutor`"
    return WorktreeFailed(world.clock.now(), why)


def _refuse_child(world: RunnerWorld, run: LoopState, command: RunChildren) -> ChildEnded:
    names = (*command.start, *command.stop)
    refused = ChildOutcome("failed", "error", message=NOT_STORED)
    return ChildEnded(world.clock.now(), names[0], refused)


def _gather(world: RunnerWorld, run: LoopState, command: GatherChildren) -> ActionEnded:
    result = Result(None, 0, verdict=command.judgement.verdict, reason=command.judgement.reason)
    return ActionEnded(world.clock.now(), result)


def _keep_no_trees(world: RunnerWorld, run: LoopState, command: TreeCommand) -> StoreFailed:
    why = "evidence needs a stored run; use `PersistentExecutor`"
    return StoreFailed(world.clock.now(), why)


def _judge(world: RunnerWorld, run: LoopState, command: Judge) -> Judged:
    judgement = judge_now(command, run, world.values(run))
    return Judged(world.clock.now(), judgement)


def _wait(world: RunnerWorld, run: LoopState, command: Wait) -> Happening:
    if wait_until(command, world.clock, world.stop):
        return StopAsked(world.clock.now(), world.stop.signal or 0)
    return WaitOver(world.clock.now())


def _ignore_leftovers(world: RunnerWorld, run: LoopState, command: EndLeftovers) -> LeftoversEnded:
    """Do nothing: processes that actions left running are the runner's responsibility."""
    return LeftoversEnded(world.clock.now(), command.ending)


def _ask_judge(
    world: RunnerWorld, run: LoopState, command: AskJudge | CollectJudge
) -> JudgeAnswered:
    why = "cannot run a judge: this run stores no files"
    return JudgeAnswered(world.clock.now(), Judgement(ERROR, why), Result(None, 0))


def _look_up_limits(world: RunnerWorld, run: LoopState, command: LookUpLimits) -> LimitsKnown:
    return LimitsKnown(world.clock.now())


def _admit(world: RunnerWorld, run: LoopState, command: Admit) -> Admitted:
    return Admitted(world.clock.now())  # nothing is stored, and nobody is asked


PERFORM: Performers = {
    Admit: _admit,
    LookUpLimits: _look_up_limits,
    AskJudge: _ask_judge,
    CollectJudge: _ask_judge,
    RunShell: _act,
    RunAgent: _act,
    RunBuiltin: _refuse,
    RunHook: _run_no_hook,
    FindBranches: _find_no_branches,
    RunChildren: _refuse_child,
    GatherChildren: _gather,
    Judge: _judge,
    Wait: _wait,
    TakeSnapshot: _keep_no_trees,
    RestoreProtected: _keep_no_trees,
    PutBack: _keep_no_trees,
    RestoreBest: _keep_no_trees,
    **dict.fromkeys(WORKTREE_COMMANDS, _refuse_worktree),
    EndLeftovers: _ignore_leftovers,
}


Keep = Callable[[Job, str], dict[str, Any]]
"""Stores an output, and returns the fields for the result."""


def _in_memory(_job: Job, output: str) -> dict[str, Any]:
    return {"output": without_newline(output)}


class RunnerActions:
    """Actions that an `ActionRunner` runs."""

    def __init__(
        self, runner: ActionRunner, detector: SignalDetector | None, keep: Keep = _in_memory
    ) -> None:
        self.runner = runner
        self.detector = detector
        self.keep = keep

    def act(self, command: RunShell | RunAgent, values: Values) -> ActionOutcome:
        """Fill in an action and run it; if it cannot be filled in, the result has a `failure`.

        An agent's result is derived from its exit code.
        """
        filled = fill(command, values)
        if isinstance(filled, str):
            return ActionOutcome(Result(None, 0, failure=filled))
        match command:
            case RunShell():
                return self._run(command.job, "shell", filled.text, filled.env)
            case RunAgent():
                kind = "slash" if command.is_slash else "prompt"
                acted = self._run(command.job, kind, filled.text, filled.env)
                return acted._replace(result=_as_agent(acted.result))

    def _run(self, job: Job, kind: str, text: str, env: Mapping[str, str]) -> ActionOutcome:
        """Run an action with the runner and store its output. An exception of the runner becomes
        the `failure` of the result."""
        timeout = None if job.deadline_ms is None else job.deadline_ms / 1000
        began = time.monotonic()
        try:
            done = self.runner.run(text, timeout=timeout, action_type=kind, env=env)
        # It is the user's code: whatever it raises is the action's result.
        except Exception as error:
            took_ms = round((time.monotonic() - began) * 1000)
            return ActionOutcome(Result(None, took_ms, failure=_exception_text(error)))
        result = Result(
            done.exit_code,
            done.duration_ms,
            stderr=without_newline(done.stderr),
            cut_by=_cut_by(job, done),
            **self.keep(job, done.output),
        )
        return ActionOutcome(result, self._signal(done.output))

    def _signal(self, output: str) -> SignalLine | None:
        found = self.detector.detect_first(output) if self.detector is not None else None
        return None if found is None else SignalLine(found.signal_type, found.payload or "")


def _exception_text(error: Exception) -> str:
    said = str(error)
    return f"the action runner raised {type(error).__name__}{': ' + said if said else ''}"


def _cut_by(job: Job, done: ActionResult) -> CutBy:
    if done.stopped:
        return "stop"
    return job.deadline_of if done.timed_out else "none"


AGENT_ENDS: dict[int, tuple[AgentResult, str | None]] = {
    0: ("success", "pass"),
    1: ("fail", "fail"),
}


def _as_agent(result: Result) -> Result:
    """Return a result as that of an agent. A custom runner reports only an exit code: 0 is pass, 1
    is fail, anything else an error."""
    if result.failure is not None:
        return result
    agent_result, verdict = AGENT_ENDS.get(result.exit_code or 0, ("error", None))
    return result._replace(agent=agent_result, verdict=verdict, reason=f"exit {result.exit_code}")
