"""Loops that measure several times, and loops that keep the best tree: stories and the law."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from little_loops.engine.drive import drive, new_run
from little_loops.fsm.commands import Command, Ending, RestoreBest, RunAgent, RunShell
from little_loops.fsm.happenings import Happening, Resumed, Started, StopAsked
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import LoopState, NotKept, Result, SignalLine
from tests.fsm.drawn_world import DrawnWorld
from tests.fsm.scripted import (
    Crash,
    Says,
    ScriptedWorld,
    Stop,
    begin,
    cut,
    go_on,
    told,
)

BEST = {"keep": "best"}


def loop(
    repeat: int = 1,
    tune: str = "/tune",
    measure: dict[str, Any] | None = None,
    condition: dict[str, Any] | None = None,
    **fields: Any,
) -> FSMLoop:
    judged = {"type": "convergence", "target": 100, "direction": "min", "patience": 2}
    states = {
        "measure": {
            "action": "bench",
            "check": True,
            "repeat": repeat,
            "on_target": "done",
            "on_progress": "tune",
            "on_stall": "done",
            **(measure or {}),
            "condition": {**judged, **(BEST if condition is None else condition)},
        },
        "tune": {"action": tune, "next": "measure"},
        "done": {"terminal": True},
    }
    given = {"name": "l", "initial": "measure", "states": states, "max_iterations": 9}
    return FSMLoop.from_dict({**given, "context": {"target": 100}, **fields})


def says(number: object, **fields: Any) -> Says:
    return Says(output=str(number), **fields)


def tunes(**writes: str | None) -> Says:
    files = {f"src/{name}": text for name, text in writes.items()}
    return Says(0, "done", agent="success", writes=files)


def ran(of: FSMLoop, *script: Any, evidence: str | None = "on") -> ScriptedWorld:
    world = ScriptedWorld(of, script)
    begin(world, evidence=evidence)
    assert world.script == []
    return world


def story(text: str) -> str:
    return dedent(text).strip()


START = (says(120), says(122))
STARTED = """\
    start: 120 (best 120)
    kept: 122 (best 120)
    measure -> tune (on_progress)"""


@pytest.mark.parametrize(
    ("script", "expected", "left"),
    [
        pytest.param(
            [*START, tunes(a="1"), says(110), tunes(a="2"), says(109), tunes(a="3"), says(130)],
            f"""\
{STARTED}
    tune -> measure (next)
    iteration 2
    kept: 110 (best 110)
    measure -> tune (on_progress)
    tune -> measure (next)
    iteration 3
    put_back: 109 (best 110)
    restored: src/a
    measure -> tune (on_progress)
    tune -> measure (next)
    iteration 4
    put_back: 130 (best 110)
    restored: src/a
    measure -> done (on_stall)
    loop_error: failed, terminal""",
            "1",
            id="kept once, put back twice",
        ),
        pytest.param(
            [*START, tunes(a="1"), says(99)],
            f"""\
{STARTED}
    tune -> measure (next)
    iteration 2
    kept: 99 (best 99)
    measure -> done (on_target)
    loop_complete: completed, terminal""",
            "1",
            id="the target",
        ),
        pytest.param(
            [says(99)],
            """\
            kept: 99 (best 99)
            measure -> done (on_target)
            loop_complete: completed, terminal""",
            "0",
            id="nothing to do",
        ),
        pytest.param(
            [*START, tunes(), says(90), says(91)],
            f"""\
{STARTED}
    tune -> measure (next)
    iteration 2
    recheck measure here: it failed on the same tree in iteration 1
    warning: `measure` failed in iteration 1 and passes now, on the same tree
    kept: 91 (best 91)
    measure -> done (on_target)
    loop_complete: completed, terminal""",
            "0",
            id="a target by luck is measured again",
        ),
        pytest.param(
            [*START, tunes(), says(101), tunes(b="1"), says(130)],
            f"""\
{STARTED}
    tune -> measure (next)
    iteration 2
    unchanged: 101 (best 120)
    measure -> tune (on_progress)
    tune -> measure (next)
    iteration 3
    put_back: 130 (best 120)
    restored: src/b
    measure -> done (on_stall)
    loop_error: failed, terminal""",
            "0",
            id="a turn that changes nothing counts",
        ),
        pytest.param(
            [*START, tunes(a="1"), says("?"), tunes(a="2"), Says(2, "", takes_ms=10)],
            f"""\
{STARTED}
    tune -> measure (next)
    iteration 2
    put_back: None (best 120)
    restored: src/a
    measure -> tune (on_progress)
    tune -> measure (next)
    iteration 3
    put_back: None (best 120)
    restored: src/a
    measure -> done (on_stall)
    loop_error: failed, terminal""",
            "0",
            id="a change that breaks the check",
        ),
        pytest.param(
            [says(120), says("?")],
            """\
            start: 120 (best 120)
            loop_error: failed, error""",
            "0",
            id="a start that cannot be measured",
        ),
        pytest.param(
            [*START, tunes(), says("?")],
            f"""\
{STARTED}
    tune -> measure (next)
    iteration 2
    loop_error: failed, error""",
            "0",
            id="no change broke the check",
        ),
        pytest.param(
            [*START, Says(2, agent="error", writes={"src/a": "1"})],
            f"""\
{STARTED}
    put_back: None (best 120)
    restored: src/a
    loop_error: failed, error""",
            "0",
            id="an agent that fails in the middle",
        ),
        pytest.param(
            [*START, Says(0, agent="success", line=SignalLine("stop", ""), writes={"src/a": "1"})],
            f"""\
{STARTED}
    signal stop ()
    put_back: None (best 120)
    restored: src/a
    loop_complete: stopped, stop_signal""",
            "0",
            id="a stop by the agent",
        ),
        pytest.param(
            [
                *START,
                Says(0, agent="success", line=SignalLine("handoff", "half"), writes={"src/a": "1"}),
            ],
            f"""\
{STARTED}
    signal handoff (half)
    handoff (half)
    handoff: awaiting_continuation, handoff""",
            "1",
            id="a pause leaves the change where it is",
        ),
        pytest.param(
            [*START, tunes(a="1"), Stop(15)],
            f"""\
{STARTED}
    tune -> measure (next)
    iteration 2
    measure interrupted by stop, never begun
    loop_interrupted: interrupted, signal""",
            "1",
            id="a stop before the change is measured",
        ),
    ],
)
def test_a_change_is_kept_or_put_back(script, expected, left):
    world = ran(loop(), *script)
    assert told(world) == story(expected)
    assert world.trees.files == {"src/a": left, "tests/t": "0"}


def test_the_next_agent_is_told_once():
    world = ran(
        loop(condition={**BEST, "patience": 9}),
        *(*START, tunes(a="1"), says(130), tunes(a="2"), says("?"), tunes(), says(120), Stop(15)),
    )
    turns = [command for command in world.commands if isinstance(command, RunAgent)]
    told_of = [NotKept(120, 130), NotKept(120, None), None]
    assert [turn.not_kept for turn in turns] == [None, *told_of]


@pytest.mark.parametrize(
    ("fields", "script", "ending", "left"),
    [
        pytest.param(
            {"max_iterations": 1},
            [*START, tunes(a="1"), says(110)],
            ("failed", "max_iterations"),
            "1",
            id="the last change is measured and kept",
        ),
        pytest.param(
            {"max_iterations": 1},
            [*START, tunes(a="1"), says(119)],
            ("failed", "max_iterations"),
            "0",
            id="the last change is measured and put back",
        ),
        pytest.param(
            {"timeout": 5},
            [*START, Says(0, agent="success", takes_ms=9000, writes={"src/a": "1"})],
            ("failed", "loop_timeout"),
            "0",
            id="a change that there is no time to measure",
        ),
        pytest.param(
            {"evidence": {"stall_after": 1}},
            [*START, tunes(), says(121)],
            ("failed", "stalled"),
            "0",
            id="a turn that changes nothing stalls",
        ),
        pytest.param(
            {"evidence": {"stall_after": 1}, "condition": {**BEST, "patience": 9}},
            [*START, tunes(a="1"), says(121), tunes(a="1"), says(121)],
            ("failed", "stalled"),
            "0",
            id="the same change again stalls, and is put back",
        ),
        pytest.param(
            {"evidence": {"confirm": 2}},
            [*START, tunes(a="1"), says(99), says(101)],
            ("failed", "flaky"),
            "0",
            id="a target that is not confirmed",
        ),
        pytest.param(
            {"evidence": {"confirm": 2}},
            [*START, tunes(a="1"), says(99), says(98)],
            ("completed", "terminal"),
            "1",
            id="a target that is confirmed",
        ),
        pytest.param(
            {"evidence": {"clean": True}},
            [*START, tunes(a="1"), says(99), says(98)],
            ("completed", "terminal"),
            "1",
            id="a target in a clean copy, too",
        ),
        pytest.param(
            {"evidence": {"clean": True}, "condition": {**BEST, "patience": 1}},
            [*START, tunes(a="1"), says(99), says(119), Stop(15)],
            ("interrupted", "signal"),
            "0",
            id="what is delivered is not better",
        ),
        pytest.param(
            {"evidence": {"clean": True}},
            [*START, tunes(a="1"), says(99), says(105), Stop(15)],
            ("interrupted", "signal"),
            "1",
            id="what is delivered is better, but not the target",
        ),
        pytest.param(
            {"evidence": {"clean": True}},
            [*START, tunes(a="1"), says(99), says("?")],
            ("failed", "error"),
            "0",
            id="what is delivered cannot be measured",
        ),
        pytest.param(
            {"tune": "./tune"},
            [*START, says("", writes={"src/a": "1"}), says(130), Stop(15)],
            ("interrupted", "signal"),
            "0",
            id="a change by a command",
        ),
        pytest.param(
            {"measure": {"on_error": "tune"}},
            [*START, tunes(a="1"), says("?"), Stop(15)],
            ("interrupted", "signal"),
            "1",
            id="an error that the loop handles itself",
        ),
        pytest.param(
            {"measure": {"timeout": 2}},
            [*START, tunes(a="1"), says(1, takes_ms=3000), Stop(15)],
            ("interrupted", "signal"),
            "0",
            id="a change that takes too long to measure",
        ),
        pytest.param(
            {"measure": {"timeout": 2, "on_timeout": "done"}},
            [*START, tunes(a="1"), says(1, takes_ms=3000)],
            ("failed", "terminal"),
            "0",
            id="a terminal state is entered with the best tree",
        ),
    ],
)
def test_how_it_ends(fields, script, ending, left):
    world = ran(loop(**fields), *script)
    assert world.saved is not None
    assert (world.saved.status, world.saved.reason) == ending
    assert world.trees.files["src/a"] == left


def test_each_cycle_has_a_start_of_its_own():
    world = ran(loop(maintain=True), *START, tunes(a="1"), says(99), says(120), says(121), Stop(15))
    assert told(world).splitlines()[-6:] == [
        "cycle 2, after 60000 ms",
        "start: 120 (best 120)",
        "kept: 121 (best 120)",
        "measure -> tune (on_progress)",
        "tune interrupted by stop, never begun",
        "loop_interrupted: interrupted, signal",
    ]


# ── repeat ─────────────────────────────────────────────────────────────────────────────────────


def test_the_median_counts():
    world = ran(
        loop(repeat=3, condition={"patience": 1}),
        *(says(130), says(90), says(120), tunes(), says(80), says(120), says(140)),
        evidence=None,
    )
    assert told(world) == story("""
        sampled 130
        sampled 90
        measure -> tune (on_progress)
        tune -> measure (next)
        iteration 2
        sampled 80
        sampled 120
        measure -> done (on_stall)
        loop_error: failed, terminal""")
    values = [record["value"] for record in world.log if record["event"] == "condition_eval"]
    assert values == [120, 120]


@pytest.mark.parametrize(
    "broken", [says("?"), Says(127, ""), Says(None, "", signal=9)], ids=["words", "127", "killed"]
)
def test_a_measurement_with_an_error_in_it_is_an_error(broken):
    world = ran(loop(repeat=3, condition={}), says(130), broken, evidence=None)
    assert told(world) == "sampled 130\nloop_error: failed, error"


def test_an_interrupted_measurement_starts_over():
    world = ScriptedWorld(loop(repeat=3, condition={}), [says(130), says(131), Stop(15)])
    begin(world)
    go_on(world, [says(99), says(98), says(97)])
    assert told(world) == story("""
        sampled 130
        sampled 131
        measure interrupted by stop, never begun
        loop_interrupted: interrupted, signal
        resume in measure
        sampled 99
        sampled 98
        measure -> done (on_target)
        loop_complete: completed, terminal""")


def test_the_time_of_the_loop_ends_a_measurement():
    world = ran(loop(repeat=9, condition={}, timeout=2), says(130), says(130, takes_ms=1500))
    assert told(world) == "sampled 130\nloop_timeout: failed, loop_timeout"
    late = ran(loop(repeat=9, condition={}, timeout=1), says(130, takes_ms=999), says(1))
    assert told(late) == "sampled 130\nloop_timeout: failed, loop_timeout"


def test_a_measurement_is_not_repeated_after_the_time_of_the_loop():
    class Late(ScriptedWorld):
        def perform(self, run: LoopState, command: Command) -> Happening:
            happened = super().perform(run, command)
            if isinstance(command, RunShell):
                self._pass(9000)  # the computer was asleep
            return happened._replace(at=self.now())

    world = Late(loop(repeat=9, condition={}, timeout=5), [says(130)])
    begin(world)
    assert told(world) == "sampled 130\nloop_timeout: failed, loop_timeout"


def test_a_repeated_condition_may_be_a_plain_number():
    states = {
        "count": {
            "action": "count",
            "repeat": 2,
            "on_pass": "done",
            "on_fail": "count",
            "condition": {"type": "output_numeric", "operator": "le", "target": 5},
        },
        "done": {"terminal": True},
    }
    machine = FSMLoop.from_dict({"name": "l", "initial": "count", "states": states})
    assert told(ran(machine, says(7), says(3), evidence=None)) == story("""
        sampled 7
        count -> done (on_pass)
        loop_complete: completed, terminal""")


# ── other people ───────────────────────────────────────────────────────────────────────────────


def test_files_that_change_while_they_are_measured_are_measured_again():
    world = ran(
        loop(repeat=2),
        *(says(120, writes={"src/log": "1"}), says(120), says(121)),
        *(
            says(120),
            says(120, writes={"src/log": "2"}),
            says(130),
            says(130),
            says(132),
            says(131),
        ),
        Stop(15),
    )
    assert told(world) == story("""
        again
        sampled 120
        start: 120.5 (best 120.5)
        sampled 120
        again
        sampled 130
        start: 130 (best 130)
        sampled 132
        kept: 131.5 (best 130)
        measure -> tune (on_progress)
        tune interrupted by stop, never begun
        loop_interrupted: interrupted, signal""")


def test_a_target_that_is_a_template_is_judged_by_the_engine():
    """As in every loop of the paradigm; such a run is replayed from its recorded verdicts."""
    world = ran(
        loop(repeat=2, condition={**BEST, "target": "${context.target}"}),
        *(says(120, writes={"src/log": "1"}), says(120), says(122), says(120), says(121)),
        *(tunes(a="1"), says("?"), tunes(a="2"), says(99), says(98)),
    )
    assert told(world) == story("""
        again
        sampled 120
        start: 121.0 (best 121.0)
        sampled 120
        kept: 120.5 (best 120.5)
        measure -> tune (on_progress)
        tune -> measure (next)
        iteration 2
        put_back: None (best 120.5)
        restored: src/a
        measure -> tune (on_progress)
        tune -> measure (next)
        iteration 3
        sampled 99
        kept: 98.5 (best 98.5)
        measure -> done (on_target)
        loop_complete: completed, terminal""")


def test_files_that_always_change_cannot_be_measured():
    writes = [says(120, writes={"src/log": str(number)}) for number in range(3)]
    world = ran(loop(), *writes)
    assert told(world) == "again\nagain\nloop_error: failed, error"
    assert world.saved is not None
    assert world.saved.error == (
        "src/log changed 3 times during a measurement, so none counts; add files that the check writes"
        " to .gitignore"
    )


def test_many_files_that_always_change_are_not_listed():
    world = ScriptedWorld(
        loop(),
        [says(1, writes={f"src/{name}-{n}": str(n) for name in range(99)}) for n in range(3)],
    )
    begin(world, evidence="on")
    assert world.saved is not None
    assert (world.saved.error or "").startswith("files changed 3 times during a measurement")


def test_samples_of_different_trees_do_not_count():
    world = ScriptedWorld(loop(repeat=2), [says(120), Crash])
    with pytest.raises(Crash):
        begin(world, evidence="on")
    world.trees.write({"src/a": "mine"})
    go_on(world, [says(110), says(110), says(111), says(111), Stop(15)])
    assert told(world).splitlines()[:5] == [
        "sampled 120",
        "resume in measure",
        "measure interrupted by crash",
        "sampled 110",
        "start: 110 (best 110)",
    ]


def test_what_is_edited_between_two_samples_does_not_count():
    class Edited(ScriptedWorld):
        def emit(self, step: Any) -> None:
            super().emit(step)
            if self.log[-1]["event"] == "sampled" and self.trees.files["src/a"] == "0":
                self.trees.write({"src/a": "mine"})

    world = Edited(
        loop(repeat=2), [says(120), says(90), says(120), says(120), says(121), says(121)]
    )
    world.script.append(Stop(15))
    begin(world, evidence="on")
    assert told(world) == story("""
        sampled 120
        again
        sampled 120
        start: 120 (best 120)
        sampled 121
        kept: 121 (best 120)
        measure -> tune (on_progress)
        tune interrupted by stop, never begun
        loop_interrupted: interrupted, signal""")


def test_what_is_edited_between_the_measurements_of_the_start_does_not_count():
    class Edited(ScriptedWorld):
        def emit(self, step: Any) -> None:
            super().emit(step)
            if self.log[-1].get("decision") == "start" and self.trees.files["src/a"] == "0":
                self.trees.write({"src/a": "mine"})

    world = Edited(loop(), [says(120), says(110), says(111), says(112), Stop(15)])
    begin(world, evidence="on")
    assert told(world) == story("""
        start: 120 (best 120)
        again
        start: 111 (best 111)
        kept: 112 (best 111)
        measure -> tune (on_progress)
        tune interrupted by stop, never begun
        loop_interrupted: interrupted, signal""")


def test_what_is_edited_in_a_pause_is_a_new_start():
    world = ran(loop(), *START, Stop(15))
    world.trees.write({"src/a": "mine"})
    go_on(world, [says(140), says(141), tunes(b="1"), says(150), tunes(b="2"), says(151)])
    assert told(world).split("resume in tune\n")[1] == story("""
        moved
        tune -> measure (remeasure)
        iteration 2
        start: 140 (best 140)
        kept: 141 (best 140)
        measure -> tune (on_progress)
        tune -> measure (next)
        iteration 3
        put_back: 150 (best 140)
        restored: src/b
        measure -> tune (on_progress)
        tune -> measure (next)
        iteration 4
        put_back: 151 (best 140)
        restored: src/b
        measure -> done (on_stall)
        loop_error: failed, terminal""")
    assert world.trees.files == {"src/a": "mine", "tests/t": "0"}


def test_an_edit_before_a_pass_is_proved_again_is_a_new_start():
    world = ScriptedWorld(loop(evidence={"clean": False}), [*START, tunes(a="1"), says(99)])
    world.trees.before_end = {"src/a": "mine"}
    world.script += [says(130), says(131), Stop(15)]
    begin(world, evidence="on")
    assert told(world).splitlines()[-6:] == [
        "recheck measure here: the tree has changed since it passed",
        "start: 130 (best 130)",
        "kept: 131 (best 130)",
        "measure -> tune (on_progress)",
        "tune interrupted by stop, never begun",
        "loop_interrupted: interrupted, signal",
    ]
    assert world.trees.files["src/a"] == "mine"


def test_an_interrupted_turn_goes_on_with_its_change():
    world = ran(
        loop(), *START, Says(None, agent="success", stop=15, cut_by="stop", writes={"src/a": "1"})
    )
    assert world.trees.files["src/a"] == "1"
    go_on(world, [tunes(b="1"), says(130), tunes(), says(120)])
    assert world.trees.files == {"src/a": "0", "tests/t": "0"}


def test_what_a_hook_does_before_an_action_is_part_of_the_change():
    machine = loop(condition={**BEST, "patience": 1}, hooks={"before_state": "prepare"})
    world = ScriptedWorld(machine, [*START, tunes(a="1"), says(130)])
    world.hook_writes = {"before_state": {"src/hook": "1"}}
    begin(world, evidence="on")
    assert [line for line in told(world).splitlines() if " of " not in line] == [
        "start: 120 (best 120)",
        "kept: 122 (best 120)",
        "measure -> tune (on_progress)",
        "tune -> measure (next)",
        "iteration 2",
        "put_back: 130 (best 120)",
        "restored: src/a",
        "measure -> done (on_stall)",
        "loop_error: failed, terminal",
    ]


def test_what_a_hook_does_after_the_measurement_is_a_new_start():
    machine = loop(hooks={"after_state": {"action": "format", "states": ["measure"]}})
    world = ScriptedWorld(machine, [*START, says(119), says(119), Stop(15)])
    world.hook_writes = {"after_state": {"src/hook": "1"}}
    begin(world, evidence="on")
    assert [line for line in told(world).splitlines() if " of " not in line] == [
        "start: 120 (best 120)",
        "kept: 122 (best 120)",
        "measure -> tune (on_progress)",
        "moved",
        "tune -> measure (remeasure)",
        "iteration 2",
        "start: 119 (best 119)",
        "kept: 119 (best 119)",
        "measure -> tune (on_progress)",
        "tune interrupted by stop, never begun",
        "loop_interrupted: interrupted, signal",
    ]


# ── failures ───────────────────────────────────────────────────────────────────────────────────


def test_a_file_that_cannot_be_put_back_ends_the_run():
    world = ScriptedWorld(loop(), [*START, tunes(a="1", b="1"), says(130)])
    world.trees.stuck = ("src/a",)
    begin(world, evidence="on")
    assert world.saved is not None
    assert (world.saved.reason, world.saved.error) == (
        "error",
        "could not be restored: src/a: read-only",
    )
    assert world.trees.files == {"src/a": "1", "tests/t": "0"}


def test_a_run_without_evidence_does_not_start():
    world = ran(loop(), evidence=None)
    assert told(world) == "loop_error: failed, error"
    assert world.saved is not None
    assert world.saved.error == "`keep: best` needs evidence"


def test_a_stop_does_not_leave_a_change_half_put_back():
    class Stopped(ScriptedWorld):
        def perform(self, run: LoopState, command: Command) -> Happening:
            if isinstance(command, RestoreBest) and command.ending is None:
                return StopAsked(self.now(), 15)
            return super().perform(run, command)

    world = Stopped(loop(), [*START, tunes(a="1"), says(130)])
    _, ending = begin(world, evidence="on")
    assert (ending.status, world.trees.files["src/a"]) == ("interrupted", "0")


@pytest.mark.parametrize("repeat", [1, 3])
def test_a_log_that_ends_anywhere_leads_to_the_same_tree(repeat):
    """The results of actions depend on the files alone, so a repeated action changes nothing."""
    whole = Benchmark(loop(repeat=repeat), [{"src/a": "1"}, {"src/a": "2"}, {"src/a": "x"}], [])
    finish(whole, new_run(whole.loop, "run-1", whole.now(), evidence="on"))
    assert whole.kept() == 110
    for count in range(1, len(whole.log)):
        again = Benchmark(loop(repeat=repeat), [{"src/a": "2"}, {"src/a": "x"}, {"src/a": "x"}], [])
        again.log, again.wall_ms = list(whole.log), whole.wall_ms
        cut(again, count)
        again.trees.stored = whole.trees.stored
        again.trees.files = dict(whole.files_at(count))
        done = [record for record in again.log if record["event"] == "action_complete"]
        turns = sum(record["state"] == "tune" for record in done)
        again.writes = [{"src/a": "1"}, {"src/a": "2"}, {"src/a": "x"}][turns:]
        assert again.saved is not None
        finish(again, again.saved, Resumed(again.now()))
        assert (again.kept(), again.trees.files["src/a"]) == (110, "1"), count


# ── the law ────────────────────────────────────────────────────────────────────────────────────

NUMBERS = {"0": 120, "1": 110, "2": 130, "3": 105, "4": 119, "5": 99}


class Benchmark(DrawnWorld):
    """A check whose number depends on the files alone; agents write what is drawn."""

    def __init__(self, loop: FSMLoop, writes: list[dict[str, str]], faults: list[str]) -> None:
        super().__init__(loop, writes, faults)
        self.history: list[tuple[int, dict[str, str]]] = []

    def emit(self, step: Any) -> None:
        super().emit(step)
        self.history.append((len(self.log), dict(self.trees.files)))

    def files_at(self, count: int) -> dict[str, str]:
        """The files when the event of this number was the last one."""
        return next(files for events, files in self.history if events >= count)

    def judged(self, command: RunShell) -> Result:
        files = self.trees.files if command.copy is None else None
        stored = files or self.trees.stored[command.copy.project if command.copy else ""]
        return Result(0, 1, measured(stored))

    def drawn(self) -> dict[str, str]:
        return self.writes.pop(0) if self.writes else {}

    def kept(self) -> float | None:
        """The number that the last decision kept."""
        numbers = [record["best"] for record in self.log if "best" in record]
        return numbers[-1] if numbers else None


def measured(files: dict[str, str]) -> str:
    return str(NUMBERS.get(files.get("src/a", ""), "no number"))


def finish(world: Benchmark, run: LoopState, happening: Happening | None = None) -> Ending:
    _, ending = drive(world.loop, run, happening or Started(world.now()), world)
    return ending


def assert_best_is_kept(world: Benchmark, ending: Ending) -> None:
    """What the log says is kept was measured on that tree, never gets worse, and is what is left."""
    decided = [record for record in world.log if record["event"] == "keep_best"]
    best: float | None = None
    for record in decided:
        if record["decision"] in ("moved", "again"):
            best = None if record["decision"] == "moved" else best
            continue
        stored = world.trees.stored[record["project"]]
        assert float(measured(stored)) == record["best"]
        if record["decision"] == "start":
            best = None
        assert best is None or record["best"] <= best
        best = record["best"]
    if best is None or ending.status == "interrupted" or ending.reason == "storage":
        return
    last = next(record for record in reversed(decided) if "project" in record)
    scope = {path: text for path, text in world.trees.files.items() if path.startswith("src/")}
    kept = world.trees.stored[last["project"]]
    assert scope == {path: text for path, text in kept.items() if path.startswith("src/")}


WRITES = st.dictionaries(
    st.sampled_from(["src/a", "src/b"]), st.sampled_from([*NUMBERS, "x"]), max_size=2
)
FAULTS = st.sampled_from(["", "", "", "", "", "crash", "stop", "fails"])


@pytest.mark.hypothesis
@settings(deadline=None)
@given(
    st.lists(WRITES, max_size=8),
    st.lists(FAULTS, max_size=60),
    st.integers(1, 3),
    st.booleans(),
    st.sampled_from([0, 3, "noise"]),
    st.integers(1, 4),
)
def test_the_best_measured_tree_is_what_is_left(writes, faults, repeat, clean, min_gain, patience):
    machine = loop(
        repeat=repeat,
        condition={**BEST, "min_gain": min_gain, "patience": patience},
        evidence={"clean": clean},
    )
    world = Benchmark(machine, writes, faults)
    run = new_run(machine, "run-1", world.now(), evidence="on")
    happening: Happening = Started(world.now())
    for _ in range(len(faults) + 2):
        try:
            run, ending = drive(machine, run, happening, world)
        except Crash:
            run = world.saved or run
        else:
            assert_best_is_kept(world, ending)
            if ending.status != "interrupted":
                break
        happening = Resumed(world.now())
    best = world.kept()
    numbers = [record["value"] for record in world.log if record.get("value") is not None]
    gain = 0 if min_gain == "noise" else min_gain
    assert best is None or all(best - number <= gain for number in numbers)


@pytest.mark.hypothesis
@settings(deadline=None)
@given(st.lists(WRITES, max_size=8), st.lists(FAULTS, max_size=60), st.integers(1, 2))
def test_what_a_person_edits_between_the_turns_is_never_put_back(writes, faults, repeat):
    """In a pause, and after a crash; while a change is in progress it cannot be told whose it is."""
    machine = loop(repeat=repeat, condition={**BEST, "patience": 3})
    world = Benchmark(machine, writes, faults)
    run = new_run(machine, "run-1", world.now(), evidence="on")
    happening: Happening = Started(world.now())
    mine: str | None = None
    for number in range(len(faults) + 2):
        try:
            run, ending = drive(machine, run, happening, world)
        except Crash:
            run = world.saved or run
        else:
            if ending.status != "interrupted":
                break
        best = None if run.trees is None else run.trees.best
        if best is not None and not best.changing and run.phase != "running":
            mine = str(number)
            world.trees.write({"src/mine": mine})
        happening = Resumed(world.now())
    assert world.trees.files.get("src/mine") == mine
