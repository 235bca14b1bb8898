"""`ll-loop wait`: wait for a run to end, and exit with its exit code."""

from __future__ import annotations

import time
from collections.abc import Sequence

from little_loops.cli.crashes import report_crashes
from little_loops.cli.fleet_choice import FLEET, LOCAL, project_of
from little_loops.cli.options import OutputArgs, operand, seconds, value
from little_loops.definitions.run_names import run_named
from little_loops.errors import LIMIT, UsageError
from little_loops.fsm.codec import to_record
from little_loops.fsm.events import FinalEvent
from little_loops.runs.reading import Runs
from little_loops.runs.view import RunDetail, exit_code_of
from little_loops.terminal.console import print_json, say, talk
from little_loops.terminal.summaries import final_line

POLL_S = 0.05


class WaitArgs(
    OutputArgs,
    verb="wait",
    summary="Wait for a run to end, and exit with its exit code, or 1 if it crashed.",
    examples=[
        ("ll-loop wait fix-types", "until it ends"),
        (
            "ll-loop wait fix-types --timeout 90s",
            "at most 90 s; then exit 3",
        ),
    ],
):
    loop: str = operand("a loop's name, or NAME@ID")
    timeout: float | None = value(
        "wait at most this long, such as 90s or 10m", convert=seconds, metavar="TIME"
    )
    fleet: str | None = FLEET
    local: bool = LOCAL


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop wait`. Return the run's exit code, or 3 if it has not ended in time."""
    args = WaitArgs.read(argv)
    runs = Runs(project_of(args, args.loop, follow=True))
    name = run_named(args.loop, runs.root)
    until = None if args.timeout is None else time.monotonic() + args.timeout
    while True:
        doing = runs.is_alive(name)
        ended = None if doing else _ended(runs, name)
        if ended is not None:
            report_crashes(runs, [ended.view])
            return _print_end(args, name, ended)
        if until is not None and time.monotonic() >= until:
            return _still_running(args, name, doing or "running")
        time.sleep(POLL_S)


def _ended(runs: Runs, name: str) -> RunDetail | None:
    """Return the run with its end; None if another one has started meanwhile.

    Raises `UsageError` if there is no run.
    """
    found = runs.ended(name)
    if found is None:
        raise UsageError(f"`{name}` has no run to wait for")
    return None if found.view.is_alive else found


def _still_running(args: WaitArgs, name: str, status: str) -> int:
    """Print that the run has not ended in time, and return the exit code."""
    if args.json:
        print_json({"schema": 1, "name": name, "status": status, "event": None})
    elif not args.quiet:
        talk(f"{name} is still {status}")
    return LIMIT


def _print_end(args: WaitArgs, name: str, ended: RunDetail) -> int:
    """Print how the run ended, and return its exit code."""
    view, last = ended.view, ended.entries[-1] if ended.entries else None
    final = last if last is not None and isinstance(last.event, FinalEvent) else None
    if args.json:
        event = None if final is None else to_record(final)
        print_json({"schema": 1, "name": name, "status": view.status, "event": event})
    elif args.quiet < 2:
        say(final_line(view, last))
    if final is None and not args.quiet and not args.json:
        talk(f"next: ll-loop resume {name}")
    return exit_code_of(view, last)
