"""The real command with the system watching it: what it asks of the kernel, or an answer generated.

A forked child waits at a gate until strace is attached, so only the command's own calls are seen
and counted, not the interpreter's start.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from tests.project import Project
from tests.simulation.command import BackgroundRun, LineWriters

ATTACH_S = 20.0


class Traced(NamedTuple):
    said: LineWriters
    lines: list[str]

    @property
    def injected(self) -> str | None:
        """The call that got an answer generated, if one did."""
        return next((line for line in self.lines if "(INJECTED)" in line), None)


def traced(project: Project, words: Sequence[str], options: Sequence[str]) -> Traced:
    """Run `ll-loop` under strace with these options."""
    reading, writing = os.pipe()
    with tempfile.NamedTemporaryFile("r", suffix=".strace") as notes:
        begun = BackgroundRun(project, tuple(words), gate=reading)
        argv = ["strace", "-qq", "-o", notes.name, *options, "-p", str(begun.pid)]
        with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as tracer:
            _await_tracer(begun.pid, tracer)
            os.write(writing, b"!")
            said = begun.said()
        os.close(reading)
        os.close(writing)
        return Traced(said, notes.read().splitlines())


def _await_tracer(pid: int, tracer: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + ATTACH_S
    while time.monotonic() < until and tracer.poll() is None:
        with open(f"/proc/{pid}/status") as file:
            if f"TracerPid:\t{tracer.pid}\n" in file.read():
                return
        time.sleep(0.001)


@cache
def can_trace() -> bool:
    """Is there an strace, and may it attach to a process of ours?"""
    if shutil.which("strace") is None:
        return False
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        try:
            argv = ["timeout", "--signal=INT", "0.3", "strace", "-qq", "-o", os.devnull]
            done = subprocess.run(
                [*argv, "-p", str(sleeper.pid)], capture_output=True, check=False, text=True
            )
            return "Operation not permitted" not in done.stderr and done.returncode != 1
        finally:
            sleeper.kill()
