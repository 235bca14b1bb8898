"""What one durable transition costs, start-up taken out: against a bare loop, bash and make."""

from __future__ import annotations

import os
import shutil

from bench.model import (
    ROOT,
    Candidate,
    Command,
    Gauge,
    NotMeasured,
    Question,
    Reading,
    Row,
    Setting,
)
from bench.processes import carry_out

FEW, MANY = 20, 220
LIMIT_REACHED = 3

# Two states make one iteration, so that the limit ends the run after exactly `steps` actions.
TICK_TOCK = """\
name: steps-{steps}
initial: tick
max_iterations: {iterations}
states:
  tick:
    action: "true"
    next: tock
  tock:
    action: "true"
    next: tick
"""

# What a user writes who has no tool: state by mv, log by echo, nothing synced.
BASH = """\
state=tick
for ((i = 1; i <= $1; i++)); do
  sh -c true
  code=$?
  echo "{\\"state\\": \\"$state\\", \\"iteration\\": $i, \\"exit\\": $code}" > bash.state.tmp
  mv bash.state.tmp bash.state.json
  echo "$(date -u +%FT%TZ) $state exit $code" >> bash.log
  if [ "$state" = tick ]; then state=tock; else state=tick; fi
done
"""


def rows(setting: Setting) -> list[Question]:
    loops = {
        f"steps-{steps}": TICK_TOCK.format(steps=steps, iterations=steps // 2)
        for steps in (FEW, MANY)
    }
    project = setting.project("transition", loops)
    _write(f"{project}/loop.bash", BASH)
    for steps in (FEW, MANY):
        _write(f"{project}/{steps}.mk", _makefile(steps))

    def floor(steps: int) -> Command:
        argv = (setting.python, "-m", "bench.floors", "steps", str(steps), project)
        return Command(argv, ROOT)

    def bash(steps: int) -> Command:
        return Command(("bash", "loop.bash", str(steps)), project)

    def make(steps: int) -> Command:
        return Command(("make", "-s", "-f", f"{steps}.mk"), project)

    def ours(steps: int) -> Command:
        return setting.command(project, "run", f"steps-{steps}", exit_code=LIMIT_REACHED)

    def candidate(name: str, command: Command, short: Command) -> Candidate:
        return Candidate(name, command, short, MANY - FEW)

    us = candidate("ours", ours(MANY), ours(FEW))
    them = candidate("a bash loop", bash(MANY), bash(FEW))
    # Many: what a step costs shows only in turns in which nobody else was working.
    repeats = setting.by_scale(quick=3, normal=24, full=30)
    return [
        Row(
            5,
            "durable transition, one step",
            candidate("a bare loop", floor(MANY), floor(FEW)),
            us,
            bar=1.4,
            beyond=1.2,
            judged=("cpu", "wall"),
            repeats=repeats,
        ),
        Gauge(
            6,
            "syncs per transition",
            "syncs",
            Reading("ours", lambda: syncs(setting, ours(MANY), ours(FEW))),
            bar=2,
            beyond=1,
            repeats=1,
            others=(Reading("a bare loop", lambda: syncs(setting, floor(MANY), floor(FEW))),),
        ),
        Row(
            14,
            "one step, against bash",
            them,
            us,
            bar=1,
            beyond=0.5,
            repeats=repeats // 3,
            others=(candidate("make, nothing kept", make(MANY), make(FEW)),),
        ),
    ]


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _makefile(steps: int) -> str:
    """A chain of targets, each of which runs the same command."""
    chain = [f"s{step}: s{step - 1}\n\t@sh -c true\n" for step in range(1, steps + 1)]
    return f"all: s{steps}\n.PHONY: all\ns0:\n" + "".join(chain)


def syncs(setting: Setting, long: Command, short: Command) -> float:
    """How often a step has the disk written out."""
    return (_count_syncs(setting, long) - _count_syncs(setting, short)) / (MANY - FEW)


def _count_syncs(setting: Setting, command: Command) -> int:
    if shutil.which("strace") is None:
        return _announced_syncs(setting, command)
    trace = os.path.join(setting.place, "syncs")
    calls = "trace=fsync,fdatasync,sync,syncfs,msync,sync_file_range"
    # The run itself, not what its actions do.
    carry_out(setting, command, "strace", "-qq", "-e", calls, "-e", "signal=none", "-o", trace)
    with open(trace) as file:
        return sum("sync" in line for line in file)


def _announced_syncs(setting: Setting, command: Command) -> int:
    """Without strace: ours announces every sync to those who audit the process."""
    if "little_loops" not in command.argv:
        raise NotMeasured("there is no `strace` to count with")
    counted = os.path.join(setting.place, "syncs")
    words = command.argv[command.argv.index("little_loops") + 1 :]
    argv = (setting.python, "-m", "bench.audited", counted, *words)
    carry_out(setting, command._replace(argv=argv))
    with open(counted) as file:
        return int(file.read())
