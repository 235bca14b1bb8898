"""What a run costs that waits for its action: memory, and how often it wakes up."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache, partial

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
CROWD, CROWD_S = 500, 10
ASLEEP = "import time; time.sleep(1000)"


def rows(setting: Setting) -> list[Question]:
    project = setting.project("idle", {"sleep": SLEEP})
    seconds = setting.by_scale(quick=2, normal=10, full=60)
    one = Gauge(
        12,
        "memory of an idle background run (PSS)",
        "MB",
        Reading("ours", partial(memory, setting, project)),
        bar=12,
        beyond=8,
        others=(Reading("python, asleep", partial(memory_of_python, setting, project)),),
        comparable=True,
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
    return [one, awake, *(crowd(setting, project, one, awake) if setting.scale == "full" else ())]


def crowd(setting: Setting, project: str, one: Gauge, awake: Gauge) -> tuple[Gauge, Gauge]:
    """Both questions about many runs at once, which are started only once for them."""

    @cache
    def measured() -> tuple[float, float]:
        with idle_runs(setting, project, CROWD) as pids:
            return shared_mb(pids), woken(pids, CROWD_S)

    return (
        one._replace(
            name=f"the same, each of {CROWD} at once",
            ours=Reading("ours", lambda: measured()[0]),
            others=(),
            repeats=1,
        ),
        awake._replace(
            name=f"wake-ups of {CROWD} idle runs in {CROWD_S} s",
            ours=Reading("ours", lambda: measured()[1]),
        ),
    )


def memory(setting: Setting, project: str) -> float:
    with idle_runs(setting, project, 1) as pids:
        return shared_mb(pids)


def memory_of_python(setting: Setting, project: str) -> float:
    asleep = Command((setting.python, "-c", ASLEEP), project)
    with started(setting, asleep) as child:
        time.sleep(SETTLED_S)
        return pss_mb(child.pid)


def wake_ups(setting: Setting, project: str, seconds: float) -> float:
    with idle_runs(setting, project, 1) as pids:
        return woken(pids, seconds)


@contextmanager
def idle_runs(setting: Setting, project: str, count: int) -> Iterator[list[int]]:
    """So many runs, each with an action that sleeps."""
    with ExitStack() as stack:
        pids = [stack.enter_context(idle_run(setting, project, number)) for number in range(count)]
        await_actions(pids)
        yield pids


def idle_run(setting: Setting, project: str, number: int) -> AbstractContextManager[int]:
    os.makedirs(f"{project}/part-{number}", exist_ok=True)
    words = ("sleep", "--fresh", "--id", str(number), "--scope", f"part-{number}")
    return in_background(setting, project, *words)


def await_actions(pids: Iterable[int]) -> None:
    """Until their actions run and everything about them has been written."""

    def has_child(pid: int) -> bool:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return bool(file.read().strip())

    for pid in pids:
        awaited("the action of a background run", partial(has_child, pid))
    time.sleep(SETTLED_S)


def shared_mb(pids: Sequence[int]) -> float:
    """Megabytes for each of them; what they share is counted once."""
    return sum(map(pss_mb, pids)) / len(pids)


def woken(pids: Sequence[int], seconds: float) -> float:
    """How often all of them together woke up."""
    before = sum(map(switches, pids))
    time.sleep(seconds)
    return sum(map(switches, pids)) - before


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
