"""Start a run in the background, and print where it is."""

from __future__ import annotations

import os

from little_loops.cli.foreground import Show
from little_loops.engine.lifecycle import RunRequest, nested_request
from little_loops.engine.request_data import request_to
from little_loops.fsm.schema import FSMLoop
from little_loops.light_typing import Any
from little_loops.reporting.escape import visible
from little_loops.system.detached import launch
from little_loops.terminal.console import print_json, say, talk


def start_in_background(verb: str, loop: FSMLoop | None, request: RunRequest, show: Show) -> int:
    """Start the run in a new process, print its pid and log, and return 0.

    `verb` is `start` or `resume`; a resume without a loop uses the run's own definition. Raises
    `NotStarted` if it fails.
    """
    wanted: dict[str, Any] = {
        "verb": verb,
        "loop": None if loop is None else loop.to_dict(),
        "request": request_to(nested_request(request, os.environ)),
    }
    quiet = show.json or show.quiet > 0
    begun = launch(wanted, os.environ, (lambda line: None) if quiet else say)
    log = visible(os.path.relpath(begun.log), newlines=False)
    if show.json:
        print_json({"schema": 1, "name": request.name, **begun._asdict()})
    elif not show.quiet:
        say(f"{request.name} is running in the background (pid {begun.pid}); log: {log}")
        talk(f"next: ll-loop attach {request.name}   or   ll-loop stop {request.name}")
    return 0
