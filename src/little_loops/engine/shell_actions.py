"""Run a shell action: its script, in a process of its own."""

from __future__ import annotations

from little_loops.engine.action_output import Streams
from little_loops.engine.action_process import (
    ParsedSignal,
    Workplace,
    cut_by,
    environment,
    hand_over,
    run_program,
)
from little_loops.engine.drive import ActionOutcome
from little_loops.engine.resolve import Filled
from little_loops.fsm.commands import RunShell
from little_loops.fsm.state import LoopState
from little_loops.light_modules import signal


def run_shell(at: Workplace, run: LoopState, command: RunShell, filled: Filled) -> ActionOutcome:
    """Run a script in the project and store its output. Return its result, with the first signal
    line.

    If the shell cannot start, the result has a `failure`. Processes that it left continue to run.
    """
    job, scanner = command.job, at.scanner()
    notes = hand_over(at, job.continuation)
    streams = Streams(at, job, scanner.feed)
    argv = [command.shell, "-c", filled.text]
    env = environment(at, run, job, filled.env)
    ended = run_program(at, job, argv, env, streams, plan=((signal.SIGTERM, job.kill_grace_s),))
    result = streams.result(ended, cut_by(job, ended))
    found = scanner.found
    parsed = ParsedSignal() if found is None else notes.signal_line(found.kind, found.payload)
    return ActionOutcome(result, parsed.line, parsed.warnings)
