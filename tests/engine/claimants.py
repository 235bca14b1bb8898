"""Processes that claim what they are told to, for the tests of claims and of the queue."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager

from little_loops.runs.claims import claim

STARTED = "2026-01-15T10:30:00.000Z"

# Does what it is told, line by line, and tells what came of it.
WORKER = """\
import json, sys, time
from little_loops.errors import LittleLoopsError
from little_loops.runs.claims import claim
from little_loops.system.stops import StopFlag, listen

def tell(**fields):
    print(json.dumps(fields), flush=True)

stop = StopFlag()
listen(stop)
tell(ready=True)
held = None
for line in sys.stdin:
    order = json.loads(line)
    if order.pop("release", False):
        held.release()
        tell(released=True)
        continue
    at = order.pop("at", 0)
    while time.time() < at:
        pass
    order["scope"], order["outer"] = tuple(order["scope"]), tuple(order.get("outer", ()))
    try:
        held = claim(**order, say=lambda text: tell(say=text), stop=stop)
        tell(claimed=True)
    except LittleLoopsError as error:
        tell(error=error.message, code=error.exit_code)
"""


Answer = dict[str, object]


class Worker:
    """A process that claims what it is told to."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER], stdin=-1, stdout=-1, bufsize=0, start_new_session=True
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def claim(self, name: str, *scope: str, **more) -> None:
        paths = [os.path.normpath(os.path.join(self.root, path)) for path in scope or (".",)]
        order = {"root": self.root, "name": name, "scope": paths, "run_id": f"run-{name}"}
        self.order(**order, loop=name, started_at=STARTED, **more)

    def order(self, **fields) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(fields).encode() + b"\n")

    def told(self, within_s: float = 20) -> Answer:
        """The next thing it tells."""
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], within_s)
        assert readable, "it tells nothing"
        answer: Answer = json.loads(self.process.stdout.readline() or b"{}")
        return answer

    def is_silent(self) -> bool:
        assert self.process.stdout is not None
        return not select.select([self.process.stdout], [], [], 0)[0]

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


CLAIMED: Answer = {"claimed": True}


@contextmanager
def workers(root, count: int):
    with ExitStack() as stack:
        team = []
        for _ in range(count):
            team.append(Worker(str(root)))
            stack.callback(team[-1].end)
        for each in team:
            assert each.told() == {"ready": True}
        yield team


def hold(root, name: str, *scope: str, **more):
    paths = tuple(os.path.normpath(os.path.join(str(root), path)) for path in scope or (".",))
    return claim(str(root), name, paths, f"run-{name}", loop=name, started_at=STARTED, **more)


def names(found) -> list[str]:
    return sorted(holder.name for holder in found)


def until(condition, within_s: float = 20) -> None:
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.005)
