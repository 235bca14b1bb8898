"""Which processes belong to a run, and that they are ended to the last one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from signal import SIGTERM
from typing import Any

import pexpect
import psutil
import pytest

import little_loops
from little_loops.system import process_tree
from little_loops.system.process_table import SYSTEM, Proc, Process, Psutil
from little_loops.system.process_tree import ActionSession, Member
from little_loops.system.stops import StopFlag

LIMIT_S = 30.0
ON_LINUX = sys.platform == "linux"
ENVIRON = {**os.environ, "PYTHONPATH": str(Path(little_loops.__file__).parents[1])}


def until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.01)


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def run_id() -> Iterator[str]:
    token = f"test-{uuid.uuid4()}"
    yield token
    process_tree.sweep(token, grace_s=0)


# --- who belongs, told from a table ---

US = os.getpid()
OURS = os.getsid(0)
BOOT = process_tree.session(US).boot


class Table:
    """A system with just these processes: number, parent, session, birth, LL_ variables."""

    def __init__(self, *rows: tuple[int, int, int, float, dict[str, str]]) -> None:
        self.rows = {row[0]: row for row in rows}

    def processes(self) -> dict[int, Process]:
        return {pid: seen for pid in self.rows if (seen := self.look(pid))}

    def look(self, pid: int) -> Process | None:
        if pid not in self.rows:
            return None
        _, parent, session, created, marks = self.rows[pid]
        return Process(pid, parent, session, session, created, "ZOMBIE" in marks)

    def born_by(self, pid: int) -> float:
        return self.rows[pid][3]

    def marks(self, pid: int) -> Mapping[str, str]:
        return self.rows[pid][4]

    def name(self, pid: int) -> str:
        return f"process {pid}" + "!" * 100

    def workplace(self, pid: int) -> str:
        return self.rows[pid][4].get("CWD", "/")

    def cpu_s(self, pid: int) -> float:
        return 0.0

    def boot(self) -> str:
        return BOOT

    def namespace(self) -> str:
        return "pid:[1]"


# Far beyond any number that a real process has.
A, B, C, D = 90_000_001, 90_000_002, 90_000_003, 90_000_004
RUN = {"LL_RUN_ID": "r1"}
OTHER = {"LL_RUN_ID": "r2"}
DETACHED = {"LL_DETACHED": "1"}


@pytest.mark.parametrize(
    ("rows", "sessions", "roots", "found"),
    [
        pytest.param([(A, 1, A, 5, RUN)], [], [], [A], id="by its token"),
        pytest.param([(A, 1, A, 5, OTHER), (B, 1, B, 5, {})], [], [], [], id="strangers"),
        pytest.param([(A, 1, A, 5, RUN), (B, A, B, 6, {}), (C, B, C, 7, {})], [], [], [A, B, C], id="by its parents"),
        pytest.param([(A, 1, A, 5, RUN), (B, A, B, 6, OTHER)], [], [], [A, B], id="a run inside it, in the foreground"),
        pytest.param([(A, 1, A, 5, {"ZOMBIE": "", **RUN}), (B, A, B, 6, {})], [], [], [B], id="a zombie is gone"),
        pytest.param([(B, 1, A, 6, {})], [(A, 5)], [], [B], id="by its session, the leader gone"),
        pytest.param([(A, 1, A, 5, {}), (B, 1, A, 6, {})], [(A, 5)], [], [A, B], id="by its session, the leader there"),
        pytest.param([(A, 1, A, 5, {}), (B, 1, A, 9, {})], [(A, 6)], [], [A, B], id="by its session, noted after its birth"),
        pytest.param([(A, 1, A, 9, {}), (B, 1, A, 9, {})], [(A, 5)], [], [], id="a session of the same number"),
        pytest.param([(A, US, A, 5, {}), (B, A, B, 6, {})], [], [US], [A, B], id="below us"),
        pytest.param([(A, US, OURS, 5, {})], [], [US], [], id="a worker of ours"),
        pytest.param([(A, US, A, 5, {"LL_DRAIN": process_tree.reader_mark()})], [], [US], [], id="our reader for left-overs"),
        pytest.param([(A, US, A, 5, {"LL_DRAIN": "1"})], [], [US], [A], id="something that calls itself a reader"),
        pytest.param([(A, US, A, 5, DETACHED), (B, A, B, 6, {})], [], [US], [], id="detached, without a token yet"),
        pytest.param([(A, US, A, 5, {**DETACHED, **OTHER}), (B, A, B, 6, OTHER)], [], [US], [], id="detached, with its own"),
        pytest.param([(A, 1, A, 5, {**DETACHED, **RUN})], [], [], [A], id="a detached run's own"),
        pytest.param([(A, 1, A, 5, RUN), (B, A, B, 6, {**DETACHED, **OTHER}), (C, B, C, 6, {})], [], [], [A], id="detached below it"),
        pytest.param([(US, A, OURS, 9, RUN), (A, 1, A, 5, RUN), (B, A, B, 6, RUN)], [], [], [B], id="never us or what started us"),
        pytest.param([(A, B, A, 5, {}), (B, A, B, 5, {})], [], [], [], id="a circle of numbers used again"),
        pytest.param([(A, 1, A, 5, RUN), (B, C, B, 5, {}), (C, B, C, 5, {}), (D, C, D, 5, RUN)], [], [], [A, D], id="beside a circle"),
    ],
)  # fmt: skip
def test_who_belongs_to_a_run(rows, sessions, roots, found):
    kept = [ActionSession(sid, born, BOOT) for sid, born in sessions]
    members = process_tree.members("r1", kept, roots, system=Table(*rows))
    assert [one.pid for one in members] == found
    assert all(one.name == f"process {one.pid}".ljust(80, "!") for one in members)


@pytest.mark.parametrize(
    ("cwd", "found"),
    [("/copy", [A, B]), ("/copy/src", [A, B]), ("/copy2", []), ("/", []), ("", [])],
)
def test_what_works_in_a_directory_of_the_run_belongs_to_it(cwd, found):
    table = Table((A, 1, A, 5, {"CWD": cwd}), (B, A, B, 6, {"CWD": "/"}))
    members = process_tree.members("r1", place="/copy", system=table)
    assert [one.pid for one in members] == found


@pytest.mark.parametrize("system", [SYSTEM, Psutil()], ids=["ours", "psutil"])
def test_where_a_process_without_a_terminal_works(system, tmp_path):
    with subprocess.Popen(["sleep", "60"], cwd=tmp_path, start_new_session=True) as child:
        try:
            assert system.workplace(child.pid) == str(tmp_path)
        finally:
            child.kill()
    assert system.workplace(child.pid) == ""


def test_whoever_sits_at_a_terminal_is_left_alone(tmp_path):
    with pexpect.spawn("sh", cwd=str(tmp_path)) as child:
        assert SYSTEM.workplace(child.pid) == ""


@pytest.mark.parametrize("system", [SYSTEM, Psutil()], ids=["ours", "psutil"])
def test_a_child_was_born_by_now_and_the_next_one_was_not_born_before(system):
    births = []
    for _ in range(2):
        with subprocess.Popen(["sleep", "60"], start_new_session=True) as child:
            try:
                seen, by = system.look(child.pid), system.born_by(child.pid)
                births += [seen.created, by]
            finally:
                child.kill()
    assert births == sorted(births)


def test_a_session_of_an_earlier_boot_says_nothing():
    before = ActionSession(A, 5, "another boot")
    assert process_tree.members("r1", [before], system=Table((B, 1, A, 6, {}))) == []


STEP = {"LL_RUN_ID": "r1", "LL_STEP_ID": "r1/2", "LL_ATTEMPT": "1"}
EARLIER = {**STEP, "LL_STEP_ID": "r1/1"}


@pytest.mark.parametrize(
    ("rows", "sessions", "found"),
    [
        pytest.param([(A, 1, A, 5, STEP), (B, A, B, 6, {})], [], [A, B], id="by its marks"),
        pytest.param([(A, 1, A, 5, EARLIER)], [], [], id="what an earlier action left"),
        pytest.param([(A, 1, A, 5, {**STEP, "LL_ATTEMPT": "2"})], [], [], id="another attempt"),
        pytest.param([(B, 1, A, 6, {})], [(A, 5)], [B], id="by its session"),
    ],
)
def test_who_belongs_to_one_action_of_a_run(rows, sessions, found):
    kept = [ActionSession(sid, born, BOOT) for sid, born in sessions]
    marks = process_tree.marks_of("r1", 2, 1)
    members = process_tree.members("r1", kept, marks=marks, system=Table(*rows))
    assert [one.pid for one in members] == found


@pytest.mark.parametrize(
    ("env", "rows", "found"),
    [
        pytest.param(STEP, [(B, A, A, 6, STEP), (C, B, C, 6, {})], [A, B, C], id="below it"),
        pytest.param(STEP, [(B, 1, A, 6, {})], [A, B], id="by its session"),
        pytest.param(STEP, [(B, 1, B, 6, STEP), (C, 1, C, 6, EARLIER)], [A, B], id="by its token"),
        pytest.param(STEP, [(B, 1, B, 6, {**STEP, "LL_ATTEMPT": "2"})], [A], id="another attempt"),
        pytest.param({}, [(B, A, B, 6, {}), (C, 1, C, 6, {})], [A, B], id="without a token"),
        pytest.param(STEP, [(B, A, B, 6, DETACHED)], [A], id="detached below it"),
        pytest.param({**STEP, **DETACHED}, [(B, A, B, 6, {**STEP, **DETACHED})], [A, B], id="of a detached run"),
        pytest.param(DETACHED, [], [A], id="the action itself, whatever it carries"),
        pytest.param(STEP, [(B, US, B, 6, {})], [A], id="not ours to adopt"),
    ],
)  # fmt: skip
def test_who_belongs_to_an_action(env, rows, found):
    table = Table((A, US, A, 5, env), *rows)
    assert [one.pid for one in process_tree.action_members(A, env, system=table)] == found


# --- what the system tells ---


@pytest.fixture
def sleeper(run_id) -> Iterator[subprocess.Popen[bytes]]:
    env = {**os.environ, "LL_RUN_ID": run_id, "LL_TEXT": "a=b\nc"}
    with subprocess.Popen(["sleep", "600"], env=env, start_new_session=True) as child:
        yield child
        child.kill()


@pytest.mark.parametrize("system", [Proc(), Psutil()], ids=["proc", "psutil"])
def test_the_system_tells_of_a_process(sleeper, run_id, system):
    if isinstance(system, Proc) and not ON_LINUX:
        pytest.skip("there is no /proc")
    until(lambda: system.name(sleeper.pid) == "sleep 600")
    seen = system.processes()[sleeper.pid]
    assert seen[:4] == (sleeper.pid, US, sleeper.pid, sleeper.pid)
    assert seen == system.look(sleeper.pid)
    assert not seen.is_zombie
    assert system.marks(sleeper.pid) == {"LL_RUN_ID": run_id, "LL_TEXT": "a=b\nc"}
    assert system.boot() == system.boot() != ""
    sleeper.kill()
    until(lambda: (zombie := system.look(sleeper.pid)) is not None and zombie.is_zombie)
    sleeper.wait()
    assert system.look(sleeper.pid) is None
    assert (system.marks(sleeper.pid), system.name(sleeper.pid)) == ({}, "")


@pytest.mark.skipif(not ON_LINUX, reason="two ways to look only there")
def test_both_ways_of_looking_agree(sleeper):
    def shape(seen: Process | None) -> Any:
        return seen and (*seen[:4], seen.is_zombie)

    assert shape(Proc().look(sleeper.pid)) == shape(Psutil().look(sleeper.pid))
    assert shape(Proc().look(US)) == shape(Psutil().look(US))


# --- ending them ---


def test_a_signal_is_for_this_very_process_only(sleeper):
    seen = SYSTEM.look(sleeper.pid)
    assert seen is not None
    process_tree.send_signal(
        [Member(sleeper.pid, seen.created - 1, "an earlier one")], signal.SIGKILL
    )
    assert sleeper.poll() is None
    process_tree.send_signal([Member(sleeper.pid, seen.created, "it")], signal.SIGKILL)
    assert sleeper.wait(LIMIT_S) == -signal.SIGKILL


def test_a_sweep_gives_what_it_ended(sleeper, run_id):
    until(lambda: SYSTEM.name(sleeper.pid) == "sleep 600")
    assert [(one.pid, one.name) for one in process_tree.sweep(run_id)] == [
        (sleeper.pid, "sleep 600")
    ]
    assert sleeper.wait(LIMIT_S) == -SIGTERM
    assert process_tree.sweep(run_id) == []


def test_a_second_stop_cuts_the_grace_of_a_sweep(run_id):
    env = {**os.environ, "LL_RUN_ID": run_id}
    script = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
    stop = StopFlag()
    with subprocess.Popen(
        ["sh", "-c", script], env=env, stdout=subprocess.PIPE, start_new_session=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        stop.ask(SIGTERM)
        stop.ask(SIGTERM)
        ended = process_tree.sweep(run_id, grace_s=600, stop=stop)
        assert child.pid in [one.pid for one in ended]
        assert child.wait(LIMIT_S) == -signal.SIGKILL
    stop.close()


# A runner that is killed while its action runs.
RUNNER = """
import json, os, sys
from little_loops.system import process
from little_loops.system import process_tree
script, run_id = sys.argv[1:]
process_tree.adopt_orphans()
process.run(
    ["/bin/sh", "-c", script], env={**os.environ, "LL_RUN_ID": run_id}, cwd=".", stdin=None,
    stdout=lambda chunk: None, stderr=lambda chunk: None, deadline_s=None, stop=None, stop_plan=[],
    on_started=lambda pid: print(json.dumps(process_tree.session(pid)), flush=True),
)
"""
STAY = "echo $$ >> pids; while :; do sleep 0.05; done"
BARE = "env -i PATH=$PATH sh -c"
ORPHANS = {
    "plain": (STAY, 1),
    "in another session": (f"setsid sh -c '{STAY}' & {STAY}", 2),
    "a daemon": (f"(setsid sh -c '{STAY}' &); {STAY}", 2),
    "without environment": (f"exec {BARE} '{STAY}'", 1),
    "without environment, its parent gone": (f"({BARE} '{STAY}' &); {STAY}", 2),
    "ignores TERM": (f"trap '' TERM; {STAY}", 1),
}


@pytest.mark.parametrize("shape", ORPHANS)
def test_orphans_of_a_killed_runner_are_found_and_ended(run_id, tmp_path, shape):
    script, count = ORPHANS[shape]
    file = tmp_path / "pids"
    file.touch()
    with subprocess.Popen(
        [sys.executable, "-c", RUNNER, script, run_id],
        env=ENVIRON, cwd=tmp_path, stdout=subprocess.PIPE,
    ) as runner:  # fmt: skip
        assert runner.stdout is not None
        session = ActionSession(*json.loads(runner.stdout.readline()))
        until(lambda: len(file.read_text().split()) == count)
        runner.kill()
    orphans = [psutil.Process(int(pid)) for pid in file.read_text().split()]
    assert all(is_alive(one) for one in orphans)
    ended = process_tree.sweep(run_id, [session], grace_s=0.3)
    assert {one.pid for one in orphans} <= {one.pid for one in ended}
    assert not any(is_alive(one) for one in orphans)


def test_a_run_on_its_own_outlives_the_one_that_started_it(run_id, tmp_path):
    own = f"LL_DETACHED=1 LL_RUN_ID= setsid sh -c '{STAY}' &"
    with subprocess.Popen(
        ["sh", "-c", f"{own} {STAY}"], cwd=tmp_path, start_new_session=True,
        env={**os.environ, "LL_RUN_ID": run_id},
    ) as child:  # fmt: skip
        file = tmp_path / "pids"
        until(lambda: file.exists() and len(file.read_text().split()) == 2)
        free = next(psutil.Process(int(p)) for p in file.read_text().split() if int(p) != child.pid)
        try:
            process_tree.sweep(run_id)
            assert child.wait(LIMIT_S) == -SIGTERM
            assert free.is_running()
        finally:
            free.kill()


ADOPTER = """
import os, subprocess, sys, time
from little_loops.system import process_tree
print(process_tree.is_adopting(), process_tree.reap())
process_tree.adopt_orphans()
print(process_tree.is_adopting(), process_tree.reap())
subprocess.run(["sh", "-c", "(setsid sh -c true &)"], start_new_session=True)
while not process_tree.reap(): time.sleep(0.01)
worker = subprocess.Popen(["sh", "-c", "exit 3"])
os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
print(process_tree.reap(), worker.wait(), process_tree.reap())
if os.fork() == 0:
    print(process_tree.is_adopting(), flush=True)
    os._exit(0)
os.wait()
"""


@pytest.mark.skipif(not ON_LINUX, reason="only there orphans are adopted")
def test_orphans_are_buried_and_workers_are_not():
    done = subprocess.run(
        [sys.executable, "-c", ADOPTER],
        env=ENVIRON, capture_output=True, text=True, timeout=LIMIT_S, check=True,
    )  # fmt: skip
    assert done.stdout == "False True\nTrue True\nFalse 3 True\nFalse\n"
