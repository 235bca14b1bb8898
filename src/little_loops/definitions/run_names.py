"""Resolve an argument to a run: by the run's name, or by the file of its loop."""

from __future__ import annotations

import os

from little_loops.errors import UsageError
from little_loops.fsm.state import UNFINISHED
from little_loops.runs import refusals
from little_loops.runs.project import is_run_name, loop_files
from little_loops.runs.reading import Runs


def run_named(argument: str, root: str) -> str:
    """Return the name of the run or loop that an argument means; raise `UsageError` if there is
    none."""
    if is_run_name(argument) and Runs(root).has(argument):
        return argument
    if "/" in argument and Runs(root).child(argument) is not None:
        return argument
    name = loop_name_of(argument, root)
    if name is None:
        raise UsageError(f"no loop or run named `{argument}`", available(root))
    return name


def root_named(argument: str, root: str) -> str:
    """Return the name of the run that can be resumed; raise `UsageError` for one that another run
    has started."""
    name = run_named(argument, root)
    if "/" in name:
        raise UsageError(*refusals.continues_with(name, name.partition("/")[0]))
    return name


def only_unfinished(root: str) -> str:
    """Return the name of the only unfinished run that is not alive.

    Raises `UsageError` if there is none, or several.
    """
    views = Runs(root).list()
    names = [view.name for view in views if view.status in UNFINISHED and not view.is_alive]
    match names:
        case [name]:
            return name
        case []:
            raise UsageError(
                "there is no unfinished run here", "`ll-loop run LOOP` starts a new run"
            )
        case _:
            listed = ", ".join(f"`{name}`" for name in names)
            raise UsageError(f"there are {len(names)} unfinished runs", f"name one of {listed}")


def loop_name_of(argument: str, root: str) -> str | None:
    """Return the loop's name in the file that an argument means; the file's name if it is invalid.

    None if there is no such file, or several.
    """
    from little_loops.definitions.loading import (  # load YAML only if there is no such run
        find_loop,
        name_of,
    )

    try:
        path = find_loop(argument, root)
        # An invalid file may still be a loop that ran before.
        return name_of(path) or os.path.splitext(os.path.basename(path))[0]
    except UsageError:
        return None


def available(root: str) -> str:
    """Return a hint that lists the runs and loops of the project."""
    runs = [view.name for view in Runs(root).list()]
    stems = [os.path.splitext(os.path.basename(path))[0] for path in loop_files(root)]
    known = ", ".join(f"`{name}`" for name in sorted({*runs, *stems})[:20])
    return f"available: {known}" if known else "this project has no loops; try `ll-loop init`"
