"""The rules of evidence as stories: what becomes of a pass, by the trees around it."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest

from little_loops.fsm.commands import Ending, Job, RunAgent, RunShell
from little_loops.fsm.endings import evidence_of
from little_loops.fsm.evidence import (
    merged_with_others,
    needs_evidence,
    stall_after,
    turned_off,
    wants_evidence,
)
from little_loops.fsm.schema import Evidence, FSMLoop
from little_loops.fsm.state import Limits, LoopState, SignalLine, Train, Trees, Workspace
from tests.fsm.scripted import Crash, Says, ScriptedWorld, Stop, begin, cut, go_on, told

AGENT: dict[str, Any] = {"agent": "success"}


def goal(*script: Any, loop: dict[str, Any] | None = None, **evidence: Any) -> ScriptedWorld:
    states = {
        "check": {"action": "make test", "check": True, "on_pass": "done", "on_fail": "fix"},
        "fix": {"action": "/fix", "next": "check"},
        "done": {"terminal": True},
    }
    given = {"name": "g", "initial": "check", "paradigm": "goal", "states": states}
    evidence.setdefault("protect", ["tests/"])
    given |= {"evidence": evidence} | (loop or {})
    return ScriptedWorld(FSMLoop.from_dict(given), script)


def agent(**writes: str | None) -> Says:
    return Says(0, writes={name.replace("__", "/"): text for name, text in writes.items()}, **AGENT)


def story(world: ScriptedWorld) -> str:
    begin(world, evidence="on")
    assert not world.script, "every action of the script ran"
    return told(world)


def row(id: str, world: ScriptedWorld, text: str) -> Any:
    return pytest.param(world, dedent(text).strip(), id=id)


@pytest.mark.parametrize(
    ("world", "expected"),
    [
        row(
            "an honest fix completes",
            goal(1, agent(src__a="1"), 0),
            """
            check -> fix (on_fail)
            fix -> check (next)
            iteration 2
            check -> done (on_pass)
            loop_complete: completed, terminal
            """,
        ),
        row(
            "an edited test is put back before the check",
            goal(1, agent(tests__t="1"), 1, agent(src__a="1"), 0),
            """
            check -> fix (on_fail)
            tampered by agent: tests/t (restore)
            restored: tests/t
            fix -> check (next)
            iteration 2
            check -> fix (on_fail)
            fix -> check (next)
            iteration 3
            check -> done (on_pass)
            loop_complete: completed, terminal
            """,
        ),
        row(
            "a new file among the protected ones is removed",
            goal(1, agent(tests__conftest="skip", src__a="1"), 0),
            """
            check -> fix (on_fail)
            tampered by agent: tests/conftest (restore)
            restored: tests/conftest
            fix -> check (next)
            iteration 2
            check -> done (on_pass)
            loop_complete: completed, terminal
            """,
        ),
        row(
            "new tests are allowed where only existing files are protected",
            goal(1, agent(tests__new="1", src__a="1"), 0, existing_only=True),
            """
            check -> fix (on_fail)
            fix -> check (next)
            iteration 2
            check -> done (on_pass)
            loop_complete: completed, terminal
            """,
        ),
        row(
            "tampering that must fail ends the run, and the check does not run",
            goal(1, agent(tests__t="1"), tampering="fail"),
            """
            check -> fix (on_fail)
            tampered by agent: tests/t (fail)
            loop_error: failed, tampered
            """,
        ),
        row(
            "tampering that is reported changes nothing, and is reported once",
            goal(1, agent(tests__t="1"), 1, agent(src__a="1"), 0, tampering="report"),
            """
            check -> fix (on_fail)
            tampered by agent: tests/t (report)
            fix -> check (next)
            iteration 2
            check -> fix (on_fail)
            fix -> check (next)
            iteration 3
            check -> done (on_pass)
            loop_complete: completed, terminal
            """,
        ),
        row(
            "what the check is made of is reported where only other paths are protected",
            goal(1, agent(src__a="1", Makefile="1", tests__t="1"), 0),
            """
            check -> fix (on_fail)
            tampered by agent: Makefile (report)
            tampered by agent: tests/t (restore)
            restored: tests/t
            fix -> check (next)
            iteration 2
            check -> done (on_pass)
            loop_complete: completed, terminal
            """,
        ),
        row(
            "what changes while a check runs is put back too",
            goal(Says(1, writes={"tests/t": "1"}), agent(src__a="1"), 0),
            """
            tampered by check: tests/t (restore)
            restored: tests/t
            check -> fix (on_fail)
            fix -> check (next)
            iteration 2
            check -> done (on_pass)
            loop_complete: completed, terminal
            """,
        ),
        row(
            "changes outside the scope are reported",
            goal(1, agent(src__a="1", other__b="1"), 0),
            """
            check -> fix (on_fail)
            out of scope: other/b (report)
            fix -> check (next)
            iteration 2
            check -> done (on_pass)
            loop_complete: completed, terminal
            """,
        ),
        row(
            "changes outside the scope are put back where the scope is enforced",
            goal(1, agent(src__a="1", other__b="1"), loop={"scope_writes": "enforce"}),
            """
            check -> fix (on_fail)
            out of scope: other/b (enforce)
            restored: other/b
            loop_error: failed, out_of_scope
            """,
        ),
        row(
            "a protected path outside the scope is restored, which is no change of the agent's",
            goal(1, agent(src__a="1", other__b="1", tests__other="1"), 0),
            """
            check -> fix (on_fail)
            tampered by agent: tests/other (restore)
            out of scope: other/b (report)
            restored: tests/other
            fix -> check (next)
            iteration 2
            check -> done (on_pass)
            loop_complete: completed, terminal
            """,
        ),
        row(
            "a protected path outside an enforced scope is restored once",
            goal(1, agent(other__b="1", tests__other="1"), loop={"scope_writes": "enforce"}),
            """
            check -> fix (on_fail)
            tampered by agent: tests/other (restore)
            out of scope: other/b, tests/other (enforce)
            restored: tests/other
            restored: other/b
            loop_error: failed, out_of_scope
            """,
        ),
        row(
            "tampering that must fail is not made good by the scope",
            goal(
                *(1, agent(other__b="1", tests__other="1")),
                loop={"scope_writes": "enforce"},
                tampering="fail",
            ),
            """
            check -> fix (on_fail)
            tampered by agent: tests/other (fail)
            out of scope: other/b, tests/other (enforce)
            restored: other/b
            loop_error: failed, tampered
            """,
        ),
        row(
            "an enforced scope puts back what protection would only report",
            goal(
                *(1, agent(other__Makefile="1", tests__other="1")),
                loop={"scope_writes": "enforce"},
                tampering="report",
            ),
            """
            check -> fix (on_fail)
            out of scope: other/Makefile, tests/other (enforce)
            restored: other/Makefile, tests/other
            loop_error: failed, out_of_scope
            """,
        ),
        row(
            "where nothing is undone, protection reports",
            goal(
                *(1, agent(src__a="1", other__b="1", other__Makefile="1", tests__other="1"), 0),
                tampering="report",
            ),
            """
            check -> fix (on_fail)
            tampered by agent: other/Makefile (report)
            tampered by agent: tests/other (report)
            out of scope: other/b (report)
            fix -> check (next)
            iteration 2
            check -> done (on_pass)
            loop_complete: completed, terminal
            """,
        ),
        row(
            "changes outside the scope are nobody's business where they are ignored",
            goal(1, agent(src__a="1", other__b="1"), 0, loop={"scope_writes": "ignore"}),
            """
            check -> fix (on_fail)
            fix -> check (next)
            iteration 2
            check -> done (on_pass)
            loop_complete: completed, terminal
            """,
        ),
        row(
            "a pass on a tree that failed before is tried again",
            goal(1, agent(), 0, 0),
            """
            check -> fix (on_fail)
            fix -> check (next)
            iteration 2
            recheck check here: it failed on the same tree in iteration 1
            warning: `check` failed in iteration 1 and passes now, on the same tree
            check -> done (on_pass)
            loop_complete: completed, terminal
            """,
        ),
        row(
            "a lucky pass does not complete",
            goal(1, agent(), 0, 1, agent(src__a="1"), 0),
            """
            check -> fix (on_fail)
            fix -> check (next)
            iteration 2
            recheck check here: it failed on the same tree in iteration 1
            check -> fix (on_fail)
            fix -> check (next)
            iteration 3
            check -> done (on_pass)
            loop_complete: completed, terminal
            """,
        ),
        row(
            "a pass counts when it is confirmed",
            goal(0, 0, 0, confirm=3),
            """
            recheck check here: pass 1 of 3
            recheck check here: pass 2 of 3
            check -> done (on_pass)
            loop_complete: completed, terminal
            """,
        ),
        row(
            "passes and failures on one tree are flaky where passes are confirmed",
            goal(0, 1, confirm=2),
            """
            recheck check here: pass 1 of 2
            loop_error: failed, flaky
            """,
        ),
        row(
            "a failure and a pass on one tree are flaky where passes are confirmed",
            goal(1, agent(), 0, confirm=2),
            """
            check -> fix (on_fail)
            fix -> check (next)
            iteration 2
            loop_error: failed, flaky
            """,
        ),
        row(
            "an agent that changes nothing stalls",
            goal(1, agent(), 1, agent(), 1, agent(), 1),
            """
            check -> fix (on_fail)
            fix -> check (next)
            iteration 2
            check -> fix (on_fail)
            fix -> check (next)
            iteration 3
            check -> fix (on_fail)
            fix -> check (next)
            iteration 4
            check -> fix (on_fail)
            loop_error: failed, stalled
            """,
        ),
        row(
            "an agent that takes turns between two trees stalls",
            goal(
                *(1, agent(src__a="1"), 1, agent(src__a="0"), 1),
                *(agent(src__a="1"), 1, agent(src__a="0"), 1),
            ),
            """
            check -> fix (on_fail)
            fix -> check (next)
            iteration 2
            check -> fix (on_fail)
            fix -> check (next)
            iteration 3
            check -> fix (on_fail)
            fix -> check (next)
            iteration 4
            check -> fix (on_fail)
            fix -> check (next)
            iteration 5
            check -> fix (on_fail)
            loop_error: failed, stalled
            """,
        ),
        row(
            "a pass is confirmed in a clean copy",
            goal(1, agent(src__a="1"), 0, 0, clean=True),
            """
            check -> fix (on_fail)
            fix -> check (next)
            iteration 2
            check -> done (on_pass)
            recheck check clean: to confirm its pass in a clean copy
            check -> done (on_pass)
            loop_complete: completed, terminal
            """,
        ),
        row(
            "what fails in the clean copy goes back to the agent",
            goal(1, agent(src__a="1"), 0, 1, agent(src__a="2"), 0, 0, clean=True),
            """
            check -> fix (on_fail)
            fix -> check (next)
            iteration 2
            check -> done (on_pass)
            recheck check clean: to confirm its pass in a clean copy
            check -> fix (on_fail)
            fix -> check (next)
            iteration 3
            check -> done (on_pass)
            recheck check clean: to confirm its pass in a clean copy
            check -> done (on_pass)
            loop_complete: completed, terminal
            """,
        ),
    ],
)
def test_rules(world: ScriptedWorld, expected: str):
    assert story(world) == expected


@pytest.mark.parametrize(
    ("world", "reason", "message"),
    [
        pytest.param(
            goal(0, 1, confirm=2),
            "flaky",
            "it both passed and failed on the same tree (",
            id="flaky",
        ),
        pytest.param(
            goal(1, agent(src__a="1"), 1, agent(), 1, agent(), 1, agent(), 1),
            "stalled",
            "3 attempts in a row changed nothing",
            id="no change since a later tree",
        ),
        pytest.param(
            goal(
                *(1, agent(src__a="1"), 1, agent(src__a="0"), 1),
                *(agent(src__a="1"), 1, agent(src__a="0"), 1),
            ),
            "stalled",
            "the tree is the same as in iteration 3",
            id="two trees in turn",
        ),
    ],
)
def test_why_a_check_is_not_believed(world: ScriptedWorld, reason: str, message: str):
    begin(world, evidence="on")
    assert world.log[-1]["reason"] == reason
    assert world.log[-1]["error"].startswith(message)


def test_a_check_that_writes_into_protected_files_is_told_how_to_exempt_them():
    world = goal(Says(1, writes={"tests/t": "1"}), tampering="fail")
    begin(world, evidence="on")
    assert world.log[-1]["error"] == (
        "tests/t changed while the check ran; if the check writes there itself, add `!/tests/t` to"
        " `protect`"
    )


def test_without_protect_a_change_is_only_reported():
    world = goal(1, agent(src__a="1", tests__t="1"), 0, protect=None)
    begin(world, evidence="on")
    assert "tampered by agent: tests/t (report)" in told(world)
    assert world.trees.files["tests/t"] == "1"


def test_of_many_changed_files_the_first_twenty_are_named():
    writes = {f"tests__{number:02}": "1" for number in range(25)}
    world = goal(1, agent(**writes), tampering="fail")
    begin(world, evidence="on")
    (event,) = (each for each in world.log if each["event"] == "tampered")
    assert (event["files"], len(event["paths"])) == (25, 20)


def test_the_tree_is_looked_at_around_agents_and_checks_and_before_success():
    states = {
        "build": {"action": "make", "next": "check"},
        "check": {"action": "t", "check": True, "on_pass": "done", "on_fail": "fix"},
        "fix": {"action": "/fix", "next": "build"},
        "done": {"terminal": True},
    }
    world = goal(
        0, 1, agent(src__a="1"), 0, 0, 0, clean=True, loop={"initial": "build", "states": states}
    )
    run, _ = begin(world, evidence="on")
    looks = [each for each in world.log if each["event"] == "tree"]
    assert [f"{each['when']} {each['state']}" for each in looks] == [
        "before build",
        *("before check", "after check", "before fix", "after fix", "before check", "after check"),
        *("end check", "after check", "end check"),
    ]
    assert run.trees is not None
    assert run.trees.first == looks[0]["project"] != run.trees.project


@pytest.mark.parametrize("hook", ["before_run", "before_state"])
def test_nothing_changes_files_before_the_first_snapshot(hook):
    states = {"build": {"action": "make", "next": "done"}, "done": {"terminal": True}}
    loop = {"initial": "build", "states": states, "hooks": {hook: "up"}}
    for at in range(1, 4):  # also if it is killed and resumed meanwhile
        world = goal(0, loop=loop)
        begin(world, evidence="on")
        cut(world, at)
        go_on(world, [0])
        kinds = [each["event"] for each in world.log]
        assert kinds.index("tree") < kinds.index("hook") < kinds.index("action_start"), at


def test_a_run_in_which_nothing_runs_takes_no_snapshot():
    world = goal(loop={"initial": "done", "states": {"done": {"terminal": True}}})
    run, _ = begin(world, evidence="on")
    assert run.status == "completed"
    assert "tree" not in [each["event"] for each in world.log]


def test_a_convergence_that_misses_its_target_in_the_copy_goes_back_to_the_agent():
    states = {
        "measure": {
            "action": "count",
            "check": True,
            "condition": {"type": "convergence", "target": 0},
            "on_target": "done",
            "on_progress": "apply",
            "on_stall": "given_up",
        },
        "apply": {"action": "/fix", "next": "measure"},
        "done": {"terminal": True},
        "given_up": {"terminal": True, "outcome": "failure"},
    }
    loop = {"initial": "measure", "states": states, "paradigm": "convergence"}
    numbers = [Says(0, str(number)) for number in (3, 0, 3, 0, 0)]
    first, here, there, again, confirmed = numbers
    script = (first, agent(src__a="1"), here, there, agent(src__a="2"), again, confirmed)
    world = goal(*script, clean=True, loop=loop)
    run, _ = begin(world, evidence="on")
    assert run.status == "completed", told(world)


TWO_CHECKS: dict[str, Any] = {
    "lint": {"action": "lint", "check": True, "on_pass": "test", "on_fail": "fix"},
    "test": {"action": "test", "check": True, "on_pass": "done", "on_fail": "fix"},
    "fix": {"action": "/fix", "next": "lint"},
    "done": {"terminal": True},
}


def two_checks(*script: Any, **evidence: Any) -> ScriptedWorld:
    return goal(*script, loop={"states": TWO_CHECKS, "initial": "lint"}, **evidence)


@pytest.mark.parametrize(
    ("world", "counts"),
    [
        pytest.param(goal(0, 0, 0, confirm=3), [(1, 3), (2, 3)], id="until enough are there"),
        pytest.param(
            goal(0, 0, 0, confirm=2, clean=True), [(1, 2), (2, 2)], id="all, in a clean copy"
        ),
        pytest.param(goal(0, 0, clean=True), [(0, 1)], id="one is enough"),
        pytest.param(goal(1, agent(), 0, 0), [(1, 2)], id="two after a failure on the same tree"),
        pytest.param(
            goal(0, Says(0, writes={"src/a": "1"}), 0, confirm=2, clean=True),
            [(1, 2), (0, 2)],
            id="none on a tree that has changed since, in a clean copy",
        ),
        pytest.param(
            two_checks(0, 0, Says(0, writes={"src/a": "1"}), 0, 0, 0, confirm=2),
            [(1, 2), (1, 2), (0, 2), (1, 2)],
            id="none on a tree that another check has changed since",
        ),
    ],
)
def test_a_rerun_says_how_many_passes_of_those_needed_are_there(world, counts):
    story(world)
    reruns = [record for record in world.log if record["event"] == "recheck"]
    assert [(each.get("passes", 0), each.get("needed", 1)) for each in reruns] == counts


def jobs(world: ScriptedWorld) -> list[Job]:
    return [command.job for command in world.commands if isinstance(command, RunShell)]


def test_reruns_are_attempts_of_the_same_step_and_the_last_one_is_captured():
    world = goal(*(Says(0, str(number)) for number in range(3)), confirm=2, clean=True)
    run, ending = begin(world, evidence="on")
    started = [each for each in world.log if each["event"] == "action_start"]
    assert [(each["attempt"], each.get("place", "here")) for each in started] == [
        (1, "here"),
        (2, "here"),
        (3, "clean"),
    ]
    assert {job.step for job in jobs(world)} == {1}
    assert (run.captured["check"].output, run.iteration, ending.status) == ("2", 1, "completed")


def test_reruns_do_not_count_as_retries_but_each_has_the_timeout_of_its_state():
    check = {"action": "t", "check": True, "on_pass": "done", "on_fail": "$current", "timeout": 9}
    states = {"check": {**check, "retry": {"max": 3, "backoff": 0}}, "done": {"terminal": True}}
    world = goal(1, 0, 1, 0, 0, loop={"states": states, "timeout": 60})
    assert story(world) == dedent("""\
        check -> check (on_fail)
        iteration 2
        recheck check here: it failed on the same tree in iteration 1
        check -> check (on_fail)
        iteration 3
        recheck check here: it failed on the same tree in iteration 2
        warning: `check` failed in iteration 2 and passes now, on the same tree
        check -> done (on_pass)
        loop_complete: completed, terminal""")
    assert [job.deadline_ms for job in jobs(world)] == [9000] * 5


def test_a_check_runs_again_where_the_tree_has_changed_since_it_passed():
    world = two_checks(0, Says(0, writes={"src/report": "1"}), 0)
    assert story(world) == dedent("""\
        lint -> test (on_pass)
        test -> done (on_pass)
        recheck lint here: the tree has changed since it passed
        lint -> done (on_pass)
        loop_complete: completed, terminal""")


def test_the_first_check_that_no_longer_passes_decides_from_its_own_state():
    world = two_checks(0, Says(0, writes={"src/report": "1"}), 1, agent(src__a="1"), 0, 0)
    assert story(world) == dedent("""\
        lint -> test (on_pass)
        test -> done (on_pass)
        recheck lint here: the tree has changed since it passed
        lint -> fix (on_fail)
        fix -> lint (next)
        iteration 2
        lint -> test (on_pass)
        test -> done (on_pass)
        loop_complete: completed, terminal""")


def test_a_tree_that_changes_with_every_check_is_never_proved():
    reports = [Says(0, writes={"src/report": str(number)}) for number in range(9)]
    world = two_checks(*reports)
    begin(world, evidence="on")
    assert told(world).splitlines()[-1] == "loop_error: failed, error"
    assert "the tree changed 3 times while the checks ran" in world.log[-1]["error"]


def test_the_next_agent_is_told_what_was_put_back():
    world = goal(1, agent(tests__t="1"), 1, agent(src__a="1"), 1, agent(src__a="2"), 0)
    story(world)
    turns = [each.restored for each in world.commands if isinstance(each, RunAgent)]
    assert turns == [(), ("tests/t",), ()]


def steps(*script: Any, **evidence: Any) -> ScriptedWorld:
    """An agent, a check whose result is judged at the end, and a formatter after it."""
    judged = {"type": "exit_code", "source": "test"}
    states = {
        "fix": {"action": "/fix", "next": "test"},
        "test": {"action": "make test", "check": True, "capture_exit": True, "next": "format"},
        "format": {"action": "make format", "next": "evaluate"},
        "evaluate": {"condition": judged, "on_pass": "done", "on_fail": "fix"},
        "done": {"terminal": True},
    }
    given = {"name": "s", "initial": "fix", "states": states, "evidence": evidence}
    return ScriptedWorld(FSMLoop.from_dict({**given, "max_iterations": 3}), script)


def test_a_formatter_that_undoes_each_fix_never_completes():
    undone = Says(0, writes={"src/a": "0"})
    fixed = agent(src__a="1")
    world = steps(fixed, 0, undone, 1, undone, fixed, 0, undone, 1, clean=True)
    assert story(world) == dedent("""\
        fix -> test (next)
        test -> format (next)
        format -> evaluate (next)
        evaluate -> done (on_pass)
        recheck test clean: to confirm its pass in a clean copy
        test -> format (next)
        iteration 2
        format -> evaluate (next)
        evaluate -> fix (on_fail)
        fix -> test (next)
        test -> format (next)
        iteration 3
        format -> evaluate (next)
        evaluate -> done (on_pass)
        recheck test clean: to confirm its pass in a clean copy
        test -> format (next)
        loop_error: failed, max_iterations""")


def test_a_check_that_writes_a_report_each_time_can_be_confirmed():
    reports = [Says(0, writes={"src/report": str(number)}) for number in range(3)]
    world = goal(1, agent(src__a="1"), *reports, confirm=3)
    assert story(world).splitlines()[-4:] == [
        "recheck check here: pass 1 of 3",
        "recheck check here: pass 2 of 3",
        "check -> done (on_pass)",
        "loop_complete: completed, terminal",
    ]


def test_a_check_that_writes_a_report_each_time_may_be_flaky():
    first, second = (Says(code, writes={"src/report": str(code)}) for code in (0, 1))
    world = goal(1, agent(src__a="1"), first, second, confirm=2)
    assert story(world).splitlines()[-1] == "loop_error: failed, flaky"


def test_a_check_that_is_judged_later_by_its_exit_code_may_be_flaky():
    plain = Says(0)
    world = steps(agent(), 1, plain, agent(), 0, confirm=2)
    assert story(world) == dedent("""\
        fix -> test (next)
        test -> format (next)
        format -> evaluate (next)
        evaluate -> fix (on_fail)
        iteration 2
        fix -> test (next)
        loop_error: failed, flaky""")


def test_a_check_that_is_judged_later_by_its_exit_code_is_confirmed():
    plain = Says(0)
    world = steps(agent(), 1, plain, agent(), 0, 0, plain)
    assert [line for line in story(world).splitlines() if line.startswith(("recheck", "loop"))] == [
        "recheck test here: it failed on the same tree in iteration 1",
        "loop_complete: completed, terminal",
    ]


def test_a_clean_copy_is_of_the_tree_that_is_delivered_and_of_the_reference():
    world = goal(1, agent(src__a="1", tests__t="1"), 0, 0, clean=True, setup="npm ci")
    story(world)
    (copy,) = [e.copy for e in world.commands if isinstance(e, RunShell) and e.copy is not None]
    assert copy.setup == "npm ci"
    assert world.trees.stored[copy.project] == {"src/a": "1", "tests/t": "0"}
    assert world.trees.stored[copy.reference] == {"tests/t": "0"}


MANY = {f"src/{n}": "1" for n in range(65)}


@pytest.mark.parametrize(
    ("writes", "known"),
    [
        pytest.param([{}, {}], (), id="nothing"),
        pytest.param([{"src/a": "1"}, {"src/b": "1"}], ("src/a", "src/b"), id="a file each time"),
        pytest.param([MANY, {}], (".",), id="more than is remembered"),
        pytest.param([MANY, {"src/b": "1"}], (".", "src/b"), id="and one more"),
    ],
)
def test_a_clean_copy_is_told_what_its_check_writes(writes, known):
    """What an agent writes is not the check's."""
    first, second = (Says(code, writes=each) for code, each in zip((1, 0), writes, strict=True))
    world = goal(first, agent(src__fix="1"), second, 0, clean=True)
    story(world)
    (copy,) = [e.copy for e in world.commands if isinstance(e, RunShell) and e.copy is not None]
    assert copy.writes == known


