"""Start a run as a process of its own, and come back only when it has really begun.

The request travels as JSON through the new process's standard input; answers come back, a line each,
through its standard output until it is ready or has failed.  After that nobody listens, and the
process lives on: in a session of its own, whatever becomes of the terminal.

Not here: what the process does with the request (`cli.background`).
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from little_loops.errors import LittleLoopsError
from little_loops.records import NamedTuple

if TYPE_CHECKING:
    import subprocess

VERB = "background-run"
END_S = 10.0
"""For a process that saves its run and ends what it has started."""
OUTER_RUN = ("LL_RUN_ID", "LL_STEP_ID", "LL_ATTEMPT", "LL_ITERATION", "LL_LOOP")
OUTER_RUN_EXTRAS = ("LL_RUN_DIR", "LL_CLAIM", "LL_CONTINUATION")


class BackgroundRun(NamedTuple):
    pid: int
    run: str
    log: str


class NotStarted(LittleLoopsError):
    """The new process could not start its run; the message and the exit code are its own."""

    def __init__(self, message: str, help: str | None, exit_code: int) -> None:
        super().__init__(message, help)
        self.exit_code = exit_code


def launch(
    request: Mapping[str, Any], environ: Mapping[str, str], say: Callable[[str], None]
) -> BackgroundRun:
    import subprocess  # the new process is here too, and has no need of it

    child = subprocess.Popen(
        # -P: a module that lies in the project directory must not be taken for one of ours.
        [sys.executable, "-P", "-m", "little_loops", VERB],
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
            return _answer(child, say)
    except KeyboardInterrupt:
        child.send_signal(signal.SIGTERM)  # it is ours until it has begun
        _end_of(child)
        raise
    except BrokenPipeError:
        _end_of(child)
        raise NotStarted("the background process exited immediately", None, 1) from None
    finally:
        child.returncode = child.returncode or 0  # it is not to be waited for


def _answer(child: subprocess.Popen[bytes], say: Callable[[str], None]) -> BackgroundRun:
    assert child.stdout is not None, "it is a pipe"
    for line in child.stdout:
        said = json.loads(line)
        if "say" in said:
            say(said["say"])
        elif "error" in said:
            raise NotStarted(said["error"], said["help"], said["exit_code"])
        else:
            return BackgroundRun(child.pid, said["run"], said["log"])
    code = _end_of(child)
    raise NotStarted(f"the background process exited before the run started (exit {code})", None, 1)


def _end_of(child: subprocess.Popen[bytes]) -> int:
    """Its exit code; what does not end although nobody listens to it any more is killed."""
    import subprocess

    try:
        return child.wait(END_S)
    except subprocess.TimeoutExpired:
        child.kill()
        return child.wait(END_S)


def own_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Without the marks of a run this may be started in: it stands on its own feet.

    Its depth stays, so that a loop which starts itself again comes to an end.
    """
    outer = (*OUTER_RUN, *OUTER_RUN_EXTRAS)
    own = {name: value for name, value in environ.items() if name not in outer}
    return {**own, "LL_DETACHED": "1"}


class Parent:
    """The other end: what the new process tells the one that started it."""

    def __init__(self) -> None:
        self._descriptor: int | None = os.dup(1)
        os.set_inheritable(self._descriptor, False)
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1):
            os.dup2(null, standard)
        os.close(null)

    def say(self, line: str) -> None:
        self._tell({"say": line})

    def ready(self, run: str, log: str) -> None:
        self._tell({"run": run, "log": log})
        self._hang_up()

    def failed(self, error: LittleLoopsError) -> None:
        told = {"error": error.message, "help": error.help, "exit_code": error.exit_code}
        self._tell(told)
        self._hang_up()

    def _tell(self, message: Mapping[str, Any]) -> None:
        if self._descriptor is not None:
            try:
                os.write(self._descriptor, json.dumps(message).encode() + b"\n")
            except OSError:  # it did not want to wait for the answer
                self._hang_up()

    def _hang_up(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
