"""The library's executor: run a loop in this process and store nothing.

Not here: the main loop (`drive`), runs that survive the process (`persistent_executor`).
"""

from __future__ import annotations

import weakref
from signal import SIGTERM

from little_loops.authoring.library import checked
from little_loops.engine.default_runner import DefaultActionRunner as DefaultActionRunner
from little_loops.engine.drive import drive, new_run
from little_loops.engine.handoff_handler import HandoffBehavior, HandoffHandler
from little_loops.engine.runner_world import ActionResult as ActionResult
from little_loops.engine.runner_world import ActionRunner as ActionRunner
from little_loops.engine.runner_world import EventCallback, RunnerActions, RunnerWorld
from little_loops.fsm.commands import Ending
from little_loops.fsm.happenings import Started
from little_loops.fsm.plain import encode
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.signal_detector import SignalDetector
from little_loops.fsm.state import LoopState
from little_loops.light_typing import Any
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
        """Stop the run as `ll-loop stop` does; before `run`, the next run ends at once.

        The current action is ended, unless your own runner runs it: then the run stops when that
        returns. A second request kills the action without giving it time to end.
        """
        self._stop.ask(SIGTERM)


class FSMExecutor(Stoppable):
    """Run a loop in this process and store nothing. Raises `ValueError` for an invalid machine."""

    def __init__(
        self,
        fsm: FSMLoop,
        event_callback: EventCallback | None = None,
        action_runner: ActionRunner | None = None,
        signal_detector: SignalDetector | None = None,
        handoff_handler: HandoffHandler | None = None,
    ) -> None:
        """Without an `action_runner`, actions run as processes. Without a `handoff_handler`, a
        handoff ends the run. Without a `signal_detector`, no signal lines are found."""
        super().__init__()
        self.fsm = checked(fsm)
        self.event_callback = event_callback
        self.action_runner = action_runner or DefaultActionRunner(self._stop)
        self.signal_detector = signal_detector
        self.handoff_handler = handoff_handler

    def run(self) -> ExecutionResult:
        """Run the loop from its initial state to its ending. Afterwards a requested stop is
        cleared.

        If it ends with a handoff, the handoff handler is called. An exception of the event callback
        ends the run and is raised here.
        """
        actions = RunnerActions(self.action_runner, self.signal_detector)
        world = RunnerWorld(self.fsm, actions, self._call_back, self._stop)
        loop = with_handoff_behavior(self.fsm, self.handoff_handler)
        at = world.clock.now()
        run = new_run(loop, "in-memory", at)
        try:
            run, ending = drive(loop, run, Started(at), world)
        finally:
            self._stop.reset()
        return result_of(run, ending, self.handoff_handler)

    def _call_back(self, record: dict[str, Any]) -> None:
        if self.event_callback is not None:
            self.event_callback(record)


def with_handoff_behavior(loop: FSMLoop, handler: HandoffHandler | None) -> FSMLoop:
    """Return the loop with the handler's behaviour; without a handler, a handoff ends the run."""
    return loop._replace(on_handoff=handler.behavior.value if handler else "pause")


def _calls_handler(handler: HandoffHandler, ending: Ending) -> bool:
    """Return whether to call the handler: once for each handoff that spawns, not at a limit."""
    return ending.spawn or handler.behavior is not HandoffBehavior.SPAWN


def result_of(
    run: LoopState, ending: Ending, handler: HandoffHandler | None = None
) -> ExecutionResult:
    """Return the result of a run. If it ended with a handoff, first call the handler, if there is
    one.

    A handler that spawns is not called for a handoff at a limit.
    """
    handed_off = ending.reason == "handoff"
    continuation = _continuation(run) if handed_off else None
    if handed_off and handler is not None and _calls_handler(handler, ending):
        handler.handle(run.loop, continuation)
    return ExecutionResult(
        final_state=run.current_state,
        iterations=run.iteration,
        terminated_by=ending.reason,
        duration_ms=run.ran_ms,
        captured={name: encode(result) for name, result in run.captured.items()},
        handoff=handed_off,
        continuation_prompt=continuation,
    )


def _continuation(run: LoopState) -> str | None:
    """Return what the action handed over, if anything; for `terminate`, only the text of the signal
    line."""
    if run.continuation_prompt is not None or run.signal_line is None:
        return run.continuation_prompt
    return run.signal_line.payload