def test_a_user_who_edits_tests_during_a_pause_moves_the_reference():
    world = goal(1, Stop(2))
    begin(world, evidence="on")
    world.trees.files["tests/t"] = "mine"
    go_on(world, [agent(src__a="1"), 0])
    assert told(world).splitlines()[2:] == [
        "loop_interrupted: interrupted, signal",
        "resume in fix",
        "reference moved: tests/t (while the run was paused)",
        "fix -> check (next)",
        "iteration 2",
        "check -> done (on_pass)",
        "loop_complete: completed, terminal",
    ]
    assert world.trees.files["tests/t"] == "mine"


def limited(**writes: str) -> Says:
    """An agent that reaches a usage limit."""
    return Says(0, agent="wait", reason="usage limit", writes=writes)


def test_a_user_who_edits_while_the_run_waits_for_a_usage_limit_is_nobodys_suspect():
    world = goal(1, limited(), agent(src__a="1"), 0, loop={"scope_writes": "enforce"})
    world.edits_in_wait = {"tests/t": "mine", "other/notes": "mine"}
    assert story(world) == dedent("""\
        check -> fix (on_fail)
        host wait (usage limit)
        reference moved: tests/t (while the run waited)
        fix -> check (next)
        iteration 2
        check -> done (on_pass)
        loop_complete: completed, terminal""")
    assert world.trees.files["tests/t"] == world.trees.files["other/notes"] == "mine"


