"""Laws: promises that hold for every machine and every history."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from little_loops.engine.drive import new_run
from little_loops.fsm.commands import RunAction
from little_loops.fsm.events import FINAL_EVENTS, event_types
from little_loops.fsm.happenings import Started
from little_loops.fsm.machine import advance
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import Limits, SignalLine
from little_loops.fsm.timestamps import Moment
from tests.fsm.scripted import Crash, Says, ScriptedWorld, Stop, begin, go_on, rebuilt

EVENTS = event_types()
NAMES = ["a", "b", "c", "d"]
ENDS = ["done", "failed"]


def targets(*, current: bool = True) -> st.SearchStrategy[str]:
    return st.sampled_from([*NAMES, *ENDS, *(["$current"] if current else [])])


@st.composite
def states(draw: st.DrawFn) -> dict[str, Any]:
    state: dict[str, Any] = {"action": "x"}
    for field in ("next", "on_pass", "on_fail", "on_error", "on_timeout"):
        if draw(st.booleans()):
            state[field] = draw(targets())
    if draw(st.booleans()):
        state["on_interrupt"] = draw(st.sampled_from([*NAMES, *ENDS, "$current", "$error"]))
    if draw(st.booleans()):
        state["timeout"] = draw(st.sampled_from([0.5, 2]))
    if draw(st.booleans()):
        state["retry"] = {"max": draw(st.integers(1, 3)), "backoff": 0.1}
    if draw(st.booleans()):
        state["capture"] = "kept"
    return state


@st.composite
def loops(draw: st.DrawFn) -> FSMLoop:
    machine: dict[str, Any] = {name: draw(states()) for name in NAMES}
    machine["done"] = {"terminal": True}
    machine["failed"] = {"terminal": True, "action": draw(st.sampled_from(["x", None]))}
    if machine["failed"]["action"] is None:
        del machine["failed"]["action"]
    fields: dict[str, Any] = {"max_iterations": draw(st.integers(1, 4))}
    for handler in ("on_error", "on_timeout"):
        if draw(st.booleans()):
            fields[handler] = draw(targets(current=False))
    if draw(st.booleans()):
        fields["timeout"] = draw(st.sampled_from([3, 30]))
    if draw(st.booleans()):
        fields["backoff"] = 0.5
    fields["on_handoff"] = draw(st.sampled_from(["pause", "continue", "terminate", "spawn"]))
    fields["max_continuations"] = draw(st.integers(1, 3))
    return FSMLoop.from_dict({"name": "l", "initial": "a", "states": machine, **fields})


def says() -> st.SearchStrategy[Any]:
    plain = st.sampled_from([0, 0, 0, 1, 1, 2, 127])
    lines = st.sampled_from([SignalLine("handoff", "t"), SignalLine("error", "e")])
    odd = st.one_of(
        st.builds(lambda ms: Says(0, takes_ms=ms), st.integers(0, 4000)),
        st.builds(lambda line: Says(0, line=line), lines),
        st.just(Says(None, signal=9)),
        st.just(Says(None, failure="no shell")),
    )
    return st.one_of(plain, plain, odd)


SCRIPT_LENGTH = 60
scripts = st.lists(says(), min_size=SCRIPT_LENGTH, max_size=SCRIPT_LENGTH)


def bound(loop: FSMLoop) -> int:
    """Actions a run can take: each state once an iteration, again for each handoff in it."""
    return loop.max_iterations * len(loop.states) * (loop.max_continuations + 2) + 2


def long_enough(loop: FSMLoop, script: list[Any]) -> list[Any]:
    return script * (bound(loop) // len(script) + 1)


@given(loops(), scripts)
def test_advance_is_deterministic(loop, script):
    one, other = (ScriptedWorld(loop, long_enough(loop, script)) for _ in range(2))
    begin(one)
    begin(other)
    assert one.log == other.log


@given(loops(), scripts)
def test_every_run_ends_within_its_bound(loop, script):
    world = ScriptedWorld(loop, long_enough(loop, script))
    begin(world)
    assert len([c for c in world.commands if isinstance(c, RunAction)]) <= bound(loop)
    assert world.log[-1]["event"] in FINAL_EVENTS


@given(loops(), scripts)
def test_a_run_saved_and_loaded_at_every_step_goes_the_same_way(loop, script):
    """`ScriptedWorld.save` reads back what it wrote and compares, at every step."""
    world = ScriptedWorld(loop, long_enough(loop, script))
    run, _ = begin(world)
    assert rebuilt(world.log, loop) == run


@given(loops(), scripts)
def test_every_event_is_one_of_the_catalogue(loop, script):
    world = ScriptedWorld(loop, long_enough(loop, script))
    begin(world)
    for record in world.log:
        described = EVENTS[record["event"]]
        own = record.keys() - {"event", "ts", "run", "seq", "ran_ms"}
        assert own >= set(described.fields), record
        assert own <= {*described.fields, *described.optional}, record
    assert [record["seq"] for record in world.log] == list(range(1, len(world.log) + 1))


@given(loops(), scripts, st.data())
def test_every_prefix_of_a_log_is_a_place_to_go_on_from(loop, script, data):
    first = ScriptedWorld(loop, long_enough(loop, script))
    begin(first)
    cut = data.draw(st.integers(1, len(first.log)))
    world = ScriptedWorld(loop, [], ran_ms=first.log[cut - 1]["ran_ms"])
    world.log = json.loads(json.dumps(first.log[:cut]))
    world.saved = rebuilt(world.log, loop)
    if world.saved.phase == "ended" or world.saved.reason == "handoff":
        return
    done_before = complete(world.log)
    go_on(world, long_enough(loop, script), limits=Limits(max_continuations=1))
    assert world.log[-1]["event"] in FINAL_EVENTS
    assert complete(world.log)[: len(done_before)] == done_before
    assert never_twice(world.log)


@given(loops(), scripts, st.integers(0, 12))
def test_a_crash_in_an_action_repeats_that_action_at_most(loop, script, crash_at):
    before = long_enough(loop, script)[:crash_at]
    world = ScriptedWorld(loop, [*before, Crash])
    try:
        begin(world)
    except Crash:
        go_on(world, long_enough(loop, script))
    assert never_twice(world.log)


@given(loops(), scripts, st.integers(0, 12))
def test_a_stop_before_an_action_loses_nothing(loop, script, stop_at):
    script = long_enough(loop, script)
    stopped = ScriptedWorld(loop, [*script[:stop_at], Stop(15)])
    unbroken = ScriptedWorld(loop, script)
    begin(unbroken)
    begin(stopped)
    if stopped.log[-1]["event"] == "loop_interrupted":
        go_on(stopped, script[stop_at:])
    assert transitions(stopped.log) == transitions(unbroken.log)


def complete(log: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(r["state"], r["exit_code"]) for r in log if r["event"] == "action_complete"]


def transitions(log: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(r["from"], r["to"], r["reason"]) for r in log if r["event"] == "transition"]


def never_twice(log: list[dict[str, Any]]) -> bool:
    """Between two starts of one step lies the first one's end, and each attempt has its number."""
    open_action = None
    seen: set[tuple[int, int]] = set()
    step = 0
    for record in log:
        match record["event"]:
            case "state_enter":
                step = record["step"]
            case "action_start":
                assert open_action is None
                assert (step, record["attempt"]) not in seen
                open_action = (step, record["attempt"])
                seen.add(open_action)
            case "action_complete" | "action_interrupted":
                assert open_action is not None
                open_action = None
            case _:
                pass
    return True


def test_the_same_moment_gives_the_same_step():
    loop = FSMLoop.from_dict({"name": "l", "initial": "a", "states": {"a": {"terminal": True}}})
    at = Moment(0, 0)
    run = new_run(loop, "r", at)
    assert advance(loop, run, Started(at)) == advance(loop, run, Started(at))
