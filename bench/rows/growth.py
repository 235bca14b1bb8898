"""Whether a run that goes on and on takes more and more."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from typing import NamedTuple

from bench.model import Gauge, NotMeasured, Question, Reading, Setting
from bench.processes import figure_of, started

ROUND = """\
name: round
initial: work
max_iterations: {count}
states:
  work:
    action: "true"
    next: work
"""
LOOK_EACH_S = 0.1
# Until then the interpreter is still filling its caches.
SETTLED = 200


class Moment(NamedTuple):
    iteration: int
    rss_kb: int
    state_bytes: int


def rows(setting: Setting) -> list[Question]:
    count = setting.by_scale(quick=600, normal=3_000, full=100_000)
    project = setting.project("growth", {"round": ROUND.format(count=count)})
    once: list[tuple[Moment, Moment]] = []

    def grown() -> tuple[Moment, Moment]:
        if not once:
            once.append(first_and_last(setting, project))
        return once[0]

    def memory() -> float:
        first, last = grown()
        return (last.rss_kb - first.rss_kb) / 1024

    def state() -> float:
        first, last = grown()
        return last.state_bytes - first.state_bytes

    span = f"iterations {SETTLED} to {count:,}"
    return [
        Gauge(10, f"memory, {span}", "MB more", Reading("ours", memory), 1, 0.1, repeats=1),
        # A few bytes: numbers get longer.
        Gauge(10, f"state file, {span}", "bytes more", Reading("ours", state), 64, 64, repeats=1),
    ]


def first_and_last(setting: Setting, project: str) -> tuple[Moment, Moment]:
    seen: list[Moment] = []
    with started(setting, setting.command(project, "run", "--fresh", "round")) as child:
        while child.poll() is None:
            moment = look(child.pid, f"{project}/.loops/.running/round.state.json")
            if moment is not None and moment.iteration >= SETTLED:
                seen[1:] = [moment]
            time.sleep(LOOK_EACH_S)
    if len(seen) < 2:
        raise NotMeasured("the run was over too soon")
    return seen[0], seen[-1]


def look(pid: int, path: str) -> Moment | None:
    rss_kb = figure_of(pid, "status", "VmRSS")
    with suppress(FileNotFoundError), open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        state = json.load(file)
        if rss_kb is not None and state["status"] == "running":
            return Moment(state["iteration"], rss_kb, size)
    return None
