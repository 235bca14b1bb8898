"""`ll-loop steps`: one line for each step of a run."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from little_loops.cli.options import OutputArgs, operand, value
from little_loops.cli.run_views import view_of
from little_loops.errors import OK
from little_loops.reporting.escape import visible
from little_loops.runs.path_taken import BAD, GOOD
from little_loops.runs.project import find_project
from little_loops.runs.reading import Runs
from little_loops.runs.steps import RunStep, steps_of
from little_loops.terminal.console import print_json, say, talk
from little_loops.terminal.durations import compact
from little_loops.terminal.summaries import money
from little_loops.terminal.tables import Column, Style, style_for, table

COLUMNS = (
    Column("STEP"),
    Column("ITER", leaves=2),
    Column("STATE", least=12),
    Column("VERDICT"),
    Column("FILES", leaves=1),
    Column("TIME", leaves=3),
    Column("COST", leaves=4),
    Column("TREE", leaves=5),
)
SHORT_TREE = 6
SHOWN_DECISIONS = {"kept": ", kept", "put_back": ", reverted"}


class StepsArgs(
    OutputArgs,
    verb="steps",
    summary="List a run's steps: state, verdict, files changed, time, cost and tree.",
    examples=[
        ("ll-loop steps fix-tests", "of its last run"),
        ("ll-loop steps fix-tests --json", "for a program"),
    ],
):
    loop: str | None = operand("a loop's name, or NAME@ID; default: the last run", optional=True)
    run: str | None = value("start time of an earlier run, from `ll-loop history`", metavar="STAMP")


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop steps`: print a row for each step, and return 0."""
    args = StepsArgs.read(argv)
    runs = Runs(find_project(os.getcwd()))
    view = view_of(runs, args.loop, args.run)
    steps = steps_of(runs.events(view))
    if args.json:
        print_json({"schema": 1, "name": view.name, "steps": [_as_dict(step) for step in steps]})
    elif not steps:
        talk(f"{visible(view.name)} has no steps yet")
    elif args.quiet < 2:
        style = style_for(sys.stdout, args.color)
        for line in table(COLUMNS, [_row(step, style) for step in steps], style):
            say(line)
    return OK


def _row(step: RunStep, style: Style) -> list[str]:
    """Return the cells of a step; it has no time before its verdict."""
    none = style.signs.none
    return [
        str(step.number),
        str(step.iteration),
        visible(step.state, newlines=False),
        _verdict(step.verdict, style) + SHOWN_DECISIONS.get(step.decision or "", ""),
        _files(step, none),
        compact(step.duration_ms) if step.verdict is not None else none,
        money(step.cost_usd, none),
        none if step.tree is None else step.tree[:SHORT_TREE],
    ]


def _verdict(verdict: str | None, style: Style) -> str:
    """Return a verdict, after a sign if it is a good or bad one; a dash if there is none."""
    if verdict is None:
        return style.signs.none
    signs = {**dict.fromkeys(GOOD, style.signs.good), **dict.fromkeys(BAD, style.signs.bad)}
    sign = signs.get(verdict)
    text = visible(verdict, newlines=False)
    return text if sign is None else f"{sign} {text}"


def _files(step: RunStep, none: str) -> str:
    """Return the number of changed files and lines; `none` if none changed or it is unknown."""
    changed = step.changed
    if changed is None or not changed.files:
        return none
    return f"{changed.files} (+{changed.added} -{changed.removed})"


def _as_dict(step: RunStep) -> dict[str, object]:
    changed = None if step.changed is None else step.changed._asdict()
    return {**step._asdict(), "changed": changed}