def test_what_an_agent_did_before_it_reached_a_usage_limit_is_undone_before_the_wait():
    world = goal(1, limited(**{"tests/t": "weak"}), agent(src__a="1"), 0)
    world.edits_in_wait = {"tests/t": "mine"}
    assert story(world) == dedent("""\
        check -> fix (on_fail)
        tampered by agent: tests/t (restore)
        restored: tests/t
        host wait (usage limit)
        reference moved: tests/t (while the run waited)
        fix -> check (next)
        iteration 2
        check -> done (on_pass)
        loop_complete: completed, terminal""")


def test_a_user_who_edits_between_the_cycles_of_a_maintain_loop_moves_the_reference():
    world = goal(0, 0, Stop(15), loop={"maintain": True, "maintain_interval": 5})
    world.edits_in_wait = {"tests/t": "mine"}
    assert "reference moved: tests/t (while the run waited)" in story(world)
    assert world.trees.files["tests/t"] == "mine"


def test_a_maintain_loop_without_an_interval_is_never_idle():
    world = goal(0, Says(0, writes={"tests/t": "1"}), Stop(15), loop={"maintain": True})
    assert "reference moved" not in story(world)


def test_a_shell_action_moves_the_reference():
    states = {
        "check": {"action": "t", "check": True, "on_pass": "done", "on_fail": "update"},
        "update": {"action": "update-tests", "next": "fix"},
        "fix": {"action": "/fix", "next": "check"},
        "done": {"terminal": True},
    }
    world = goal(1, Says(0, writes={"tests/t": "1"}), agent(src__a="1"), 0, loop={"states": states})
    assert "reference moved: tests/t (`update`)" in story(world)


