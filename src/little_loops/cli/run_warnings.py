"""Print the warnings of `validate`, briefly, when a run starts or continues."""

from __future__ import annotations

from collections.abc import Sequence

from little_loops.errors import Problem
from little_loops.reporting.escape import visible

MAX_WARNINGS = 3


def show_warnings(problems: Sequence[Problem], loop: str) -> None:
    """Print a line for each of the first warnings, and how to see the rest."""
    if not problems:
        return
    from little_loops.terminal.console import talk  # only where there is something to say

    for problem in problems[:MAX_WARNINGS]:
        place = problem.place
        where = "" if place is None else f"{place.file}:{place.line}, "
        talk(f"warning: {visible(problem.message, newlines=False)} ({where}{problem.code})")
    if (more := len(problems) - MAX_WARNINGS) > 0:
        talk(f"warning: {more} more; see `ll-loop validate {loop}`")
