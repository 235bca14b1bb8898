"""`python -m bench.fleet_worker TARGET FOLDER`: a worker, and in the same process the floor of row 22:
activities that only run a command."""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import timedelta
from typing import Any  # Temporal reads the hints of what it calls

from temporalio import activity, workflow
from temporalio.exceptions import ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from bench.fleet_names import BARE, BARE_QUEUE, HEARTBEAT_S
from little_loops.fleet.address import Address, connected
from little_loops.fleet.worker import STICKY, WorkerOptions, serve

A_MINUTE = timedelta(minutes=1)


@activity.defn
async def shell(given: dict[str, Any]) -> dict[str, Any]:
    """Run a command, as plain as can be."""
    child = await asyncio.create_subprocess_exec(
        *("sh", "-c", given["command"]),
        cwd=given["cwd"],
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await child.communicate()
    return {"exit_code": child.returncode, "out": out.decode(), "err": err.decode()}


@workflow.defn(name=BARE, sandboxed=False)
class Bare:
    """So many activities, one after the other."""

    @workflow.run
    async def run(self, given: dict[str, Any]) -> int:
        for _ in range(given["times"]):
            done = await workflow.execute_activity(shell, given, start_to_close_timeout=A_MINUTE)
            if done["exit_code"]:
                raise ApplicationError(done["err"], non_retryable=True)
        times: int = given["times"]
        return times


async def main(target: str, folder: str) -> None:
    client = await connected(Address(target))
    options = WorkerOptions(("*",), folder, heartbeat_s=HEARTBEAT_S)
    bare = Worker(
        client,
        task_queue=BARE_QUEUE,
        workflows=[Bare],
        activities=[shell],
        workflow_runner=UnsandboxedWorkflowRunner(),
        sticky_queue_schedule_to_start_timeout=STICKY,
    )
    async with bare:
        await serve(client, options, os.environ, asyncio.Event())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
