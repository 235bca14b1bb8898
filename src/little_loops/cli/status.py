"""`ll-loop status`: print where a run is, or all of them. Reads only; a damaged run is listed as
such."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from little_loops.cli.crashes import report_crashes
from little_loops.cli.fleet_choice import FLEET, LOCAL, project_of
from little_loops.cli.options import OutputArgs, count, flag, operand
from little_loops.errors import OK, UsageError
from little_loops.light_typing import TYPE_CHECKING, Any
from little_loops.reporting.escape import visible
from little_loops.runs.reading import Runs
from little_loops.runs.view import RunDetail, RunView, as_json, exit_code_of, no_such_run
from little_loops.terminal.console import print_json, say, talk
from little_loops.terminal.durations import now_ms
from little_loops.terminal.summaries import money, next_step, shown_name, signed, since
from little_loops.terminal.tables import Column, Style, style_for, table

if TYPE_CHECKING:
    from little_loops.cli.gate_screen import GateView

EXAMPLES = (
    ("ll-loop status", "all runs that are running or unfinished"),
    ("ll-loop status fix-types", "one run, or how the last one ended"),
    ("ll-loop status fix-types --exit-code", "exit with its code; 5 while running"),
)
COLUMNS = (
    Column("NAME", least=12),
    Column("STATUS", least=24),
    Column("STATE", least=10, leaves=1),
    Column("ITER", leaves=2),
    Column("COST", leaves=4),
    Column("PID", leaves=3),
)


class StatusArgs(
    OutputArgs,
    verb="status",
    summary="Show what a run is doing, or all runs that are running or unfinished.",
    examples=EXAMPLES,
):
    loop: str | None = operand("a loop's name, or NAME@ID", optional=True)
    exit_code: bool = flag("exit with the run's exit code; 5 while it is running, 1 if it crashed")
    verbose: int = count("show dates instead of ages", "-v")
    fleet: str | None = FLEET
    local: bool = LOCAL


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop status`. Return 0, or the run's exit code with `--exit-code`."""
    args = StatusArgs.read(argv)
    runs = Runs(project_of(args, args.loop))
    if args.loop is not None:
        return one_run(args, args.loop, runs)
    if args.exit_code:
        raise UsageError("`--exit-code` needs the name of a run", "ll-loop status NAME --exit-code")
    views, now = runs.list(), now_ms()
    if args.json:
        found = [as_json(view, runs.texts(view), now) for view in views]
        print_json({"schema": 1, "runs": found})
    elif args.quiet < 2:
        say("\n".join(overview(views, style_for(sys.stdout, args.color), now)))
        warn_of_damage(views, args.quiet)
    report_crashes(runs, views)
    return OK


def warn_of_damage(views: Sequence[RunView], quiet: int) -> None:
    """Print what is wrong with damaged runs, for which the table has no room."""
    for view in views:
        if view.damage and not quiet:
            talk(f"warning: {visible(view.damage, newlines=False)}")


def one_run(args: StatusArgs, loop: str, runs: Runs) -> int:
    """Print the status of one run. Return 0, or the run's exit code with `--exit-code`."""
    from little_loops.definitions.run_names import run_named  # only where a name is given

    name = run_named(loop, runs.root)
    detail, now = runs.detail(name), now_ms()
    if detail is None:
        return _never_ran(args, name, runs)
    from little_loops.terminal.status_page import document, page  # one run is shown in more detail

    view, style = detail.view, style_for(sys.stdout, args.color)
    gate = _gate_of(runs, detail)
    if args.json:
        print_json({"schema": 1, **document(runs, detail, now), **_gate_as_json(gate)})
    elif args.quiet < 2:
        say("\n".join(page(runs, detail, style, now, args.verbose)))
        _show_children(runs, view, style, now)
        _show_gate(gate, view, style)
        if (hint := _hints(view, gate)) and not args.quiet:
            talk(f"next: {hint}")
    report_crashes(runs, [view])
    last = detail.entries[-1] if detail.entries else None
    return exit_code_of(view, last) if args.exit_code else OK


def _show_children(runs: Runs, view: RunView, style: Style, now: int) -> None:
    """Print a table of the runs that the run has started, if there are any."""
    if view.status == "queued":
        return
    if children := runs.children(view):
        say("\n".join(["", *table(COLUMNS, [row(each, style, now) for each in children], style)]))


def _gate_of(runs: Runs, detail: RunDetail) -> GateView | None:
    """Return the gate that the run waits at, or None."""
    if (detail.view.status, detail.view.reason) != ("needs_review", "review"):
        return None
    from little_loops.cli.gate_screen import gate_of  # few runs wait at a gate

    return gate_of(runs, detail)


def _gate_as_json(gate: GateView | None) -> dict[str, Any]:
    if gate is None:
        return {}
    from little_loops.cli.gate_screen import gate_document  # few runs wait at a gate

    return {"gate": gate_document(gate)}


def _show_gate(gate: GateView | None, view: RunView, style: Style) -> None:
    """Print what a gate asks, and how it was answered."""
    if gate is None:
        return
    from little_loops.cli.gate_screen import gate_lines  # few runs wait at a gate

    if lines := gate_lines(gate, view, style):
        say("\n".join(lines))


def _never_ran(args: StatusArgs, name: str, runs: Runs) -> int:
    """Print that a loop has not run yet, or its runs named `NAME@ID`, and return 0.

    Raises `UsageError` with `--exit-code`, because there is none.
    """
    if args.exit_code:
        raise no_such_run(name)
    with_id = [view for view in runs.list() if view.name.startswith(f"{name}@")]
    if args.json:
        print_json({"schema": 1, "name": name, "status": None})
    elif args.quiet < 2 and with_id:
        say("\n".join(overview(with_id, style_for(sys.stdout, args.color), now_ms())))
    elif args.quiet < 2:
        say(f"{visible(name)} has not run yet")
        if not args.quiet:
            talk(f"next: ll-loop run {name}")
    return OK


def _hints(view: RunView, gate: GateView | None = None) -> str | None:
    """Return the commands to suggest."""
    if gate is not None and gate.answer is not None:
        return f"ll-loop resume {view.name}"
    if view.status == "running":
        dot = style_for(sys.stderr, None).signs.dot
        return f"ll-loop attach {view.name}   {dot}   ll-loop stop {view.name}"
    return next_step(view)


def overview(views: Sequence[RunView], style: Style, now: int) -> list[str]:
    """Return a table with a line for each run."""
    if not views:
        return ["no running or unfinished runs"]
    return table(COLUMNS, [row(view, style, now) for view in views], style)


def row(view: RunView, style: Style, now: int) -> list[str]:
    """Return the cells of a run."""
    run, none = view.summary, style.signs.none
    return [
        shown_name(view),
        signed(view, since(view, now), style),
        visible(run.current_state, newlines=False) if run else none,
        str(run.iteration) if run else none,
        money(run.cost_usd, none) if run else none,
        str(view.holder.pid) if view.holder and view.holder.pid else none,
    ]
