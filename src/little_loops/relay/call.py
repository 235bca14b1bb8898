"""The input and output of a built-in action.

It runs inside the engine's own process, so anything that may take long goes through its call:
programs run as child processes, which end at a stop or at the action's deadline, and a pause reacts
to a stop, too.

Not here: the actions themselves (`turns`), how the engine makes a call (`engine.builtin_actions`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from signal import SIGTERM

from little_loops.errors import OK
from little_loops.fsm.schema import KILL_GRACE_S
from little_loops.light_typing import Any, Literal
from little_loops.records import NamedTuple
from little_loops.system import process
from little_loops.system.stops import StopFlag

Write = Callable[[bytes], None]


class CallInterrupted(Exception):
    """The action has to stop; when it is run again, it continues from what it has done."""

    def __init__(self, by: Literal["stop", "deadline"]) -> None:
        super().__init__(by)
        self.by = by


class BuiltinResult(NamedTuple):
    """How a built-in action ended; `error` says why it could not be carried out."""

    exit_code: int = OK
    structured: Mapping[str, Any] | None = None
    wait_ms: int = 0
    error: str | None = None
    warnings: tuple[str, ...] = ()


class Executed(NamedTuple):
    """The result of a program; `exit_code` is None if a signal ended it."""

    exit_code: int | None
    stdout: bytes
    stderr: bytes
    timed_out: bool = False


class Call(NamedTuple):
    """One run of a built-in action; `ends_at` is its deadline by `time.monotonic`."""

    inputs: Mapping[str, Any]
    project: str
    run_dir: str
    run: str
    loop: str
    iteration: int
    iteration_limit: int | None
    scope: tuple[str, ...]
    environ: Mapping[str, str]
    stdout: Write
    stderr: Write
    stop: StopFlag | None = None
    ends_at: float | None = None
    kill_grace_s: float = KILL_GRACE_S
    on_started: Callable[[int], None] | None = None
    tick: Callable[[], float | None] | None = None

    def path(self, path: str) -> str:
        """Return an absolute path for a path relative to the project."""
        return os.path.join(self.project, path)

    def say(self, line: str) -> None:
        self.stdout(_encoded(line))

    def warn(self, line: str) -> None:
        self.stderr(_encoded(line))

    def pause(self, seconds: float) -> None:
        """Sleep; raise `CallInterrupted` at a stop or if the deadline comes first."""
        left_s = self._left_s()
        is_last = left_s is not None and left_s <= seconds
        pause_s = left_s if is_last and left_s is not None else seconds
        if self.stop is None:
            time.sleep(pause_s)
        elif self.stop.wait(pause_s):
            raise CallInterrupted("stop")
        if is_last:
            raise CallInterrupted("deadline")

    def execute(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        stdin: bytes = b"",
        timeout_s: float,
    ) -> Executed:
        """Run a program to its end.

        Raises `CannotStart`, or `CallInterrupted` at a stop or at the action's deadline; a program that
        exceeds only `timeout_s` is returned as timed out.
        """
        out, err = bytearray(), bytearray()
        left_s = self._left_s()
        is_last = left_s is not None and left_s <= timeout_s
        ended = process.run(
            argv,
            env=env,
            cwd=cwd,
            stdin=stdin,
            stdout=out.extend,
            stderr=err.extend,
            deadline_s=left_s if is_last else timeout_s,
            stop=self.stop,
            stop_plan=((SIGTERM, self.kill_grace_s),),
            on_started=self.on_started,
            tick=self.tick,
        )
        timed_out = ended.cut_by == "deadline"
        if ended.cut_by == "stop":
            raise CallInterrupted("stop")
        if timed_out and is_last:
            raise CallInterrupted("deadline")
        return Executed(ended.exit_code, bytes(out), bytes(err), timed_out)

    def _left_s(self) -> float | None:
        """Return the seconds until the deadline, None without one; raise `CallInterrupted` if it has
        passed."""
        if self.ends_at is None:
            return None
        left_s = self.ends_at - time.monotonic()
        if left_s <= 0:
            raise CallInterrupted("deadline")
        return left_s


def _encoded(line: str) -> bytes:
    return line.encode("utf-8", "backslashreplace") + b"\n"
