"""`ll-loop stop`: ask a run to stop, and wait until its process is gone.

What is printed then comes from the run's files: a run that ended at that very moment was not
stopped, and a queued one has nothing to resume. One that does not react is asked once more, as by a
second Ctrl-C, and finally killed: `resume` continues from there.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence

from little_loops.cli.fleet_choice import FLEET, LOCAL, fleet_of
from little_loops.cli.options import OutputArgs, flag, operand
from little_loops.definitions.run_names import run_named
from little_loops.errors import OK, UsageError
from little_loops.fsm.schema import KILL_GRACE_S, FSMLoop
from little_loops.fsm.values import duration_text
from little_loops.records import NamedTuple
from little_loops.reporting.escape import visible
from little_loops.runs import refusals
from little_loops.runs.project import find_project
from little_loops.runs.reading import Runs
from little_loops.runs.stopping import Plan, free, stop
from little_loops.runs.view import RunView
from little_loops.terminal.console import print_json, say, talk
from little_loops.terminal.durations import now_ms
from little_loops.terminal.summaries import next_step, since

AT_ONCE_AFTER_S = 15.0
"""Added to the time that its action may take to end, for a slow disk or a loaded machine."""
KILL_AFTER_S = 10.0


class StopArgs(
    OutputArgs,
    verb="stop",
    summary="Stop a running loop: end its action and save its state.",
    examples=[
        ("ll-loop stop fix-types", "`ll-loop resume fix-types` continues it"),
        ("ll-loop stop --all", "every running or queued run in this project"),
        ("ll-loop stop fix-types --gone", "the run's container no longer exists"),
    ],
):
    loop: str | None = operand("a loop's name, or NAME@ID", optional=True)
    all: bool = flag("stop every running or queued run in this project")
    gone: bool = flag("free the scope of a run that was killed on another machine")
    fleet: str | None = FLEET
    local: bool = LOCAL


class Stopped(NamedTuple):
    """The result for one run: whether it was stopped, its view, and the line to print."""

    name: str
    view: RunView | None
    was_stopped: bool
    line: str

    def as_json(self) -> dict[str, object]:
        status = None if self.view is None else self.view.status
        return {"name": self.name, "stopped": self.was_stopped, "status": status}


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop stop`: stop one run or all, and return 0, even if nothing was running."""
    args = StopArgs.read(argv)
    if (args.loop is None) != args.all:
        raise UsageError("name a run, or use `--all` to stop them all", "see `ll-loop stop --help`")
    if args.gone and args.all:
        raise UsageError("`--gone` needs the name of a run", "`ll-loop stop NAME --gone`")
    root = find_project(os.getcwd())
    if (address := fleet_of(args, root)) is not None:
        from little_loops.cli.on_fleet import stop_runs  # few users have a fleet

        return stop_runs(args, root, address)
    runs = Runs(root)
    if args.loop is None:
        return _stop_all(args, runs)
    name = run_named(args.loop, runs.root)
    stopped = free_scope(runs, name) if args.gone else stop_run(runs, name)
    if args.json:
        print_json({"schema": 1, **stopped.as_json()})
    else:
        _print_result(args, stopped)
    return OK


def _stop_all(args: StopArgs, runs: Runs) -> int:
    """Stop all runs, queued ones first, so that none of them starts because another has stopped."""
    alive = sorted(runs.alive(), key=lambda view: view.status != "queued")
    stopped = []
    for view in alive:
        stopped.append(stop_run(runs, view.name))
        if not args.json:
            _print_result(args, stopped[-1])
    if args.json:
        print_json({"schema": 1, "runs": [each.as_json() for each in stopped]})
    elif not stopped and args.quiet < 2:
        say("no running runs")
    return OK


def stop_run(runs: Runs, name: str) -> Stopped:
    """Stop a run, wait for its end, and end what a killed run has left. Return what happened."""
    asked_ms = now_ms()
    before = runs.view(name)
    if before is None or before.holder is None:
        ended = _end_orphans(before)
        line = refusals.not_running(name, _state_text(before)).message
        return Stopped(name, before, False, f"{line}; ended {ended}" if ended else line)
    began = time.monotonic()
    plan = plan_for(runs.machine(before))
    was_killed = stop(runs.root, before.holder, plan, has_claim=not before.path)
    view = runs.view(name)
    if was_killed:
        _end_orphans(view)
    took = duration_text(round((time.monotonic() - began) * 1000))
    if before.status == "queued" and not _has_started(view, asked_ms):
        view = None  # the files are those of an earlier run
    result = "it did not respond and was killed" if was_killed else outcome(view)
    line = f"{name}: asked to stop (pid {before.holder.pid}), {result}   {took}"
    return Stopped(name, view, view is None or view.status == "interrupted", line)


def free_scope(runs: Runs, name: str) -> Stopped:
    """Free the scope of a run that was killed elsewhere, because the user says that nothing of it
    runs.

    Raises `UsageError` if the run is alive.
    """
    before = runs.view(name)
    ended = "" if before is None or before.is_alive else _end_orphans(before)
    line = f"{name}: its scope is free" if free(runs.root, name) else f"{name} holds no scope"
    return Stopped(name, before, False, line + (f"; ended {ended}" if ended else ""))


def _end_orphans(view: RunView | None) -> str:
    """End the processes that a killed run left of its action, and return their names."""
    if view is None or view.summary is None or view.summary.status != "running":
        return ""
    from little_loops.runs.leftovers import end_leftovers  # only after a crash

    ended = end_leftovers(view.files, view.summary.run)
    return ", ".join(f"{one.name} (pid {one.pid})" for one in ended)


def _state_text(view: RunView | None) -> str:
    return "it has not run yet" if view is None else since(view, now_ms())


def _has_started(view: RunView | None, asked_ms: int) -> bool:
    """Return whether a queued run started after all when it was asked to stop."""
    return view is not None and view.summary is not None and view.updated_ms >= asked_ms


def outcome(view: RunView | None) -> str:
    """Return what happened to a run that was asked to stop, by its files."""
    if view is None:
        return "removed from the queue before it started"
    if view.status == "interrupted" and not view.is_crashed:
        return "action ended, state saved"
    return f"but it had ended: {since(view, now_ms())}"


def plan_for(machine: FSMLoop | None) -> Plan:
    """Return the signals to send: an action may need its grace three times before it ends."""
    grace_s = KILL_GRACE_S if machine is None else longest_grace_s(machine)
    return (
        (signal.SIGTERM, 3 * grace_s + AT_ONCE_AFTER_S),
        (signal.SIGTERM, KILL_AFTER_S),
        (signal.SIGKILL, KILL_AFTER_S),
    )


def longest_grace_s(machine: FSMLoop) -> float:
    of_states = (state.kill_grace for state in machine.states.values())
    return max([KILL_GRACE_S, machine.kill_grace, *(own for own in of_states if own is not None)])


def _print_result(args: StopArgs, stopped: Stopped) -> None:
    """Print the line about a run, and the command to continue it if it was stopped."""
    if args.quiet < 2:
        say(visible(stopped.line, newlines=False))
    if args.quiet or not stopped.was_stopped or stopped.view is None:
        return
    if stopped.view.path:
        return  # the run that started it continues without it
    if hint := next_step(stopped.view):
        talk(f"next: {hint}")
