"""Find the run that a command means (by its name, by its time, or the last one), and read its story."""

from __future__ import annotations

from little_loops.definitions.run_names import run_named
from little_loops.errors import UsageError
from little_loops.receipts.story import Story
from little_loops.runs.reading import Runs
from little_loops.runs.view import RunView, no_such_run


def view_of(runs: Runs, argument: str | None, stamp: str | None = None) -> RunView:
    """Return the run named `argument`, or its past run `stamp`; without a name, the last run.

    Raises `UsageError` if there is none.
    """
    if argument is None:
        if stamp is not None:
            raise UsageError("`--run` needs the name of a loop", "see `ll-loop history`")
        return _last(runs)
    name = run_named(argument, runs.root)
    view = runs.past_view(name, stamp) if stamp else runs.view(name)
    if view is None:
        raise no_such_run(name)
    return view


def _last(runs: Runs) -> RunView:
    """Return the run that started last; raise `UsageError` if there is none."""
    latest = [*runs.list(), *runs.just_ended()]
    if not latest:
        raise UsageError("this project has no runs yet", "`ll-loop run LOOP` starts one")
    return max(latest, key=lambda view: view.started_ms)


def story_of(runs: Runs, view: RunView) -> Story:
    """Return the facts that a receipt would have about a run: its checks, agent turns and snapshots.

    Raises `UsageError` if its machine is not known.
    """
    machine = runs.machine(view)
    if machine is None:
        raise UsageError(f"the saved files for run `{view.name}` do not record which loop it ran")
    return Story(machine).read(runs.events(view))
