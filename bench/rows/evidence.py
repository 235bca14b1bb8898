"""What it costs a run to know what its agents changed: the first turn of an agent, and each after it.

The same loop with evidence and without, turn by turn.  Its agent and its check take a few milliseconds, so
the difference is ours: store, snapshots, the clean copy and the second run of the check in it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from bench.measure import Take, sampler
from bench.model import Command, Gauge, Question, Reading, Sample, Setting
from bench.rows.trees import commit, write_files

FILES = 1_400
STATE = ("trees", "copies", "seals")
COUNT = "d0/e0/count"
LOOP = """\
name: turns-{turns}
paradigm: goal
goal: enough turns were taken
tools:
  - test "$(cat {count})" -ge {turns}
  - {{action: Take a turn, action_type: prompt}}
host: {{name: command, command: [sh, ../agent.sh, "{{prompt}}"]}}
evidence: {{protect: [/d1/e0/], clean: true}}
max_iterations: {most}
"""
AGENT = f"""\
echo $(( $(cat {COUNT}) + 1 )) > {COUNT}
echo taken
"""


class Overhead(NamedTuple):
    """Seconds that evidence adds to a turn."""

    cpu_s: float
    wall_s: float


def rows(setting: Setting) -> list[Question]:
    turns = setting.by_scale(quick=5, normal=11, full=21)
    project = os.path.join(setting.place, "turns", "project")
    repeats = setting.by_scale(quick=1, normal=5, full=9)
    take = sampler(setting.environment)
    first = partial(first_turn, setting, project, turns, take)
    further = partial(further_turn, setting, project, turns, take)
    return [
        gauge(f"evidence, the first agent turn, {FILES:,} files", first, 2, 1, repeats),
        gauge("evidence, each further agent turn", further, 0.4, 0.2, repeats),
    ]


def gauge(
    name: str, measured: Callable[[], Overhead], bar: float, beyond: float, repeats: int
) -> Gauge:
    """Wall time is judged; the CPU time of the same runs stands beside it."""
    latest: list[Overhead] = []

    def cpu() -> float:
        latest[:] = [measured()]
        return latest[0].cpu_s

    ours = Reading("ours", lambda: latest[0].wall_s)
    return Gauge(18, name, "s", ours, bar, beyond, repeats, (Reading("CPU", cpu),))


def first_turn(setting: Setting, project: str, turns: int, take: Take) -> Overhead:
    lay_out(project, turns)
    return _more(*(take(run(setting, project, 1, flags)) for flags in EACH))


def further_turn(setting: Setting, project: str, turns: int, take: Take) -> Overhead:
    lay_out(project, turns)
    long = _more(*(take(run(setting, project, turns, flags)) for flags in EACH))
    short = _more(*(take(run(setting, project, 1, flags)) for flags in EACH))
    return Overhead(*((more - less) / (turns - 1) for more, less in zip(long, short, strict=True)))


EACH: tuple[tuple[str, ...], ...] = ((), ("--no-evidence",))


def _more(with_it: Sample, without: Sample) -> Overhead:
    return Overhead(*((more - less) / 1000 for more, less in zip(with_it, without, strict=True)))


def run(setting: Setting, project: str, turns: int, flags: tuple[str, ...]) -> Command:
    """A run as if it were the first one of its project."""

    def forget() -> None:
        for name in STATE:
            home = os.path.join(setting.environment["XDG_STATE_HOME"], "little-loops", name)
            shutil.rmtree(home, ignore_errors=True)
        with open(os.path.join(project, COUNT), "w") as file:
            file.write("0\n")

    return setting.command(project, "run", f"turns-{turns}", "--quiet", *flags, before=forget)


def lay_out(project: str, turns: int) -> None:
    if os.path.isdir(project):
        return
    write_files(project, FILES)
    os.mkdir(f"{project}/.loops")
    for count in (1, turns):
        with open(f"{project}/.loops/turns-{count}.yaml", "w") as file:
            file.write(LOOP.format(turns=count, count=COUNT, most=turns + 1))
    for path, text in ((f"{project}/{COUNT}", "0\n"), (f"{project}/../agent.sh", AGENT)):
        with open(path, "w") as file:
            file.write(text)
    commit(project)
