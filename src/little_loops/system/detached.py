"""Start a run in a process of its own, and return when the run has really started.

The request is sent as JSON to the new process's standard input; answers come back through its
standard output, one per line, until it is ready or has failed. After that nobody reads from it, and
the process continues in its own session, whatever happens to the terminal.

Not here: what the process does with the request (`cli.background`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping

from little_loops import light_json as json
from little_loops.errors import LittleLoopsError
from little_loops.light_modules import signal
from little_loops.light_typing import TYPE_CHECKING, Any
from little_loops.records import NamedTuple

if TYPE_CHECKING:
    import subprocess

VERB = "background-run"
PROGRAM = "from little_loops.cli.main import process; process()"
"""`python -m little_loops`, without what `-m` loads to find it."""
END_S = 10.0
"""How long a process has to save its run and stop whatever it started."""
OUTER_RUN = ("LL_RUN_ID", "LL_STEP_ID", "LL_ATTEMPT", "LL_ITERATION", "LL_LOOP")
OUTER_RUN_EXTRAS = ("LL_RUN_DIR", "LL_CLAIM", "LL_CONTINUATION", "LL_SLOT")


class BackgroundRun(NamedTuple):
    pid: int
    run: str
    log: str


class NotStarted(LittleLoopsError):
    """The new process could not start its run; message and exit code come from it."""

    def __init__(self, message: str, help: str | None, exit_code: int) -> None:
        super().__init__(message, help)
        self.exit_code = exit_code


def launch(
    request: Mapping[str, Any], environ: Mapping[str, str], say: Callable[[str], None]
) -> BackgroundRun:
    """Start a background run for this request; `say` gets its messages until it has started.

    Raises `NotStarted` if it fails. Ctrl-C ends the new process and is raised again.
    """
    import subprocess  # the new process imports this module, too, and does not need it

    child = subprocess.Popen(
        # -P: a module in the project directory must not be imported instead of ours.
        [sys.executable, "-P", "-c", PROGRAM, VERB],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=own_environment(environ),
        start_new_session=True,
    )
    assert child.stdin is not None, "it is a pipe"
    assert child.stdout is not None, "it is a pipe"
    try:
        with child.stdin:
            child.stdin.write(json.dumps(request).encode())
        with child.stdout:
            return _read_answer(child, say)
    except KeyboardInterrupt:
        child.send_signal(signal.SIGTERM)  # it is ours until its run has started
        _wait_for_exit(child)
        raise
    except BrokenPipeError:
        _wait_for_exit(child)
        raise NotStarted("the background process exited immediately", None, 1) from None
    except NotStarted:
        _wait_for_exit(child)
        raise
    finally:
        child.returncode = child.returncode or 0  # whoever lives long enough reaps it


def _read_answer(child: subprocess.Popen[bytes], say: Callable[[str], None]) -> BackgroundRun:
    """Read the answers of the new process until its run has started; raise `NotStarted` if it
    fails."""
    assert child.stdout is not None, "it is a pipe"
    for line in child.stdout:
        answer = json.loads(line)
        if "say" in answer:
            say(answer["say"])
        elif "error" in answer:
            raise NotStarted(answer["error"], answer["help"], answer["exit_code"])
        else:
            return BackgroundRun(child.pid, answer["run"], answer["log"])
    code = _wait_for_exit(child)
    raise NotStarted(f"the background process exited before the run started (exit {code})", None, 1)


def _wait_for_exit(child: subprocess.Popen[bytes]) -> int:
    """Return the exit code of a process that should exit; kill it if it has not after `END_S`."""
    import subprocess

    try:
        return child.wait(END_S)
    except subprocess.TimeoutExpired:
        child.kill()
        return child.wait(END_S)


def own_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without the variables of the run that this may be started in, and with
    `LL_DETACHED` set.

    The nesting depth is kept, so that a loop which starts itself again comes to an end.
    """
    outer = (*OUTER_RUN, *OUTER_RUN_EXTRAS)
    own = {name: value for name, value in environ.items() if name not in outer}
    return {**own, "LL_DETACHED": "1"}


class Parent:
    """The new process's connection to the process that started it."""

    def __init__(self) -> None:
        """Keep the standard output for answers, and redirect standard input and output to
        /dev/null."""
        self._descriptor: int | None = os.dup(1)
        os.set_inheritable(self._descriptor, False)
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1):
            os.dup2(null, standard)
        os.close(null)

    def say(self, line: str) -> None:
        self._send({"say": line})

    def ready(self, run: str, log: str) -> None:
        """Report that the run has started, and close the connection."""
        self._send({"run": run, "log": log})
        self._disconnect()

    def failed(self, error: LittleLoopsError) -> None:
        """Report the error that prevented the start, and close the connection."""
        answer = {"error": error.message, "help": error.help, "exit_code": error.exit_code}
        self._send(answer)
        self._disconnect()

    def _send(self, message: Mapping[str, Any]) -> None:
        """Send a message as one line of JSON, unless the connection is closed; close it if nobody
        reads."""
        if self._descriptor is not None:
            try:
                os.write(self._descriptor, json.dumps(message).encode() + b"\n")
            except OSError:  # it is no longer waiting for an answer
                self._disconnect()

    def _disconnect(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
