"""What it costs to run a loop without running anything: its tests, a simulation, a replay."""

from __future__ import annotations

import os
from functools import partial

from bench.measure import sampler
from bench.model import Command, Gauge, Question, Reading, Setting
from bench.processes import carry_out, with_root

TESTS, SIMULATED, STEPS = 1000, 2000, 1000
IN_ONE_FILE = 500
LOOP = """\
name: five
initial: check
states:
  check: {action: make check, on_pass: report, on_fail: fix, on_error: failed}
  fix: {action: "make fix LOG=${prev.exit_code}", next: check, on_error: failed}
  report: {action: make report, next: done}
  done: {terminal: true}
  failed: {terminal: true}
"""
TEST = """\
  - name: test {number}
    given: {{check: [1, 0], fix: 0, report: 0}}
    expect: {{status: completed, path: [check, fix, check, report, done]}}
"""
# Two states make one iteration, so that the limit ends the run after exactly that many steps.
STEPPED = """\
name: steps-{steps}
initial: tick
max_iterations: {iterations}
states:
  tick: {{action: "true", next: tock}}
  tock: {{action: "true", next: tick}}
"""
LIMIT_REACHED = 3
ODDS = ("--outcome", "check=pass:0.5", "--outcome", "fix=pass:1", "--outcome", "report=pass:1")


def rows(setting: Setting) -> list[Question]:
    few = setting.project("few-tests", {"five": LOOP})
    many = setting.project("many-tests", {"five": LOOP})
    for project, count in ((few, 1), (many, TESTS + 1)):
        _write_tests(project, count)
    recorded = setting.project("replayed", {f"steps-{n}": _stepped(n) for n in (2, STEPS + 2)})
    tests = (setting.command(many, "test"), setting.command(few, "test"))
    simulated = tuple(
        setting.command(few, "simulate", "five", "-n", str(count), *ODDS)
        for count in (SIMULATED + 1, 1)
    )
    return [
        _gauge(f"{TESTS:,} tests of a loop with five states", partial(_cpu_s, setting, *tests), 1),
        _gauge(f"{SIMULATED:,} simulated runs of it", partial(_cpu_s, setting, *simulated), 3),
        _gauge(f"{STEPS:,} replayed steps", partial(_replayed_s, setting, recorded), 1),
    ]


def _gauge(name: str, take: partial[float], bar_s: float) -> Gauge:
    return Gauge(20, f"{name}: CPU", "s", Reading("ours", take), bar=bar_s, beyond=bar_s / 2)


def _cpu_s(setting: Setting, long: Command, short: Command) -> float:
    """What the longer command takes more than the shorter one."""
    take = sampler(with_root(setting))
    return (take(long).cpu_ms - take(short).cpu_ms) / 1000


def _replayed_s(setting: Setting, project: str) -> float:
    """Record two runs, unless that is done, and replay both."""
    names = [f"steps-{count}" for count in (STEPS + 2, 2)]
    for name in names:
        if not os.path.exists(f"{project}/.loops/.history/{name}"):
            carry_out(setting, setting.command(project, "run", name, exit_code=LIMIT_REACHED))
    return _cpu_s(setting, *(setting.command(project, "replay", name) for name in names))


def _write_tests(project: str, count: int) -> None:
    """Write so many tests, at most `IN_ONE_FILE` to a file."""
    os.makedirs(f"{project}/.loops/tests", exist_ok=True)
    for first in range(0, count, IN_ONE_FILE):
        numbers = range(first, min(first + IN_ONE_FILE, count))
        tests = "".join(TEST.format(number=number) for number in numbers)
        with open(f"{project}/.loops/tests/five-{first}.test.yaml", "w") as file:
            file.write(f"loop: five\ntests:\n{tests}")


def _stepped(steps: int) -> str:
    return STEPPED.format(steps=steps, iterations=steps // 2)
