"""What becomes of a run when a worker or the server fails under it."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from typing import Any

import psutil

from little_loops.fsm.codec import to_record
from tests.contract.suite import effects, told
from tests.fleet.case import Case
from tests.project import DEADLINE_S, until

SLOW: dict[str, Any] = {
    "name": "slow",
    "initial": "first",
    "states": {
        "first": {"action": "echo first >> $OUT/effects; echo 1 > src/first", "next": "second"},
        "second": {
            "action": "echo second >> $OUT/effects; until test -e $OUT/ok; do sleep 0.05; done;"
            " echo 2 > src/second",
            "next": "third",
        },
        "third": {"action": "cat src/first src/second >> $OUT/effects", "next": "done"},
        "done": {"terminal": True},
    },
}


TURN = (
    "echo turn >> $OUT/effects; echo 1 > src/half; until test -e $OUT/ok; do sleep 0.05; done;"
    " echo right > src/value; rm -f src/half; echo done"
)
AGENT = {
    "name": "slow",
    "host": {"name": "command", "command": ["sh", "-c", TURN, "agent", "{prompt}"]},
    "evidence": {"protect": ["tests/*"]},
    "initial": "check",
    "states": {
        "check": {
            "action": "grep -q right src/value",
            "check": True,
            "on_pass": "done",
            "on_fail": "fix",
        },
        "fix": {"action": "Fix it", "action_type": "prompt", "next": "check"},
        "done": {"terminal": True},
    },
}


def test_three_kills_in_the_middle_of_an_action(begin: Callable[..., Case]):
    case = begin(SLOW)
    for count in range(1, 4):
        case.effect("first", *["second"] * count)
        worker = case.holder()
        worker.send(signal.SIGKILL)
        case.replace(worker)
    case.effect("first", *["second"] * 4)
    case.proceed()
    assert case.ends() == "completed terminal"
    assert effects(case.project) == ["first", *["second"] * 4, "1", "2"]
    assert told(case.runtime, "slow").count("action_complete first 0") == 1


def test_no_other_worker_has_the_name_of_one_whose_runs_are_still_ending(
    begin: Callable[..., Case],
):
    case = begin(SLOW)
    case.effect("first", "second")
    old = case.holder()
    (seat,) = psutil.Process(old.process.pid).children()
    seat.suspend()  # so that it cannot end
    old.send(signal.SIGTERM)
    new = case.fleet.worker()
    case.fleet.workers.append(new)
    try:
        new.ready()
        assert (old.process.poll(), new.name == old.name) == (None, False)
    finally:
        seat.resume()
    old.process.wait(DEADLINE_S)
    case.fleet.workers.remove(old)
    case.effect("first", "second", "second")
    case.proceed()
    assert case.ends() == "completed terminal"


def test_a_suspended_worker_that_continues_changes_nothing(begin: Callable[..., Case]):
    case = begin(SLOW)
    case.effect("first", "second")
    zombie = case.holder()
    zombie.send(signal.SIGSTOP)
    case.effect("first", "second", "second")
    zombie.send(signal.SIGCONT)
    case.proceed()
    assert case.ends() == "completed terminal"
    assert effects(case.project) == ["first", "second", "second", "1", "2"]


def test_the_stored_result_of_a_lost_worker_is_used(begin: Callable[..., Case]):
    case = begin(SLOW)
    case.effect("first", "second")
    zombie = case.holder()
    zombie.send(signal.SIGSTOP)
    case.proceed()  # the action ends, and nobody reports it
    try:
        assert case.ends() == "completed terminal"
    finally:
        zombie.send(signal.SIGCONT)
    assert effects(case.project) == ["first", "second", "1", "2"]
    assert not [line for line in told(case.runtime, "slow") if line.startswith("resume")]


def test_a_server_that_is_killed_and_started_again(begin: Callable[..., Case]):
    case = begin(SLOW)
    case.effect("first", "second")
    case.fleet.server.kill()
    case.fleet.server.start()
    case.proceed()
    assert case.ends() == "completed terminal"
    assert effects(case.project)[-2:] == ["1", "2"]
    assert told(case.runtime, "slow").count("action_complete second 0") == 1


def test_a_stop_in_the_middle_of_an_action(begin: Callable[..., Case]):
    case = begin(SLOW)
    case.effect("first", "second")
    case.runtime.stop("slow")
    assert case.ends() == "interrupted signal"
    case.proceed()
    case.runtime.resume("slow")
    assert case.ends() == "completed terminal"
    branch = (case.runtime.details("slow") or {})["branch"]
    bare = str(case.project.root.parent / "bare.git")
    assert case.project.git("-C", bare, "show", f"{branch}:src/second") == "2"


def test_an_agent_whose_worker_is_killed_is_asked_again_with_the_same_evidence(
    begin: Callable[..., Case],
):
    case = begin(AGENT)
    case.effect("turn")
    assert (case.runtime.details("slow") or {})["state"] == "fix"
    assert told(case.runtime, "slow")[-1] == "action_start fix 1"
    worker = case.holder()
    worker.send(signal.SIGKILL)
    case.replace(worker)
    case.effect("turn", "turn")
    case.proceed()
    assert case.ends() == "completed terminal", case.runtime.details("slow")
    branch = (case.runtime.details("slow") or {})["branch"]
    bare = str(case.project.root.parent / "bare.git")
    changed = case.project.git("-C", bare, "diff", "--name-only", "main", str(branch))
    assert changed == "src/value"


SETUP = {
    **SLOW,
    "workspace": {
        "setup": "echo setup >> $OUT/effects; test -e $OUT/broken && exit 7; > src/built"
    },
    "states": {
        **SLOW["states"],
        "second": {
            "action": "test -e src/built || exit 9; echo second >> $OUT/effects;"
            " until test -e $OUT/ok; do sleep 0.05; done; echo 2 > src/second",
            "next": "third",
        },
    },
}


def test_setup_runs_on_each_machine_before_the_first_action_there(begin: Callable[..., Case]):
    case = begin(SETUP, {".gitignore": "/src/built\n"})
    case.effect("setup", "first", "second")
    worker = case.holder()
    worker.send(signal.SIGKILL)
    case.replace(worker)
    case.effect("setup", "first", "second", "setup", "second")
    case.proceed()
    assert case.ends() == "completed terminal"
    assert effects(case.project)[5:] == ["1", "2"]


def test_a_setup_that_fails_ends_the_run_and_a_resume_continues_it(begin: Callable[..., Case]):
    case = begin(SETUP, {".gitignore": "/src/built\n"}, broken=True)
    assert case.ends() == "failed error"
    worker = (case.runtime.details("slow") or {})["worker"]
    assert worker is None
    last = to_record(case.runtime.events("slow")[-1])
    assert re.fullmatch(
        r"`setup` of the workspace failed on `\S+-\d+`: exit 7", str(last["error"])
    ), last
    assert effects(case.project) == ["setup"]
    (case.project.home / "broken").unlink()
    case.proceed()
    case.runtime.resume("slow")
    assert case.ends() == "completed terminal"
    assert effects(case.project) == ["setup", "setup", "first", "second", "1", "2"]


def test_a_stop_ends_setup_and_all_that_it_has_started(begin: Callable[..., Case]):
    setup = "echo $$ >> $OUT/effects; until test -e $OUT/ok; do sleep 0.05; done"
    case = begin({**SLOW, "workspace": {"setup": setup}})
    until(lambda: effects(case.project), "setup")
    case.runtime.stop("slow")
    assert case.ends() == "failed signal"
    until(lambda: not psutil.pid_exists(int(effects(case.project)[0])), "end of setup")
