"""`ll-loop list`: list the project's loops and how each last ended; `--running`: only live runs.

A file that cannot be read is a line like the others. `--running` reads no loop files and no runs
that have ended, however many there are.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from little_loops.cli.crashes import report_crashes
from little_loops.cli.fleet_choice import FLEET, LOCAL, project_of
from little_loops.cli.options import OutputArgs, count, flag
from little_loops.cli.status import COLUMNS, row, warn_of_damage
from little_loops.errors import OK
from little_loops.runs.reading import Runs
from little_loops.runs.view import as_json
from little_loops.terminal.console import print_json, say, talk
from little_loops.terminal.durations import now_ms
from little_loops.terminal.tables import style_for, table

EXAMPLES = (
    ("ll-loop list", "every loop, and how its last run ended"),
    ("ll-loop list --running", "only what is running or queued; also: ll-loop ps"),
)


class ListArgs(
    OutputArgs,
    verb="list",
    summary="List the loops in this project and how their last runs ended.",
    examples=EXAMPLES,
):
    running: bool = flag("only runs that are running or queued")
    verbose: int = count("show dates instead of ages", "-v")
    fleet: str | None = FLEET
    local: bool = LOCAL


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop list`: print the loops, or the live runs with `--running`. Return 0."""
    args = ListArgs.read(argv)
    root = project_of(args, past=not args.running)
    if args.running:
        return list_running(args, root)
    from little_loops.cli.loop_table import document, first_fix, lines, loops_of  # reads YAML

    entries, now = loops_of(root), now_ms()
    if args.json:
        print_json({"schema": 1, **document(entries, Runs(root), now)})
    elif args.quiet < 2:
        if not entries:
            say("this project has no loops")
            talk("next: ll-loop init")
            return OK
        style = style_for(sys.stdout, args.color)
        say("\n".join(lines(entries, style, now, args.verbose)))
        if (fix := first_fix(entries)) and not args.quiet:
            talk(f"next: {fix}")
    report_crashes(Runs(root), [entry.last for entry in entries if entry.last is not None])
    return OK


def list_running(args: ListArgs, root: str) -> int:
    """Print the runs that are alive, and return the exit code."""
    runs, now = Runs(root), now_ms()
    views = runs.alive()
    if args.json:
        found = [as_json(view, runs.texts(view), now) for view in views]
        print_json({"schema": 1, "runs": found})
    elif args.quiet < 2:
        style = style_for(sys.stdout, args.color)
        rows = [row(view, style, now) for view in views]
        say("\n".join(table(COLUMNS, rows, style)) if rows else "no loop is running")
        warn_of_damage(views, args.quiet)
    return OK
