"""Everything a run writes into its log, field by field."""

from __future__ import annotations

import json
from textwrap import dedent
from typing import Any

import pytest

from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import FileRef, Limits, SignalLine
from tests.fsm.scripted import Crash, Says, ScriptedWorld, Stop, begin, go_on

COMMON = ("event", "ts", "run", "seq", "ran_ms")


def loop(states: dict[str, Any], **fields: Any) -> FSMLoop:
    return FSMLoop.from_dict(
        {"name": "a-loop", "initial": next(iter(states)), "states": states, **fields}
    )


def written(world: ScriptedWorld) -> list[str]:
    return [f"{record['event']} {_fields(record)}" for record in world.log]


def lines(text: str) -> list[str]:
    return dedent(text).strip().splitlines()


def _fields(record: dict[str, Any]) -> str:
    own = {name: value for name, value in record.items() if name not in COMMON}
    return " ".join(f"{name}={json.dumps(value)}" for name, value in own.items())


CHECK_FIX: dict[str, Any] = {
    "check": {"action": "mypy", "capture": "types", "on_pass": "done", "on_fail": "fix"},
    "fix": {"action": "/fix", "next": "check"},
    "done": {"action": "notify", "terminal": True},
}
AGENT: dict[str, Any] = {"agent": "success", "tokens": 60, "cost_usd": 0.25, "turns": 3}


def test_a_run_that_completes():
    world = ScriptedWorld(
        loop(CHECK_FIX, backoff=2, scope=["src"]),
        [Says(1, "a.py:1"), Says(0, session_id="s", **AGENT), 0, Says(3, stderr="no mail")],
    )
    world.leftovers = ("a (pid 1)", "b (pid 2)")
    begin(world, Limits(max_iterations=9))
    assert written(world) == lines("""
        loop_start loop="a-loop" initial="check" scope=["src"] format=1 limits={"max_iterations": 9}
        state_enter state="check" iteration=1 step=1 reason="initial"
        action_start action="mypy" state="check" attempt=1 action_type="shell"
        action_complete state="check" exit_code=1 duration_ms=1000 output="a.py:1" stderr="" capture="types"
        transition from="check" to="fix" reason="on_fail"
        state_enter state="fix" iteration=1 step=2 reason="on_fail"
        action_start action="/fix" state="fix" attempt=1 action_type="slash" session_id="c2f3477a-93aa-5cb5-b3d1-ecd184007540"
        action_complete state="fix" exit_code=0 duration_ms=1000 output="" stderr="" agent="success" session_id="s" tokens=60 cost_usd=0.25 turns=3
        cost state="fix" tokens=60 cost_usd=0.25 turns=3 iteration=1
        transition from="fix" to="check" reason="next"
        iteration iteration=2 wait_ms=2000
        state_enter state="check" iteration=2 step=3 reason="next"
        action_start action="mypy" state="check" attempt=1 action_type="shell"
        action_complete state="check" exit_code=0 duration_ms=1000 output="" stderr="" capture="types"
        transition from="check" to="done" reason="on_pass"
        state_enter state="done" iteration=2 step=4 reason="on_pass"
        action_start action="notify" state="done" attempt=1 action_type="shell" terminal=true
        action_complete state="done" exit_code=3 duration_ms=1000 output="" stderr="no mail"
        warning message="the action of `done` failed: exit 3" state="done"
        warning message="ended what the actions had left running: a (pid 1), b (pid 2)"
        loop_complete status="completed" reason="terminal" final_state="done" iterations=2 duration_ms=6000
    """)


