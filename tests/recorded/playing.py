"""Play a run with answers written down beforehand: for recording runs, and for resuming them.

An answer is what an action gives back, or `cut` (the process is gone while it runs) or `stop` (a
TERM comes while it runs).  All of it can be kept as JSON beside the files of the run.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from little_loops.engine.action_output import kept_output
from little_loops.engine.drive import ActionOutcome
from little_loops.engine.lifecycle import RunOutcome, RunRequest, start
from little_loops.engine.local_world import Services
from little_loops.engine.resuming import resume
from little_loops.errors import LittleLoopsError
from little_loops.fsm.commands import Job, RunAction
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import Limits, LoopState, Result, SignalLine
from little_loops.runs.layout import RunFiles
from little_loops.runs.output_files import RunOutput
from little_loops.runs.reading import Runs
from little_loops.system.files import Folder
from tests.entries import log_of
from tests.simulation.disk import Disk, Fault, Killed, heard
from tests.simulation.engine import Clock, Stop, descriptors_closed, played_by

NAME = "sim"
TERM = 15
Answer = Mapping[str, Any] | str


class Waits(Stop):
    """A wait in which the process is gone."""

    cut_in_wait = False

    def wait(self, seconds: float | None) -> bool:
        if self.cut_in_wait:
            raise Killed
        return super().wait(seconds)


class Answering:
    """Whoever runs the actions: it reads off what they give back."""

    def __init__(self, root: str, answers: Sequence[Answer], clock: Clock, stop: Waits) -> None:
        self.root = root
        self.answers = list(answers)
        self.clock = clock
        self.stop = stop
        self.ran: list[str] = []

    def act(self, run: LoopState, command: RunAction) -> ActionOutcome:
        self.ran.append(command.job.state)
        answer = self.answers.pop(0) if self.answers else {}
        self.clock.now_ms += 1000
        if answer == "cut":
            raise Killed
        if answer == "stop":
            self.stop.ask(TERM)
            return ActionOutcome(Result(None, 1000, signal=TERM, cut_by="stop"))
        assert isinstance(answer, Mapping)
        return self._acted(answer, command.job)

    def _acted(self, answer: Mapping[str, Any], job: Job) -> ActionOutcome:
        told = dict(answer)
        line = told.pop("line", None)
        raw = told.pop("output", "").encode()
        data = Folder.at(RunFiles(self.root, NAME).data)
        assert data is not None
        with data:
            kept = kept_output(RunOutput(data).keep(job.step, job.attempt, raw, "out"))
        fields = {"exit_code": 0, "duration_ms": 1000, **kept, **told}
        return ActionOutcome(Result(**fields), SignalLine(*line) if line else None)


class Played(NamedTuple):
    """What came of it: an ending, an error in words, or nothing because the process is gone."""

    ran: RunOutcome | None
    error: LittleLoopsError | None
    actions: list[str]


def play(
    root: str,
    answers: Sequence[Answer],
    *,
    loop: FSMLoop | None = None,
    limits: Mapping[str, Any] | None = None,
    dies_before: str | None = None,
    cut_in_wait: bool = False,
) -> Played:
    """Start the loop, or resume what is there if none is given."""
    clock = Clock()
    stop = Waits(clock)
    stop.cut_in_wait = cut_in_wait
    answering = Answering(root, answers, clock, stop)
    performers = played_by(answering.act)
    services = Services({}, stop=stop, performers=performers, clock=clock.of_run)
    request = RunRequest(root, NAME, limits=Limits(**(limits or {})))
    disk = Disk(root)
    disk.fault = dies_before_writing(disk, dies_before)
    try:
        with descriptors_closed(), heard(disk):
            ran = (
                resume(None, request, services) if loop is None else start(loop, request, services)
            )
        return Played(ran, None, answering.ran)
    except Killed:
        return Played(None, None, answering.ran)
    except LittleLoopsError as error:
        return Played(None, error, answering.ran)
    finally:
        stop.close()


def dies_before_writing(disk: Disk, text: str | None) -> Fault:
    def fault(what: str, arguments: tuple[Any, ...]) -> None:
        if text is not None and what == "little_loops.write" and text.encode() in arguments[1]:
            disk.kill(Killed)

    return fault


def told(root: str, played: Played) -> dict[str, Any]:
    """What is worth comparing, as plain data."""
    if played.error is not None:
        return {"error": played.error.message.replace(root, "ROOT"), "ran": played.actions}
    assert played.ran is not None
    run = played.ran.run
    found = Runs(root).view(NAME)
    assert found is not None
    log = log_of(found.files)
    return {
        "status": run.status,
        "reason": run.reason,
        "exit": played.ran.ending.exit_code,
        "state": run.current_state,
        "iterations": run.iteration,
        "cycle": run.cycle,
        "ran": played.actions,
        "complete": [r["state"] for r in log if r["event"] == "action_complete"],
    }


# ── where the files of a recorded run are ──────────────────────────────────────────────────────


def put_away(files: RunFiles, story: Path) -> None:
    """Copy the files of a run under names of their own."""
    story.mkdir(parents=True)
    for suffix in (".state.json", ".events.jsonl"):
        if os.path.exists(files.path(suffix)):
            shutil.copyfile(files.path(suffix), story / suffix[1:])
    shutil.copytree(files.data, story / "d", ignore=shutil.ignore_patterns("bin", "action.json"))


def lay_out(story: Path, root: str) -> None:
    """Put a recorded run where a run that is not over lies."""
    files = RunFiles(root, NAME)
    os.makedirs(files.directory, mode=0o700)
    for suffix in (".state.json", ".events.jsonl"):
        if (story / suffix[1:]).exists():
            shutil.copyfile(story / suffix[1:], files.path(suffix))
    shutil.copytree(story / "d", files.data)