@pytest.mark.parametrize(
    ("update", "fix", "evidence", "to_review"),
    [
        pytest.param({}, {"Makefile": "1"}, {}, ("Makefile",), id="what the check is made of"),
        pytest.param(
            {"tests/t": "1"}, {}, {}, ("tests/t",), id="a step's change of a protected file"
        ),
        pytest.param({}, {"tests/t": "1"}, {}, (), id="not what was restored"),
        pytest.param(
            {}, {"tests/t": "1"}, {"tampering": "report"}, ("tests/t",), id="what was only reported"
        ),
    ],
)
def test_the_ending_names_what_the_checks_depend_on_and_was_changed(
    update, fix, evidence, to_review
):
    states = {
        "check": {"action": "t", "check": True, "on_pass": "done", "on_fail": "update"},
        "update": {"action": "update-tests", "next": "fix"},
        "fix": {"action": "/fix", "next": "check"},
        "done": {"terminal": True},
    }
    fixes = Says(0, writes={"src/a": "1", **fix}, **AGENT)
    script = (1, Says(0, writes=update), fixes, 0)
    world = goal(*script, loop={"states": states}, **evidence)
    story(world)
    assert tuple(world.log[-1].get("to_review", ())) == to_review


def test_after_a_kill_during_an_agents_action_the_change_is_the_agents():
    world = goal(1, Crash)
    with pytest.raises(Crash):
        begin(world, evidence="on")
    world.trees.files["tests/t"] = "1"
    go_on(world, [agent(src__a="1"), 0])
    assert "tampered by agent: tests/t (restore)\nrestored: tests/t" in told(world)
    assert world.trees.files["tests/t"] == "0"


