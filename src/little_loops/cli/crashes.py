"""Notify people about crashed runs that a command sees; the command does not wait for that."""

from __future__ import annotations

import os
from collections.abc import Iterable

from little_loops.errors import LittleLoopsError
from little_loops.runs.reading import Runs
from little_loops.runs.view import RunView


def report_crashes(runs: Runs, views: Iterable[RunView]) -> None:
    """Notify people about each of these runs that has crashed, once."""
    for view in views:
        # Runs that another one started, and past runs, are not reported.
        if view.is_crashed and not view.path and view.files.stem is None:
            _report(runs, view)


def _report(runs: Runs, view: RunView) -> None:
    """Notify people about a run that has crashed, if anybody wants that."""
    # Few runs crash.
    from little_loops.runs.config_files import NOTIFY, mentions, user_config

    machine = runs.machine(view)
    if machine is None or not (machine.notify or mentions(user_config(os.environ), NOTIFY)):
        return
    from little_loops.engine.crash_reports import report_crash
    from little_loops.runs.stored_run import read_stored

    try:
        # The view may be behind the log, whose last event names the crash.
        stored = read_stored(view.files)
    except LittleLoopsError:  # whoever looks at the run is told what is wrong with it
        return
    again = runs.view(view.name)  # somebody may have resumed it meanwhile, and reported it
    if stored is not None and stored.run.status == "running" and again and again.is_crashed:
        report_crash(stored.files, stored.loop, stored.run, os.environ)
