"""A runner of its own, which adopts orphans and listens to signals: what it ends, and how."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import Any, Self

import psutil
import pytest

import little_loops
from little_loops.system import process_tree

LIMIT_S = 30.0
ON_LINUX = sys.platform == "linux"
ENVIRON = {**os.environ, "PYTHONPATH": str(Path(little_loops.__file__).parents[1])}


@pytest.fixture
def run_id() -> Iterator[str]:
    """A token by which all that a test starts is found and ended."""
    token = f"test-{uuid.uuid4()}"
    yield token
    process_tree.sweep(token, grace_s=0)


def until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.01)


def is_alive(pid: int, before: float) -> bool:
    """Whether the process of that number lives that was there at that time."""
    try:
        seen = psutil.Process(pid)
        return seen.create_time() <= before and seen.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


RUNNER = """
import json, os, resource, signal, sys
script, deadline_s, grace_s, token, first = json.loads(sys.argv[1])
exec(first)
from little_loops.system import process
from little_loops.system import stops
from little_loops.system import process_tree
process_tree.adopt_orphans()
flag = stops.StopFlag()
restore = stops.listen(flag)
sink = lambda chunk: None
woken = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
at_start = []
ended = process.run(
    ["/bin/sh", "-c", script], env={**os.environ, **token}, cwd=".", stdin=None,
    stdout=sink, stderr=sink, deadline_s=deadline_s, stop=flag,
    stop_plan=[(signal.SIGTERM, grace_s)], on_started=lambda pid: at_start.append(woken()),
)
print(json.dumps([*ended[:3], process_tree.is_adopting() and process_tree.reap(), woken() - at_start[0]]))
"""


class Runner:
    def __init__(self, run_id: str, directory: Path, script: str, deadline_s: float | None = None, *,
                 grace_s: float = 5.0, first: str = "", within: tuple[str, ...] = ()) -> None:  # fmt: skip
        self.directory = directory
        token = {"LL_RUN_ID": run_id, "LL_STEP_ID": f"{run_id}/1", "LL_ATTEMPT": "1"}
        spec = json.dumps([script, deadline_s, grace_s, token, first])
        self.child = subprocess.Popen(
            [*within, sys.executable, "-c", RUNNER, spec], env=ENVIRON, cwd=directory,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0,
        )  # fmt: skip

    def wait_for_pids(self, count: int) -> None:
        until(lambda: len(self.pids()) == count or self.child.poll() is not None)

    def pids(self) -> list[int]:
        file = self.directory / "pids"
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    def answer(self) -> list[Any]:
        text, errors = self.child.communicate(timeout=LIMIT_S)
        assert errors == ""
        answer: list[Any] = json.loads(text)
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.child.kill()
        self.child.communicate()
        for pid in self.pids():
            if is_alive(pid, time.time()) and "pids" in " ".join(psutil.Process(pid).cmdline()):
                psutil.Process(pid).kill()


STAY = "echo $$ >> pids; while :; do sleep 0.05; done"
SHAPES = {
    "plain": (STAY, 1),
    "grandchild": (f"sh -c 'sh -c \"{STAY.replace('$', chr(92) + '$')}\"; true' & {STAY}", 2),
    "ignores TERM": (f"trap '' TERM; {STAY}", 1),
    "setsid": (f"setsid sh -c '{STAY}' & {STAY}", 2),
    "daemon without environment": (f"(setsid env -i PATH=$PATH sh -c '{STAY}' &); {STAY}", 2),
}


def is_expected(answer: list[Any], shape: str, cut_by: str, hurried: bool) -> bool:
    signals = {signal.SIGKILL} if shape == "ignores TERM" else {SIGTERM}
    code, signum, by, nothing_left, _ = answer
    return (code, by, nothing_left) == (None, cut_by, True) and (
        signum in signals | ({signal.SIGKILL} if hurried else set())
    )


@pytest.mark.skipif(not ON_LINUX, reason="only there orphans are adopted")
@pytest.mark.parametrize("trigger", ["deadline", "stop", "stop twice"])
@pytest.mark.parametrize("shape", SHAPES)
def test_nothing_of_an_action_survives(run_id, tmp_path, shape, trigger):
    script, count = SHAPES[shape]
    deadline_s = 1.0 if trigger == "deadline" else None
    grace_s = 600.0 if trigger == "stop twice" else 0.3
    with Runner(run_id, tmp_path, script, deadline_s, grace_s=grace_s) as runner:
        runner.wait_for_pids(count)
        if trigger != "deadline":
            runner.child.send_signal(SIGTERM)
        if trigger == "stop twice":
            runner.child.send_signal(SIGINT)
        answer = runner.answer()
        now = time.time()
        assert is_expected(answer, shape, trigger.split()[0], trigger == "stop twice"), answer
        assert len(runner.pids()) == count
        assert [pid for pid in runner.pids() if is_alive(pid, now)] == []
        assert process_tree.members(run_id) == []


@pytest.mark.skipif(not ON_LINUX, reason="only there nothing has to be looked at by the clock")
def test_an_idle_runner_sleeps(run_id, tmp_path):
    with Runner(run_id, tmp_path, "sleep 1") as runner:
        *_, wake_ups = runner.answer()
    assert wake_ups < 10


@pytest.mark.skipif(not ON_LINUX, reason="only there orphans are adopted")
def test_orphans_that_ended_are_buried(run_id, tmp_path):
    with Runner(run_id, tmp_path, "for i in 1 2 3; do (sh -c true &); done; sleep 0.2") as runner:
        assert runner.answer()[:4] == [0, None, "none", True]


WITHOUT = """
import psutil  # while it can still be told where it is
for name in ("pidfd_open", "waitid"): hasattr(os, name) and delattr(os, name)
sys.platform = "darwin"
"""


@pytest.mark.parametrize(
    ("script", "deadline_s", "answer"),
    [
        pytest.param("exit 3", None, [3, None, "none"], id="exit"),
        pytest.param("kill -9 $$", None, [None, 9, "none"], id="killed"),
        pytest.param("sleep 600 & sleep 600", 0.3, [None, 15, "deadline"], id="deadline"),
        pytest.param("trap '' TERM; setsid sleep 600 & sleep 600", 0.3, [None, 9, "deadline"], id="stubborn"),
    ],
)  # fmt: skip
def test_a_system_with_less_to_offer_will_do(run_id, tmp_path, script, deadline_s, answer):
    with Runner(run_id, tmp_path, script, deadline_s, grace_s=0.3, first=WITHOUT) as runner:
        assert runner.answer()[:3] == answer
    assert process_tree.members(run_id) == []


@pytest.mark.skipif(not ON_LINUX or os.geteuid() != 0, reason="takes /proc away")
@pytest.mark.parametrize(
    ("script", "deadline_s", "answer"),
    [
        pytest.param("exit 3", None, [3, None, "none"], id="exit"),
        pytest.param("sleep 600 & sleep 600", 0.3, [None, 15, "deadline"], id="deadline"),
        pytest.param("trap '' TERM; sleep 600", 0.3, [None, 9, "deadline"], id="stubborn"),
    ],
)
def test_without_proc_the_group_is_ended(run_id, tmp_path, script, deadline_s, answer):
    hide = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh")
    if subprocess.call([*hide, "true"], stderr=subprocess.DEVNULL) != 0:
        pytest.skip("nothing may be mounted")
    with Runner(run_id, tmp_path, script, deadline_s, grace_s=0.3, within=hide) as runner:
        assert runner.answer()[:3] == answer
    assert process_tree.members(run_id) == []


def test_an_unknown_end_is_never_a_success(run_id, tmp_path):
    first = "from little_loops.system import stops; stops.listen = lambda flag: None\n"
    first += "signal.signal(signal.SIGCHLD, signal.SIG_IGN)"
    with Runner(run_id, tmp_path, "exit 0", first=first) as runner:
        assert runner.answer()[:3] == [None, None, "none"]


def test_too_many_open_files_are_said(run_id, tmp_path):
    first = "from little_loops.system import process, stops, process_tree; import ctypes\n"
    first += "resource.setrlimit(resource.RLIMIT_NOFILE, (6, 6))"
    with Runner(run_id, tmp_path, "exit 0", first=first) as runner:
        _, errors = runner.child.communicate(timeout=LIMIT_S)
    assert errors.endswith("little_loops.system.starting.CannotStart: too many files are open\n")


def test_ctrl_z_holds_the_action_and_the_clock(run_id, tmp_path):
    with Runner(run_id, tmp_path, f"trap 'exit 6' USR1; {STAY}", 2.0) as runner:
        runner.wait_for_pids(1)
        both = [psutil.Process(runner.child.pid), psutil.Process(runner.pids()[0])]
        runner.child.send_signal(signal.SIGTSTP)
        until(lambda: all(one.status() == psutil.STATUS_STOPPED for one in both))
        time.sleep(2.2)  # longer than it was given
        runner.child.send_signal(signal.SIGCONT)
        both[1].send_signal(signal.SIGUSR1)
        assert runner.answer()[:3] == [6, None, "none"]


MEMORY = """
import os, resource, sys
from little_loops.runs.output_files import RunOutput
from little_loops.system import output, process
from little_loops.system.files import Folder
peak_kib = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
scanner, out = output.SignalScanner(), RunOutput(Folder.at(".")).action(1, 1)
def sink(chunk): scanner.feed(chunk); out.stdout(chunk)
def run(script):
    process.run(
        ["/bin/sh", "-c", script], env=os.environ, cwd=".", stdin=None, stdout=sink, stderr=sink,
        deadline_s=None, stop=None, stop_plan=[],
    )
run("yes FATAL_ERROR of no importance | head -c 1000000")
before = peak_kib()
run("yes FATAL_ERROR of no importance | head -c 200000000")
ended = out.end().stdout
print(ended.size, ended.truncated, os.path.getsize("00001-1.out"), scanner.found, peak_kib() - before < 4096)
"""


def test_memory_stays_flat_while_200_megabytes_pass(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", MEMORY],
        env=ENVIRON, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=True,
    )  # fmt: skip
    assert done.stdout == "201000000 True 67108864 None True\n"
