"""The library's executor: run a loop in this process, keeping nothing.

Not here: the loop that drives a machine (`drive`), runs that survive (`lifecycle`).
"""

from __future__ import annotations

from typing import Any

from little_loops.engine.default_runner import DefaultActionRunner as DefaultActionRunner
from little_loops.engine.drive import drive, new_run
from little_loops.engine.handoff_handler import HandoffBehavior, HandoffHandler
from little_loops.engine.runner_world import ActionResult as ActionResult
from little_loops.engine.runner_world import ActionRunner as ActionRunner
from little_loops.engine.runner_world import EventCallback, RunnerActions, RunnerWorld
from little_loops.fsm.commands import Ending
from little_loops.fsm.happenings import Started
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.signal_detector import SignalDetector
from little_loops.fsm.state import LoopState, result_to_dict
from little_loops.records import NamedTuple


class ExecutionResult(NamedTuple):
    final_state: str
    iterations: int
    terminated_by: str
    duration_ms: int
    captured: dict[str, dict[str, Any]]
    handoff: bool = False
    continuation_prompt: str | None = None


class FSMExecutor:
    """Run a loop in this process, keeping nothing."""

    def __init__(
        self,
        fsm: FSMLoop,
        event_callback: EventCallback | None = None,
        action_runner: ActionRunner | None = None,
        signal_detector: SignalDetector | None = None,
        handoff_handler: HandoffHandler | None = None,
    ) -> None:
        self.fsm = fsm
        self.event_callback = event_callback
        self.action_runner = action_runner or DefaultActionRunner()
        self.signal_detector = signal_detector
        self.handoff_handler = handoff_handler

    def run(self) -> ExecutionResult:
        actions = RunnerActions(self.action_runner, self.signal_detector)
        world = RunnerWorld(self.fsm, actions, self._tell)
        loop = handled_by(self.fsm, self.handoff_handler)
        at = world.clock.now()
        run = new_run(loop, "in-memory", at)
        run, ending = drive(loop, run, Started(at), world)
        return result_of(run, ending, self.handoff_handler)

    def _tell(self, record: dict[str, Any]) -> None:
        if self.event_callback is not None:
            self.event_callback(record)


def handled_by(loop: FSMLoop, handler: HandoffHandler | None) -> FSMLoop:
    """The loop with the handler's behaviour; without a handler a handoff just ends the run."""
    return loop._replace(on_handoff=handler.behavior.value if handler else "pause")


def _is_asked(handler: HandoffHandler, ending: Ending) -> bool:
    """One session for each handoff that spawns; none past the limit, none for a command."""
    return ending.spawn or handler.behavior is not HandoffBehavior.SPAWN


def result_of(
    run: LoopState, ending: Ending, handler: HandoffHandler | None = None
) -> ExecutionResult:
    handed_off = ending.reason == "handoff"
    if handed_off and handler is not None and _is_asked(handler, ending):
        handler.handle(run.loop, run.continuation_prompt)
    return ExecutionResult(
        final_state=run.current_state,
        iterations=run.iteration,
        terminated_by=ending.reason,
        duration_ms=run.ran_ms,
        captured={name: result_to_dict(result) for name, result in run.captured.items()},
        handoff=handed_off,
        continuation_prompt=run.continuation_prompt if handed_off else None,
    )