def test_an_agent_that_is_stopped_leaves_nothing_behind():
    cut_short = Says(None, stop=2, writes={"tests/t": "1"}, **AGENT)
    world = goal(1, cut_short)
    begin(world, evidence="on")
    assert told(world).splitlines()[-3:] == [
        "tampered by agent: tests/t (restore)",
        "restored: tests/t",
        "loop_interrupted: interrupted, signal",
    ]


def test_a_stop_that_cannot_wait_leaves_protected_paths_as_they_were():
    world = goal(1, Says(None, stop=2, writes={"tests/t": "1", "src/a": "1"}, **AGENT))
    world.trees.cut = "content"
    begin(world, evidence="on")
    assert [record["event"] for record in world.log][-6:] == [
        "action_interrupted",
        "tampered",
        "tree_unread",
        "restored",
        "tree_unread",
        "loop_interrupted",
    ]
    assert world.trees.files == {"src/a": "1", "tests/t": "0"}
    world.trees.files["tests/t"] = "mine"
    world.trees.cut = None
    go_on(world, [agent(src__a="2"), 0])
    assert "reference moved: tests/t (while the run was paused)" in told(world)
    assert world.trees.files["tests/t"] == "mine"
    assert world.log[-1]["evidence"] == "verified"


def test_what_a_stop_kept_from_being_read_is_the_agents_when_the_run_continues():
    world = goal(1, Says(None, stop=2, writes={"tests/t": "1"}, **AGENT))
    world.trees.cut = "all"
    begin(world, evidence="on")
    assert told(world).splitlines()[-2:] == [
        "fix interrupted by stop",
        "loop_interrupted: interrupted, signal",
    ]
    assert world.trees.files["tests/t"] == "1"
    world.trees.cut = None
    go_on(world, [agent(src__a="1"), 0])
    assert "tampered by agent: tests/t (restore)\nrestored: tests/t" in told(world)
    assert world.trees.files["tests/t"] == "0"


def test_a_shell_action_that_is_stopped_moves_the_reference_all_the_same():
    states = {
        "check": {"action": "t", "check": True, "on_pass": "done", "on_fail": "update"},
        "update": {"action": "update-tests", "next": "check"},
        "done": {"terminal": True},
    }
    stopped = Says(None, stop=2, writes={"tests/t": "1"})
    world = goal(1, stopped, loop={"states": states})
    world.trees.cut = "content"
    begin(world, evidence="on")
    assert "reference moved: tests/t (`update`)" in told(world)
    world.trees.cut = None
    go_on(world, [0, 0, 0])  # the tree within the scope is the one on which the check failed
    assert world.trees.files["tests/t"] == "1"
    assert "tampered" not in told(world)


def test_what_cannot_be_put_back_is_an_error_that_names_it():
    world = goal(1, agent(tests__t="1"))
    world.trees.stuck = ("tests/t",)
    begin(world, evidence="on")
    assert world.log[-1]["reason"] == "error"
    assert world.log[-1]["error"] == "could not be restored: tests/t: read-only"


def test_of_several_files_that_cannot_be_put_back_the_first_is_named():
    world = goal(1, agent(tests__t="1", tests__u="1", tests__v="1"))
    world.trees.stuck = ("tests/t", "tests/u", "tests/v")
    begin(world, evidence="on")
    assert world.log[-1]["error"] == "could not be restored: tests/t: read-only and 2 more"


