"""Long tests of fleets: `make soak`."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest
import yaml
from temporalio.api.enums.v1 import EventType

from little_loops.definitions.loading import load_loop
from little_loops.fleet.address import connected
from little_loops.fleet.names import workflow_id
from little_loops.fsm.codec import to_record
from tests.fleet.fleet import Fleet
from tests.project import Project

TRANSITIONS = 10_000
LONGEST_S = 3_000.0
COUNT = {
    "name": "count",
    "max_iterations": TRANSITIONS,
    "initial": "work",
    "states": {
        "work": {"action": "true", "next": "again"},
        "again": {"action": "true", "next": "work"},
    },
}


@pytest.mark.soak
def test_a_run_of_ten_thousand_transitions(project: Project, tmp_path: Path):
    project.loop("count", yaml.safe_dump(COUNT))
    project.git("init", "-q", "-b", "main")
    project.git("add", "-A")
    project.git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "start")
    fleet = Fleet(tmp_path / "fleet", events=2_000)
    runtime = fleet.runtime(project)
    try:
        runtime.start(load_loop("count", str(project.root)).loop)
        ended = runtime.wait("count", LONGEST_S)
        assert ended is not None, runtime.details("count")
        assert (ended.status, ended.reason) == ("failed", "max_iterations")
        records = [to_record(each) for each in runtime.events("count")]
        assert [each["seq"] for each in records] == list(range(1, len(records) + 1))
        kinds = Counter(each["event"] for each in records)
        assert kinds["action_complete"] == TRANSITIONS
        assert kinds["resume"] == 0
        endings = asyncio.run(endings_of_executions(fleet, project))
        assert len(endings) > 10
        assert set(endings[:-1]) == {EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW}
    finally:
        runtime.close()
        fleet.close()


async def endings_of_executions(fleet: Fleet, project: Project) -> list[int]:
    """Return how each workflow execution of the run has ended."""
    client = await connected(fleet.server.address)
    identity = workflow_id(str(project.root.parent / "bare.git"), "count")
    parts = [*await client.get_workflow_handle(identity).query("earlier"), None]
    handles = [client.get_workflow_handle(identity, run_id=part) for part in parts]
    return [
        [event async for event in each.fetch_history_events()][-1].event_type for each in handles
    ]
