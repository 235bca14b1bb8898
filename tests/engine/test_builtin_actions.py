"""Built-in actions in the engine: stopped, out of time, and run by the library."""

from __future__ import annotations

import os
import time
from pathlib import Path
from signal import SIGTERM
from typing import Any
from uuid import uuid4

import pytest

from little_loops.authoring.library import compile_paradigm
from little_loops.engine.action_process import Workplace
from little_loops.engine.builtin_actions import run_builtin
from little_loops.engine.drive import ActionOutcome
from little_loops.engine.executor import FSMExecutor
from little_loops.engine.persistent_executor import PersistentExecutor
from little_loops.engine.resolve import Filled
from little_loops.engine.runner_world import ActionResult
from little_loops.fsm.commands import Job, RunBuiltin
from little_loops.fsm.state import LoopState, SignalLine
from little_loops.relay.call import CallInterrupted
from little_loops.system.stops import StopFlag
from tests.relay.conftest import call_in

RUN = LoopState("run-1", "implement", "prepare", "", "")
INPUTS = {"metadata": "meta.json", "plan": "plan.md"}
RELAY = {"paradigm": "relay", "name": "implement", "agent": "work", "commit": False, **INPUTS}


def prepared(project: Path, deadline_ms: int | None = None, **more: Any) -> ActionOutcome:
    """Prepare a turn in a project whose git never answers."""
    programs, run_dir = project.parent / "bin", project.parent / "run"
    for directory in (programs, run_dir):
        directory.mkdir()
    (programs / "git").write_text("#!/bin/sh\nexec sleep 600\n")
    (programs / "git").chmod(0o755)
    environ = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    at = Workplace(str(project), str(run_dir), environ, **more)
    job = Job("prepare", 1, 1, 1, 5, {}, {}, None, 5.0, deadline_ms, "action")
    # What is left of a run is found by its id, so two tests at once may not share one.
    run = RUN._replace(run=uuid4().hex)
    return run_builtin(at, run, RunBuiltin(job, "relay.prepare"), Filled("", {}, INPUTS))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    (tmp_path / "project/plan.md").write_text("1. parser\n")
    return tmp_path / "project"


def test_a_stop_ends_the_program_it_waits_for(project: Path):
    stop = StopFlag()
    acted = prepared(project, stop=stop, on_started=lambda _pid: stop.ask(SIGTERM))
    stop.close()
    assert (acted.result.cut_by, acted.result.exit_code) == ("stop", None)
    assert acted.signal_line is None


def test_its_time_ends_the_program_it_waits_for(project: Path):
    acted = prepared(project, deadline_ms=200)
    assert (acted.result.cut_by, acted.result.exit_code) == ("action", None), acted
    assert acted.result.duration_ms >= 200


def test_what_makes_it_impossible_is_its_reason(project: Path):
    (project / "meta.json").mkdir()
    acted = prepared(project)
    why = "`meta.json` is a directory; `metadata` names a file"
    assert acted.signal_line == SignalLine("error", why)
    assert (acted.result.exit_code, acted.result.output) == (2, f"FATAL_ERROR: {why}")


def test_a_pause_hears_a_stop_and_ends_in_time(tmp_path: Path):
    stop = StopFlag()
    stop.ask(SIGTERM)
    with pytest.raises(CallInterrupted) as stopped:
        call_in(tmp_path, stop=stop).pause(600)
    stop.close()
    call = call_in(tmp_path, ends_at=time.monotonic() + 0.01)
    with pytest.raises(CallInterrupted) as late:
        call.pause(600)
    assert (stopped.value.by, late.value.by) == ("stop", "deadline")


class Worker:
    """Stands in for the turn's command."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def run(self, action: str, **more: Any) -> ActionResult:
        assert action == "work"
        (self.root / "meta.json").write_text('{"status": "implemented"}')
        return ActionResult(0, "", "", 1)


def test_with_a_runner_of_ones_own_they_are_run_all_the_same(project: Path):
    loop = compile_paradigm(RELAY)
    runner = Worker(project)
    ended = PersistentExecutor(loop, project / ".loops", action_runner=runner).run()
    assert (ended.final_state, ended.terminated_by) == ("done", "terminal")
    assert ended.captured["done"]["output"].endswith(
        "implemented in 1 turn, according to the agent (not checked)"
    )


def test_without_a_run_that_is_kept_they_say_what_is_missing(project: Path):
    told: list[dict[str, Any]] = []
    executor = FSMExecutor(compile_paradigm(RELAY), told.append, action_runner=Worker(project))
    assert executor.run().terminated_by == "error"
    why = "`relay.prepare` needs a stored run; use `PersistentExecutor`"
    assert told[-1]["error"] == why
