"""Many kills of workers."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from little_loops.definitions.loading import load_loop
from little_loops.engine.runtime import Runtime
from little_loops.fleet.runtime import FleetRuntime
from little_loops.fsm.codec import to_record
from tests.fleet.fleet import Fleet, FleetWorker
from tests.project import Project, until

pytestmark = pytest.mark.soak

KILLS = 20
SOAK_S = 900.0

# `work` says how often it has been done, by what the repository has stored, and only then does it.
STORED = 'git --git-dir "$BARE" for-each-ref --format="%(objectname)" refs/ll'
COUNTED: Mapping[str, Any] = {
    "name": "counted",
    "max_iterations": 100_000,
    "timeout": "1h",
    "initial": "work",
    "states": {
        "work": {
            "action": f'stored=$(git --git-dir "$BARE" show "$({STORED})":src/done);'
            ' echo "work $LL_ITERATION $stored" >> "$OUT/effects";'
            " n=$(cat src/done); sleep 0.2; echo $((n + 1)) > src/done",
            "next": "look",
        },
        "look": {
            "action": 'echo "look $LL_ITERATION" >> "$OUT/effects"; sleep 0.1; test -e "$OUT/enough"',
            "on_pass": "done",
            "on_fail": "work",
        },
        "done": {"terminal": True},
    },
}


def committed(
    project: Project, loops: Mapping[str, Mapping[str, Any]], files: Mapping[str, str]
) -> None:
    """Write loops and files, and commit them; actions get `OUT` and `BARE`."""
    env = {"OUT": str(project.home), "BARE": str(bare_of(project))}
    for name, loop in loops.items():
        project.loop(name, yaml.safe_dump({**loop, "env": env}))
    for name, text in files.items():
        (project.root / name).parent.mkdir(exist_ok=True)
        (project.root / name).write_text(text)
    project.git("init", "-q", "-b", "main")
    project.git("add", "-A")
    project.git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "start")


def bare_of(project: Project) -> Path:
    return project.root.parent / "bare.git"


def lines_of(project: Project) -> list[list[str]]:
    """Return the words of each line that actions have written outside of the project."""
    path = project.home / "effects"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def processes_of(project: Project) -> list[str]:
    """Return the processes of actions that are still there."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("OUT") == str(project.home):
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found


def records_of(runtime: Runtime, name: str) -> list[dict[str, Any]]:
    return [to_record(each) for each in runtime.events(name)]


@pytest.mark.parametrize("seed", [1])
def test_twenty_kills_at_random_moments(seed: int, fleet: Fleet, project: Project):
    committed(project, {"counted": COUNTED}, {"src/done": "0\n"})
    loop = load_loop("counted", str(project.root)).loop
    with closing(fleet.runtime(project)) as runtime:
        try:
            runtime.start(loop)
            dice = random.Random(seed)
            killed = [kill_at_a_random_moment(fleet, runtime, project, dice) for _ in range(KILLS)]
            (project.home / "enough").touch()
            ending = runtime.wait("counted", SOAK_S)
            assert ending is not None
            assert f"{ending.status} {ending.reason}" == "completed terminal"
            assert_nothing_stored_was_done_again(runtime, project)
        finally:
            runtime.stop("counted")
    until(lambda: not processes_of(project), "end of all actions")
    left = [pid for pids in killed for pid in pids if is_there(pid)]
    assert left == []


def kill_at_a_random_moment(
    fleet: Fleet, runtime: FleetRuntime, project: Project, dice: random.Random
) -> list[psutil.Process]:
    """Kill the worker that holds the run after some more effects, and have another one instead.
    Return the processes that it had."""
    more = len(lines_of(project)) + dice.randrange(1, 4)
    until(lambda: len(lines_of(project)) >= more, "effects", SOAK_S)
    time.sleep(dice.uniform(0, 0.5))  # the random moment itself, not a wait
    worker = until(lambda: holder(fleet, runtime), "holder")
    below = psutil.Process(worker.process.pid).children(recursive=True)
    worker.send(signal.SIGKILL)
    worker.end()
    fleet.workers.remove(worker)
    fleet.workers.append(fleet.worker())
    fleet.workers[-1].ready()
    return below


def holder(fleet: Fleet, runtime: FleetRuntime) -> FleetWorker | None:
    details = runtime.details("counted") or {}
    return next((each for each in fleet.workers if each.name == details["worker"]), None)


def is_there(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def assert_nothing_stored_was_done_again(runtime: FleetRuntime, project: Project) -> None:
    """Whenever `work` ran again, the repository had what it had before; and each iteration has one
    result."""
    lines, records = lines_of(project), records_of(runtime, "counted")
    assert [each["seq"] for each in records] == list(range(1, len(records) + 1))
    work = [(int(line[1]), int(line[2])) for line in lines if line[0] == "work"]
    stored = dict(work)
    assert set(work) == set(stored.items()), "an iteration ran again after its result was stored"
    assert [stored[iteration] for iteration in sorted(stored)] == list(range(len(stored)))
    done = Counter(each["state"] for each in records if each["event"] == "action_complete")
    assert done["work"] == len(stored)
    started = Counter(each["state"] for each in records if each["event"] == "action_start")
    seen = Counter(line[0] for line in lines)
    assert seen["work"] <= started["work"]
    assert seen["look"] <= started["look"]
    assert len(lines) > len(set(map(tuple, lines))), "no kill came in the middle of an action"
    branch = (runtime.details("counted") or {})["branch"]
    counted = project.git("-C", str(bare_of(project)), "show", f"{branch}:src/done")
    assert int(counted) == len(stored)
