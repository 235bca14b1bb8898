"""`ll-loop stop`: ask a run to stop, and wait until it is gone.

What is said afterwards is what its files say: a run that came to its end in that very moment was
not stopped, and one that only waited for its turn has nothing to resume.  One that does not answer
is told once more, as a second Ctrl-C would, and killed in the end: `resume` goes on from there.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence

from little_loops.cli.options import OutputArgs, operand
from little_loops.definitions.run_names import run_named
from little_loops.errors import OK
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.values import duration_text
from little_loops.reporting.escape import visible
from little_loops.runs.project import find_project
from little_loops.runs.reading import Runs
from little_loops.runs.stopping import Plan, stop
from little_loops.runs.view import RunView
from little_loops.terminal.console import print_json, say, talk
from little_loops.terminal.durations import now_ms
from little_loops.terminal.summaries import next_step, since

KILL_GRACE_S = 5.0
AT_ONCE_AFTER_S = 15.0
"""Beyond all that its action may take to end: a disk that is slow, a machine under load."""
KILL_AFTER_S = 10.0


class StopArgs(
    OutputArgs,
    verb="stop",
    summary="Stop a running loop: its action is ended, its state saved.",
    examples=[("ll-loop stop fix-types", "and `ll-loop resume fix-types` later")],
):
    loop: str = operand("a loop's name, or NAME@ID")


def main(argv: Sequence[str]) -> int:
    args = StopArgs.read(argv)
    runs = Runs(find_project(os.getcwd()))
    name = run_named(args.loop, runs.root)
    asked_ms = now_ms()
    before = runs.view(name)
    if before is None or before.holder is None:
        ended = _end_orphans(before)
        line = f"{name} is not running ({_how(before)})" + (f"; ended {ended}" if ended else "")
        _answer(args, name, before, stopped=False, line=line)
        return OK
    began = time.monotonic()
    was_killed = stop(runs.root, before.holder, plan_for(runs.machine(before)))
    view = runs.view(name)
    if was_killed:
        _end_orphans(view)
    took = duration_text(round((time.monotonic() - began) * 1000))
    if before.status == "queued" and not _has_begun(view, asked_ms):
        view = None  # what is there is an earlier run, or what it was to continue
    was_stopped = view is None or view.status == "interrupted"
    became = "it did not answer and was killed" if was_killed else outcome(view)
    line = f"{name}: asked to stop (pid {before.holder.pid}), {became}   {took}"
    _answer(args, name, view, stopped=was_stopped, line=line)
    return OK


def _end_orphans(view: RunView | None) -> str:
    """What a killed runner left of its action, ended and named."""
    if view is None or view.summary is None or view.summary.status != "running":
        return ""
    from little_loops.system.process_tree import sweep  # only after a crash

    return ", ".join(f"{one.name} (pid {one.pid})" for one in sweep(view.summary.run))


def _how(view: RunView | None) -> str:
    return "has not run yet" if view is None else since(view, now_ms())


def _has_begun(view: RunView | None, asked_ms: int) -> bool:
    """Whether it came out of the queue after all, when it was asked to stop."""
    return view is not None and view.summary is not None and view.updated_ms >= asked_ms


def outcome(view: RunView | None) -> str:
    """What became of it, by its files."""
    if view is None:
        return "it was still waiting for its turn"
    if view.status == "interrupted" and not view.is_crashed:
        return "action ended, state saved"
    return f"but it had ended: {since(view, now_ms())}"


def plan_for(machine: FSMLoop | None) -> Plan:
    """An agent is told twice before it is killed, and what actions left behind once."""
    grace_s = KILL_GRACE_S if machine is None else longest_grace_s(machine)
    return (
        (signal.SIGTERM, 3 * grace_s + AT_ONCE_AFTER_S),
        (signal.SIGTERM, KILL_AFTER_S),
        (signal.SIGKILL, KILL_AFTER_S),
    )


def longest_grace_s(machine: FSMLoop) -> float:
    of_states = (state.kill_grace for state in machine.states.values())
    return max([KILL_GRACE_S, machine.kill_grace, *(own for own in of_states if own is not None)])


def _answer(args: StopArgs, name: str, view: RunView | None, *, stopped: bool, line: str) -> None:
    if args.json:
        status = None if view is None else view.status
        print_json({"schema": 1, "name": name, "stopped": stopped, "status": status})
        return
    if args.quiet < 2:
        say(visible(line, newlines=False))
    if not args.quiet and stopped and view is not None and (hint := next_step(view)):
        talk(f"next: {hint}")
