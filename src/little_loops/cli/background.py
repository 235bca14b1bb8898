"""The hidden verb for a background run: reads a request, reports that the run has started, runs it.

It loads neither YAML nor a terminal: the machine is part of the request.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from little_loops import light_json as json
from little_loops.engine.lifecycle import RunOutcome, RunRequest, start
from little_loops.engine.local_world import Services
from little_loops.engine.request_data import request_from
from little_loops.errors import LittleLoopsError
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import LoopState
from little_loops.light_modules import signal
from little_loops.light_typing import Any
from little_loops.runs.layout import RunFiles
from little_loops.system.detached import Parent
from little_loops.system.plain_files import open_plain
from little_loops.system.stops import StopFlag, listen


def main(argv: Sequence[str]) -> int:
    """Run the request on stdin, and return the run's exit code.

    Reports to the parent process that the run has started; from then on, errors go to the log. An
    error before that is passed to the parent and raised.
    """
    wanted = json.loads(sys.stdin.read())
    parent = Parent()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # it continues after its terminal is closed
    stop = StopFlag()
    listen(stop)
    request = request_from(wanted["request"])
    files = RunFiles(request.root, request.name)

    def ready(run: LoopState) -> None:
        _redirect_errors(files.log)
        parent.ready(run.run, files.log)

    services = Services(
        os.environ, owns_process=True, stop=stop, say=parent.say, warn=_warn, ready=ready
    )
    os.chdir(request.root)
    try:
        return _carry_out(wanted, request, services).ending.exit_code
    except LittleLoopsError as error:
        parent.failed(error)
        raise


def _carry_out(wanted: dict[str, Any], request: RunRequest, services: Services) -> RunOutcome:
    """Start or resume the run of a request."""
    loop = None if wanted["loop"] is None else FSMLoop.from_dict(wanted["loop"])
    if wanted["verb"] == "resume":
        from little_loops.engine.resuming import resume  # a start needs none of it

        return resume(loop, request, services)
    assert loop is not None, "a start comes with its machine"
    return start(loop, request, services)


def _warn(text: str) -> None:
    """Write a warning to the log, if the run has started."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _redirect_errors(log: str) -> None:
    """Send later errors to the log, which is where the user was told to look."""
    descriptor = open_plain(log, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
    os.dup2(descriptor, 2)
    os.close(descriptor)
