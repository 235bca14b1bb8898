"""What one durable transition costs, start-up taken out, against a bare loop."""

from __future__ import annotations

import os

from bench.model import ROOT, Candidate, Command, Row, Setting

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


def rows(setting: Setting) -> list[Row]:
    project = os.path.join(setting.place, "transition")
    os.makedirs(f"{project}/.loops")
    for steps in (FEW, MANY):
        with open(f"{project}/.loops/steps-{steps}.yaml", "w") as file:
            file.write(TICK_TOCK.format(steps=steps, iterations=steps // 2))

    def floor(steps: int) -> Command:
        return Command((setting.python, "-m", "bench.floors", str(steps), project), ROOT)

    def ours(steps: int) -> Command:
        return Command((*setting.tool, "run", f"steps-{steps}"), project, LIMIT_REACHED)

    return [
        Row(
            5,
            "durable transition, one step",
            Candidate("a bare loop", floor(MANY), floor(FEW), MANY - FEW),
            Candidate("ours", ours(MANY), ours(FEW), MANY - FEW),
            bar=1.5,
            beyond=1.3,
            judged=("cpu", "wall"),
            repeats=12,
        )
    ]
