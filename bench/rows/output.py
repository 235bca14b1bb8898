"""What an action's output costs: time, memory, and the delay until it is seen."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from statistics import median

from bench.floors import printing
from bench.model import ROOT, Candidate, Command, Gauge, Question, Reading, Row, Setting
from bench.processes import LOOK_EACH_S, figure_of, started

PRINTING = """\
name: {name}
initial: talk
states:
  talk:
    action: "{action}"
    on_pass: done
    on_fail: done
  done:
    terminal: true
"""
MB = 1_000_000
LINES = 5
# Each line says when it was printed.
TIMES = (
    f"import time; [(print(time.time_ns(), flush=True), time.sleep(0.2)) for _ in range({LINES})]"
)


def rows(setting: Setting) -> list[Question]:
    sizes = setting.by_scale(quick=(10,), normal=(10, 200), full=(10, 200, 1000))
    passed = setting.by_scale(quick=100, normal=1000, full=1000)
    loops = {
        f"out-{size}": PRINTING.format(name=f"out-{size}", action=printing(size * MB))
        for size in {0, passed, *sizes}
    }
    watched = f"{setting.python} -c '{TIMES}'"
    loops["times"] = PRINTING.format(name="times", action=watched)
    project = setting.project("output", loops)
    memory = Gauge(
        8,
        f"peak memory over idle, {passed} MB printed",
        "MB",
        Reading("ours", lambda: peak_over_idle(setting, project, passed)),
        bar=8,
        beyond=4,
        repeats=1,
    )
    return [
        *(printed(setting, project, size) for size in sizes),
        memory,
        delay(setting, project, "screen", seen_on_screen),
        delay(setting, project, "log", seen_in_log),
    ]


def printed(setting: Setting, project: str, size: int) -> Row:
    def floor(count: int) -> Command:
        argv = (setting.python, "-m", "bench.floors", "output", str(count * MB), project)
        return Command(argv, ROOT)

    def ours(count: int) -> Command:
        return setting.command(project, "run", f"out-{count}")

    return Row(
        7,
        f"{size} MB of output",
        Candidate("read, scan, keep", floor(size), floor(0)),
        Candidate("ours", ours(size), ours(0)),
        bar=1.2,
        beyond=1.0,
        # Ten megabytes take so little that a few turns tell nothing.
        repeats=12 if size < 100 else 4 if size < 1000 else 2,
    )


def peak_over_idle(setting: Setting, project: str, size: int) -> float:
    return (peak_kb(setting, project, size) - peak_kb(setting, project, 0)) / 1024


def peak_kb(setting: Setting, project: str, size: int) -> int:
    """The most the process itself took; what wait4 tells would include us, before the exec."""
    peak = 0
    with started(setting, setting.command(project, "run", f"out-{size}")) as child:
        while child.poll() is None:
            peak = max(peak, figure_of(child.pid, "status", "VmHWM") or 0)
            time.sleep(LOOK_EACH_S / 2)
    return peak


def delay(
    setting: Setting, project: str, where: str, seen: Callable[[Setting, str], list[float]]
) -> Gauge:
    return Gauge(
        9,
        f"a printed line reaches the {where}",
        "ms",
        Reading("ours", lambda: median(seen(setting, project))),
        bar=50,
        beyond=5,
    )


def seen_on_screen(setting: Setting, project: str) -> list[float]:
    command = setting.command(project, "run", "--verbose", "times")
    with started(setting, command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        descriptor = child.stdout.fileno()
        delays: list[float] = []
        while select.select([descriptor], [], [], 30)[0] and (
            piece := os.read(descriptor, 1 << 16)
        ):
            delays += [since(line) for line in piece.splitlines() if is_time(line)]
        child.wait()
    return delays


def seen_in_log(setting: Setting, project: str) -> list[float]:
    path = f"{project}/.loops/.running/times.log"
    with suppress(FileNotFoundError):
        os.unlink(path)
    delays: list[float] = []
    read = 0
    with started(setting, setting.command(project, "run", "times")) as child:
        while child.poll() is None:
            with suppress(FileNotFoundError), open(path, "rb") as file:
                file.seek(read)
                piece = file.read()
                read += len(piece)
                delays += [since(line) for line in piece.splitlines() if is_time(line)]
            time.sleep(0.001)
    return delays


def is_time(line: bytes) -> bool:
    return line.lstrip().startswith(b"| ") and line.rpartition(b" ")[2].isdigit()


def since(line: bytes) -> float:
    return (time.time_ns() - int(line.rpartition(b" ")[2])) / 1e6
