"""The library's interface to runs that survive the process.

Not here: carrying out such a run (`lifecycle`).
"""

from __future__ import annotations

import os
from collections.abc import Callable

from little_loops.authoring.library import checked
from little_loops.engine.action_output import kept_output
from little_loops.engine.drive import Performers
from little_loops.engine.executor import (
    ExecutionResult,
    Stoppable,
    result_of,
    with_handoff_behavior,
)
from little_loops.engine.handoff_handler import HandoffBehavior, HandoffHandler
from little_loops.engine.lifecycle import RunOutcome, RunRequest, start
from little_loops.engine.local_world import LocalWorld, Services
from little_loops.engine.resuming import resume
from little_loops.engine.runner_world import ActionRunner, EventCallback, RunnerActions
from little_loops.fsm.commands import Job, RunAgent, RunShell
from little_loops.fsm.happenings import ActionEnded
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.signal_detector import SignalDetector
from little_loops.fsm.state import LoopState
from little_loops.light_typing import Any
from little_loops.reporting.observers import Callback
from little_loops.runs.output_files import RunOutput
from little_loops.runs.project import project_of
from little_loops.system.files import Folder
from little_loops.system.output import LineScanner, Scanner, Signal, SignalScanner


class PersistentExecutor(Stoppable):
    """Run a loop so that it survives the process; `resume` continues it.

    Raises `ValueError` for an invalid machine.
    """

    def __init__(
        self,
        fsm: FSMLoop,
        loops_dir: str | os.PathLike[str] = ".loops",
        event_callback: EventCallback | None = None,
        action_runner: ActionRunner | None = None,
        signal_detector: SignalDetector | None = None,
        handoff_handler: HandoffHandler | None = None,
    ) -> None:
        """`loops_dir` is the project's directory of loops. Without an `action_runner`, actions run
        as on the command line; without a `handoff_handler`, the loop's `on_handoff` applies."""
        super().__init__()
        self.fsm = checked(fsm)
        self.root = project_of(os.fspath(loops_dir))
        self.event_callback = event_callback
        self.action_runner = action_runner
        self.signal_detector = signal_detector or SignalDetector()
        self.handoff_handler = handoff_handler or HandoffHandler(HandoffBehavior(fsm.on_handoff))

    def run(self) -> ExecutionResult:
        """Run from the beginning. Raises `UsageError` if this name has an unfinished run, and
        `ConflictError` if another run holds the name or the scope."""
        return self._carry_out(start)

    def resume(self) -> ExecutionResult:
        """Continue the newest run of this name. Raises `UsageError` if there is none that can be
        resumed."""
        return self._carry_out(resume)

    def _carry_out(
        self, begin: Callable[[FSMLoop, RunRequest, Services], RunOutcome]
    ) -> ExecutionResult:
        """Run or resume the loop with `begin`. Afterwards a requested stop is cleared.

        The handoff handler is called for a handoff, unless a session has been started for it
        already.
        """
        loop = with_handoff_behavior(self.fsm, self.handoff_handler)
        try:
            ran = begin(loop, RunRequest(self.root, self.fsm.name), self._surroundings())
        finally:
            self._stop.reset()
        # A session was started when the claim was released.
        handler = None if ran.ending.spawn else self.handoff_handler
        return result_of(ran.run, ran.ending, handler)

    def _surroundings(self) -> Services:
        """Return the services of a run: the callback observes it, and a custom runner runs its
        actions."""
        callbacks = [] if self.event_callback is None else [Callback(self.event_callback)]
        return Services(
            os.environ,
            self._stop,
            onlookers=callbacks,
            performers={} if self.action_runner is None else self._performers(self.action_runner),
            scanner=_scanner_of(self.signal_detector),
            handoff=self.handoff_handler,
        )

    def _performers(self, runner: ActionRunner) -> Performers:
        """Return performers that run shell actions and agents with `runner`."""

        def act(world: LocalWorld, run: LoopState, command: RunShell | RunAgent) -> ActionEnded:
            actions = RunnerActions(runner, self.signal_detector, _keep_in(world.writer.data))
            return world.ended(actions.act(command, world.values(run)))

        return {RunShell: act, RunAgent: act}


def _keep_in(data: Folder) -> Callable[[Job, str], dict[str, Any]]:
    """Return a function that stores an output in the run's directory if it is long, and returns the
    fields of the result."""

    def keep(job: Job, output: str) -> dict[str, Any]:
        raw = output.encode("utf-8", "replace")
        return kept_output(RunOutput(data).keep(job.step, job.attempt, raw, "out"))

    return keep


def _scanner_of(detector: SignalDetector) -> Callable[[], Scanner]:
    """Return a function that creates scanners: built-in signals are found in the raw stream, custom
    patterns line by line."""

    def search(line: str) -> Signal | None:
        found = detector.detect_first(line)
        return None if found is None else Signal(found.signal_type, found.payload or "")

    return SignalScanner if detector.is_built_in else lambda: LineScanner(search)
