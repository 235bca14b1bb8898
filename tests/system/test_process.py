"""One child, run to its end: real processes, small and bounded."""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import Any

import psutil
import pytest

import little_loops
from little_loops.system import process, process_tree
from little_loops.system.process import CannotStart, Ended
from little_loops.system.stops import StopFlag

LIMIT_S = 30.0
ON_LINUX = sys.platform == "linux"
ENVIRON = {**os.environ, "PYTHONPATH": str(Path(little_loops.__file__).parents[1])}


class Heard:
    """A run with what it printed."""

    def __init__(self, run_id: str, directory: Path) -> None:
        self.out = bytearray()
        self.err = bytearray()
        self.token = {"LL_RUN_ID": run_id, "LL_STEP_ID": f"{run_id}/1", "LL_ATTEMPT": "1"}
        self.env = {**ENVIRON, **self.token}
        self.directory = str(directory)

    def run(self, script: str, **given: Any) -> Ended:
        settings: dict[str, Any] = {
            "env": self.env, "cwd": self.directory, "stdin": None,
            "stdout": self.out.extend, "stderr": self.err.extend,
            "deadline_s": None, "stop": None, "stop_plan": [(SIGTERM, 5.0)],
        }  # fmt: skip
        return process.run(["/bin/sh", "-c", script], **{**settings, **given})


@pytest.fixture
def run_id() -> Iterator[str]:
    """A token by which all that a test starts is found and ended."""
    token = f"test-{uuid.uuid4()}"
    yield token
    process_tree.sweep(token, grace_s=0)


@pytest.fixture
def heard(run_id, tmp_path) -> Heard:
    return Heard(run_id, tmp_path)


def until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.01)


def told(ended: Ended) -> tuple[int | None, int | None, str]:
    return ended.exit_code, ended.signal, ended.cut_by


def is_alive(pid: int, before: float) -> bool:
    """Whether the process of that number lives that was there at that time."""
    try:
        seen = psutil.Process(pid)
        return seen.create_time() <= before and seen.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


# --- how it ends by itself ---


@pytest.mark.parametrize("code", [0, 1, 2, 126, 127, 255])
def test_an_exit_code_is_told(heard, code):
    assert told(heard.run(f"exit {code}")) == (code, None, "none")


@pytest.mark.parametrize("signum", [9, 11, 15])
def test_death_by_a_signal_is_told(heard, signum):
    assert told(heard.run(f"kill -{signum} $$")) == (None, signum, "none")


def test_both_streams_are_heard_apart(heard):
    ended = heard.run("echo one; echo two >&2; echo three")
    assert (heard.out, heard.err, ended.exit_code) == (b"one\nthree\n", b"two\n", 0)
    assert ended.duration_ms >= 0


def test_ten_megabytes_on_each_stream(heard):
    heard.run("head -c 10000000 /dev/zero & head -c 10000000 /dev/zero >&2; wait")
    assert (len(heard.out), len(heard.err)) == (10_000_000, 10_000_000)


def test_bytes_arrive_as_they_are(heard):
    heard.run(r"printf 'a\0b\377\n'; head -c 6000000 /dev/zero | tr '\0' x")
    assert heard.out == b"a\0b\xff\n" + b"x" * 6_000_000


def test_who_closes_its_streams_is_waited_for(heard):
    assert told(heard.run("exec >&- 2>&-; sleep 0.2; exit 7")) == (7, None, "none")


def test_a_printed_line_is_heard_while_the_action_runs(heard, tmp_path):
    def answer(chunk: bytes) -> None:
        (tmp_path / "answer").write_bytes(chunk)

    script = "echo question; until [ -s answer ]; do sleep 0.01; done; exit 4"
    assert told(heard.run(script, stdout=answer, deadline_s=LIMIT_S)) == (4, None, "none")


# --- what it is given ---


def test_stdin_is_empty(heard):
    heard.run("cat; echo end")
    assert heard.out == b"end\n"


@pytest.mark.parametrize("size", [0, 1, 1 << 16, 3_000_000])
def test_stdin_is_passed_whole_and_closed(heard, size):
    text = bytes(i % 256 for i in range(size))
    assert told(heard.run("cat", stdin=text)) == (0, None, "none")
    assert heard.out == text


@pytest.mark.parametrize("script", ["true", "exec <&-; sleep 0.1", "sleep 0.1"])
def test_nobody_has_to_read_it(heard, script):
    assert told(heard.run(script, stdin=b"x" * 1_000_000)) == (0, None, "none")


@pytest.mark.skipif(not ON_LINUX, reason="reads /proc")
def test_no_descriptor_of_ours_is_inherited(heard):
    lock = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(lock, True)
    try:
        heard.run("ls /proc/self/fd", stdin=b"")
    finally:
        os.close(lock)
    assert heard.out.split() == [b"0", b"1", b"2", b"3"]  # 3 is the listing itself


def test_it_leads_a_session_of_its_own(heard):
    started: list[int] = []
    ended = heard.run("ps -o sid= -p $$", on_started=started.append)
    assert [int(heard.out), ended.pid] == started * 2