def test_passes_before_a_failure_on_the_same_tree_count_no_more():
    """It failed on this tree in between, so one pass is not enough."""
    states = {
        "check": {"action": "t", "check": True, "on_pass": "lint", "on_fail": "fix"},
        "lint": {"action": "l", "check": True, "on_pass": "done", "on_fail": "fix"},
        "fix": {"action": "/fix", "next": "check"},
        "done": {"terminal": True},
    }
    loop = {"states": states, "paradigm": "fsm"}
    world = goal(0, 1, agent(), 1, agent(), 0, 0, 0, 0, loop=loop)
    assert story(world) == dedent("""\
        check -> lint (on_pass)
        lint -> fix (on_fail)
        fix -> check (next)
        iteration 2
        check -> fix (on_fail)
        fix -> check (next)
        iteration 3
        recheck check here: it failed on the same tree in iteration 2
        warning: `check` failed in iteration 2 and passes now, on the same tree
        check -> lint (on_pass)
        recheck lint here: it failed on the same tree in iteration 1
        warning: `lint` failed in iteration 1 and passes now, on the same tree
        lint -> done (on_pass)
        loop_complete: completed, terminal""")


def test_something_that_changes_tests_as_fast_as_they_are_put_back_fails():
    world = goal(1, agent(tests__t="1"))
    world.trees.keeps_changing = {"tests/t": "1"}
    begin(world, evidence="on")
    assert world.log[-1]["reason"] == "tampered"


def test_a_commit_that_still_changes_protected_paths_fails_where_tampering_does():
    world = goal(1, agent(src__a="1"), 0, tampering="fail")
    world.trees.committed = ("tests/t",)
    begin(world, evidence="on")
    assert world.log[-1]["error"] == "a commit changes tests/t"


def test_a_store_that_fails_ends_the_run():
    world = goal()
    world.trees.is_damaged = True
    begin(world, evidence="on")
    assert (world.log[-1]["reason"], world.log[-1]["error"]) == (
        "storage",
        "the tree store is damaged",
    )


def test_a_stalled_run_continues_with_its_next_turn_and_counts_from_zero():
    world = goal(1, agent(), 1, stall_after=1)
    begin(world, evidence="on")
    assert world.log[-1]["reason"] == "stalled"
    go_on(world, [agent(src__a="1"), 0])
    assert told(world).splitlines()[-5:] == [
        "resume in check",
        "fix -> check (next)",
        "iteration 3",
        "check -> done (on_pass)",
        "loop_complete: completed, terminal",
    ]


@pytest.mark.parametrize(
    ("paradigm", "default"),
    [
        ("goal", 3),
        ("invariants", 3),
        ("convergence", 3),
        ("imperative", 0),
        ("relay", 0),
        ("fsm", 0),
    ],
)
def test_after_how_many_stalls_a_run_ends(paradigm: str, default: int):
    world = goal(*[1, agent()] * 4, 1, Stop(15), loop={"paradigm": paradigm})
    run, _ = begin(world, evidence="on")
    assert stall_after(world.loop, run) == default
    assert stall_after(world.loop._replace(evidence=Evidence(stall_after=0)), run) == 0
    assert world.log[-1].get("reason") == ("stalled" if default else "signal")


def judged_as(condition: dict[str, Any], action: str = "make test") -> dict[str, Any]:
    """The states of a goal whose check is judged in this way."""
    check = {"action": action, "check": True, "on_pass": "done", "on_fail": "fix"}
    return {
        "states": {
            "check": {**check, "condition": condition},
            "fix": {"action": "/fix", "next": "check"},
            "done": {"terminal": True},
        }
    }


ANY_FAILURE = judged_as({"type": "exit_code", "fail": [1, 2, 3]})
BY_AN_AGENT = judged_as({"type": "output_contains", "pattern": "fine"}, "/review")


@pytest.mark.parametrize(
    "world",
    [
        pytest.param(
            goal(1, agent(), 2, agent(), 3, Stop(15), loop=ANY_FAILURE, stall_after=1),
            id="another exit code",
        ),
        pytest.param(
            goal(
                *[Says(0, "bad", **AGENT), agent()] * 3, Stop(15), loop=BY_AN_AGENT, stall_after=1
            ),
            id="an agent that judges",
        ),
        pytest.param(
            goal(
                *(1, agent(src__a="1"), 0, 1, agent(src__a="0"), 1, Stop(15)),
                loop={"maintain": True, "maintain_interval": 5},
                stall_after=1,
            ),
            id="failures of another cycle",
        ),
        pytest.param(
            goal(1, agent(src__a="1"), 1, agent(), Stop(15), stall_after=1), id="not judged yet"
        ),
    ],
)
def test_what_is_no_stall(world: ScriptedWorld):
    begin(world, evidence="on")
    assert not world.script
    assert world.log[-1].get("reason") == "signal"


def test_the_limit_of_stalls_can_be_given_for_a_resume():
    world = goal(1, agent(), 1, stall_after=1)
    begin(world, evidence="on")
    go_on(world, [agent(), 1, agent(), 1], limits=Limits(stall_after=2))
    assert world.log[-1]["reason"] == "stalled"


@pytest.mark.parametrize(
    ("world", "evidence"),
    [
        pytest.param(goal(0), "verified", id="verified"),
        pytest.param(goal(0, loop={"states": {
            "check": {"action": "t", "on_pass": "done"}, "done": {"terminal": True}}}), "unchecked", id="no check"),
    ],
)  # fmt: skip
def test_a_completed_run_says_what_it_can_show(world: ScriptedWorld, evidence: str):
    begin(world, evidence="on")
    assert world.log[-1]["evidence"] == evidence


def test_a_run_that_is_resumed_in_its_success_state_says_that_no_check_passed():
    world = goal(1, agent(), 1, stall_after=1)
    begin(world, evidence="on")
    go_on(world, [], from_state="done")
    assert (world.log[-1]["status"], world.log[-1]["evidence"]) == ("completed", "failed")


@pytest.mark.parametrize(
    ("merged", "head", "check", "is_merged"),
    [
        pytest.param(("g",), "later", None, True, id="with later commits"),
        pytest.param(("g",), "base", None, False, id="with nothing else"),
        pytest.param(("g",), "later", "make test", False, id="and checked"),
        pytest.param((), "later", None, False, id="not merged"),
    ],
)
def test_what_a_merge_adds_is_not_verified(merged, head, check, is_merged):
    given = {"merge": "merge"} | ({} if check is None else {"check": check})
    loop = goal(loop={"worktree": given}).loop
    run = LoopState("r", "g", "done", "", "")
    assert not merged_with_others(loop, run)
    train = Train("base", "main", head, head, merged)
    run = run._replace(train=train, workspace=Workspace("w", "ll/g", "base", "main"))
    assert merged_with_others(loop, run) is is_merged
    ending = Ending("completed", "terminal", "loop_complete", 0)
    run = run._replace(trees=Trees(first="a", tree="a", project="a", guard="g", reference="g"))
    assert evidence_of(loop, run, ending) == ("merged" if is_merged else "unchecked")
    assert not merged_with_others(goal().loop, run)


