"""`python -m bench.crowd PROJECT N`: hold the names `gate@0` … as N runs would, until stdin ends."""

from __future__ import annotations

import resource
import sys
from contextlib import ExitStack

from little_loops.runs.claims import claim


def hold(project: str, count: int) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with ExitStack() as held:
        for number in range(count):
            held.enter_context(
                claim(
                    project,
                    f"gate@{number}",
                    (f"{project}/part-{number}",),
                    f"run-{number}",
                    loop="gate",
                    started_at="2026-01-15T10:30:00.000Z",
                )
            )
        print("all of them", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    hold(sys.argv[1], int(sys.argv[2]))
