"""Whether going on costs more the longer a run has been."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from bench.model import Candidate, Question, Row, Setting
from bench.processes import carry_out

LONG = """\
name: long
initial: work
states:
  work:
    action: "true"
    next: look
  look:
    terminal: true
    outcome: review
    next: last
  last:
    action: "true"
    on_pass: done
    on_fail: done
  done:
    terminal: true
"""
# The rest of it, as a loop of its own.
REST = """\
name: rest
initial: last
states:
  last:
    action: "true"
    on_pass: done
    on_fail: done
  done:
    terminal: true
"""
PAUSED = 4


def rows(setting: Setting) -> list[Question]:
    sizes = setting.by_scale(
        quick=(10, 10_000), normal=(10, 10_000, 1_000_000), full=(10, 1_000, 100_000, 1_000_000)
    )
    return [resumed(setting, size) for size in sizes]


def resumed(setting: Setting, size: int) -> Row:
    project = setting.project(f"resume-{size}", {"long": LONG, "rest": REST})
    resume = setting.command(project, "resume", "long", before=partial(put_back, project))
    return Row(
        11,
        f"resume, log of {size:,} events",
        Candidate("run of the rest", setting.command(project, "run", "rest")),
        Candidate("ours", resume),
        bar=1.2,
        beyond=1.1,
        repeats=setting.by_scale(quick=5, normal=12, full=30),
        during=partial(paused, setting, project, size),
        comparable=False,
    )


@contextmanager
def paused(setting: Setting, project: str, size: int) -> Iterator[None]:
    """A run that waits for a person, with a log of so many events."""
    carry_out(setting, setting.command(project, "run", "long", exit_code=PAUSED))
    os.rename(f"{project}/.loops/.running", f"{project}/kept")
    lengthen(f"{project}/kept/long", size)
    yield
    shutil.rmtree(f"{project}/kept")


def put_back(project: str) -> None:
    """The run as it was before it was resumed."""
    for directory in (".running", ".history"):
        shutil.rmtree(f"{project}/.loops/{directory}", ignore_errors=True)
    shutil.copytree(f"{project}/kept", f"{project}/.loops/.running")


def lengthen(base: str, size: int) -> None:
    """Put events into a log until it has so many, and let the snapshot know."""
    from little_loops.fsm.state import LoopState  # the format is ours
    from little_loops.runs.state_file import state_bytes

    with open(f"{base}.events.jsonl") as log:
        first, *rest = map(json.loads, log)
    more = max(size - 1 - len(rest), 0)
    warning = {**first, "event": "warning", "message": "a line like those of a long run, or so"}
    with open(f"{base}.events.jsonl", "w") as log:
        log.write(json.dumps(first) + "\n")
        log.writelines(
            json.dumps({**warning, "seq": seq}) + "\n"
            for seq in range(first["seq"] + 1, first["seq"] + 1 + more)
        )
        log.writelines(json.dumps({**event, "seq": event["seq"] + more}) + "\n" for event in rest)
    with open(f"{base}.state.json") as file:
        state = json.load(file)
    run = LoopState.from_dict(state)
    run = run._replace(seq=run.seq + more)
    with open(f"{base}.state.json", "wb") as snapshot:
        snapshot.write(state_bytes(run, os.path.getsize(f"{base}.events.jsonl")))