def test_a_run_without_evidence_says_why():
    world = goal(0)
    begin(world, evidence="off")
    assert world.log[-1]["evidence"] == "off"
    assert not any(record["event"] == "tree" for record in world.log)


def scripts() -> list[ScriptedWorld]:
    return [
        goal(1, agent(tests__t="1"), 1, agent(src__a="1"), 0, 0, clean=True),
        goal(1, agent(), 0, 0),
        two_checks(0, Says(0, writes={"src/report": "1"}), 1, agent(src__a="1"), 0, 0),
        goal(1, agent(other__b="1"), loop={"scope_writes": "enforce"}),
    ]


@pytest.mark.parametrize("number", range(4))
def test_a_run_continues_from_every_prefix_of_its_log(number: int):
    """Whatever was cut off, the run ends as truly as it would have: with tests as they were."""
    whole = scripts()[number]
    begin(whole, evidence="on")
    for count in range(2, len(whole.log)):
        if whole.log[count - 1].get("status"):
            continue
        world = scripts()[number]
        begin(world, evidence="on")
        cut(world, count)
        again: list[int | Says] = [1, agent(src__a="9")]
        rest = [*again * 4, *[0] * 9]
        go_on(world, rest)
        assert world.log[-1].get("status") in ("completed", "failed"), count
        assert world.trees.files["tests/t"] == "0"


@pytest.mark.parametrize(
    ("at", "tree"),
    [
        pytest.param(
            "action_complete", ("fix", "after", True), id="before the one after an action"
        ),
        pytest.param("action_start", ("check", "after", False), id="in an action"),
    ],
)
def test_a_snapshot_that_a_crash_kept_from_being_taken_is_marked_late(at, tree):
    """Anybody may have changed files between the end of the action and the resume."""
    world = goal(1, agent(src__a="1"), 0)
    begin(world, evidence="on")
    second = [n for n, each in enumerate(world.log, 1) if each["event"] == at][1]
    cut(world, second)
    before = len(world.log)
    go_on(world, [0] if at == "action_complete" else [agent(src__a="1"), 0])
    found = [each for each in world.log[before:] if each["event"] == "tree"]
    marked = [(each["state"], each["when"], each.get("late", False)) for each in found]
    assert tree in marked
    assert [each for each in marked if each[2]] == [each for each in (tree,) if each[2]]


def test_who_resumes_while_protected_paths_are_put_back_is_the_session():
    """A handoff asks for a fresh session; the resume is one, and starts no other."""
    handed_off = agent(tests__t="1")
    handed_off.line = SignalLine("handoff", "2 left")
    world = goal(1, handed_off, loop={"on_handoff": "spawn"})
    assert begin(world, evidence="on")[1].spawn
    cut(world, [each["event"] for each in world.log].index("tampered") + 2)
    world.trees.files["tests/t"] = "1"
    _, ending = go_on(world, [agent(src__a="1"), 0])
    assert (ending.status, ending.spawn) == ("completed", False)
    assert world.trees.files["tests/t"] == "0"


def test_of_many_changes_outside_the_scope_the_first_are_recorded():
    names = [f"{number:02}" for number in range(21)]
    world = goal(1, agent(src__a="1", **{f"other__{name}": "1" for name in names}), 0)
    begin(world, evidence="on")
    [found] = [each for each in world.log if each["event"] == "out_of_scope"]
    assert (found["files"], list(found["paths"])) == (21, [f"other/{name}" for name in names[:20]])


def test_a_check_whose_failure_would_be_passed_over_ends_the_run():
    states = {
        "test": {"action": "test", "check": True, "next": "format"},
        "format": {"action": "format", "next": "done"},
        "done": {"terminal": True},
    }
    world = goal(0, Says(0, writes={"src/a": "1"}), 1, loop={"states": states, "initial": "test"})
    begin(world, evidence="on")
    assert (world.log[-1]["reason"], world.log[-1]["error"]) == (
        "stale_evidence",
        "`test` no longer passes: exit 1",
    )


def test_a_check_is_not_run_again_when_the_time_is_used_up():
    passed, slow = Says(0, takes_ms=500), Says(0, takes_ms=9000)
    world = goal(1, agent(src__a="1"), passed, slow, clean=True, loop={"timeout": 3})
    assert begin(world, evidence="on")[1].reason == "loop_timeout"
    before = len(world.log)
    assert go_on(world, [], from_state="done")[1].reason == "loop_timeout"
    assert "recheck" not in [each["event"] for each in world.log[before:]]


REVIEWED: dict[str, Any] = {
    "review": {"action": "/review", "check": True, "on_pass": "tidy", "on_fail": "review"},
    "tidy": {"action": "tidy", "next": "done"},
    "done": {"terminal": True},
}


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize(
    ("strict", "reason", "evidence"), [(False, "terminal", "stale"), (True, "stale_evidence", None)]
)
def test_a_pass_of_an_agents_check_is_stale_where_files_changed_since(
    strict, reason, evidence, clean
):
    review = Says(0, verdict="pass", **AGENT)
    tidy = Says(0, writes={"src/a": "1"})
    loop = {"states": REVIEWED, "initial": "review"}
    world = goal(review, tidy, loop=loop, strict=strict, clean=clean)
    begin(world, evidence="on")
    last = world.log[-1]
    assert (last["reason"], last.get("evidence")) == (reason, evidence)


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize(
    ("writes", "strict", "reason", "evidence"),
    [
        ({"src/a": "1"}, False, "terminal", "stale"),
        ({"src/a": "1"}, True, "stale_evidence", None),
        ({}, False, "terminal", "verified"),
        ({}, True, "terminal", "verified"),
    ],
)
def test_the_last_action_of_a_run_can_make_its_evidence_stale(
    writes, strict, reason, evidence, clean
):
    states = {
        "test": {"action": "test", "check": True, "on_pass": "done", "on_fail": "failed"},
        "done": {"terminal": True, "action": "publish"},
        "failed": {"terminal": True},
    }
    passes = [0, 0] if clean else [0]
    loop = {"states": states, "initial": "test"}
    world = goal(*passes, Says(0, writes=writes), loop=loop, strict=strict, clean=clean)
    begin(world, evidence="on")
    last = world.log[-1]
    assert (last["reason"], last.get("evidence")) == (reason, evidence)