def test_an_agent_that_waits_hands_off_and_fails():
    world = ScriptedWorld(
        loop(CHECK_FIX, initial="fix", on_handoff="continue", max_continuations=2),
        [
            Says(2, agent="wait", kind="rate_limited", reason="usage limit", takes_ms=0),
            Says(0, line=SignalLine("handoff", "3 left"), agent="handoff", tokens=5),
            Says(0, line=SignalLine("handoff", "2 left"), agent="handoff", cost_usd=0.5),
            Says(2, agent="error", reason="unknown command"),
        ],
    )
    begin(world)
    assert written(world) == lines("""
        loop_start loop="a-loop" initial="fix" scope=["."] format=1
        state_enter state="fix" iteration=1 step=1 reason="initial"
        action_start action="/fix" state="fix" attempt=1 action_type="slash" session_id="b325d622-c453-5cd4-b73a-23b06ac04359"
        action_complete state="fix" exit_code=2 duration_ms=0 output="" stderr="" agent="wait" kind="rate_limited" reason="usage limit"
        host_wait state="fix" reason="usage limit" until_wall_ms=1768473010000
        action_start action="/fix" state="fix" attempt=2 action_type="slash" session_id="d535fcb2-c946-550e-b56b-90cb59b616d8"
        action_complete state="fix" exit_code=0 duration_ms=1000 output="" stderr="" agent="handoff" tokens=5 signal_line={"type": "handoff", "payload": "3 left"}
        cost state="fix" tokens=5 cost_usd=0.0 turns=0 iteration=1
        signal state="fix" type="handoff" payload="3 left"
        handoff_detected state="fix" iteration=1 continuation="3 left"
        action_start action="/fix" state="fix" attempt=3 action_type="slash" session_id="a205241c-9857-5206-8cf9-16604bc444f2"
        action_complete state="fix" exit_code=0 duration_ms=1000 output="" stderr="" agent="handoff" cost_usd=0.5 signal_line={"type": "handoff", "payload": "2 left"}
        cost state="fix" tokens=0 cost_usd=0.5 turns=0 iteration=1
        signal state="fix" type="handoff" payload="2 left"
        handoff_detected state="fix" iteration=1 continuation="2 left" wait_ms=1000
        action_start action="/fix" state="fix" attempt=4 action_type="slash" session_id="a5c5bfe1-6799-52cc-bcb7-14d78df9cda4"
        action_complete state="fix" exit_code=2 duration_ms=1000 output="" stderr="" agent="error" reason="unknown command"
        loop_error status="failed" reason="error" final_state="fix" iterations=1 duration_ms=14000 state="fix" error="unknown command"
    """)


def test_a_run_that_is_stopped_and_resumed():
    file = FileRef("check.out", 9, "ab", True)
    cut = Says(
        None, None, stop=15, signal=15, cut_by="stop", output_file=file, tail="x", tokens=7, turns=1
    )
    world = ScriptedWorld(loop(CHECK_FIX), [cut])
    begin(world)
    go_on(
        world,
        [1, Stop(2)],
        orphans=("sleep 9 (pid 4)",),
        context={"a": 1},
        limits=Limits(max_iterations=3, timeout=60),
    )
    go_on(world, [2])
    go_on(world, [Says(0, **AGENT), 0, 0])
    assert written(world) == lines("""
        loop_start loop="a-loop" initial="check" scope=["."] format=1
        state_enter state="check" iteration=1 step=1 reason="initial"
        action_start action="mypy" state="check" attempt=1 action_type="shell"
        action_interrupted state="check" attempt=1 cause="stop" exit_code=null duration_ms=1000 output=null stderr="" output_file={"path": "check.out", "size": 9, "sha256": "ab", "truncated": true} signal=15
        cost state="check" tokens=7 cost_usd=0.0 turns=1 iteration=1
        loop_interrupted status="interrupted" reason="signal" final_state="check" iterations=1 duration_ms=1000 signal=15
        resume state="check" iteration=1 status="interrupted" orphans=["sleep 9 (pid 4)"] limits={"max_iterations": 3, "timeout": 60} context={"a": 1}
        action_start action="mypy" state="check" attempt=2 action_type="shell"
        action_complete state="check" exit_code=1 duration_ms=1000 output="" stderr="" capture="types"
        transition from="check" to="fix" reason="on_fail"
        state_enter state="fix" iteration=1 step=2 reason="on_fail"
        action_start action="/fix" state="fix" attempt=1 action_type="slash" session_id="c2f3477a-93aa-5cb5-b3d1-ecd184007540"
        action_interrupted state="fix" attempt=1 cause="stop" started=false
        loop_interrupted status="interrupted" reason="signal" final_state="fix" iterations=1 duration_ms=2000 signal=2
        resume state="fix" iteration=1 status="interrupted"
        action_start action="/fix" state="fix" attempt=2 action_type="slash" session_id="ebfdefc1-d4bd-574d-9727-bbcd85814551"
        action_complete state="fix" exit_code=2 duration_ms=1000 output="" stderr=""
        loop_error status="failed" reason="error" final_state="fix" iterations=1 duration_ms=3000 state="fix" error="exit 2"
        resume state="fix" iteration=1 status="failed" again=true
        action_start action="/fix" state="fix" attempt=3 action_type="slash" session_id="35363bbd-9008-505e-8644-a6246981eea2"
        action_complete state="fix" exit_code=0 duration_ms=1000 output="" stderr="" agent="success" tokens=60 cost_usd=0.25 turns=3
        cost state="fix" tokens=60 cost_usd=0.25 turns=3 iteration=1
        transition from="fix" to="check" reason="next"
        iteration iteration=2
        state_enter state="check" iteration=2 step=3 reason="next"
        action_start action="mypy" state="check" attempt=1 action_type="shell"
        action_complete state="check" exit_code=0 duration_ms=1000 output="" stderr="" capture="types"
        transition from="check" to="done" reason="on_pass"
        state_enter state="done" iteration=2 step=4 reason="on_pass"
        action_start action="notify" state="done" attempt=1 action_type="shell" terminal=true
        action_complete state="done" exit_code=0 duration_ms=1000 output="" stderr=""
        loop_complete status="completed" reason="terminal" final_state="done" iterations=2 duration_ms=6000
    """)


