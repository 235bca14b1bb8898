"""Stories: what a run does, told by the ways it takes."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest

from little_loops.fsm.commands import RunAction, RunAgent
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import Limits, SignalLine
from tests.fsm.scripted import (
    Crash,
    Says,
    ScriptedWorld,
    Stop,
    begin,
    crash_and_go_on,
    cut,
    go_on,
    rebuilt,
    told,
)

CHECK_FIX: dict[str, Any] = {
    "check": {"action": "mypy src", "on_pass": "done", "on_fail": "fix"},
    "fix": {"action": "./fix", "next": "check"},
    "done": {"terminal": True},
}


def loop(states: dict[str, Any], **fields: Any) -> FSMLoop:
    return FSMLoop.from_dict(
        {"name": "a-loop", "initial": next(iter(states)), "states": states, **fields}
    )


def story(world: ScriptedWorld) -> str:
    begin(world)
    return told(world)


def is_told(text: str) -> str:
    return dedent(text).strip()


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param(
            [0],
            """\
            check -> done (on_pass)
            loop_complete: completed, terminal""",
            id="already clean",
        ),
        pytest.param(
            [1, 0, 1, 0, 0],
            """\
            check -> fix (on_fail)
            fix -> check (next)
            iteration 2
            check -> fix (on_fail)
            fix -> check (next)
            iteration 3
            check -> done (on_pass)
            loop_complete: completed, terminal""",
            id="the design's sample: three times around",
        ),
        pytest.param([2], "loop_error: failed, error", id="exit 2 is an error, not a fail"),
        pytest.param(
            [1, 1, 0],
            """\
            check -> fix (on_fail)
            fix -> check (next)
            iteration 2
            check -> done (on_pass)
            loop_complete: completed, terminal""",
            id="next serves pass and fail",
        ),
        pytest.param(
            [1, 2],
            """\
            check -> fix (on_fail)
            loop_error: failed, error""",
            id="next does not serve an error",
        ),
    ],
)
def test_check_and_fix(script, expected):
    assert story(ScriptedWorld(loop(CHECK_FIX), script)) == is_told(expected)


def test_the_end_carries_the_figures():
    world = ScriptedWorld(loop(CHECK_FIX), [1, 0, 0])
    run, ending = begin(world)
    last = world.log[-1]
    assert {key: last[key] for key in ("event", "final_state", "iterations", "duration_ms")} == {
        "event": "loop_complete",
        "final_state": "done",
        "iterations": 2,
        "duration_ms": 3000,
    }
    assert (ending.exit_code, run.phase) == (0, "ended")


class TestLimits:
    def test_iterations(self):
        world = ScriptedWorld(loop(CHECK_FIX, max_iterations=2), [1] * 9)
        _, ending = begin(world)
        assert told(world) == is_told("""
            check -> fix (on_fail)
            fix -> check (next)
            iteration 2
            check -> fix (on_fail)
            fix -> check (next)
            loop_error: failed, max_iterations""")
        assert (ending.exit_code, ending.message) == (3, "2 iterations, still in `fix`")

    def test_a_higher_limit_goes_on_where_it_was_about_to_go(self):
        world = ScriptedWorld(loop(CHECK_FIX, max_iterations=1), [1, 0])
        begin(world)
        go_on(world, [0], limits=Limits(max_iterations=5))
        assert told(world) == is_told("""
            check -> fix (on_fail)
            fix -> check (next)
            loop_error: failed, max_iterations
            resume in fix
            iteration 2
            check -> done (on_pass)
            loop_complete: completed, terminal""")

    def test_the_loops_time_cuts_the_action(self):
        world = ScriptedWorld(loop(CHECK_FIX, timeout=2.5), [Says(1), Says(0, takes_ms=9000)])
        _, ending = begin(world)
        assert told(world) == is_told("""
            check -> fix (on_fail)
            loop_timeout: failed, loop_timeout""")
        assert (ending.exit_code, world.ran_ms) == (3, 2500)

    def test_after_a_longer_time_the_cut_state_runs_again(self):
        world = ScriptedWorld(loop(CHECK_FIX, timeout=2.5), [Says(1), Says(0, takes_ms=9000)])
        begin(world)
        go_on(world, [0, 0], limits=Limits(timeout=100))
        assert told(world).splitlines()[2:] == [
            "resume in fix",
            "fix -> check (next)",
            "iteration 2",
            "check -> done (on_pass)",
            "loop_complete: completed, terminal",
        ]

    def test_the_loops_timeout_state_runs_once_and_goes_nowhere(self):
        states = {**CHECK_FIX, "tidy": {"action": "tidy", "next": "check"}}
        world = ScriptedWorld(loop(states, timeout=1, on_timeout="tidy"), [1, Says(0), 0])
        _, ending = begin(world)
        assert told(world) == is_told("""
            check -> tidy (on_timeout)
            loop_timeout: failed, loop_timeout""")
        act = world.commands[1]
        assert isinstance(act, RunAction)
        assert (ending.reason, act.job.deadline_ms, act.job.deadline_of) == (
            "loop_timeout",
            60_000,
            "action",
        )

    def test_after_the_timeout_state_a_resume_goes_where_the_run_was_going(self):
        states = {**CHECK_FIX, "tidy": {"terminal": True}}
        world = ScriptedWorld(loop(states, timeout=1, on_timeout="tidy"), [1])
        begin(world)
        go_on(world, [0, 0], limits=Limits(timeout=100))
        assert told(world) == is_told("""
            check -> tidy (on_timeout)
            loop_timeout: failed, loop_timeout
            resume in tidy
            tidy -> check (resume)
            iteration 2
            check -> done (on_pass)
            loop_complete: completed, terminal""")

    def test_an_action_that_ends_at_the_limit_was_in_time_but_the_next_is_not_begun(self):
        world = ScriptedWorld(loop(CHECK_FIX, timeout=1.001), [Says(1, takes_ms=1000), 0])
        world_told = story(world)
        assert world_told == is_told("""
            check -> fix (on_fail)
            loop_timeout: failed, loop_timeout""")

    @pytest.mark.parametrize(
        ("limit", "reason"),
        [({"max_cost_usd": 0.5}, "max_cost"), ({"max_tokens": 100}, "max_tokens")],
        ids=["money", "tokens"],
    )
    def test_what_agents_may_use(self, limit, reason):
        states = {
            "ask": {"action": "/ll:x", "next": "again"},
            "again": {"action": "/ll:y", "next": "ask"},
        }
        spent = Says(0, agent="success", tokens=60, cost_usd=0.3, turns=2)
        world = ScriptedWorld(loop(states, **limit), [spent, spent, spent])
        run, ending = begin(world)
        assert (ending.reason, ending.exit_code) == (reason, 3)
        assert run.costs["ask"].cost_usd == 0.3
        go_on(world, [])
        assert world.log[-1]["reason"] == reason

    def test_a_check_may_still_tell_what_the_agents_have_done(self):
        """Their budget is theirs: a shell costs nothing, and the goal may be reached."""
        states = {
            "check": {"action": "pytest", "on_pass": "done", "on_fail": "fix"},
            "fix": {"action": "/ll:fix", "next": "check"},
            "done": {"terminal": True},
        }
        spent = Says(0, agent="success", tokens=60, cost_usd=0.3, turns=2)
        world = ScriptedWorld(loop(states, max_cost_usd=0.1), [1, spent, 0])
        assert begin(world)[1].exit_code == 0
        world = ScriptedWorld(loop(states, max_cost_usd=0.1), [1, spent, 1])
        run, ending = begin(world)
        assert (ending.reason, run.current_state) == ("max_cost", "check")

    def test_an_action_that_cannot_be_run_says_so_whatever_was_spent(self):
        states = {
            "fix": {"action": "/ll:fix", "next": "odd"},
            "odd": {"action": "/ll:fix ${context.no}", "next": "fix"},
        }
        spent = Says(0, agent="success", cost_usd=0.3)
        world = ScriptedWorld(loop(states, max_cost_usd=0.1), [spent])
        run, ending = begin(world)
        assert (ending.reason, run.current_state) == ("error", "odd")
        assert "`context.no` has no value" in ending.message

    def test_what_an_agent_used_before_it_was_stopped_counts(self):
        states = {"ask": {"action": "/ll:x", "next": "ask"}}
        world = ScriptedWorld(loop(states), [Says(None, agent="cancelled", tokens=60, stop=15)])
        run, _ = begin(world)
        assert run.costs["ask"].tokens == 60


class TestErrors:
    def test_the_state_then_the_loop_handles_them(self):
        states = {
            "build": {"action": "make", "next": "test", "on_error": "clean"},
            "clean": {"action": "make clean", "next": "test"},
            "test": {"action": "pytest", "on_pass": "done"},
            "report": {"action": "mail", "next": "done"},
            "done": {"terminal": True},
        }
        world = ScriptedWorld(loop(states, on_error="report"), [2, 0, 127, 0])
        assert story(world) == is_told("""
            build -> clean (on_error)
            clean -> test (next)
            test -> report (on_error)
            report -> done (next)
            loop_complete: completed, terminal""")

    def test_an_error_in_the_handler_ends_the_run(self):
        states = {**CHECK_FIX, "report": {"action": "mail", "next": "done"}}
        world = ScriptedWorld(loop(states, on_error="report"), [2, 2])
        assert story(world) == is_told("""
            check -> report (on_error)
            loop_error: failed, error""")

    def test_a_handler_that_ends_the_run_makes_it_a_failure(self):
        states = {"check": {"action": "x", "on_error": "over"}, "over": {"terminal": True}}
        world = ScriptedWorld(loop(states), [2])
        assert story(world) == is_told("""
            check -> over (on_error)
            loop_error: failed, terminal""")

    def test_timeouts_go_their_own_way(self):
        states = {**CHECK_FIX, "check": {**CHECK_FIX["check"], "timeout": 1, "on_timeout": "fix"}}
        world = ScriptedWorld(loop(states), [Says(0, takes_ms=5000), 0, Says(0, takes_ms=5)])
        assert story(world).splitlines()[0] == "check -> fix (on_timeout)"

    def test_a_timeout_nobody_handles(self):
        states = {**CHECK_FIX, "check": {**CHECK_FIX["check"], "timeout": 1}}
        world = ScriptedWorld(loop(states), [Says(0, takes_ms=5000)])
        assert story(world) == "loop_error: failed, timeout"
        assert world.log[-1]["error"] == "timed out after 1 s"

    def test_no_way_for_the_verdict(self):
        world = ScriptedWorld(
            loop({"check": {"action": "x", "on_pass": "done"}, "done": {"terminal": True}}), [1]
        )
        assert story(world) == "loop_error: failed, no_transition"
        assert world.log[-1]["error"] == "no transition for the verdict `fail` (exit 1)"

    def test_what_could_not_be_started(self):
        world = ScriptedWorld(loop(CHECK_FIX), [Says(None, failure="`sh` was not found")])
        assert story(world) == "loop_error: failed, error"
        assert world.log[-1]["error"] == "`sh` was not found"

    @pytest.mark.parametrize(
        ("says", "error"),
        [
            pytest.param(Says(3, stderr="a\n  b \n"), "exit 3: b", id="its last line on stderr"),
            pytest.param(Says(3), "exit 3", id="nothing said"),
            pytest.param(Says(3, stderr=None), "exit 3", id="too much said to be at hand"),
            pytest.param(Says(127), "exit 127: not found", id="no such program"),
            pytest.param(Says(None, signal=9), "ended by signal 9", id="killed"),
        ],
    )
    def test_what_it_said_last_is_told_with_its_exit_code(self, says, error):
        world = ScriptedWorld(loop(CHECK_FIX), [says])
        assert story(world) == "loop_error: failed, error"
        assert world.log[-1]["error"] == error

    def test_why_an_action_could_not_be_filled_in_is_told_where_the_run_goes_on(self):
        states = {
            "a": {"action": "echo ${captured.n.output}", "on_error": "over"},
            "over": {"terminal": True},
        }
        world = ScriptedWorld(loop(states), [])
        assert story(world) == is_told("""
            warning: state `a`: `captured.n.output` has no value yet, because `n` has no result
            a -> over (on_error)
            loop_error: failed, terminal""")
        assert world.log[-1]["error"] == "entered by `on_error`"

    def test_an_unknown_variable_is_found_before_anything_runs(self):
        world = ScriptedWorld(loop({"a": {"action": "echo ${captured.n.output}"}}), [])
        assert story(world) == "loop_error: failed, error"
        assert "captured.n" in world.log[-1]["error"]
        assert [record["event"] for record in world.log] == [
            "loop_start",
            "state_enter",
            "loop_error",
        ]

    def test_a_failed_run_runs_the_failed_state_once_more(self):
        world = ScriptedWorld(loop(CHECK_FIX), [1, 2])
        begin(world)
        go_on(world, [0, 0])
        assert told(world) == is_told("""
            check -> fix (on_fail)
            loop_error: failed, error
            resume in fix
            fix -> check (next)
            iteration 2
            check -> done (on_pass)
            loop_complete: completed, terminal""")
        attempts = [r["attempt"] for r in world.log if r["event"] == "action_start"]
        assert attempts == [1, 1, 2, 1]


class TestRetry:
    def test_current_waits_longer_each_time(self):
        states = {
            "a": {"action": "x", "on_error": "$current", "on_pass": "b"},
            "b": {"terminal": True},
        }
        world = ScriptedWorld(loop(states), [2, 2, 2, 0])
        assert story(world) == is_told("""
            a -> a (on_error)
            iteration 2
            retry 2, after 1000 ms
            a -> a (on_error)
            iteration 3
            retry 3, after 2000 ms
            a -> a (on_error)
            iteration 4
            retry 4, after 4000 ms
            a -> b (on_pass)
            loop_complete: completed, terminal""")
        steps = {
            (r["step"]) for r in world.log if r["event"] == "state_enter" and r["state"] == "a"
        }
        assert steps == {1}

    def test_used_up_it_is_as_if_current_were_not_there(self):
        states = {
            "a": {
                "action": "x",
                "on_fail": "$current",
                "next": "b",
                "retry": {"max": 2, "backoff": 0.5},
                "route": {"x": "$current"},
                "on_maybe": "$current",
            },
            "b": {"terminal": True},
        }
        world = ScriptedWorld(loop(states), [1, 1])
        assert story(world) == is_told("""
            a -> a (on_fail)
            iteration 2
            retry 2, after 500 ms
            a -> b (next)
            loop_complete: completed, terminal""")

    def test_used_up_and_no_other_way(self):
        retry = {"max": 2, "backoff": 0}
        states = {"a": {"action": "x", "on_fail": "$current", "on_pass": "b", "retry": retry}}
        world = ScriptedWorld(loop({**states, "b": {"terminal": True}}, initial="a"), [1, 1])
        assert story(world).splitlines()[-1] == "loop_error: failed, no_transition"
        without = "no transition for the verdict `fail` after the last `retry`"
        assert world.log[-1]["error"] == f"{without} (exit 1)"

    def test_the_loops_backoff_is_the_first_wait(self):
        states = {"a": {"action": "x", "next": "$current"}, "b": {"terminal": True}}
        world = ScriptedWorld(loop(states, backoff=3, max_iterations=2), [0, 0])
        assert story(world) == is_told("""
            a -> a (next)
            iteration 2
            retry 2, after 3000 ms
            a -> a (next)
            loop_error: failed, max_iterations""")

    def test_no_wait_at_all_if_backoff_is_zero(self):
        states = {"a": {"action": "x", "next": "$current", "retry": {"backoff": 0}}}
        world = ScriptedWorld(loop(states, max_iterations=2), [0, 0])
        assert "retry" not in story(world)

    @pytest.mark.parametrize(
        ("backoff", "wait_ms"), [(None, 1500), (1, 1500), (2, 2000)], ids=["none", "less", "more"]
    )
    def test_an_action_may_ask_for_a_wait_before_the_next_iteration(self, backoff, wait_ms):
        asks = Says(0, wait_ms=1500)
        world = ScriptedWorld(loop(CHECK_FIX, backoff=backoff), [1, asks, 1, 0, 0])
        assert told_lines(world)[:6] == [
            "check -> fix (on_fail)",
            "fix -> check (next)",
            f"iteration 2, after {wait_ms} ms",
            "check -> fix (on_fail)",
            "fix -> check (next)",
            f"iteration 3, after {backoff}000 ms" if backoff else "iteration 3",
        ]

    def test_the_wait_an_action_asked_for_outlives_its_process(self):
        world = ScriptedWorld(loop(CHECK_FIX), [1, Says(0, wait_ms=1500)])
        world.stops_in_wait = 15
        run, _ = begin(world)
        assert run.wait is not None
        world.stops_in_wait = None
        go_on(world, [0])
        assert world.ran_ms == run.ran_ms + 1500 + 1000

    def test_backoff_between_iterations(self):
        world = ScriptedWorld(loop(CHECK_FIX, backoff=2), [1, 0, 0])
        assert "iteration 2, after 2000 ms" in story(world)
        assert world.ran_ms == 5000

    def test_a_wait_longer_than_the_loops_time(self):
        world = ScriptedWorld(loop(CHECK_FIX, backoff=50, timeout=10), [1, 0, 0])
        begin(world)
        assert (world.log[-1]["reason"], world.ran_ms) == ("loop_timeout", 10_000)

    def test_growth_without_bounds_is_bounded(self):
        retry = {"backoff": 2, "factor": 1e300, "max_backoff": 7}
        states = {"a": {"action": "x", "next": "$current", "retry": retry}}
        world = ScriptedWorld(loop(states, max_iterations=5), [0] * 5)
        begin(world)
        waits = [r["wait_ms"] for r in world.log if r["event"] == "retry_wait"]
        assert waits == [2000, 7000, 7000, 7000]


class TestTerminal:
    def test_its_action_runs_and_its_failure_is_a_warning(self):
        states = {**CHECK_FIX, "done": {"action": "notify", "terminal": True}}
        world = ScriptedWorld(loop(states), [0, 7])
        assert story(world) == is_told("""
            check -> done (on_pass)
            warning: the action of `done` failed: exit 7
            loop_complete: completed, terminal""")

    def test_its_action_names_what_is_not_there(self):
        states = {**CHECK_FIX, "done": {"action": "${captured.x.output}", "terminal": True}}
        world = ScriptedWorld(loop(states), [0])
        lines = told_lines(world)
        assert lines[1].startswith("warning: state `done`: ")
        assert lines[2] == "loop_complete: completed, terminal"

    @pytest.mark.parametrize(
        ("name", "state", "ending"),
        [
            ("done", {}, ("completed", 0)),
            ("build_failed", {}, ("failed", 1)),
            ("notify-abort", {}, ("failed", 1)),
            ("build_failed", {"outcome": "success"}, ("completed", 0)),
            ("look", {"outcome": "review"}, ("needs_review", 4)),
            ("failsafe", {}, ("completed", 0)),
        ],
    )
    def test_outcomes(self, name, state, ending):
        states = {"a": {"action": "x", "next": name}, name: {"terminal": True, **state}}
        run, end = begin(ScriptedWorld(loop(states), [0]))
        assert (run.status, end.exit_code) == ending

    def test_a_review_goes_on_where_its_next_says(self):
        states = {
            "draft": {"action": "x", "next": "look"},
            "look": {"terminal": True, "outcome": "review", "next": "publish"},
            "publish": {"action": "y", "next": "done"},
            "done": {"terminal": True},
        }
        world = ScriptedWorld(loop(states), [0])
        begin(world)
        go_on(world, [0])
        assert told(world) == is_told("""
            draft -> look (next)
            loop_paused: needs_review, review
            resume in look
            look -> publish (next)
            publish -> done (next)
            loop_complete: completed, terminal""")

    def test_a_review_without_next_begins_again(self):
        states = {
            "draft": {"action": "x", "next": "look"},
            "look": {"terminal": True, "outcome": "review"},
        }
        world = ScriptedWorld(loop(states), [0])
        begin(world)
        go_on(world, [0])
        assert "look -> draft (next)" in told(world)

    def test_what_actions_left_is_ended_and_named(self):
        world = ScriptedWorld(loop(CHECK_FIX), [0])
        world.leftovers = ("npm run dev (pid 7)",)
        assert told_lines(world)[1:] == [
            "warning: ended processes that the actions had left running: npm run dev (pid 7)",
            "loop_complete: completed, terminal",
        ]

    def test_maintain_starts_again_and_forgets_the_count(self):
        states = {**CHECK_FIX, "done": {"terminal": True, "on_maintain": "check"}}
        world = ScriptedWorld(
            loop(states, maintain=True, max_iterations=2, maintain_interval=30),
            [1, 0, 0, 1, 0, 0, Stop(15)],
        )
        assert story(world) == is_told("""
            check -> fix (on_fail)
            fix -> check (next)
            iteration 2
            check -> done (on_pass)
            done -> check (on_maintain)
            cycle 2, after 30000 ms
            check -> fix (on_fail)
            fix -> check (next)
            iteration 2
            check -> done (on_pass)
            done -> check (on_maintain)
            cycle 3, after 30000 ms
            check interrupted by stop, never begun
            loop_interrupted: interrupted, signal""")

    def test_maintain_without_a_place_starts_at_the_beginning(self):
        world = ScriptedWorld(loop(CHECK_FIX, maintain=True), [0, 2])
        assert "done -> check (on_maintain)" in story(world)

    def test_only_success_is_maintained(self):
        states = {"a": {"action": "x", "next": "failed"}, "failed": {"terminal": True}}
        world = ScriptedWorld(loop(states, maintain=True), [0])
        assert told_lines(world)[-1] == "loop_error: failed, terminal"


def told_lines(world: ScriptedWorld) -> list[str]:
    return story(world).splitlines()


class TestInterrupts:
    @pytest.mark.parametrize(
        ("requested", "script", "expected"),
        [
            pytest.param(
                {},
                [0, 0],
                """\
                check -> fix (on_fail)
                resume in fix
                fix interrupted by crash
                fix -> check (next)
                iteration 2
                check -> done (on_pass)
                loop_complete: completed, terminal""",
                id="by default it runs again",
            ),
            pytest.param(
                {"on_interrupt": "$error", "on_error": "done"},
                [],
                """\
                check -> fix (on_fail)
                resume in fix
                fix interrupted by crash
                fix -> done (on_error)
                loop_error: failed, terminal""",
                id="as an error",
            ),
            pytest.param(
                {"on_interrupt": "done"},
                [],
                """\
                check -> fix (on_fail)
                resume in fix
                fix interrupted by crash
                fix -> done (on_interrupt)
                loop_complete: completed, terminal""",
                id="somewhere else",
            ),
        ],
    )
    def test_after_a_crash(self, requested, script, expected):
        states = {**CHECK_FIX, "fix": {**CHECK_FIX["fix"], **requested}}
        world = ScriptedWorld(loop(states), [1, Crash])
        crash_and_go_on(world, script)
        assert told(world) == is_told(expected)

    def test_the_loops_wish_serves_all_states(self):
        world = ScriptedWorld(loop(CHECK_FIX, on_interrupt="done"), [Crash])
        crash_and_go_on(world, [])
        assert "check -> done (on_interrupt)" in told(world)

    def test_an_attempt_more_the_same_step(self):
        world = ScriptedWorld(loop(CHECK_FIX), [1, Crash])
        crash_and_go_on(world, [0, 0])
        starts = [c for c in world.commands if isinstance(c, RunAction)]
        assert [(c.job.state, c.job.step, c.job.attempt) for c in starts] == [
            ("check", 1, 1),
            ("fix", 2, 1),
            ("fix", 2, 2),
            ("check", 3, 1),
        ]

    def test_a_stop_during_an_action(self):
        cut = Says(None, stop=2, signal=15, cut_by="stop")
        world = ScriptedWorld(loop(CHECK_FIX), [1, cut])
        _, ending = begin(world)
        assert (ending.exit_code, world.log[-1]["signal"]) == (130, 2)
        go_on(world, [0, 0])
        assert told(world) == is_told("""
            check -> fix (on_fail)
            fix interrupted by stop
            loop_interrupted: interrupted, signal
            resume in fix
            fix -> check (next)
            iteration 2
            check -> done (on_pass)
            loop_complete: completed, terminal""")

    def test_a_stop_before_an_action_leaves_on_interrupt_out_of_it(self):
        states = {**CHECK_FIX, "fix": {**CHECK_FIX["fix"], "on_interrupt": "done"}}
        world = ScriptedWorld(loop(states), [1, Stop(15)])
        _, ending = begin(world)
        assert ending.exit_code == 143
        go_on(world, [0, 0])
        assert told(world) == is_told("""
            check -> fix (on_fail)
            fix interrupted by stop, never begun
            loop_interrupted: interrupted, signal
            resume in fix
            fix -> check (next)
            iteration 2
            check -> done (on_pass)
            loop_complete: completed, terminal""")

    def test_resume_from_a_state(self):
        world = ScriptedWorld(loop(CHECK_FIX), [Crash])
        try:
            begin(world)
        except Crash:
            go_on(world, [0, 0], from_state="fix", orphans=("sleep 9 (pid 4)",), context={"a": 1})
        assert told(world) == is_told("""
            resume in check
            check interrupted by crash
            check -> fix (resume)
            fix -> check (next)
            iteration 2
            check -> done (on_pass)
            loop_complete: completed, terminal""")


class TestSignals:
    def test_stop(self):
        world = ScriptedWorld(loop(CHECK_FIX), [Says(1, line=SignalLine("stop", "enough"))])
        run, ending = begin(world)
        assert (run.status, ending.exit_code, world.log[-1]["message"]) == ("stopped", 6, "enough")

    def test_error(self):
        world = ScriptedWorld(loop(CHECK_FIX), [Says(0, line=SignalLine("error", "no disk"))])
        assert told_lines(world) == ["signal error (no disk)", "loop_error: failed, error"]
        assert world.log[-1]["error"] == "no disk"

    def test_a_timeout_beats_a_signal(self):
        states = {**CHECK_FIX, "check": {**CHECK_FIX["check"], "timeout": 1}}
        late = Says(0, takes_ms=2000, line=SignalLine("stop", ""))
        world = ScriptedWorld(loop(states), [late])
        assert told_lines(world)[-1] == "loop_error: failed, timeout"


HANDOFF = SignalLine("handoff", "3 left")


class TestHandoff:
    def test_pause_and_go_on(self):
        world = ScriptedWorld(loop(CHECK_FIX), [1, Says(0, line=HANDOFF)])
        run, ending = begin(world)
        assert (run.status, ending.exit_code) == ("awaiting_continuation", 4)
        assert run.continuation_prompt == "3 left"
        run, _ = go_on(world, [0, 0])
        act = [c.job for c in world.commands if isinstance(c, RunAction)][2]
        assert (act.state, act.attempt, act.continuation) == ("fix", 2, "3 left")
        assert run.continuation_prompt is None

    def test_terminate(self):
        world = ScriptedWorld(loop(CHECK_FIX, on_handoff="terminate"), [Says(0, line=HANDOFF)])
        run, ending = begin(world)
        assert (run.status, run.reason, ending.exit_code) == ("failed", "handoff", 1)
        assert run.continuation_prompt is None

    def test_continue_runs_the_action_again_spaced_out(self):
        script = [Says(0, line=HANDOFF)] * 3 + [0]
        world = ScriptedWorld(loop(CHECK_FIX, on_handoff="continue"), script)
        assert story(world) == is_told("""
            signal handoff (3 left)
            handoff (3 left)
            signal handoff (3 left)
            handoff (3 left), after 1000 ms
            signal handoff (3 left)
            handoff (3 left), after 2000 ms
            check -> done (on_pass)
            loop_complete: completed, terminal""")

    def test_agents_that_hand_off_for_ever_come_to_rest(self):
        script = [Says(0, line=HANDOFF)] * 99
        world = ScriptedWorld(loop(CHECK_FIX, on_handoff="continue", max_continuations=2), script)
        _, ending = begin(world)
        assert (ending.exit_code, ending.message) == (4, "more than 2 handoffs in a row in `check`")
        go_on(world, script, limits=Limits(max_continuations=1))
        assert len([c for c in world.commands if isinstance(c, RunAction)]) == 5

    def test_spawn_only_for_an_agent(self):
        of_shell = ScriptedWorld(loop(CHECK_FIX, on_handoff="spawn"), [Says(0, line=HANDOFF)])
        of_agent = ScriptedWorld(
            loop(CHECK_FIX, on_handoff="spawn"),
            [Says(0, line=HANDOFF, agent="handoff"), Says(0, line=HANDOFF, agent="handoff")],
        )
        assert not begin(of_shell)[1].spawn
        assert begin(of_agent)[1].spawn
        assert go_on(of_agent, [Says(0, line=HANDOFF, agent="handoff")])[1].spawn
        assert "after 1000 ms" in told(of_agent)


AGENT: dict[str, Any] = {
    "ask": {"action": "/ll:check_code types", "on_pass": "done", "on_fail": "fix"},
    "fix": {"action": "/ll:manage_issue bug fix", "next": "ask"},
    "done": {"terminal": True},
}


class TestAgents:
    def test_a_verdict_is_asked_where_it_matters(self):
        world = ScriptedWorld(
            loop(AGENT),
            [
                Says(1, agent="success", verdict="fail"),
                Says(0, agent="success"),
                Says(0, agent="success", verdict="pass"),
            ],
        )
        assert told_lines(world)[-1] == "loop_complete: completed, terminal"
        asked = [c.words for c in world.commands if isinstance(c, RunAgent)]
        assert asked == [("pass", "fail"), None, ("pass", "fail")]

    @pytest.mark.parametrize(
        ("said", "expected"),
        [
            (Says(2, agent="error", reason="unknown command"), "loop_error: failed, error"),
            (Says(0, agent="success"), "loop_error: failed, error"),
            (Says(1, agent="auth", reason="bad key"), "loop_error: failed, auth"),
            (Says(1, agent="billing"), "loop_error: failed, billing"),
        ],
        ids=["error", "no verdict", "auth", "billing"],
    )
    def test_other_ends(self, said, expected):
        world = ScriptedWorld(
            loop(AGENT, on_error="ask" if said.result.agent == "auth" else None)
            if said.result.agent == "auth"
            else loop(AGENT),
            [said],
        )
        assert told_lines(world)[-1] == expected

    def test_a_denied_tool_is_a_fail(self):
        world = ScriptedWorld(loop(AGENT), [Says(1, agent="fail"), Says(1, agent="fail")])
        assert story(world) == is_told("""
            ask -> fix (on_fail)
            loop_error: failed, error""")

    def test_a_turn_that_ends_at_its_cost_limit_is_a_fail_and_no_error(self):
        at_limit = Says(1, agent="fail", kind="cost_limit_reached")
        done = Says(0, agent="success", verdict="pass")
        world = ScriptedWorld(loop(AGENT), [at_limit, at_limit, done])
        assert story(world) == is_told("""
            ask -> fix (on_fail)
            fix -> ask (next)
            iteration 2
            ask -> done (on_pass)
            loop_complete: completed, terminal""")

    def test_rate_limits_wait_and_count_nothing(self):
        busy = Says(2, agent="wait", kind="rate_limited", reason="usage limit")
        reset = Says(2, agent="wait", reason="until then", retry_at_ms=1_768_473_000_000 + 99_000)
        world = ScriptedWorld(
            loop(AGENT), [busy, busy, reset, Says(0, agent="success", verdict="pass")]
        )
        run, _ = begin(world)
        assert told(world) == is_told("""
            host wait (usage limit)
            host wait (usage limit)
            host wait (until then)
            ask -> done (on_pass)
            loop_complete: completed, terminal""")
        assert (run.iteration, run.host_waits, world.ran_ms) == (1, 0, 100_000)

    def test_not_for_ever(self):
        states = {**AGENT, "ask": {**AGENT["ask"], "host": {"max_wait": 25}}}
        busy = Says(2, agent="wait", kind="overloaded", takes_ms=0)
        world = ScriptedWorld(loop(states), [busy, busy, busy])
        assert told_lines(world)[-1] == "loop_error: failed, error"
        assert world.log[-1]["error"] == "overloaded; longer than `max_wait`"

    def test_a_busy_service_spawns_no_session(self):
        said = [Says(2, agent="wait"), Says(0, agent="success", verdict="pass")]
        world = ScriptedWorld(loop(AGENT, on_handoff="spawn"), said)
        assert told_lines(world)[-1] == "loop_complete: completed, terminal"

    def test_the_loops_time_ends_a_wait(self):
        busy = Says(2, agent="wait")
        world = ScriptedWorld(loop(AGENT, timeout=5), [busy])
        begin(world)
        assert (world.log[-1]["event"], world.ran_ms) == ("loop_timeout", 5000)


class TestConditions:
    def test_convergence_remembers(self):
        states = {
            "measure": {
                "action": "count",
                "on_target": "done",
                "on_progress": "apply",
                "on_stall": "done",
            },
            "apply": {"action": "./fix", "next": "measure"},
            "done": {"terminal": True},
        }
        world = ScriptedWorld(
            loop(states, context={"target": 0}),
            [Says(0, "12"), 0, Says(0, "4"), 0, Says(0, "4")],
        )
        assert story(world) == is_told("""
            measure -> apply (on_progress)
            apply -> measure (next)
            iteration 2
            measure -> apply (on_progress)
            apply -> measure (next)
            iteration 3
            measure -> done (on_stall)
            loop_error: failed, terminal""")

    def test_a_decision_state_stores_nothing(self):
        states = {
            "count": {"action": "wc", "next": "decide"},
            "decide": {
                "condition": {
                    "type": "output_numeric",
                    "source": "count",
                    "target": 5,
                    "operator": "le",
                },
                "on_pass": "done",
                "on_fail": "count",
            },
            "done": {"terminal": True},
        }
        world = ScriptedWorld(loop(states), [Says(0, "9"), Says(0, "2")])
        run, _ = begin(world)
        assert [r["result"] for r in world.log if r["event"] == "condition_eval"] == [
            "fail",
            "pass",
        ]
        assert (run.prev_state, set(run.captured)) == ("count", {"count"})

    def test_words_go_by_route(self):
        states = {
            "ask": {
                "action": "x",
                "condition": {"type": "verdict", "words": ["yes", "no"]},
                "on_yes": "done",
                "route": {"no": "ask"},
            },
            "done": {"terminal": True},
        }
        world = ScriptedWorld(loop(states), [Says(0, "VERDICT: no"), Says(0, "VERDICT: yes")])
        assert story(world) == is_told("""
            ask -> ask (route)
            iteration 2
            ask -> done (on_yes)
            loop_complete: completed, terminal""")

    def test_capture_keeps_the_result_under_its_name_too(self):
        states = {
            "count": {"action": "wc", "capture": "n", "next": "done"},
            "done": {"terminal": True},
        }
        run, _ = begin(ScriptedWorld(loop(states), [Says(0, "9")]))
        assert run.captured["n"] == run.captured["count"]

    def test_capture_exit_is_judged_later(self):
        states = {
            "step_0": {"action": "x", "next": "step_1", "capture_exit": True},
            "step_1": {"action": "y", "next": "evaluate"},
            "evaluate": {
                "condition": {"type": "exit_code", "source": "step_0", "target": 0},
                "on_pass": "done",
                "on_fail": "step_0",
            },
            "done": {"terminal": True},
        }
        world = ScriptedWorld(loop(states), [7, 0])
        assert told_lines(world)[-1] == "loop_error: failed, error"
        world = ScriptedWorld(loop(states), [1, 0, 0, 0])
        assert told_lines(world)[-1] == "loop_complete: completed, terminal"
        world = ScriptedWorld(loop(states), [127])
        assert told_lines(world) == ["loop_error: failed, error"]
        assert world.log[-1]["error"] == "exit 127: not found"
        world = ScriptedWorld(loop(states), [Says(None, signal=9)])
        assert told_lines(world) == ["loop_error: failed, error"]


class TestTornLogs:
    """A batch of events may be cut anywhere; each place has its way on."""

    def cut_at(self, states: dict[str, Any], script: list[Any], event: str) -> ScriptedWorld:
        first = ScriptedWorld(loop(states), script)
        begin(first)
        end = next(n for n, record in enumerate(first.log) if record["event"] == event)
        world = ScriptedWorld(first.loop, [], ran_ms=first.log[end]["ran_ms"])
        world.log = first.log[: end + 1]
        world.saved = rebuilt(world.log, world.loop)
        return world

    def test_after_the_judgement(self):
        states = {
            "a": {
                "action": "x",
                "condition": {"type": "output_numeric", "target": 1},
                "on_pass": "b",
            },
            "b": {"terminal": True},
        }
        world = self.cut_at(states, [Says(0, "1")], "condition_eval")
        go_on(world, [])
        assert told(world) == is_told("""
            resume in a
            a -> b (on_pass)
            loop_complete: completed, terminal""")

    def test_after_the_end_of_an_action(self):
        world = self.cut_at(CHECK_FIX, [0], "action_complete")
        go_on(world, [])
        assert told(world) == is_told("""
            resume in check
            check -> done (on_pass)
            loop_complete: completed, terminal""")

    def test_after_entering_the_last_state(self):
        world = self.cut_at(CHECK_FIX, [0], "loop_complete")
        go_on(world, [])
        assert told(world).splitlines()[-1] == "loop_complete: completed, terminal"

    def test_while_waiting(self):
        first = ScriptedWorld(loop(CHECK_FIX, backoff=5), [1, 0, 0])
        begin(first)
        end = next(n for n, record in enumerate(first.log) if record["event"] == "iteration")
        world = ScriptedWorld(first.loop, [], ran_ms=first.log[end]["ran_ms"] + 2000)
        world.log = first.log[: end + 1]
        world.saved = rebuilt(world.log, world.loop)
        go_on(world, [0])
        assert world.ran_ms == first.log[end]["ran_ms"] + 5000 + 1000

    def test_while_waiting_for_a_host(self):
        busy = Says(2, agent="wait")
        first = ScriptedWorld(loop(AGENT), [busy, Says(0, agent="success", verdict="pass")])
        begin(first)
        end = next(n for n, record in enumerate(first.log) if record["event"] == "host_wait")
        world = ScriptedWorld(first.loop, [], ran_ms=first.log[end]["ran_ms"])
        world.log = first.log[: end + 1]
        world.saved = rebuilt(world.log, world.loop)
        go_on(world, [Says(0, agent="success", verdict="pass")])
        assert told(world).splitlines()[-1] == "loop_complete: completed, terminal"
        assert world.ran_ms == first.ran_ms


def test_what_the_last_state_printed_is_its_reason():
    states = {**CHECK_FIX, "done": {"action": "x", "terminal": True, "outcome": "failure"}}
    world = ScriptedWorld(loop(states), [0, Says(0, "some\nreason \n")])
    _, ending = begin(world)
    assert ending.message == "reason"


def test_the_last_state_may_be_cut_by_the_loops_time():
    states = {**CHECK_FIX, "done": {"action": "x", "terminal": True}}
    world = ScriptedWorld(loop(states, timeout=2), [0, Says(0, takes_ms=9000)])
    assert told_lines(world)[-1] == "loop_complete: completed, terminal"


def test_a_signal_of_ones_own_changes_nothing():
    world = ScriptedWorld(loop(CHECK_FIX), [Says(0, line=SignalLine("custom", "hello"))])
    assert told_lines(world)[-1] == "loop_complete: completed, terminal"


def test_a_stop_while_waiting_keeps_the_wait():
    world = ScriptedWorld(loop(CHECK_FIX, backoff=60), [1, 0])
    world.stops_in_wait = 15
    run, ending = begin(world)
    assert (ending.exit_code, run.wait is not None) == (143, True)
    world.stops_in_wait = None
    go_on(world, [0])
    assert told(world).splitlines()[-1] == "loop_complete: completed, terminal"
    resumed = next(record for record in world.log if record["event"] == "resume")
    assert (resumed["wait"], 0 < resumed["wait_ms"] <= 60_000) == ("backoff", True)


def test_a_wait_that_is_over_is_not_told_again():
    world = ScriptedWorld(loop(CHECK_FIX, backoff=60), [1, 0])
    world.stops_in_wait = 15
    begin(world)
    world.stops_in_wait = None
    world.ran_ms += 60_000
    go_on(world, [0])
    resumed = next(record for record in world.log if record["event"] == "resume")
    assert "wait" not in resumed


def test_a_resume_elsewhere_waits_for_nothing():
    world = ScriptedWorld(loop(CHECK_FIX, backoff=60), [1, 0])
    world.stops_in_wait = 15
    begin(world)
    world.stops_in_wait = None
    go_on(world, [0, 0], from_state="fix")
    resumed = next(record for record in world.log if record["event"] == "resume")
    assert "wait" not in resumed


@pytest.mark.parametrize(
    ("settings", "first", "requested", "again"),
    [
        pytest.param({}, Says(2), {}, True, id="it failed"),
        pytest.param({}, Says(2), {"from_state": "fix"}, None, id="but elsewhere"),
        pytest.param(
            {"timeout": 2},
            Says(0, takes_ms=9000),
            {"limits": Limits(timeout=100)},
            True,
            id="its time was over",
        ),
        pytest.param({"timeout": 2}, Says(0, takes_ms=9000), {}, None, id="its time is over"),
    ],
)
def test_a_state_that_failed_is_said_to_run_once_more(settings, first, requested, again):
    world = ScriptedWorld(loop(CHECK_FIX, **settings), [first])
    begin(world)
    go_on(world, [0, 0], **requested)
    resumed = next(record for record in world.log if record["event"] == "resume")
    assert resumed.get("again") is again


def test_what_a_command_printed_as_json_can_be_named():
    states = {
        "a": {"action": "x", "next": "b"},
        "b": {"action": "echo ${captured.a.structured.phase}", "next": "done"},
        "done": {"terminal": True},
    }
    world = ScriptedWorld(loop(states), [Says(0, "{}", structured={"phase": 3}), 0])
    assert told_lines(world)[-1] == "loop_complete: completed, terminal"


def test_a_warning_of_the_host_is_told():
    said = Says(0, agent="success", verdict="pass")
    said.warnings = ("work left behind was ended",)
    world = ScriptedWorld(loop(AGENT), [said])
    assert told_lines(world)[0] == "warning: work left behind was ended"


def test_a_resume_without_time_begins_no_action():
    cut = Says(None, stop=15, signal=15, cut_by="stop")
    world = ScriptedWorld(loop(CHECK_FIX), [cut])
    begin(world)
    go_on(world, [], limits=Limits(timeout=0.5))
    assert told(world).splitlines()[-1] == "loop_timeout: failed, loop_timeout"


def test_time_that_is_up_between_two_actions_runs_the_timeout_state():
    states = {**CHECK_FIX, "tidy": {"action": "tidy", "next": "check"}}
    world = ScriptedWorld(loop(states, backoff=50, timeout=10, on_timeout="tidy"), [1, 0, 0])
    assert story(world) == is_told("""
        check -> fix (on_fail)
        fix -> check (next)
        iteration 2, after 50000 ms
        fix -> tidy (on_timeout)
        loop_timeout: failed, loop_timeout""")
    assert [record.get("loop_timeout") for record in world.log if "from" in record][-1] == "check"


def test_time_that_is_up_while_a_host_is_busy_runs_the_timeout_state():
    states = {**AGENT, "tidy": {"action": "tidy", "next": "ask"}}
    world = ScriptedWorld(loop(states, timeout=5, on_timeout="tidy"), [Says(2, agent="wait"), 0])
    assert story(world) == is_told("""
        host wait (the agent's service is busy)
        ask -> tidy (on_timeout)
        loop_timeout: failed, loop_timeout""")


def test_values_in_a_circle_are_an_error():
    states = {
        "a": {"action": "${context.x}", "context": {"x": "${context.y}", "y": "${context.x}"}}
    }
    world = ScriptedWorld(loop(states), [])
    assert story(world) == "loop_error: failed, error"
    assert "circular reference" in world.log[-1]["error"]


@pytest.mark.parametrize(
    ("states", "script"),
    [
        pytest.param(
            {"a": {"action": "${captured.x.output}", "on_error": "b"}, "b": {"terminal": True}},
            [],
            id="where the run continues",
        ),
        pytest.param(
            {"a": {"action": "${captured.x.output}", "terminal": True}}, [], id="at its end"
        ),
        pytest.param({"a": {"action": "x", "terminal": True}}, [1], id="of a failed last action"),
    ],
)
def test_a_warning_names_the_state(states, script):
    world = ScriptedWorld(loop(states), script)
    begin(world)
    assert [each["state"] for each in world.log if each["event"] == "warning"] == ["a"]


@pytest.mark.parametrize(
    ("done", "script"),
    [
        pytest.param({}, [0, 0, Stop(15)], id="no action"),
        pytest.param({"action": "notify"}, [0, 0, 0, 0, Stop(15)], id="its action has run"),
        pytest.param({"action": "${captured.x.output}"}, [0, 0, Stop(15)], id="it could not run"),
    ],
)
def test_maintain_starts_again_after_the_last_state(done, script):
    states = {**CHECK_FIX, "done": {"terminal": True, **done}}
    world = ScriptedWorld(loop(states, maintain=True), script)
    begin(world)
    cycles = [record["cycle"] for record in world.log if record["event"] == "cycle"]
    assert (cycles, world.log[-1]["event"]) == ([2, 3], "loop_interrupted")


@pytest.mark.parametrize(
    ("said", "error"),
    [
        pytest.param(Says(1, agent="auth", reason="bad key"), "bad key", id="auth"),
        pytest.param(Says(1, agent="billing"), "billing", id="no reason given"),
        pytest.param(
            Says(1, agent="error", reason="no such command"), "no such command", id="error"
        ),
        pytest.param(Says(1, agent="error"), "error", id="an error without a reason"),
        pytest.param(Says(0, line=SignalLine("error", "no disk")), "no disk", id="signal"),
        pytest.param(
            Says(0, line=SignalLine("error", "")),
            "the action printed FATAL_ERROR",
            id="a bare signal",
        ),
        pytest.param(Says(None, takes_ms=0, cut_by="action"), "timed out after 0 s", id="timeout"),
    ],
)
def test_the_error_a_run_ends_with(said, error):
    world = ScriptedWorld(loop(AGENT), [said])
    _, ending = begin(world)
    assert (ending.message, world.log[-1]["error"]) == (error, error)


@pytest.mark.parametrize(
    ("state", "script", "reason"),
    [
        pytest.param({"timeout": 1}, [Says(0, takes_ms=9000)], "timeout", id="a timeout"),
        pytest.param({"action": "${captured.x.output}"}, [], "error", id="an action not filled in"),
        pytest.param({}, [Says(0, line=SignalLine("error", ""))], "error", id="a signal line"),
    ],
)
def test_a_condition_that_was_not_asked_is_not_in_the_log(state, script, reason):
    numeric = {"type": "output_numeric", "target": 1}
    states = {"a": {"action": "x", "condition": numeric, "on_pass": "b", **state}}
    world = ScriptedWorld(loop({**states, "b": {"terminal": True}}), script)
    begin(world)
    assert world.log[-1]["reason"] == reason
    assert "condition_eval" not in [record["event"] for record in world.log]


def test_a_handler_for_the_loops_time_that_nobody_can_pay_for_is_left_out():
    states = {
        "fix": {"action": "/fix", "next": "done"},
        "late": {"action": "/report", "next": "done"},
        "done": {"terminal": True},
    }
    fields = {"timeout": 2, "on_timeout": "late", "max_cost_usd": 1}
    loop = FSMLoop.from_dict({"name": "l", "initial": "fix", "states": states, **fields})
    dear = Says(agent="success", tokens=5, cost_usd=9.0, takes_ms=9000)
    world = ScriptedWorld(loop, [dear])
    run, ending = begin(world)
    assert (run.status, ending.reason) == ("failed", "loop_timeout")
    assert len([each for each in world.log if each["event"] == "action_start"]) == 1


@pytest.mark.parametrize(("most", "said"), [(1, "1 iteration"), (2, "2 iterations")])
def test_the_message_of_used_up_iterations(most, said):
    world = ScriptedWorld(loop(CHECK_FIX, max_iterations=most), [1, 0] * 2)
    assert begin(world)[1].message == f"{said}, still in `fix`"


def test_what_the_actions_left_running_is_named():
    world = ScriptedWorld(loop(CHECK_FIX), [0])
    world.leftovers = ("sleep (12)", "tail (13)")
    assert "warning: ended processes that the actions had left running: sleep (12), tail (13)" in (
        told_lines(world)
    )


def test_what_the_run_has_to_report_comes_right_before_its_end():
    world = ScriptedWorld(loop(CHECK_FIX), [0])
    world.report, world.closing_warnings = "two turns", ("a file is left", "another, too")
    assert told_lines(world)[-4:] == [
        "warning: a file is left",
        "warning: another, too",
        "report: two turns",
        "loop_complete: completed, terminal",
    ]


# ── the state for the loop's time ──────────────────────────────────────────────────────────────


def timed(late: dict[str, Any], **fields: Any) -> FSMLoop:
    """A loop whose time is up after its first action; `late` is entered then, once."""
    states = {
        "fix": {"action": "/fix", "next": "fix"},
        "late": {"next": "fix", **late},
        "done": {"terminal": True},
    }
    return loop(states, timeout=2, on_timeout="late", **fields)


LONG = Says(0, agent="success", takes_ms=9000)
OUT_OF_TIME = "loop_timeout: failed, loop_timeout"


@pytest.mark.parametrize(
    ("late", "said"),
    [
        pytest.param({"action": "x"}, [0], id="it ends"),
        pytest.param({"action": "x", "on_error": "fix"}, [2], id="it fails"),
        pytest.param(
            {"action": "x"}, [Says(0, line=SignalLine("handoff", "notes"))], id="it hands off"
        ),
        pytest.param({"action": "x"}, [Says(0, line=SignalLine("stop", ""))], id="it says stop"),
        pytest.param({"action": "/x"}, [Says(2, agent="wait")], id="a usage limit"),
        pytest.param({"action": "/x"}, [Says(2, agent="auth")], id="no login"),
        pytest.param({"action": "${captured.no.output}", "on_error": "fix"}, [], id="no value"),
        pytest.param(
            {"condition": {"type": "exit_code", "source": "fix"}, "on_fail": "fix"},
            [],
            id="a decision",
        ),
    ],
)
def test_the_state_for_the_loops_time_runs_once_and_leads_nowhere(late, said):
    world = ScriptedWorld(timed(late, on_handoff="continue"), [LONG, *said])
    assert told_lines(world)[-1] == OUT_OF_TIME
    assert [each["state"] for each in world.log if each["event"] == "state_enter"] == [
        "fix",
        "late",
    ]


def test_without_more_time_a_resume_runs_nothing():
    world = ScriptedWorld(timed({"action": "x"}), [LONG, 0])
    begin(world)
    before = len(world.log)
    go_on(world, [])
    assert [each["event"] for each in world.log[before:]] == ["resume", "loop_timeout"]
    assert "again" not in world.log[before]


def test_a_resume_without_more_time_that_is_killed_runs_nothing_either():
    """Also where the state for the loop's time could not be entered: there was no money for it."""
    dear = Says(0, agent="success", cost_usd=9.0, takes_ms=9000)
    world = ScriptedWorld(timed({"action": "/x"}, max_cost_usd=1), [dear])
    begin(world)
    go_on(world, [])
    cut_after(world, "resume")
    world.loop = world.loop._replace(max_cost_usd=99.0)
    before = len(world.log)
    go_on(world, [])
    assert [each["event"] for each in world.log[before:]] == ["resume", "loop_timeout"]


def test_with_more_time_a_resume_goes_where_it_was_cut():
    world = ScriptedWorld(timed({"action": "x"}), [LONG, 0])
    begin(world)
    go_on(world, [Says(2, agent="error")], limits=Limits(timeout=100))
    assert told(world).splitlines()[-3:] == [
        "late -> fix (resume)",
        "iteration 2",
        "loop_error: failed, error",
    ]


@pytest.mark.parametrize("requested", ["$current", "fix", "$error"])
def test_killed_in_the_state_for_the_loops_time(requested):
    world = ScriptedWorld(timed({"action": "x"}, on_interrupt=requested), [LONG, Crash])
    crash_and_go_on(world, [0])
    assert told(world).splitlines()[-1] == OUT_OF_TIME
    starts = [each["state"] for each in world.log if each["event"] == "action_start"]
    assert starts == (["fix", "late", "late"] if requested == "$current" else ["fix", "late"])


# ── logs that are cut between two events that belong together ──────────────────────────────────


def cut_after(world: ScriptedWorld, event: str) -> None:
    last = [n for n, each in enumerate(world.log) if each["event"] == event][-1]
    cut(world, last + 1)


def test_cut_on_the_way_to_the_state_for_the_loops_time():
    """It is entered though no iteration is left for it."""
    states = {"late": {"action": "x", "on_pass": "fix"}, "fix": {"action": "/fix", "next": "late"}}
    world = ScriptedWorld(
        loop(states, timeout=2, on_timeout="late", max_iterations=1), [0, LONG, 0]
    )
    begin(world)
    cut_after(world, "transition")
    go_on(world, [0])
    assert told(world).splitlines()[-3:] == [
        "fix -> late (on_timeout)",
        "resume in fix",
        OUT_OF_TIME,
    ]
    assert world.log[-2]["event"] == "action_complete"


@pytest.mark.parametrize(
    ("states", "script", "fields", "expected"),
    [
        pytest.param(
            {"a": {"action": "x", "next": "done"}, "done": {"terminal": True}},
            [0],
            {"maintain": True, "maintain_interval": 30},
            "cycle 2, after 30000 ms",
            id="before a cycle",
        ),
        pytest.param(
            {"a": {"action": "x", "on_fail": "$current", "on_pass": "b"}, "b": {"terminal": True}},
            [1],
            {"backoff": 4},
            "iteration 2\nretry 2, after 4000 ms",
            id="before a retry",
        ),
        pytest.param(
            {"a": {"action": "x", "next": "b"}, "b": {"action": "y", "next": "a"}},
            [0, 0],
            {"backoff": 4},
            "iteration 2, after 4000 ms",
            id="before an iteration",
        ),
        pytest.param(
            {"a": {"action": "x", "next": "b"}, "b": {"action": "y", "next": "c"}},
            [0],
            {"backoff": 4},
            "",
            id="before another state",
        ),
    ],
)
def test_a_wait_that_was_cut_off_the_log_is_made_up(states, script, fields, expected):
    world = ScriptedWorld(loop({"c": {"terminal": True}, **states}, **fields), [*script, Crash])
    world.loop = world.loop._replace(initial="a")
    world.crashes_in_wait = True
    with pytest.raises(Crash):
        begin(world)
    cut_after(world, "transition")
    before = len(told(world))
    with pytest.raises(Crash):
        go_on(world, [Crash])
    assert told(world)[before:].strip().partition("\n")[2] == expected


def test_cut_between_an_iteration_and_the_wait_of_a_retry():
    states = {
        "a": {"action": "x", "on_fail": "$current", "on_pass": "b"},
        "b": {"terminal": True},
    }
    world = ScriptedWorld(loop(states, backoff=4), [1, 0])
    begin(world)
    cut_after(world, "iteration")
    go_on(world, [0])
    assert told(world).splitlines()[2:] == [
        "resume in a",
        "retry 2, after 4000 ms",
        "a -> b (on_pass)",
        "loop_complete: completed, terminal",
    ]


# ── the last state ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("done", "said", "expected"),
    [
        pytest.param({"action": "x"}, Says(1), ["the action of `done` failed: exit 1"], id="fails"),
        pytest.param({"action": "x"}, Says(0), [], id="passes"),
        pytest.param(
            {"action": "x", "condition": {"type": "output_contains", "pattern": "a+"}},
            Says(0, "b"),
            [],
            id="what would have to be asked is not",
        ),
    ],
)
def test_a_last_action_that_failed_is_worth_a_word(done, said, expected):
    states = {**CHECK_FIX, "done": {"terminal": True, **done}}
    world = ScriptedWorld(loop(states), [0, said])
    begin(world)
    assert [each["message"] for each in world.log if each["event"] == "warning"] == expected
    assert world.log[-1]["status"] == "completed"


