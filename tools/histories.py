"""Record histories of workflows again: `python -m tools.histories --write [SCENE…]`.

Some runs are carried out on a Temporal server and two workers, as in `make fleet`. Their histories
are kept in `tests/fleet/histories`, where tests replay them with the present code. Paths, hosts and
processes are always the same.

Not here: what is kept, and replaying it (`tests.fleet.histories`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import signal
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowHistory

from little_loops.fleet.address import connected
from little_loops.fleet.names import repository_key, workflow_id
from little_loops.fleet.runtime import FleetRuntime
from tests.contract.suite import CASES, Case, carry_out, laid_out, read
from tests.fleet.fleet import Fleet
from tests.fleet.histories import HISTORIES, Golden, readable, replayed
from tests.project import Project, until

FOLDER = "/fleet"
OF_THE_SUITE = (
    "handoff-pause",
    "hook",
    "retry",
    "review-approve",
    "stopped",
    "stopped-waiting",
    "told",
    "verified",
)
LOST = Case(
    "lost-worker",
    {
        "initial": "a",
        "states": {
            "a": {
                "action": "echo a >> ${context.outside}/effects; echo 1 > src/value;"
                " until test -e ${context.outside}/ok; do sleep 0.05; done",
                "next": "done",
            },
            "done": {"terminal": True},
        },
    },
    do=[{"start": {}}, {"effect": "a"}],
    effects=[],
    story=[],
    files={},
    claude=None,
)
LOST_THEN = ({"create": "ok"}, {"ends": "completed terminal 0"})
LONG = LOST._replace(
    name="long",
    loop={
        "initial": "a",
        "max_iterations": 12,
        "states": {
            "a": {"action": "true", "on_pass": "b", "on_fail": "done"},
            "b": {"action": "true", "next": "a"},
            "done": {"terminal": True},
        },
    },
    do=[{"start": {}}, {"ends": "failed max_iterations 3"}],
)
SCENES: Mapping[str, Case] = {
    each.name: each for each in (*(read(CASES / f"{it}.yaml") for it in OF_THE_SUITE), LOST, LONG)
}


def record(fleet: Fleet, case: Case) -> Sequence[Golden]:
    """Carry out a run; return each of its workflow executions."""
    project = Project(fleet.folder / case.name)
    loop = laid_out(project, case)
    if case.claude is not None:
        fleet.play(project)
    with closing(fleet.runtime(project)) as runtime:
        carry_out(case, project, loop, runtime)
        if case is LOST:
            lose_worker(fleet, runtime, case.name)
            carry_out(case._replace(do=LOST_THEN), project, loop, runtime)
        return asyncio.run(goldens(fleet, str(bare_of(project)), case.name))


def bare_of(project: Project) -> Path:
    return project.root.parent / "bare.git"


def lose_worker(fleet: Fleet, runtime: FleetRuntime, name: str) -> None:
    held_by = (runtime.details(name) or {})["worker"]
    worker = next(each for each in fleet.workers if each.name == held_by)
    worker.send(signal.SIGKILL)
    until(lambda: (runtime.details(name) or {})["worker"] not in (None, held_by), "other worker")
    worker.end()
    fleet.workers.remove(worker)
    fleet.workers.append(fleet.worker())
    fleet.workers[-1].ready()


async def goldens(fleet: Fleet, repository: str, name: str) -> Sequence[Golden]:
    client = await connected(fleet.server.address)
    identity = workflow_id(repository, name)
    last = client.get_workflow_handle(identity)
    parts = [*await last.query("earlier"), None]
    handles = [client.get_workflow_handle(identity, run_id=part) for part in parts]
    return [await golden(await each.fetch_history(), fleet, repository) for each in handles]


async def golden(found: WorkflowHistory, fleet: Fleet, repository: str) -> Golden:
    seen = {"id": found.workflow_id, **readable(found.to_json_dict())}
    kept = impersonal(seen, str(fleet.folder), repository)
    return Golden(kept["id"], kept["events"], await replayed(kept["id"], kept["events"]))


def impersonal(seen: dict[str, Any], folder: str, repository: str) -> dict[str, Any]:
    """Return a history without what says where it was recorded."""
    host = socket.gethostname()
    key = repository_key(repository.replace(folder, FOLDER))
    text = json.dumps(seen).replace(repository_key(repository), key).replace(folder, FOLDER)
    text = re.sub(rf"\b\d+@{re.escape(host)}\b", "1@machine", text)
    kept: dict[str, Any] = json.loads(text.replace(f"{host}-", "machine-"))
    return kept


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.histories", description=__doc__)
    parser.add_argument("--write", nargs="*", metavar="SCENE", choices=SCENES, required=True)
    names = parser.parse_args(arguments).write or SCENES
    with tempfile.TemporaryDirectory() as folder, closing(Fleet(Path(folder))) as fleet:
        for name in names:
            for old in HISTORIES.glob(f"{name}-[0-9].json"):
                old.unlink()
            for number, each in enumerate(record(fleet, SCENES[name]), 1):
                each.write(HISTORIES / f"{name}-{number}.json")
            print(name, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
