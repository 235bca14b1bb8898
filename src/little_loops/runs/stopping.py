"""Ask the process of a run to stop, and wait until it has ended.

A process is signalled only if it proves to be the one that wrote the file (`holders`). One that
does not respond is asked again, as a second Ctrl-C would, and finally killed.

Not here: what is printed about it (`cli.stop`), what a killed one left running (`leftovers`).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence

from little_loops.errors import UsageError
from little_loops.light_typing import Final
from little_loops.runs.claims import MAX_PID_BYTES, alive, waiting
from little_loops.runs.folders import find_folder
from little_loops.runs.holders import Holder, from_bytes, send, still_same
from little_loops.runs.layout import PID, RUNNING
from little_loops.runs.project import check_run_name
from little_loops.system.lock_files import guarded, held

POLL_S: Final = 0.02

Plan = Sequence[tuple[int, float]]
"""Signals to send in turn, each with the seconds to wait after it."""


def stop(
    root: str,
    holder: Holder,
    plan: Plan,
    *,
    has_claim: bool = True,
) -> bool:
    """Send the plan's signals in turn until the run's process has ended. Return True if that took
    SIGKILL.

    Without `has_claim`, it is one that another run has started, and holds no claim.
    Raises `UsageError` if the process cannot be reached from here, or does not exit.
    """
    is_running = is_there if has_claim else _is_same_process
    for signum, seconds in plan:
        if not send(holder, signum) and is_running(root, holder):
            where = f" on {holder.host}" if holder.host not in ("", os.uname().nodename) else ""
            raise UsageError(
                f"`{holder.name}` is held by a process{where} that this machine cannot reach",
                "stop it on the machine where it runs",
            )
        send(holder, signal.SIGCONT)  # a suspended process cannot react
        until = time.monotonic() + seconds
        while is_running(root, holder):
            if time.monotonic() >= until:
                break
            time.sleep(POLL_S)
        else:
            return signum == signal.SIGKILL
    raise UsageError(
        f"`{holder.name}` (pid {holder.pid}) did not exit, even after SIGKILL",
        "it is probably blocked in the kernel, waiting for a disk or the network",
    )


def free(root: str, name: str) -> Holder | None:
    """Remove the claim of a killed runner, so that its scope is free. Return its holder, if any.

    What it left running on another machine or in a container no longer blocks the scope. The caller
    first ends what runs here. Raises `UsageError` if the runner is alive.
    """
    folder = find_folder(root, RUNNING)
    if folder is None:
        return None
    file = check_run_name(name) + PID
    with folder, guarded(folder):
        if held(folder, file) is not None:
            raise UsageError(f"`{name}` is running", f"`ll-loop stop {name}` stops it")
        raw = folder.read(file, MAX_PID_BYTES)
        folder.remove(file)
    return None if raw is None else from_bytes(raw, name, root)


def is_there(root: str, holder: Holder) -> bool:
    """Return whether that process is still running or queued."""
    queued = (other for other in waiting(root) if other.name == holder.name)
    now = alive(root, holder.name) or next(queued, None)
    return now is not None and (now.pid, now.created) == (holder.pid, holder.created)


def _is_same_process(_root: str, holder: Holder) -> bool:
    return still_same(holder)