@pytest.mark.skipif(not ON_LINUX, reason="reads /proc")
@pytest.mark.parametrize("script", ["echo a; echo b >&2", "sleep 5 & exit 3", "kill -9 $$"])
def test_no_descriptor_stays_open(heard, script):
    before = os.listdir("/proc/self/fd")
    heard.run(script, stdin=b"x")
    assert os.listdir("/proc/self/fd") == before


# --- what it leaves behind ---


def test_a_child_left_behind_is_not_waited_for(heard):
    before = time.time()
    assert told(heard.run("sleep 600 & echo $!")) == (0, None, "none")
    assert is_alive(int(heard.out), before + 60)


def test_last_words_of_a_helper_are_heard(heard):
    # What a shell leaves to a filter comes after the exit of the shell.
    heard.run("exec 3>&1; (sleep 0.1; echo late >&3) & echo early")
    assert heard.out == b"early\nlate\n"


def test_what_is_left_running_may_go_on_printing(heard, run_id, tmp_path):
    heard.run("(while :; do echo x; echo x >&2; echo x >> ticks; sleep 0.01; done) &")
    told_before = (tmp_path / "ticks").stat().st_size
    until(lambda: (tmp_path / "ticks").stat().st_size > told_before + 20)
    ended = process_tree.sweep(run_id, grace_s=5)
    assert any("ticks" in one.name for one in ended)
    assert not any(one.name.startswith("cat") for one in ended)
    until(
        lambda: (
            not [p for p in psutil.process_iter() if process_tree.READS_FOR_LEFTOVERS in marks(p)]
        )
    )


def marks(seen: psutil.Process) -> dict[str, str]:
    try:
        return seen.environ()
    except (psutil.Error, OSError):
        return {}


def test_what_is_left_running_is_ended_where_that_is_asked_for(heard, run_id):
    server = (
        "(trap 'echo bye; exit' TERM; echo up > up; while :; do sleep 0.02; done) & sleep 600 &"
    )
    script = f"{server} until [ -s up ]; do sleep 0.01; done; exit 3"
    ended = heard.run(script, leftovers=[(SIGTERM, 5.0)])
    assert (told(ended), heard.out) == ((3, None, "none"), b"bye\n")
    assert [one.name for one in ended.left].count("sleep 600") == 1
    assert process_tree.members(run_id) == []


def test_nothing_left_running_is_nothing_ended(heard):
    assert heard.run("exit 3", leftovers=[(SIGTERM, 5.0)]).left == ()


# --- when it cannot start ---


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        pytest.param({"cwd": "/no/such"}, "the directory `/no/such` does not exist", id="no cwd"),
        pytest.param({"cwd": "/dev/null"}, "`/dev/null` is not a directory", id="cwd is a file"),
        pytest.param({"argv": ["/no/such/sh"]}, "`/no/such/sh` was not found", id="no program"),
        pytest.param({"argv": ["/etc/passwd"]}, "`/etc/passwd` is not executable: permission denied", id="no execute"),
        pytest.param(
            {"argv": ["/bin/sh", "-c", "#" * 3_000_000]},
            "the command and its environment are longer than the system allows",
            id="too long",
        ),
        pytest.param(
            {"argv": ["/bin/sh", "-c", "a\0b"]},
            "the command cannot be passed to a process: embedded null byte",
            id="NUL",
        ),
        pytest.param(
            {"env": {"A=B": "c"}},
            "the command cannot be passed to a process: illegal environment variable name",
            id="a name that is none",
        ),
    ],
)  # fmt: skip
def test_why_it_cannot_start_is_said(given, reason):
    settings: dict[str, Any] = {
        "argv": ["/bin/true"], "env": {}, "cwd": "/", "stdin": b"x", "stdout": print, "stderr": print,
        "deadline_s": None, "stop": None, "stop_plan": [],
    }  # fmt: skip
    before = psutil.Process().num_fds()
    with pytest.raises(CannotStart) as failure:
        process.run(**{**settings, **given})
    assert failure.value.reason == reason
    assert psutil.Process().num_fds() == before


# --- what may cut it short ---


def test_a_deadline_cuts_it_short_and_its_output_is_kept(heard):
    assert told(heard.run("echo begun; echo why >&2; sleep 600", deadline_s=0.3)) == (
        None,
        SIGTERM,
        "deadline",
    )
    assert (heard.out, heard.err) == (b"begun\n", b"why\n")


def test_last_words_after_term_are_kept_and_the_exit_code_told(heard):
    script = "trap 'head -c 300000 /dev/zero; exit 3' TERM; while :; do sleep 0.02; done"
    assert told(heard.run(script, deadline_s=0.3)) == (3, None, "deadline")
    assert len(heard.out) == 300_000


@pytest.mark.parametrize(
    ("plan", "signum"), [([(SIGTERM, 600.0)], SIGTERM), ([], signal.SIGKILL)], ids=["term", "kill"]
)
def test_who_stands_still_is_ended_too(heard, plan, signum):
    assert told(heard.run("kill -STOP $$", deadline_s=0.3, stop_plan=plan)) == (
        None,
        signum,
        "deadline",
    )


BUSY = f"{sys.executable} -c 'import time\nwhile time.process_time() < 1.2: pass'"


