"""`python -m bench.fleet_client TARGET PROJECT LOOP`, or `… PROJECT TIMES COMMAND`: start a run, or the
same number of bare activities, and wait for its end."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import closing

from bench.fleet_names import BARE, BARE_QUEUE
from little_loops.definitions.loading import load_loop
from little_loops.fleet.address import Address, connected
from little_loops.fleet.names import workflow_id
from little_loops.fleet.runtime import FleetRuntime, StartingPoint


def source_of(project: str) -> StartingPoint:
    """Return where a project's runs start: its bare repository is beside it."""
    with open(f"{project}.commit") as file:
        return StartingPoint(f"{project}.git", file.read().strip())


async def run_of(target: str, project: str, name: str) -> None:
    source = source_of(project)
    with closing(FleetRuntime(Address(target), source)) as runtime:
        runtime.start(load_loop(name, project).loop)
    client = await connected(Address(target))
    left = await client.get_workflow_handle(workflow_id(source.repository, name)).result()
    if left["status"]["status"] != "completed":
        raise SystemExit(f"the run has ended as {left['status']['status']}")


async def bare(target: str, project: str, times: str, command: str) -> None:
    client = await connected(Address(target))
    given = {"times": int(times), "command": command, "cwd": project}
    await client.execute_workflow(
        BARE, given, id=f"bare-{os.getpid()}", task_queue=BARE_QUEUE, result_type=int
    )


if __name__ == "__main__":
    asyncio.run((run_of if len(sys.argv) == 4 else bare)(*sys.argv[1:]))
    os._exit(
        0
    )  # the threads of Temporal's library may still run, which Python would complain about
