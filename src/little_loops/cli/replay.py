"""`ll-loop replay`: feed what happened in a run to the same definition, or to a changed one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence

from little_loops.cli.options import OutputArgs, flag, operand, value
from little_loops.cli.run_views import view_of
from little_loops.definitions.loading import load_candidate
from little_loops.engine.following import follow
from little_loops.engine.replaying import count_transitions, moves_of, replay_with
from little_loops.errors import FAILED, OK, StorageError, UsageError
from little_loops.fsm.events import FinalEvent
from little_loops.fsm.schema import FSMLoop
from little_loops.runs.project import find_project
from little_loops.runs.reading import Runs
from little_loops.runs.recordings import read_recording
from little_loops.runs.view import RunView
from little_loops.terminal.console import print_json, say
from little_loops.terminal.replay_report import RunReplay, document, lines
from little_loops.terminal.tables import style_for


class ReplayArgs(
    OutputArgs,
    verb="replay",
    summary="Replay a run's recorded results with its loop, or with a changed one.\n"
    "Prints the first transition that differs, and what would have been run there.\n"
    "Nothing is run. With the same definition, nothing should differ; if something\n"
    "does, the run's log is damaged, and the exit code is 1.",
    examples=[
        ("ll-loop replay fix-tests", "is its log intact?"),
        ("ll-loop replay --with new.yaml", "the last run, another loop"),
        ("ll-loop replay --all fix-tests --with new.yaml", "all its runs"),
    ],
):
    loop: str | None = operand("a loop's name, or NAME@ID; default: the last run", optional=True)
    run: str | None = value("start time of an earlier run, from `ll-loop history`", metavar="STAMP")
    all: bool = flag("replay all recorded runs of the loop")
    definition: str | None = value(
        "a loop's name or file to use instead of the run's own definition",
        "--with",
        metavar="FILE",
        names="loops",
    )


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop replay`. Return 1 if a log is not whole, else 0."""
    args = ReplayArgs.read(argv)
    root = find_project(os.getcwd())
    loop = None if args.definition is None else load_candidate(args.definition, root)
    found = [_replay(view, loop) for view in _views(args, Runs(root))]
    if args.json:
        print_json({"schema": 1, "runs": [document(each) for each in found]})
    elif args.quiet < 2:
        style = style_for(sys.stdout, args.color)
        for each in found:
            for line in lines(each, style):
                say(line)
    return OK if all(each.is_whole for each in found) else FAILED


def _views(args: ReplayArgs, runs: Runs) -> Iterator[RunView]:
    """Yield the runs to replay, newest first. Raises `UsageError` if there are none."""
    if not args.all:
        yield view_of(runs, args.loop, args.run)
        return
    if args.loop is None or args.run is not None:
        raise UsageError("`--all` needs the name of a loop, and no `--run`")
    newest = view_of(runs, args.loop)
    if newest.files.stem is None and newest.status != "queued":
        yield newest
    yield from runs.past(newest.name)


def _replay(view: RunView, loop: FSMLoop | None) -> RunReplay:
    """Replay one run; a log that is not whole is a result, too."""
    stamp = view.files.stem or (view.summary.run if view.summary is not None else "")
    try:
        recorded = read_recording(view)
    except StorageError as error:
        return RunReplay(view.name, stamp, damage=error.message)
    followed = follow(recorded)
    return RunReplay(
        view.name,
        stamp,
        count_transitions(moves_of(recorded.entries)),
        isinstance(recorded.entries[-1].event, FinalEvent),
        recorded.version,
        None,
        followed.mismatch,
        None if loop is None else replay_with(loop, recorded, followed, os.environ),
    )