def test_a_run_that_crashes_and_runs_out_of_time():
    states = {**CHECK_FIX, "tidy": {"action": "rm -rf tmp", "next": "check"}}
    world = ScriptedWorld(loop(states, timeout=4, on_timeout="tidy"), [Crash])
    with pytest.raises(Crash):
        begin(world)
    go_on(world, [1, Says(0, takes_ms=9000), 0])
    go_on(world, [0, 0], limits=Limits(timeout=100), from_state="check")
    assert written(world) == lines("""
        loop_start loop="a-loop" initial="check" scope=["."] format=1
        state_enter state="check" iteration=1 step=1 reason="initial"
        action_start action="mypy" state="check" attempt=1 action_type="shell"
        resume state="check" iteration=1 status="running"
        action_interrupted state="check" attempt=1 cause="crash"
        action_start action="mypy" state="check" attempt=2 action_type="shell"
        action_complete state="check" exit_code=1 duration_ms=1000 output="" stderr="" capture="types"
        transition from="check" to="fix" reason="on_fail"
        state_enter state="fix" iteration=1 step=2 reason="on_fail"
        action_start action="/fix" state="fix" attempt=1 action_type="slash" session_id="c2f3477a-93aa-5cb5-b3d1-ecd184007540"
        action_complete state="fix" exit_code=null duration_ms=3000 output="" stderr="" cut_by="loop"
        transition from="fix" to="tidy" reason="on_timeout" loop_timeout="fix"
        state_enter state="tidy" iteration=1 step=3 reason="on_timeout"
        action_start action="rm -rf tmp" state="tidy" attempt=1 action_type="shell"
        action_complete state="tidy" exit_code=0 duration_ms=1000 output="" stderr=""
        loop_timeout status="failed" reason="loop_timeout" final_state="tidy" iterations=1 duration_ms=5000 state="tidy" elapsed_ms=5000
        resume state="tidy" iteration=1 status="failed" limits={"timeout": 100}
        transition from="tidy" to="check" reason="resume"
        iteration iteration=2
        state_enter state="check" iteration=2 step=4 reason="resume"
        action_start action="mypy" state="check" attempt=1 action_type="shell"
        action_complete state="check" exit_code=0 duration_ms=1000 output="" stderr="" capture="types"
        transition from="check" to="done" reason="on_pass"
        state_enter state="done" iteration=2 step=5 reason="on_pass"
        action_start action="notify" state="done" attempt=1 action_type="shell" terminal=true
        action_complete state="done" exit_code=0 duration_ms=1000 output="" stderr=""
        loop_complete status="completed" reason="terminal" final_state="done" iterations=2 duration_ms=7000
    """)


