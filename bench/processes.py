"""Start programs for a reading, and look at them while they run."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from bench.model import ROOT, Command, NotMeasured, Setting

PATIENCE_S = 60.0
LOOK_EACH_S = 0.01


def carry_out(setting: Setting, command: Command, *before: str) -> bytes:
    """Run a command to its end; what it printed."""
    done = subprocess.run(
        (*before, *command.argv),
        cwd=command.cwd,
        env=with_root(setting),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode != command.exit_code:
        said = (done.stderr or done.stdout).decode(errors="replace")[-300:]
        raise NotMeasured(f"exit {done.returncode} from `{' '.join(command.argv)}`: {said}")
    return done.stdout


def with_root(setting: Setting) -> dict[str, str]:
    """The environment of a program that may import `bench`."""
    given = setting.environment.get("PYTHONPATH")
    path = ROOT if not given else f"{given}{os.pathsep}{ROOT}"
    return {**setting.environment, "PYTHONPATH": path}


@contextmanager
def started(setting: Setting, command: Command, **pipes: int) -> Iterator[subprocess.Popen[bytes]]:
    """A command that runs meanwhile; ended with this if it has not ended by itself."""
    given = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL} | pipes
    child = subprocess.Popen(
        command.argv,
        cwd=command.cwd,
        env=with_root(setting),
        stderr=subprocess.DEVNULL,
        **given,  # type: ignore[call-overload]
    )
    try:
        yield child
    finally:
        child.terminate()
        child.wait()


@contextmanager
def in_background(setting: Setting, project: str, *words: str) -> Iterator[int]:
    """The process that carries a background run, while it runs."""
    run = setting.command(project, "run", *words, "--background", "--json")
    begun = json.loads(carry_out(setting, run))
    try:
        yield begun["pid"]
    finally:
        carry_out(setting, setting.command(project, "stop", begun["name"]))


def awaited(what: str, happened: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not happened():
        if time.monotonic() > until:
            raise NotMeasured(f"waited {PATIENCE_S:g} s for {what}")
        time.sleep(LOOK_EACH_S)


def figure_of(pid: int, file: str, name: str) -> int | None:
    """A number out of one of a process's files in /proc; None when it is gone."""
    try:
        with open(f"/proc/{pid}/{file}") as stream:
            for line in stream:
                if line.startswith(f"{name}:"):
                    return int(line.split()[1])
    except (FileNotFoundError, ProcessLookupError):
        if not os.path.exists("/proc/self/status"):
            no_proc()
        return None
    return None


def no_proc() -> NoReturn:
    raise NotMeasured("this system has no /proc to look into")
