"""Run a built-in action in this process; it is stored and judged like any other action.

Not here: what such an action does (`relay.turns`).
"""

from __future__ import annotations

import time

from little_loops.engine.action_output import Streams
from little_loops.engine.action_process import Workplace, environment
from little_loops.engine.drive import ActionOutcome
from little_loops.engine.resolve import Filled
from little_loops.fsm.commands import Job, RunBuiltin
from little_loops.fsm.state import CutBy, LoopState, SignalLine
from little_loops.relay.call import BuiltinResult, Call, CallInterrupted
from little_loops.relay.turns import perform
from little_loops.system.process import Ended


def run_builtin(
    at: Workplace, run: LoopState, command: RunBuiltin, filled: Filled
) -> ActionOutcome:
    """Run a built-in action in this process, and store its output.

    After a stop or at the deadline, the result has no exit code. An action that could not be
    carried out gives the signal line `error`.
    """
    streams = Streams(at, command.job)
    began = time.monotonic()
    call = _call(at, run, command.job, filled, streams, began)
    cut_by: CutBy = "none"
    done = BuiltinResult()
    try:
        done = perform(command.name, call)
    except CallInterrupted as cut:
        cut_by = "stop" if cut.by == "stop" else command.job.deadline_of
    code = done.exit_code if cut_by == "none" else None
    took_ms = int((time.monotonic() - began) * 1000)
    result = streams.result(Ended(code, None, "none", took_ms, pid=0), cut_by)
    if done.structured is not None:
        result = result._replace(structured=done.structured)
    failed = None if done.error is None else SignalLine("error", done.error)
    return ActionOutcome(result._replace(wait_ms=done.wait_ms), failed, done.warnings)


def _call(
    at: Workplace, run: LoopState, job: Job, filled: Filled, streams: Streams, began: float
) -> Call:
    """Return what the action gets; its deadline counts from `began`, on the monotonic clock."""
    return Call(
        inputs=filled.inputs,
        project=at.project,
        run_dir=at.run_dir,
        run=run.run,
        loop=run.loop,
        iteration=job.iteration,
        iteration_limit=job.iteration_limit,
        scope=run.scope,
        environ=environment(at, run, job, filled.env),
        stdout=streams.stdout,
        stderr=streams.stderr,
        stop=at.stop,
        ends_at=None if job.deadline_ms is None else began + job.deadline_ms / 1000,
        kill_grace_s=job.kill_grace_s,
        on_started=at.on_started,
        tick=at.onlookers.tick,
    )
