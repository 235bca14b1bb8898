"""A worker for tests, started as `python -m tests.fleet.run_worker TARGET FOLDER HEARTBEAT LABEL…`."""

from __future__ import annotations

import asyncio
import sys

from little_loops.fleet.worker import WorkerOptions, work

if __name__ == "__main__":
    target, folder, heartbeat, *labels = sys.argv[1:]
    options = WorkerOptions(
        ("*",),
        folder,
        heartbeat_s=float(heartbeat),
        skip_permissions=True,
        labels=tuple(labels),
    )
    asyncio.run(work(f"temporal://{target}", options))