def test_after_a_kill_tampering_that_must_fail_ends_the_run():
    world = goal(1, Crash, tampering="fail")
    with pytest.raises(Crash):
        begin(world, evidence="on")
    world.trees.files["tests/t"] = "1"
    go_on(world, [])
    assert world.log[-1]["reason"] == "tampered"


@pytest.mark.parametrize(("tampering", "status"), [("restore", "completed"), ("fail", "failed")])
def test_tests_that_change_between_the_check_and_the_end_are_noticed(tampering, status):
    world = goal(0, 0, tampering=tampering)
    world.trees.before_end = {"tests/t": "1"}
    begin(world, evidence="on")
    assert world.log[-1]["status"] == status
    assert world.trees.files["tests/t"] == ("0" if status == "completed" else "1")


@pytest.mark.parametrize(
    ("written", "left", "ending"),
    [
        ({"src/a": "2"}, ("daemon",), ("failed", "stale_evidence")),
        ({"tests/t": "1"}, ("daemon",), ("failed", "stale_evidence")),
        ({}, ("server",), ("completed", "terminal")),
        ({"src/a": "2"}, (), ("completed", "terminal")),  # nothing was ended, so nobody looks
    ],
)
def test_what_a_process_changes_while_it_is_ended_is_no_success(written, left, ending):
    world = goal(0)
    world.leftovers = left
    world.trees.before_last = written
    begin(world, evidence="on")
    assert (world.log[-1]["status"], world.log[-1]["reason"]) == ending
    if left and ending[0] == "failed":
        (path,) = written
        message = f"{path} changed after the last check passed, while leftover processes were ended"
        assert world.log[-1]["error"] == message


def test_a_run_that_fails_anyway_keeps_its_reason_when_leftovers_change_files():
    world = goal(2)
    world.leftovers, world.trees.before_last = ("daemon",), {"src/a": "2"}
    begin(world, evidence="on")
    assert world.log[-1]["reason"] == "error"


def test_a_run_that_is_cut_in_its_last_state_is_proved_again():
    world = goal(1, agent(src__a="1"), 0)
    begin(world, evidence="on")
    cut(world, len(world.log) - 1)
    world.trees.files["src/a"] = "2"
    go_on(world, [1, agent(src__a="3"), 0])
    lines = told(world).splitlines()
    assert lines[lines.index("resume in done") :] == [
        "resume in done",
        "recheck check here: the tree has changed since it passed",
        "check -> fix (on_fail)",
        "fix -> check (next)",
        "iteration 3",
        "check -> done (on_pass)",
        "loop_complete: completed, terminal",
    ]


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_run_that_is_cut_in_its_last_state_needs_no_iteration_for_its_proof(lost):
    states = {
        "check": {"action": "make test", "check": True, "on_pass": "done", "on_fail": "fix"},
        "fix": {"action": "/fix", "next": "check"},
        "done": {"terminal": True, "action": "publish"},
    }
    world = goal(1, agent(src__a="1"), 0, 0, loop={"states": states, "max_iterations": 1})
    begin(world, evidence="on")
    cut(world, [each["event"] for each in world.log].index("action_start", -6) + 2 - lost)
    go_on(world, [0, 0])
    assert told(world).splitlines()[-3:] == [
        "recheck check here: the tree has changed since it passed",
        "check -> done (on_pass)",
        "loop_complete: completed, terminal",
    ]


def test_an_agent_in_the_last_state_may_not_tamper_either():
    states = {
        "check": {"action": "t", "check": True, "on_pass": "done"},
        "done": {"terminal": True, "action": "/report"},
    }
    world = goal(0, agent(tests__t="1"), loop={"states": states}, tampering="fail")
    begin(world, evidence="on")
    assert (world.log[-1]["status"], world.log[-1]["reason"]) == ("failed", "tampered")


def test_what_is_left_out_of_a_snapshot_is_a_warning():
    world = goal(0)
    world.trees.warnings = ("`vendor` is not part of the snapshot",)
    begin(world, evidence="on")
    assert "warning: `vendor` is not part of the snapshot" in told(world)


def test_each_cycle_of_a_maintain_loop_has_evidence_of_its_own():
    world = goal(0, Stop(15), loop={"maintain": True, "maintain_interval": 5})
    run, _ = begin(world, evidence="on")
    assert run.trees is not None
    assert run.trees.checks == {}


@pytest.mark.parametrize(
    ("action", "wanted"),
    [
        pytest.param("/fix", True, id="an agent"),
        pytest.param("make", False, id="no agent"),
        pytest.param("${context.missing}", False, id="nobody knows"),
    ],
)
def test_evidence_is_wanted_where_an_agent_works(action: str, wanted: bool):
    states = {"a": {"action": action, "next": "done"}, "done": {"terminal": True}}
    loop = FSMLoop.from_dict({"name": "l", "initial": "a", "states": states})
    assert wants_evidence(loop) is wanted
    assert wants_evidence(loop._replace(evidence=Evidence(enabled=not wanted))) is not wanted
    assert turned_off(loop._replace(evidence=Evidence(enabled=False))) == (
        "off" if wanted else None
    )
    assert turned_off(loop) is None


@pytest.mark.parametrize(
    ("changes", "needed"),
    [
        pytest.param({}, False, id="no settings"),
        pytest.param({"scope_writes": "enforce"}, True, id="an enforced scope"),
        pytest.param({"evidence": Evidence(protect=("tests/",))}, True, id="protected files"),
        pytest.param({"evidence": Evidence(clean=True)}, True, id="a clean copy"),
    ],
)
def test_some_settings_mean_nothing_without_evidence(changes: dict[str, Any], needed: bool):
    states = {"a": {"action": "/fix", "next": "done"}, "done": {"terminal": True}}
    loop = FSMLoop.from_dict({"name": "l", "initial": "a", "states": states})
    assert needs_evidence(loop._replace(**changes)) is needed


def test_evidence_is_wanted_where_the_best_is_kept():
    condition = {"type": "convergence", "target": 5, "keep": "best"}
    states = {
        "size": {"action": "wc -l", "check": True, "condition": condition, "next": "done"},
        "done": {"terminal": True},
    }
    loop = FSMLoop.from_dict({"name": "l", "initial": "size", "states": states})
    assert wants_evidence(loop)


def test_the_tree_is_not_read_again_once_its_store_has_failed():
    world = goal(1, Crash)
    with pytest.raises(Crash):
        begin(world, evidence="on")
    world.trees.is_damaged = True
    before = len(world.commands)
    go_on(world, [])
    assert world.log[-1]["reason"] == "storage"
    names = [type(each).__name__ for each in world.commands[before:]]
    assert names.count("TakeSnapshot") == 1
