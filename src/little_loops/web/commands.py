"""Run the commands of `ll-loop`: a button does what the command does, with its checks and words.

A command runs in a process of its own, so that it is the same command, in the directory of its
project, whatever happens to this server. See docs/adr/0025-the-page.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence

from little_loops.light_typing import TYPE_CHECKING, Any
from little_loops.records import NamedTuple
from little_loops.runs.view import RunView
from little_loops.system.files import to_json
from little_loops.system.process_table import SYSTEM
from little_loops.web.errors import ApiError, bad_request

if TYPE_CHECKING:
    from little_loops.web.site import Project

LONGEST_S = 300
POLL_S = 0.05
"""How often the page checks whether a run is queued."""
LONGEST_ARGUMENT = 1 << 17
"""Linux does not accept a longer one."""


class Printed(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    out: bytes
    err: str


def run_command(project: Project, *words: str) -> Printed:
    """Run a command in a project and wait for it. Raises `ApiError` if it cannot be started."""
    _check_words(words)
    try:
        done = subprocess.run(
            _argv(words),
            capture_output=True,
            timeout=LONGEST_S,
            check=False,
            **_surroundings(project),
        )
    except subprocess.TimeoutExpired:
        raise _too_long() from None
    except (OSError, ValueError) as error:
        raise _not_started(words, error) from error
    return Printed(done.returncode, done.stdout, done.stderr.decode("utf-8", "replace"))


def queue_command(project: Project, *words: str) -> Printed:
    """Run a command that may wait in the queue, until it is over or its run is queued; then it goes
    on by itself. Raises `ApiError` if it cannot be started."""
    _check_words(words)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = subprocess.Popen(
                _argv(words), stdout=out, stderr=err, **_surroundings(project)
            )
        except (OSError, ValueError) as error:
            raise _not_started(words, error) from error
        threading.Thread(target=process.wait, daemon=True).start()  # somebody has to
        deadline = time.monotonic() + LONGEST_S
        while (code := process.returncode) is None:
            if time.monotonic() >= deadline:
                process.kill()
                raise _too_long()
            for view in project.runs.queued():
                child = SYSTEM.look(view.holder.pid) if view.holder else None
                if child is not None and child.parent == process.pid:
                    return Printed(0, to_json({"schema": 1, "name": view.name, "queued": True}), "")
            time.sleep(POLL_S)
        out.seek(0)
        err.seek(0)
        return Printed(code, out.read(), err.read().decode("utf-8", "replace"))


def _check_words(words: Sequence[str]) -> None:
    """Raise `ApiError` for arguments that cannot be passed to a command."""
    if any(
        "\0" in word or len(word.encode("utf-8", "replace")) > LONGEST_ARGUMENT for word in words
    ):
        raise bad_request("a value is too long, or has a null character")


def _argv(words: Sequence[str]) -> list[str]:
    # -P: a module in the project directory must not be imported instead of ours.
    return [sys.executable, "-P", "-m", "little_loops", *words]


def _surroundings(project: Project) -> dict[str, Any]:
    return {
        "cwd": project.root,
        "env": {**os.environ, "NO_COLOR": "1"},
        "stdin": subprocess.DEVNULL,
        "start_new_session": True,  # Ctrl-C ends the page, not what it has just started
    }


def _too_long() -> ApiError:
    return ApiError(504, "timeout", f"the command took longer than {LONGEST_S} s")


def _not_started(words: Sequence[str], error: Exception) -> ApiError:
    return ApiError(500, "not_started", f"cannot start `ll-loop {words[0]}`: {error}")


def result_of(project: Project, verb: str, *words: str) -> tuple[dict[str, Any], list[str]]:
    """Run a command, with `--json` added. Return what it printed, and its warnings and hints.

    Raises `ApiError` with the words of the command if it refused.
    """
    carry_out = queue_command if "--queue" in words else run_command
    printed = carry_out(project, verb, "--json", *words)
    result = _object(printed.out)
    if printed.code or "error" in result:
        raise refused(printed, result)
    return result, printed.err.splitlines()


def output_of(project: Project, *words: str) -> bytes:
    """Run a command that prints a file. Raises `ApiError` with its words if it refused."""
    printed = run_command(project, *words)
    if printed.code:
        raise refused(printed, {})
    return printed.out


def refused(printed: Printed, result: Mapping[str, Any]) -> ApiError:
    """Return the error of a command that refused, in its own words."""
    error = result.get("error")
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return ApiError(409, "refused", error["message"], error.get("help"))
    lines = [line for line in printed.err.splitlines() if line.strip()]
    first = next((line for line in lines if line.startswith("error")), "")
    help = next((line.partition("help: ")[2] for line in lines if "= help: " in line), None)
    message = first.partition(": ")[2] or (lines[-1] if lines else f"exit code {printed.code}")
    return ApiError(409, "refused", message, help)


def _object(raw: bytes) -> dict[str, Any]:
    """Return the last JSON object that was printed, on a line of its own; empty if there is none."""
    for line in reversed(raw.splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    return {}


def command_name(view: RunView) -> Sequence[str]:
    """Return the words that name a run for a command that also takes past ones."""
    stem = view.files.stem
    return (view.name,) if stem is None else (view.name, f"--run={stem}")
