"""What a run costs that waits for its action: memory, and how often it wakes up."""

from __future__ import annotations

import os
import time
from contextlib import AbstractContextManager, ExitStack
from functools import partial

from bench.model import Command, Gauge, NotMeasured, Question, Reading, Setting
from bench.processes import awaited, figure_of, in_background, started

SLEEP = """\
name: sleep
initial: sleep
states:
  sleep:
    action: sleep 1000
    on_pass: done
    on_fail: done
  done:
    terminal: true
"""
SETTLED_S = 0.5
ASLEEP = "import time; time.sleep(1000)"


def rows(setting: Setting) -> list[Question]:
    project = setting.project("idle", {"sleep": SLEEP})
    seconds = setting.by_scale(quick=2, normal=10, full=60)
    one = Gauge(
        12,
        "memory of an idle background run (PSS)",
        "MB",
        Reading("ours", partial(memory, setting, project)),
        bar=14,
        beyond=8,
        others=(Reading("python, asleep", partial(memory_of_python, setting, project)),),
    )
    awake = Gauge(
        13,
        f"wake-ups of an idle run in {seconds} s",
        "wake-ups",
        Reading("ours", partial(wake_ups, setting, project, seconds)),
        bar=0,
        beyond=0,
        repeats=1,
    )
    if setting.scale != "full":
        return [one, awake]
    crowd = one._replace(
        name="the same, each of 500 at once",
        ours=Reading("ours", partial(memory, setting, project, 500)),
        others=(),
        repeats=1,
    )
    return [one, crowd, awake]


def memory(setting: Setting, project: str, count: int = 1) -> float:
    """Megabytes for each of so many runs; what they share is counted once."""
    with ExitStack() as stack:
        pids = [stack.enter_context(idle_run(setting, project, number)) for number in range(count)]
        for pid in pids:
            await_action(pid)
        return sum(pss_mb(pid) for pid in pids) / count


def memory_of_python(setting: Setting, project: str) -> float:
    asleep = Command((setting.python, "-c", ASLEEP), project)
    with started(setting, asleep) as child:
        time.sleep(SETTLED_S)
        return pss_mb(child.pid)


def wake_ups(setting: Setting, project: str, seconds: float) -> float:
    with idle_run(setting, project, 0) as pid:
        await_action(pid)
        before = switches(pid)
        time.sleep(seconds)
        return switches(pid) - before


def idle_run(setting: Setting, project: str, number: int) -> AbstractContextManager[int]:
    os.makedirs(f"{project}/part-{number}", exist_ok=True)
    words = ("sleep", "--fresh", "--id", str(number), "--scope", f"part-{number}")
    return in_background(setting, project, *words)


def await_action(pid: int) -> None:
    """Until its action runs and everything about it has been written."""
    children = f"/proc/{pid}/task/{pid}/children"

    def has_child() -> bool:
        with open(children) as file:
            return bool(file.read().strip())

    awaited("the action of a background run", has_child)
    time.sleep(SETTLED_S)


def pss_mb(pid: int) -> float:
    kb = figure_of(pid, "smaps_rollup", "Pss")
    if kb is None:
        raise NotMeasured("a background run ended before it was looked at")
    return kb / 1024


def switches(pid: int) -> int:
    count = figure_of(pid, "status", "voluntary_ctxt_switches")
    if count is None:
        raise NotMeasured("a background run ended before it was looked at")
    return count
