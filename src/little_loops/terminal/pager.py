"""Display a long answer in a pager, as `git log` does: `$PAGER`, or else `less`.

What fits on one screen is printed directly. Without a pager, everything is printed.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from little_loops.light_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from subprocess import Popen

NONE = ("", "cat")
LESS = ("less",)
DEFAULTS = {"LESS": "FRX", "LV": "-c"}
"""Quit if the text fits on one screen, pass colours through, and do not clear the screen."""


def pager_command(environ: Mapping[str, str]) -> list[str] | None:
    """Return the command line of the pager, or None: in CI, or if `PAGER` is `cat`, empty or
    bad."""
    wanted = environ.get("PAGER")
    try:
        command = list(LESS) if wanted is None else shlex.split(wanted)
    except ValueError:  # an unclosed quote
        return None
    if not command or " ".join(command) in NONE or environ.get("CI"):
        return None
    return command if shutil.which(command[0]) else None


@contextmanager
def paged() -> Iterator[None]:
    """Send stdout to the pager during the block, if stdout is a terminal, and wait for the pager.

    Closing it early, or Ctrl-C, ends the block without an error.
    """
    command = pager_command(os.environ) if sys.stdout.isatty() else None
    if command is None:
        yield
        return
    import subprocess  # only where there is a pager

    pager = subprocess.Popen(command, stdin=subprocess.PIPE, env={**DEFAULTS, **os.environ})
    assert pager.stdin is not None, "it was requested"
    terminal = os.dup(1)
    os.dup2(pager.stdin.fileno(), 1)
    pager.stdin.close()
    try:
        with suppress(BrokenPipeError, KeyboardInterrupt):  # the pager was closed
            yield
            sys.stdout.flush()
    finally:
        os.dup2(terminal, 1)  # closes the pipe, so that the pager sees the end
        os.close(terminal)
        _wait(pager)


def _wait(pager: Popen[bytes]) -> None:
    """Wait for the pager, ignoring Ctrl-C, which is meant for the pager."""
    while True:
        try:
            pager.wait()
        except KeyboardInterrupt:
            continue
        return
