"""The three integration tests that the handoff document leaves open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from little_loops.fsm import (
    FSMExecutor,
    FSMLoop,
    HandoffBehavior,
    HandoffHandler,
    PersistentExecutor,
    SignalDetector,
    SignalPattern,
)
from little_loops.fsm.executor import ActionResult
from tests.project import Project

LOOP = FSMLoop.from_dict(
    {
        "name": "fix-types",
        "initial": "fix",
        "states": {"fix": {"action": "work", "next": "done"}, "done": {"terminal": True}},
    }
)
SIGNAL = "working\nCONTEXT_HANDOFF: Continue from iteration 5\n"


class Runner:
    """Says what it is given to say, one text an action."""

    def __init__(self, *outputs: str) -> None:
        self.outputs = list(outputs)

    def run(self, action: str, **_: Any) -> ActionResult:
        return ActionResult(0, self.outputs.pop(0), "", 1)


def test_state_saved_on_handoff(tmp_path: Path):
    executor = PersistentExecutor(
        LOOP,
        loops_dir=tmp_path / ".loops",
        action_runner=Runner(SIGNAL),
        signal_detector=SignalDetector(),
        handoff_handler=HandoffHandler(HandoffBehavior.PAUSE),
    )
    result = executor.run()
    assert (result.handoff, result.terminated_by) == (True, "handoff")
    assert result.continuation_prompt == "Continue from iteration 5"
    state = json.loads((tmp_path / ".loops/.running/fix-types.state.json").read_text())
    assert state["status"] == "awaiting_continuation"
    assert state["continuation_prompt"] == "Continue from iteration 5"
    assert state["current_state"] == "fix"


def test_resume_from_handoff(tmp_path: Path):
    def executor(*outputs: str) -> PersistentExecutor:
        return PersistentExecutor(
            LOOP, loops_dir=tmp_path / ".loops", action_runner=Runner(*outputs)
        )

    assert executor(SIGNAL).run().handoff
    result = executor("all fixed\n").resume()
    assert (result.final_state, result.terminated_by, result.handoff) == ("done", "terminal", False)


def test_resume_from_handoff_by_the_command(project: Project):
    project.loop(
        "fix-types",
        """\
        name: fix-types
        initial: fix
        states:
          fix: {action: "test -e ok || echo 'CONTEXT_HANDOFF: two left'", next: done}
          done: {terminal: true}
        """,
    )
    assert project.ll("run", "fix-types").returncode == 4
    (project.root / "ok").touch()
    said = project.ll("resume", "fix-types")
    assert said.returncode == 0
    assert said.stdout.startswith(
        "Resuming loop 'fix-types' from state 'fix' (iteration 1)\nContinuation context: two left\n"
    )


def test_executor_without_detector():
    told: list[dict[str, Any]] = []
    result = FSMExecutor(LOOP, event_callback=told.append, action_runner=Runner(SIGNAL)).run()
    assert (result.final_state, result.handoff) == ("done", False)
    assert "handoff_detected" not in [event["event"] for event in told]


def test_without_a_handler_a_handoff_ends_the_run():
    executor = FSMExecutor(LOOP, action_runner=Runner(SIGNAL), signal_detector=SignalDetector())
    result = executor.run()
    assert (result.handoff, result.final_state) == (True, "fix")


def test_patterns_of_ones_own_are_found_in_what_a_real_process_prints(tmp_path: Path):
    """Line by line, whatever the size of the output; the markers built in are not looked for."""
    printed = "seq 200000; echo CONTEXT_HANDOFF: no; printf 'PASS_THE_BATON two left'"
    executor = PersistentExecutor(
        LOOP._replace(states={**LOOP.states, "fix": LOOP.states["fix"]._replace(action=printed)}),
        loops_dir=tmp_path / ".loops",
        signal_detector=SignalDetector([SignalPattern("handoff", r"^PASS_THE_BATON (.*)$")]),
    )
    result = executor.run()
    assert (result.handoff, result.continuation_prompt) == (True, "two left")


def test_an_action_whose_time_is_up_goes_where_a_timeout_goes():
    states = {
        "wait": {"action": "sleep 60", "timeout": 0.1, "on_timeout": "late", "next": "done"},
        "late": {"action": "true", "next": "done"},
        "done": {"terminal": True},
    }
    told: list[dict[str, Any]] = []
    loop = FSMLoop.from_dict({"name": "slow", "initial": "wait", "states": states})
    result = FSMExecutor(loop, event_callback=told.append).run()
    assert result.terminated_by == "terminal"
    assert [each["to"] for each in told if each["event"] == "transition"] == ["late", "done"]
