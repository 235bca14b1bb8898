"""Runs that start other runs: on a fleet, each of these has a workflow and a clone of its own."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from typing import Any

import psutil

from little_loops.engine.drive import new_run
from little_loops.fleet.address import connected
from little_loops.fleet.child_workflows import ChildWorkflows, Running
from little_loops.fleet.names import workflow_id
from little_loops.fsm.commands import RunChildren
from little_loops.fsm.schema import Branches, FSMLoop, StateConfig
from little_loops.fsm.state import Limits, Spending
from little_loops.fsm.timestamps import Moment
from tests.contract.suite import effects, told
from tests.fleet.case import Case
from tests.fleet.fleet import FleetWorker
from tests.project import until

HOLD = "until test -e $OUT/ok; do sleep 0.05; done"
FAN: dict[str, Any] = {
    "name": "slow",
    "initial": "write",
    "states": {
        "write": {"action": "echo 1 > src/first", "next": "fan"},
        "fan": {
            "for_each": ["a", "b", "c", "d"],
            "action": "cat src/first; echo $$ >> $OUT/pids; echo ${branch.item} >> $OUT/effects;"
            f" {HOLD}; echo ${{branch.item}} > src/${{branch.name}}",
            "max_parallel": 4,
            "on_pass": "gather",
            "on_fail": "none_failed",
        },
        "gather": {
            "action": "cat src/a src/b src/c src/d >> $OUT/effects;"
            " echo ${captured.fan.passed} >> $OUT/effects",
            "next": "done",
        },
        "none_failed": {"terminal": True},
        "done": {"terminal": True},
    },
}


def begun(case: Case, *words: str) -> None:
    """Wait until the actions of all children have begun."""
    until(lambda: sorted(effects(case.project)) == sorted(words), f"effects {words}")


def holders(case: Case) -> dict[str, FleetWorker]:
    """Return the workers of the children that run."""
    workers = {each.name: each for each in case.fleet.workers}
    found = case.runtime.children(case.loop.name)
    return {key: workers[each["worker"]] for key, each in found.items()}


def git(case: Case, *words: str) -> str:
    found: str = case.project.git("-C", str(case.project.root.parent / "bare.git"), *words)
    return found


def has_ended(case: Case) -> None:
    """Check that no process of an action is left."""
    pids = [int(pid) for pid in (case.project.home / "pids").read_text().split()]
    until(lambda: not any(map(psutil.pid_exists, pids)), "end of the actions")


def test_branches_are_runs_on_several_workers_and_their_files_come_together(
    begin: Callable[..., Case],
):
    case = begin(FAN)
    begun(case, "a", "b", "c", "d")
    assert len(case.runtime.children("slow")) == 4
    case.proceed()
    assert case.ends() == "completed terminal", case.runtime.details("slow")
    assert effects(case.project)[4:] == ["a", "b", "c", "d", "4"]
    branch = (case.runtime.details("slow") or {})["branch"]
    assert git(case, "diff", "--name-only", "main", str(branch)).split() == [
        *("src/a", "src/b", "src/c", "src/d", "src/first")
    ]
    refs = git(case, "for-each-ref", "--format=%(refname)", "refs/ll").split()
    assert len(refs) == 1, "those of the branches are deleted"
    reports = json.loads(case.runtime.output("slow", 2, 1, "stdout"))
    assert [(each["name"], each["verdict"]) for each in reports] == [
        *(("a", "pass"), ("b", "pass"), ("c", "pass"), ("d", "pass"))
    ]


def test_a_stop_reaches_the_children_and_a_resume_continues_them(begin: Callable[..., Case]):
    case = begin(FAN)
    begun(case, "a", "b", "c", "d")
    case.runtime.stop("slow")
    assert case.ends() == "interrupted signal"
    has_ended(case)
    case.proceed()
    case.runtime.resume("slow")
    assert case.ends() == "completed terminal"
    assert sorted(effects(case.project)[4:8]) == ["a", "b", "c", "d"]
    assert effects(case.project)[8:] == ["a", "b", "c", "d", "4"]


def test_cancelling_the_workflow_of_a_run_stops_its_children(begin: Callable[..., Case]):
    case = begin(FAN)
    begun(case, "a", "b", "c", "d")
    asyncio.run(cancel(case))
    assert case.ends() == "interrupted signal"
    has_ended(case)


async def cancel(case: Case) -> None:
    client = await connected(case.fleet.server.address)
    identity = workflow_id(str(case.project.root.parent / "bare.git"), "slow")
    await client.get_workflow_handle(identity).cancel()


def test_a_worker_is_killed_while_children_run(begin: Callable[..., Case]):
    case = begin(FAN)
    begun(case, "a", "b", "c", "d")
    parent = case.holder()
    there = [key for key, each in holders(case).items() if each is parent]
    parent.send(signal.SIGKILL)
    case.replace(parent)
    again = [key.rpartition("-")[2] for key in there]
    begun(case, "a", "b", "c", "d", *again)
    case.proceed()
    assert case.ends() == "completed terminal"
    assert effects(case.project)[4 + len(again) :] == ["a", "b", "c", "d", "4"]
    story = told(case.runtime, "slow")
    ended = [line for line in story if line.startswith("child_end")]
    assert sorted(ended) == [f"child_end {name} completed terminal done 1" for name in "abcd"]
    assert [line for line in story if line.startswith("resume")] == ["resume fan 1 running"]


def test_the_timeout_of_a_loop_ends_its_children(begin: Callable[..., Case]):
    case = begin({**FAN, "timeout": 8})
    assert case.ends() == "failed loop_timeout"
    has_ended(case)


NESTED: dict[str, Any] = {
    "name": "slow",
    "max_cost_usd": 1,
    "initial": "outer",
    "states": {
        "outer": {
            "loop": {
                "initial": "inner",
                "context": {"word": "none"},
                "states": {
                    "inner": {
                        "branches": {
                            "x": {"action": "echo ${context.word}-x | tee -a $OUT/effects > src/x"},
                            "y": {
                                "loop": {
                                    "initial": "ask",
                                    "states": {
                                        "ask": {
                                            "terminal": True,
                                            "outcome": "review",
                                            "next": "done",
                                        },
                                        "done": {"terminal": True},
                                    },
                                }
                            },
                        },
                        "on_pass": "done",
                        "on_fail": "no_failed",
                    },
                    "no_failed": {"terminal": True},
                    "done": {"terminal": True},
                },
                "result": {"found": "${captured.inner.passed}"},
            },
            "with": {"word": "given"},
            "on_pass": "after",
            "on_fail": "no_failed",
        },
        "after": {
            "action": "cat src/x >> $OUT/effects;"
            " echo ${captured.outer.result.found} >> $OUT/effects",
            "next": "done",
        },
        "no_failed": {"terminal": True},
        "done": {"terminal": True},
    },
}


def test_a_gate_in_a_child_of_a_child_is_answered(begin: Callable[..., Case]):
    case = begin(NESTED)
    assert case.ends() == "needs_review review"
    assert effects(case.project) == ["given-x"]
    case.runtime.approve("slow", "fine")
    assert case.ends() == "completed terminal"
    assert effects(case.project) == ["given-x", "given-x", "2"]


def test_a_rejection_reaches_the_child_that_waits(begin: Callable[..., Case]):
    case = begin(NESTED)
    assert case.ends() == "needs_review review"
    case.runtime.reject("slow", "not like this")
    assert case.ends() == "failed terminal"


def test_limits_are_shared_among_children_when_they_start():
    names = ("a", "b", "c")
    states = {
        "fan": StateConfig(branches=Branches(for_each=names), action="true"),
        "end": StateConfig(terminal=True),
    }
    loop = FSMLoop("shares", "fan", states, max_cost_usd=6.0, max_tokens=900)
    run = new_run(loop, "one", Moment(0, 0))
    command = RunChildren("fan", 1, 1, start=names, width=3)
    children = ChildWorkflows(None)
    for number, name in enumerate(names):
        most = children.share(loop, run, command, name)
        assert most == Limits(max_cost_usd=2.0, max_tokens=300), number
        children.running[name] = Running(name, most)
    children.end({"key": "a", "name": "a", "left": None})
    children.recorded("a")
    used = run._replace(costs={"fan": Spending(100, 0.5)})
    left = children.share(loop, used, command, "d")
    assert left == Limits(max_cost_usd=1.5, max_tokens=200)
