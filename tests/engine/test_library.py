"""The library's two executors, with real processes: errors, stops, sessions."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from little_loops.fsm import (
    ActionResult,
    ExecutionResult,
    FSMExecutor,
    FSMLoop,
    HandoffBehavior,
    HandoffHandler,
    LoopState,
    PersistentExecutor,
    SignalDetector,
    StateConfig,
)
from tests.engine.test_bounded_agents import HANDS_OFF, is_quiet, says, stage, started, told
from tests.engine.test_bounded_agents import result as agents_result
from tests.project import DEADLINE_S, Project, until

Executor = FSMExecutor | PersistentExecutor
Make = Callable[..., Executor]


def in_memory(loop: FSMLoop, place: Path, **given: Any) -> FSMExecutor:
    return FSMExecutor(loop, **given)


def on_disk(loop: FSMLoop, place: Path, **given: Any) -> PersistentExecutor:
    return PersistentExecutor(loop, loops_dir=place / ".loops", **given)


both = pytest.mark.parametrize("make", [in_memory, on_disk])


def loop(action: str = "work", **fields: Any) -> FSMLoop:
    states = {
        "work": {"action": action, "next": "done", **fields.pop("work", {})},
        "repaired": {"terminal": True},
        "done": {"terminal": True},
    }
    return FSMLoop.from_dict({"name": "l", "initial": "work", "states": states, **fields})


def state_file(place: Path) -> LoopState:
    (path,) = place.glob(".loops/.*/**/*.state.json")
    return LoopState.from_dict(json.loads(path.read_text()))


# ── a runner that raises ───────────────────────────────────────────────────────────────────────


class ContractBroken:
    def run(self, action: str, **_: Any) -> ActionResult:
        raise RuntimeError("no connection")


@both
def test_a_runner_that_raises_gives_the_verdict_error(make: Make, tmp_path: Path):
    events: list[dict[str, Any]] = []
    made = make(loop(), tmp_path, action_runner=ContractBroken(), event_callback=events.append)
    assert made.run().terminated_by == "error"
    assert events[-1]["error"] == "the action runner raised RuntimeError: no connection"
    if make is on_disk:
        saved = state_file(tmp_path)
        assert (saved.status, saved.reason) == ("failed", "error")


@both
@pytest.mark.parametrize("action", ["work", "/work"])
def test_that_error_is_routed_like_any_other(make: Make, action: str, tmp_path: Path):
    machine = loop(action, work={"on_error": "repaired"})
    assert make(machine, tmp_path, action_runner=ContractBroken()).run().final_state == "repaired"


# ── a machine that nobody checked ──────────────────────────────────────────────────────────────


@both
@pytest.mark.parametrize(
    ("machine", "why"),
    [
        pytest.param(
            FSMLoop("l", "a", {"a": StateConfig(action="x", next="b")}),
            "loop `l`: `next` of state `a` names a state that does not exist: `b`",
            id="an unknown target",
        ),
        pytest.param(
            FSMLoop("l", "b", {"a": StateConfig(terminal=True)}),
            "loop `l`: `initial` names a state that does not exist: `b`",
            id="an unknown beginning",
        ),
        pytest.param(
            FSMLoop("l", "a", {"a": StateConfig()}),
            "loop `l`: state `a` has neither an `action` nor a `condition`",
            id="nothing to do",
        ),
        pytest.param(
            FSMLoop("l", "a", {"a": {"action": "x"}}),  # type: ignore[dict-item]
            "loop `l` is not built from `StateConfig`: 'dict' object has no attribute 'to_dict'",
            id="states of something else",
        ),
    ],
)
def test_an_invalid_machine_is_refused_in_words(
    make: Make, machine: FSMLoop, why: str, tmp_path: Path
):
    with pytest.raises(ValueError, match=f"^{re.escape(why)}$"):
        make(machine, tmp_path)


# ── a stop by the program ──────────────────────────────────────────────────────────────────────


def run_in_thread(made: Executor) -> tuple[Thread, list[ExecutionResult]]:
    ended: list[ExecutionResult] = []
    thread = Thread(target=lambda: ended.append(made.run()))
    thread.start()
    return thread, ended


@both
def test_a_stop_ends_the_action_under_way(make: Make, tmp_path: Path):
    began = tmp_path / "began"
    made = make(loop(f"echo $$ > {began}.new; mv {began}.new {began}; sleep 60"), tmp_path)
    thread, ended = run_in_thread(made)
    until(began.exists, "action under way")
    made.request_stop()
    thread.join(DEADLINE_S)
    assert [each.terminated_by for each in ended] == ["signal"]
    assert not os.path.exists(f"/proc/{began.read_text().strip()}")
    if make is on_disk:
        assert state_file(tmp_path).status == "interrupted"


@both
def test_a_stop_ends_a_wait(make: Make, tmp_path: Path):
    waits: list[str] = []

    def event(record: dict[str, Any]) -> None:
        if record["event"] == "retry_wait":
            waits.append(record["event"])
            made.request_stop()

    retried = {"on_fail": "$current", "retry": {"backoff": 60, "max_backoff": 60}}
    made = make(loop("exit 1", work=retried), tmp_path, event_callback=event)
    assert (made.run().terminated_by, waits) == ("signal", ["retry_wait"])


@both
def test_a_stop_from_inside_a_runner_comes_after_its_action(make: Make, tmp_path: Path):
    class Stops:
        def run(self, action: str, **_: Any) -> ActionResult:
            made.request_stop()
            return ActionResult(1, "", "", 1)

    machine = loop(work={"on_fail": "work"})
    made = make(machine, tmp_path, action_runner=Stops())
    result = made.run()
    assert (result.terminated_by, result.captured["work"]["exit_code"]) == ("signal", 1)


@both
def test_a_stop_before_the_run_ends_that_run_only(make: Make, tmp_path: Path):
    made = make(loop("touch ran"), tmp_path)
    made.request_stop()
    assert made.run().terminated_by == "signal"
    again = made.resume() if isinstance(made, PersistentExecutor) else made.run()
    assert (again.terminated_by, again.final_state) == ("terminal", "done")


@pytest.fixture(autouse=True)
def _in_its_own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# ── handoffs ───────────────────────────────────────────────────────────────────────────────────


@both
def test_the_end_by_a_handoff_carries_the_prompt(make: Make, tmp_path: Path):
    events: list[dict[str, Any]] = []
    made = make(
        loop("echo 'CONTEXT_HANDOFF: two left'"),
        tmp_path,
        event_callback=events.append,
        signal_detector=SignalDetector(),
        handoff_handler=HandoffHandler(HandoffBehavior.TERMINATE),
    )
    ended = made.run()
    assert (ended.handoff, ended.continuation_prompt) == (True, "two left")
    (detected,) = (event for event in events if event["event"] == "handoff_detected")
    assert (detected["state"], detected["iteration"]) == ("work", 1)
    assert (detected["continuation"], detected["ends_run"]) == ("two left", True)
    assert (events[-1]["event"], events[-1]["reason"]) == ("loop_error", "handoff")


PROGRAM = """\
import json, sys
from little_loops.fsm import PersistentExecutor, compile_paradigm
executor = PersistentExecutor(compile_paradigm(json.loads(sys.argv[2])))
print(getattr(executor, sys.argv[1])().terminated_by)
"""


def program(project: Project, env: dict[str, str], verb: str, **fields: Any) -> str:
    """A program of its own that runs the loop `port` by the library."""
    work = fields.pop("work", {"action": "/port it", "next": "done"})
    machine = {
        "name": "port",
        "initial": "work",
        "host": {"permission_mode": "plan"},
        "states": {"work": work, "done": {"terminal": True}},
        "on_handoff": "spawn",
        **fields,
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, verb, json.dumps(machine)],
        cwd=project.root,
        env=project.environ(**env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_library_starts_one_session_per_handoff(project: Project):
    env = stage(project, [HANDS_OFF, says(agents_result())])
    assert program(project, env, "run") == "handoff"
    until(lambda: is_quiet(project), "end of the session")
    assert started(project) == {"turn": 1, "session": 1}
    assert [event["cost_usd"] for event in told(project, "cost")] == [0.25]
    assert program(project, env, "resume") == "terminal"
    assert started(project) == {"turn": 2, "session": 1}


def test_the_library_starts_no_more_sessions_than_allowed(project: Project):
    env = stage(project, [HANDS_OFF])
    for verb in ("run", "resume", "resume"):
        assert program(project, env, verb, max_continuations=1) == "handoff"
    until(lambda: is_quiet(project), "end of all sessions")
    assert started(project) == {"turn": 3, "session": 1}


def test_what_a_command_prints_starts_no_session(project: Project):
    env = stage(project, [HANDS_OFF])
    work = {"action": "echo 'CONTEXT_HANDOFF: cli.py is left'", "next": "done"}
    assert program(project, env, "run", work=work) == "handoff"
    until(lambda: is_quiet(project), "end of all sessions")
    assert started(project) == {}
    assert project.state("port")["status"] == "awaiting_continuation"


# ── the design's modules ───────────────────────────────────────────────────────────────────────

DESIGN = {
    "executor": ("FSMExecutor", "ExecutionResult", "ActionResult", "DefaultActionRunner"),
    "persistence": ("LoopState", "PersistentExecutor"),
    "handoff_handler": ("HandoffHandler", "HandoffBehavior", "HandoffResult"),
    "signal_detector": ("SignalDetector", "SignalPattern", "DetectedSignal", "HANDOFF_SIGNAL"),
    "schema": ("FSMLoop", "StateConfig"),
}


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in DESIGN.items() for name in names]
)
def test_a_name_is_in_the_module_in_which_the_design_has_it(module: str, name: str):
    found = getattr(import_module(f"little_loops.fsm.{module}"), name)
    assert found is getattr(import_module("little_loops.fsm"), name)
