"""`ll-loop tell`: a note for the next agent of a run."""

from __future__ import annotations

import os
from collections.abc import Sequence

from little_loops.cli.fleet_choice import FLEET, LOCAL, fleet_of
from little_loops.cli.options import OutputArgs, operand
from little_loops.definitions.run_names import run_named
from little_loops.errors import OK, UsageError
from little_loops.fsm.endings import not_resumable
from little_loops.fsm.evidence import has_agent
from little_loops.fsm.state import UNFINISHED
from little_loops.runs import refusals
from little_loops.runs.folders import data_of
from little_loops.runs.mailbox import (
    MAX_NOTE_BYTES,
    MOST_WAITING,
    checked_note,
    post,
    posted,
    take_back,
)
from little_loops.runs.project import find_project
from little_loops.runs.reading import Runs
from little_loops.runs.stored_run import find
from little_loops.runs.view import RunView, no_such_run
from little_loops.system.files import Folder
from little_loops.terminal.console import print_json, say
from little_loops.terminal.summaries import clause_of


class TellArgs(
    OutputArgs,
    verb="tell",
    summary="Send a note to a run's next agent turn.",
    examples=(("ll-loop tell fix-tests 'leave src/legacy alone'", "for its next agent turn"),),
):
    loop: str = operand("a loop's name, or NAME@ID")
    text: str = operand(f"the note, at most {MAX_NOTE_BYTES >> 10} KiB")
    fleet: str | None = FLEET
    local: bool = LOCAL


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop tell`: leave the note for the run's next agent, and return 0."""
    args = TellArgs.read(argv)
    text = checked_note(args.text)
    root = find_project(os.getcwd())
    if (address := fleet_of(args, root)) is not None:
        from little_loops.cli.on_fleet import tell_run  # few users have a fleet

        return tell_run(args, root, address, text)
    runs = Runs(root)
    name = run_named(args.loop, runs.root)
    view = _checked_run(runs, name)
    with data_of(view.files) as data:
        _check_room(data, view)
        note = post(data, text)
        _check_arrival(runs, view, data, note)
    if args.json:
        print_json({"schema": 1, "name": name, "note": note})
    elif not args.quiet:
        say(f"{name}: the next agent turn will receive this note")
    return OK


def _checked_run(runs: Runs, name: str) -> RunView:
    """Return the run. Raises `UsageError` if no agent of it could get a note."""
    view = runs.view(name)
    if view is None:
        raise no_such_run(name)
    if not _can_get_notes(view):
        clause = clause_of(view.status)
        raise UsageError(*refusals.not_for_notes(name, clause, has_file=view.has_file))
    if runs.starts_others(view):
        paths = [each.name for each in runs.children(view) if each.is_alive]
        listed = ", ".join(f"`{path}`" for path in paths)
        raise UsageError(
            f"`{name}` is waiting for the runs that it has started, and has no agent itself at the moment",
            f"name one of {listed}" if listed else f"`ll-loop status {name}` shows them",
        )
    machine = runs.machine(view)
    if machine is not None and not has_agent(machine):
        raise UsageError(*refusals.without_agent(name))
    return view


def _can_get_notes(view: RunView) -> bool:
    """Return whether the run is alive or can be resumed. Raises `DamagedRun` if it cannot be
    read."""
    if view.summary is None:
        return False
    if view.is_alive or view.status in UNFINISHED:
        return True
    before = find(view.files.root, view.name)
    is_same = before.run.run == view.summary.run
    return is_same and not_resumable(before.loop, before.run) is None


def _check_room(data: Folder, view: RunView) -> None:
    recorded = {note.id for note in view.summary.notes} if view.summary is not None else set()
    if len(recorded.union(posted(data))) >= MOST_WAITING:
        raise UsageError(f"{MOST_WAITING} notes are already waiting for an agent of `{view.name}`")


def _check_arrival(runs: Runs, before: RunView, data: Folder, note: str) -> None:
    """Take the note back and raise `UsageError` if the run ended before its runner read it, or
    another run has taken its place."""
    view = runs.view(before.name)
    is_same = view is not None and _run_of(view) == _run_of(before)
    if view is not None and is_same and _can_get_notes(view):
        return
    if take_back(data, note):
        raise UsageError(f"`{before.name}` ended before it could read the note")


def _run_of(view: RunView) -> str | None:
    return None if view.summary is None else view.summary.run
