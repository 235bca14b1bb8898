"""Ask the process of a run to stop, and wait until it is gone.

A process is signalled only if it proves to be the one that wrote the file (`holders`).  One that
does not answer is asked once more, as a second Ctrl-C would, and killed in the end.

Not here: what is printed about it (`cli.stop`).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from typing import Final

from little_loops.errors import UsageError
from little_loops.runs.claims import alive, waiting
from little_loops.runs.holders import Holder, send

POLL_S: Final = 0.02

Plan = Sequence[tuple[int, float]]
"""Signals in turn, each with the seconds the run is given."""


def stop(root: str, holder: Holder, plan: Plan) -> bool:
    """Returns when it is gone; true if it had to be killed."""
    for signum, seconds in plan:
        if not send(holder, signum) and is_there(root, holder):
            where = f" on {holder.host}" if holder.host not in ("", os.uname().nodename) else ""
            raise UsageError(
                f"`{holder.name}` is held by a process that cannot be reached from here{where}",
                "stop it where it runs",
            )
        send(holder, signal.SIGCONT)  # what stands still cannot obey
        until = time.monotonic() + seconds
        while is_there(root, holder):
            if time.monotonic() >= until:
                break
            time.sleep(POLL_S)
        else:
            return signum == signal.SIGKILL
    raise UsageError(
        f"`{holder.name}` (pid {holder.pid}) does not end, not even when it is killed",
        "it waits for the system, a disk or a network most likely",
    )


def is_there(root: str, holder: Holder) -> bool:
    """Whether that very process still runs, or waits for its turn."""
    queued = (other for other in waiting(root) if other.name == holder.name)
    now = alive(root, holder.name) or next(queued, None)
    return now is not None and (now.pid, now.created) == (holder.pid, holder.created)
