"""Which run a word means: a run's name, else the loop in the file of that stem."""

from __future__ import annotations

import os

from little_loops.errors import UsageError
from little_loops.fsm.state import UNFINISHED
from little_loops.runs.project import is_run_name, loop_files
from little_loops.runs.reading import Runs


def run_named(argument: str, root: str) -> str:
    """The name of a run or of a loop that could have one; raises `UsageError` if there is none."""
    if is_run_name(argument) and Runs(root).has(argument):
        return argument
    name = loop_name_of(argument, root)
    if name is None:
        raise UsageError(f"no loop or run named `{argument}`", available(root))
    return name


def only_unfinished(root: str) -> str:
    """The one run of the project that can be continued; raises `UsageError` if it is not one."""
    views = Runs(root).list()
    names = [view.name for view in views if view.status in UNFINISHED and not view.is_alive]
    match names:
        case [name]:
            return name
        case []:
            raise UsageError("there is no unfinished run here", "`ll-loop run LOOP` starts one")
        case _:
            listed = ", ".join(f"`{name}`" for name in names)
            raise UsageError(f"there are {len(names)} unfinished runs", f"name one of {listed}")


def loop_name_of(argument: str, root: str) -> str | None:
    from little_loops.definitions.loading import (  # YAML only where a name is unknown
        find_loop,
        name_of,
    )

    try:
        path = find_loop(argument, root)
        # A file that cannot be read is still a loop, which may have run before.
        return name_of(path) or os.path.splitext(os.path.basename(path))[0]
    except UsageError:
        return None


def available(root: str) -> str:
    runs = [view.name for view in Runs(root).list()]
    stems = [os.path.splitext(os.path.basename(path))[0] for path in loop_files(root)]
    known = ", ".join(f"`{name}`" for name in sorted({*runs, *stems})[:20])
    return f"available: {known}" if known else "this project has no loops; try `ll-loop init`"
