"""Which run a word means: a run's name, else the loop in the file of that stem."""

from __future__ import annotations

import os

from little_loops.errors import UsageError
from little_loops.runs.claims import waiting
from little_loops.runs.history import Run, current_runs, newest
from little_loops.runs.project import is_run_name, loop_files


def run_named(argument: str, root: str) -> str:
    """The name of a run or of a loop that could have one; raises `UsageError` if there is none."""
    if is_run_name(argument) and (newest(root, argument) is not None or _waits(argument, root)):
        return argument
    name = loop_name_of(argument, root)
    if name is None:
        raise UsageError(f"there is no loop or run `{argument}`", what_there_is(root))
    return name


def newest_run(argument: str, root: str) -> tuple[str, Run | None]:
    name = run_named(argument, root)
    return name, newest(root, name)


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


def what_there_is(root: str) -> str:
    runs = [run.files.name for run in current_runs(root)]
    stems = [os.path.splitext(os.path.basename(path))[0] for path in loop_files(root)]
    known = ", ".join(f"`{name}`" for name in sorted({*runs, *stems})[:20])
    return f"there are: {known}" if known else "there are none here; try `ll-loop init`"


def _waits(name: str, root: str) -> bool:
    return any(holder.name == name for holder in waiting(root))
