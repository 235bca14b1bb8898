"""A worker for tests, started as `python -m tests.fleet.run_worker TARGET FOLDER HEARTBEAT`."""

from __future__ import annotations

import asyncio
import sys

from little_loops.fleet.worker import WorkerOptions, work

if __name__ == "__main__":
    target, folder, heartbeat = sys.argv[1:4]
    options = WorkerOptions(("*",), folder, heartbeat_s=float(heartbeat), skip_permissions=True)
    asyncio.run(work(f"temporal://{target}", options))
