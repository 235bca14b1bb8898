"""The library's executor: run a loop in this process, keeping nothing.

Not here: the loop that drives a machine (`drive`), runs that survive (`persistent_executor`).
"""

from __future__ import annotations

import weakref
from signal import SIGTERM
from typing import Any

from little_loops.authoring.library import checked
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
from little_loops.system.stops import StopFlag


class ExecutionResult(NamedTuple):
    final_state: str
    iterations: int
    terminated_by: str
    duration_ms: int
    captured: dict[str, dict[str, Any]]
    handoff: bool = False
    continuation_prompt: str | None = None


class Stoppable:
    """A run that a program can stop: from another thread, an event callback or an action runner."""

    def __init__(self) -> None:
        self._stop = StopFlag()
        weakref.finalize(self, self._stop.close)

    def request_stop(self) -> None:
        """Stop the run as `ll-loop stop` does; before `run`, the next one ends at once.

        The action under way is ended, unless a runner of your own runs it: then the run stops when
        that returns.  A second request gives the action no time to end by itself.
        """
        self._stop.ask(SIGTERM)


class FSMExecutor(Stoppable):
    """Run a loop in this process, keeping nothing.  Raises `ValueError` for an invalid machine."""

    def __init__(
        self,
        fsm: FSMLoop,
        event_callback: EventCallback | None = None,
        action_runner: ActionRunner | None = None,
        signal_detector: SignalDetector | None = None,
        handoff_handler: HandoffHandler | None = None,
    ) -> None:
        super().__init__()
        self.fsm = checked(fsm)
        self.event_callback = event_callback
        self.action_runner = action_runner or DefaultActionRunner(self._stop)
        self.signal_detector = signal_detector
        self.handoff_handler = handoff_handler

    def run(self) -> ExecutionResult:
        actions = RunnerActions(self.action_runner, self.signal_detector)
        world = RunnerWorld(self.fsm, actions, self._tell, self._stop)
        loop = handled_by(self.fsm, self.handoff_handler)
        at = world.clock.now()
        run = new_run(loop, "in-memory", at)
        try:
            run, ending = drive(loop, run, Started(at), world)
        finally:
            self._stop.reset()
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
    continuation = _continuation(run) if handed_off else None
    if handed_off and handler is not None and _is_asked(handler, ending):
        handler.handle(run.loop, continuation)
    return ExecutionResult(
        final_state=run.current_state,
        iterations=run.iteration,
        terminated_by=ending.reason,
        duration_ms=run.ran_ms,
        captured={name: result_to_dict(result) for name, result in run.captured.items()},
        handoff=handed_off,
        continuation_prompt=continuation,
    )


def _continuation(run: LoopState) -> str | None:
    """What the action handed over; a run that this ended (`terminate`) keeps only its line."""
    if run.continuation_prompt is not None or run.signal_line is None:
        return run.continuation_prompt
    return run.signal_line.payload
