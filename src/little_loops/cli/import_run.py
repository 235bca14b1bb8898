"""`ll-loop import`: import a run from a file into this project."""

from __future__ import annotations

import os
from collections.abc import Sequence

from little_loops.cli.options import OutputArgs, operand, value
from little_loops.errors import OK
from little_loops.fsm.timestamps import timestamp, wall_ms_of
from little_loops.reporting.escape import visible
from little_loops.runs.project import find_project
from little_loops.sharing.importing import OpenRunFile, open_run_file
from little_loops.sharing.landing import ImportResult, land
from little_loops.terminal.console import print_json, talk


class ImportArgs(
    OutputArgs,
    verb="import",
    summary="Import a run into this project from a file that `ll-loop export` wrote.\n"
    "The whole file is checked first, and nothing in it is run. To continue the run,\n"
    "use `ll-loop resume`.",
    examples=[
        ("ll-loop import fix-tests.llrun", "under its own name"),
        ("ll-loop import fix-tests.llrun --id alice", "as fix-tests@alice"),
    ],
):
    file: str = operand("a run file")
    id: str | None = value("import it under the name LOOP@ID", metavar="ID")


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop import`. Return 0 if the run is here now."""
    args = ImportArgs.read(argv)
    with open_run_file(args.file) as file:
        landed = land(file, find_project(os.getcwd()), args.id, os.environ)
    if args.json:
        print_json({"schema": 1, **_as_dict(file, landed)})
    elif not args.quiet:
        for line in _lines(file, landed):
            talk(visible(line, newlines=False))
    return OK


def _lines(file: OpenRunFile, landed: ImportResult) -> list[str]:
    """Return what the user reads: what is here now, and what it lacks."""
    name, run = landed.name, file.run
    match landed.how:
        case "already here":
            return [f"`{name}` is already here"]
        case "continued here":
            return [f"`{name}` is already here, and has continued since it was exported"]
        case _:
            started = timestamp(wall_ms_of(run.started_at))[:16].replace("T", " ")
            lines = [f"imported `{name}`: {run.status.replace('_', ' ')}, started {started} UTC"]
    masked = file.manifest.masked
    if any(masked):
        lines.append("note: its secrets are masked; a state that needs one cannot be resumed")
    if file.manifest.no_trees is not None:
        lines.append(f"note: its run file has no snapshots: {file.manifest.no_trees}")
    if landed.is_unfinished:
        lines.append(f"next: ll-loop resume {name}")
    return lines


def _as_dict(file: OpenRunFile, landed: ImportResult) -> dict[str, object]:
    return {
        "name": landed.name,
        "run": file.run.run,
        "status": file.run.status,
        "result": landed.how.replace(" ", "_"),
        "unfinished": landed.is_unfinished,
    }
