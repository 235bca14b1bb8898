"""Signals sent to us become a flag."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from signal import SIG_DFL, SIG_IGN, SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGUSR1

import psutil
import pytest

from little_loops.system.stops import STOPS, StopFlag, listen

A_LONG_TIME_S = 20.0


@pytest.fixture
def flag():
    flag = StopFlag()
    yield flag
    flag.close()


@pytest.fixture(autouse=True)
def same_handlers():
    before = {one: signal.getsignal(one) for one in (*STOPS, SIGTSTP, SIGUSR1)}
    yield
    for signum, handler in before.items():
        signal.signal(signum, handler)


def until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + A_LONG_TIME_S
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.01)


def is_readable(flag: StopFlag) -> bool:
    poll = select.poll()
    poll.register(flag, select.POLLIN)
    return bool(poll.poll(0))


@pytest.mark.parametrize(
    ("asked", "first", "count", "urgent"),
    [
        pytest.param([], None, 0, False, id="never"),
        pytest.param([SIGINT], SIGINT, 1, False, id="once"),
        pytest.param([SIGTERM, SIGINT], SIGTERM, 2, True, id="twice, the first is told"),
        pytest.param([SIGHUP, SIGHUP], SIGHUP, 1, False, id="a terminal that closes"),
        pytest.param([SIGTERM, SIGHUP], SIGTERM, 1, False, id="stopped, then closed"),
        pytest.param([SIGHUP, SIGTERM], SIGHUP, 2, True, id="closed, then stopped"),
    ],
)
def test_a_flag_counts_what_was_asked(flag, asked, first, count, urgent):
    for signum in asked:
        flag.ask(signum)
    assert (flag.signal, flag.count, flag.is_urgent) == (first, count, urgent)
    assert is_readable(flag) == bool(asked)
    flag.drain()
    assert not is_readable(flag)


def test_a_flag_never_blocks_who_asks(flag):
    for _ in range(100_000):
        flag.ask(SIGINT)
    assert flag.count == 100_000


@pytest.mark.parametrize("signum", STOPS, ids=lambda one: signal.Signals(one).name)
def test_a_signal_sets_the_flag_until_nobody_listens(flag, signum):
    before = signal.getsignal(signum)
    restore = listen(flag)
    try:
        os.kill(os.getpid(), signum)
        assert flag.wait(A_LONG_TIME_S)
    finally:
        restore()
    assert (flag.signal, signal.getsignal(signum)) == (signum, before)
    assert signal.set_wakeup_fd(-1) == -1


@pytest.mark.parametrize("signum", [SIGINT, SIGHUP], ids=lambda one: one.name)
def test_what_is_ignored_stays_ignored(flag, signum):
    signal.signal(signum, SIG_IGN)
    restore = listen(flag)
    os.kill(os.getpid(), signum)
    restore()
    assert (flag.count, signal.getsignal(signum)) == (0, SIG_IGN)


def test_a_stop_is_heard_even_where_term_was_ignored(flag):
    signal.signal(SIGTERM, SIG_IGN)
    restore = listen(flag)
    os.kill(os.getpid(), SIGTERM)
    assert flag.wait(A_LONG_TIME_S)
    restore()
    assert signal.getsignal(SIGTERM) is SIG_IGN


@pytest.mark.parametrize(
    ("handler", "asked"), [(SIG_DFL, True), (SIG_IGN, False)], ids=["terminal", "no job control"]
)
def test_ctrl_z_is_noted(flag, handler, asked):
    signal.signal(SIGTSTP, handler)
    restore = listen(flag)
    os.kill(os.getpid(), SIGTSTP)
    restore()
    assert (flag.suspend_requested, flag.count) == (asked, 0)
    assert signal.getsignal(SIGTSTP) is handler


def test_how_an_action_ended_is_told_again(flag):
    before = signal.signal(signal.SIGCHLD, SIG_IGN)
    restore = listen(flag)
    exit_code = subprocess.call(["sh", "-c", "exit 3"])
    restore()
    after = signal.signal(signal.SIGCHLD, before)
    assert (exit_code, after) == (3, SIG_IGN)


def test_a_wait_ends_with_its_time(flag):
    assert not flag.wait(0.01)
    assert not flag.wait(0)
    assert not flag.wait(-1)


def test_a_wait_is_over_at_once_when_a_stop_was_asked_for_before(flag):
    flag.ask(SIGINT)
    flag.drain()
    assert flag.wait(A_LONG_TIME_S)


def test_another_thread_may_ask(flag):
    thread = threading.Timer(0.01, flag.ask, [SIGTERM])
    thread.start()
    assert flag.wait(None)
    thread.join()


def test_other_signals_wake_but_do_not_stop(flag):
    signal.signal(SIGUSR1, lambda *_: None)
    restore = listen(flag)
    os.kill(os.getpid(), SIGUSR1)
    assert not flag.wait(0.01)
    restore()


WAITER = """
from little_loops.system.stops import StopFlag, listen
flag = StopFlag()
listen(flag)
print("ready", flush=True)
print(flag.wait(None), flag.signal, flag.suspended_s > 0, flush=True)
"""


def test_a_waiter_stands_still_and_goes_on():
    # A group of its own in the same session, as a shell with job control has it.
    waiter = subprocess.Popen(
        [sys.executable, "-c", WAITER], stdout=subprocess.PIPE, text=True, process_group=0
    )
    with waiter:
        try:
            assert waiter.stdout is not None
            assert waiter.stdout.readline() == "ready\n"
            waiter.send_signal(SIGTSTP)
            until(lambda: psutil.Process(waiter.pid).status() == psutil.STATUS_STOPPED)
            waiter.send_signal(signal.SIGCONT)
            waiter.send_signal(SIGTERM)
            assert waiter.stdout.read() == "True 15 True\n"
        finally:
            waiter.kill()