@pytest.mark.parametrize(
    ("last", "script", "expected"),
    [
        pytest.param({}, [2], "entered by `on_error`", id="no action"),
        pytest.param({}, [1], "", id="its name says so"),
        pytest.param({"action": "x"}, [2, Says(0, " a\n b \n")], "b", id="its last line"),
        pytest.param(
            {"action": "x"}, [2, Says(0, "", tail="c\nd\n")], "d", id="the end of a long one"
        ),
        pytest.param({"action": "x"}, [2, Says(0, "")], "entered by `on_error`", id="nothing"),
        pytest.param(
            {"action": "${captured.no.output}"},
            [Says(2, "of another state")],
            "entered by `on_error`",
            id="an action that could not be run",
        ),
    ],
)
def test_why_a_failure_is_one(last, script, expected):
    states = {
        "check": {"action": "y", "on_fail": "over", "on_error": "over"},
        "over": {"terminal": True, "outcome": "failure", **last},
    }
    assert begin(ScriptedWorld(loop(states), script))[1].message == expected


@pytest.mark.parametrize(
    ("done", "expected"), [({}, "check"), ({"on_maintain": "fix"}, "fix")], ids=["first", "named"]
)
def test_where_a_cycle_begins(done, expected):
    states = {**CHECK_FIX, "done": {"terminal": True, **done}}
    world = ScriptedWorld(loop(states, maintain=True), [0, Crash])
    with pytest.raises(Crash):
        begin(world)
    entered = [each["state"] for each in world.log if each["event"] == "state_enter"]
    assert entered == ["check", "done", expected]


def test_events_are_counted_from_one():
    world = ScriptedWorld(loop(CHECK_FIX), [0])
    begin(world)
    assert [each["seq"] for each in world.log] == list(range(1, len(world.log) + 1))


def test_an_agent_that_failed_is_an_error_whatever_it_said():
    """Its last words are no answer to the condition."""
    states = {
        "ask": {
            "action": "/ask",
            "condition": {"type": "output_numeric", "target": 0},
            "on_pass": "done",
            "on_error": "over",
        },
        "over": {"terminal": True, "outcome": "failure"},
        "done": {"terminal": True},
    }
    world = ScriptedWorld(loop(states), [Says(2, "0", agent="error", reason="it broke")])
    assert told_lines(world)[0] == "ask -> over (on_error)"
