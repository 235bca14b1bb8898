"""A command that runs beside a run, which does not wait for it: a hook for an event, a notification.

It reads its input from a file and writes its errors to one, so nobody has to read or write while it
runs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from little_loops.fsm.colour_codes import without_colours
from little_loops.light_typing import IO
from little_loops.records import NamedTuple
from little_loops.system.process_tree import marks_of

LAST_S = 10.0
"""How long commands that run beside a run may take when the run ends."""
LOOK_EACH_S = 0.1
NO_STEP = 0
"""These commands belong to the run, not to one of its actions, which are counted from 1."""
LAST_BYTES = 4096


class Exit(NamedTuple):
    """How a command ended, and the last line that it wrote to its standard error."""

    code: int
    last_line: str


class SideCommand:
    """A command that was started, and what it writes to its standard error."""

    def __init__(
        self,
        argv: Sequence[str],
        stdin: bytes,
        environ: Mapping[str, str],
        cwd: str,
        run: str,
        timeout_s: float,
    ) -> None:
        """Start the command for a run. Raises `OSError`."""
        with tempfile.TemporaryFile() as text:
            text.write(stdin)
            text.seek(0)
            self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed at its end
            self._child = subprocess.Popen(
                argv,
                stdin=text,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                env={**environ, **marks_of(run, NO_STEP, NO_STEP)},
                cwd=cwd,
                # Not a session of its own: then it would be taken for a leftover.
                process_group=0,
            )
        self._until = time.monotonic() + timeout_s

    @property
    def is_late(self) -> bool:
        return time.monotonic() >= self._until

    def exited(self) -> Exit | None:
        """Return how it ended; None while it runs. Afterwards, it is not to be used any more."""
        code = self._child.poll()
        if code is None:
            return None
        self._errors.seek(0)
        said = without_colours(self._errors.read()[-LAST_BYTES:]).decode("utf-8", "replace")
        self._errors.close()
        return Exit(code, said.rstrip().rpartition("\n")[2].strip())

    def wait(self, seconds: float) -> None:
        """Wait for its end, but not longer than this."""
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(max(0.0, seconds))

    def end(self) -> None:
        """Kill it, with all that it has started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self.wait(1.0)
        self._errors.close()