@pytest.mark.parametrize(
    ("script", "idle_s", "expected"),
    [
        pytest.param("echo begun; sleep 600", 0.3, (None, SIGTERM, "silence"), id="asleep"),
        pytest.param("sleep 600 & wait", 0.3, (None, SIGTERM, "silence"), id="its child asleep"),
        pytest.param(f"{BUSY}; exit 3", 0.5, (3, None, "none"), id="its child at work"),
        pytest.param(f"setsid {BUSY} & wait; exit 3", 0.5, (3, None, "none"), id="far away"),
        pytest.param(
            "for i in $(seq 40); do echo $i; sleep 0.05; done; exit 3",
            1.0, (3, None, "none"), id="printing",
        ),
        pytest.param("exec 2>&1; sleep 600", None, (None, SIGTERM, "deadline"), id="unbounded"),
    ],
)  # fmt: skip
def test_who_neither_prints_nor_works_is_cut_short(heard, script, idle_s, expected):
    deadline_s = 0.6 if idle_s is None else LIMIT_S
    assert told(heard.run(script, idle_s=idle_s, deadline_s=deadline_s)) == expected


def test_a_stop_asked_for_before_the_start_ends_it_at_once(heard):
    stop = StopFlag()
    stop.ask(SIGTERM)
    assert told(heard.run("sleep 600", stop=stop)) == (None, SIGTERM, "stop")
    stop.close()


@pytest.mark.parametrize("way", ["stop", "deadline"])
def test_who_exited_before_our_first_signal_has_finished(heard, way):
    stop = StopFlag()

    def too_late(pid: int) -> None:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        if way == "stop":
            stop.ask(SIGTERM)

    deadline_s = 0.0 if way == "deadline" else None
    ended = heard.run("echo whole; exit 5", stop=stop, on_started=too_late, deadline_s=deadline_s)
    assert (told(ended), heard.out) == ((5, None, "none"), b"whole\n")
    stop.close()


LEADER = """
import os, signal, subprocess, sys
def note(word):
    with open("heard", "a") as file: file.write(word)
signal.signal(signal.SIGINT, lambda *_: (note("leader "), os._exit(5)))
child = "import signal, time; signal.signal(2, lambda *_: open('heard', 'a').write('tool ')); "
child += "print('ready', flush=True); time.sleep(600)"
subprocess.run([sys.executable, "-c", child])
"""


def test_an_interrupt_goes_to_the_leader_alone_and_the_rest_is_swept(heard, tmp_path):
    stop = StopFlag()

    def ready(chunk: bytes) -> None:
        if b"\n" in chunk:  # once: it may come in pieces
            stop.ask(SIGTERM)

    others = {child.pid for child in psutil.Process().children(True)}
    before = time.time()
    ended = process.run(
        [sys.executable, "-c", LEADER], env=heard.env, cwd=str(tmp_path), stdin=None,
        stdout=ready, stderr=heard.err.extend, deadline_s=None, stop=stop,
        stop_plan=[(SIGINT, LIMIT_S), (SIGTERM, LIMIT_S)],
    )  # fmt: skip
    assert (told(ended), (tmp_path / "heard").read_text()) == ((5, None, "stop"), "leader ")
    left = [p for p in psutil.Process().children(True) if is_alive(p.pid, before + 60)]
    assert [p.cmdline() for p in left if p.pid not in others] == []
    stop.close()


def test_a_sink_that_fails_ends_the_action(heard, run_id):
    def full(_chunk: bytes) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    with pytest.raises(OSError, match="no space left"):
        heard.run("trap '' TERM; sleep 600 & yes", stdout=full)
    assert process_tree.members(run_id) == []


def test_a_start_that_cannot_be_recorded_ends_the_action(heard, run_id):
    def fails(_pid: int) -> None:
        raise RuntimeError("not saved")

    with pytest.raises(RuntimeError, match="not saved"):
        heard.run("sleep 600", on_started=fails)
    assert process_tree.members(run_id) == []


def test_a_tick_comes_again_until_it_is_enough(heard, tmp_path):
    calls: list[int] = []

    def tick() -> float | None:
        calls.append(len(calls))
        if len(calls) < 4:
            return 0.01
        (tmp_path / "enough").touch()
        return None

    script = "until [ -e enough ]; do sleep 0.01; done; sleep 0.2"
    assert told(heard.run(script, tick=tick, deadline_s=LIMIT_S)) == (0, None, "none")
    assert calls == [0, 1, 2, 3]


def test_a_deadline_may_lie_beyond_what_a_poll_can_count(heard):
    assert told(heard.run("exit 3", deadline_s=1e9)) == (3, None, "none")


def test_what_an_earlier_action_left_is_not_ended_with_this_one(heard, tmp_path):
    heard.env["LL_STEP_ID"] = "earlier"
    heard.run("sleep 600 & echo $! > server")
    heard.env["LL_STEP_ID"] = "later"
    before = time.time()
    assert told(heard.run("sleep 600", deadline_s=0.2)) == (None, SIGTERM, "deadline")
    assert is_alive(int((tmp_path / "server").read_text()), before)