def test_a_run_that_retries_and_starts_again():
    states = {
        "measure": {
            "action": "count",
            "on_target": "done",
            "on_progress": "measure",
            "on_error": "$current",
            "on_stall": "look",
        },
        "look": {"action": "say", "terminal": True, "outcome": "review"},
        "done": {"terminal": True, "on_maintain": "measure"},
    }
    world = ScriptedWorld(
        loop(states, maintain=True, maintain_interval=30, context={"target": 0}),
        [Says(0, "5"), 2, Says(0, "0"), Says(0, "7"), Says(0, "7"), Says(0, "see\nbelow \n")],
    )
    begin(world)
    assert written(world) == lines("""
        loop_start loop="a-loop" initial="measure" scope=["."] format=1
        state_enter state="measure" iteration=1 step=1 reason="initial"
        action_start action="count" state="measure" attempt=1 action_type="shell"
        action_complete state="measure" exit_code=0 duration_ms=1000 output="5" stderr=""
        condition_eval type="convergence" result="progress" reason="5 is the first measurement, the target is 0" best=5 stalled=0
        transition from="measure" to="measure" reason="on_progress"
        iteration iteration=2
        state_enter state="measure" iteration=2 step=2 reason="on_progress"
        action_start action="count" state="measure" attempt=1 action_type="shell"
        action_complete state="measure" exit_code=2 duration_ms=1000 output="" stderr=""
        condition_eval type="convergence" result="error" reason="expected a number, got ''"
        transition from="measure" to="measure" reason="on_error" retry=true
        iteration iteration=3
        retry_wait state="measure" attempt=2 wait_ms=1000
        state_enter state="measure" iteration=3 step=2 reason="on_error"
        action_start action="count" state="measure" attempt=2 action_type="shell"
        action_complete state="measure" exit_code=0 duration_ms=1000 output="0" stderr=""
        condition_eval type="convergence" result="target" reason="0 meets the target 0" best=0 stalled=0
        transition from="measure" to="done" reason="on_target"
        state_enter state="done" iteration=3 step=3 reason="on_target"
        transition from="done" to="measure" reason="on_maintain"
        cycle cycle=2 wait_ms=30000
        state_enter state="measure" iteration=1 step=4 reason="on_maintain"
        action_start action="count" state="measure" attempt=1 action_type="shell"
        action_complete state="measure" exit_code=0 duration_ms=1000 output="7" stderr=""
        condition_eval type="convergence" result="progress" reason="7 is the first measurement, the target is 0" best=7 stalled=0
        transition from="measure" to="measure" reason="on_progress"
        iteration iteration=2
        state_enter state="measure" iteration=2 step=5 reason="on_progress"
        action_start action="count" state="measure" attempt=1 action_type="shell"
        action_complete state="measure" exit_code=0 duration_ms=1000 output="7" stderr=""
        condition_eval type="convergence" result="stall" reason="7 is not nearer to 0 than 7 (1 of 1)" best=7 stalled=1
        transition from="measure" to="look" reason="on_stall"
        state_enter state="look" iteration=2 step=6 reason="on_stall"
        action_start action="say" state="look" attempt=1 action_type="shell" terminal=true
        action_complete state="look" exit_code=0 duration_ms=1000 output="see\\nbelow \\n" stderr=""
        loop_paused status="needs_review" reason="review" final_state="look" iterations=2 duration_ms=37000 message="below"
    """)


def test_a_run_that_reaches_its_limit():
    world = ScriptedWorld(loop(CHECK_FIX, max_iterations=1), [1, Says(0, **AGENT)])
    begin(world)
    assert written(world)[-1:] == lines("""
        loop_error status="failed" reason="max_iterations" final_state="fix" iterations=1 duration_ms=2000 state="fix" error="1 iteration, still in `fix`"
    """)


def test_a_run_that_is_told_to_stop():
    world = ScriptedWorld(loop(CHECK_FIX), [Says(0, line=SignalLine("stop", "enough"))])
    begin(world)
    assert written(world)[-2:] == lines("""
        signal state="check" type="stop" payload="enough"
        loop_complete status="stopped" reason="stop_signal" final_state="check" iterations=1 duration_ms=1000 message="enough"
    """)
