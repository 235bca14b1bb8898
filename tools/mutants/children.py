"""Forked processes, some at a time."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from multiprocessing import connection, get_context
from typing import Any, NamedTuple

FORK = get_context("fork")
MEMORY_LIMIT = 4 << 30


class Task(NamedTuple):
    """What a child does, and how long it may take; its result is its exit code."""

    key: Any
    work: Callable[[], int]
    limit_s: float


class _Running(NamedTuple):
    child: Any
    key: Any
    until: float

    def end(self) -> int:
        # With all that the tests have started; the child may not have a group of its own yet.
        with suppress(ProcessLookupError):
            os.killpg(self.child.pid, signal.SIGKILL)
        self.child.kill()
        self.child.join()
        return int(self.child.exitcode)


def outcomes(tasks: Iterable[Task], jobs: int) -> Iterator[tuple[Any, int]]:
    """Exit codes as the children end; a negative one is a signal."""
    waiting = iter(tasks)
    running: dict[Any, _Running] = {}
    try:
        while True:
            while len(running) < jobs and (task := next(waiting, None)) is not None:
                begun = _begin(task)
                running[begun.child.sentinel] = begun
            if not running:
                return
            for sentinel in _ended(running):
                each = running.pop(sentinel)
                yield each.key, each.end()
    finally:
        for each in running.values():
            each.end()


def _begin(task: Task) -> _Running:
    child = FORK.Process(target=_child, args=(task.work,))
    child.start()
    return _Running(child, task.key, time.monotonic() + task.limit_s)


def _ended(running: dict[Any, _Running]) -> set[Any]:
    """Those that have ended and those that are late; waits for the first."""
    soonest = min(each.until for each in running.values())
    ended = connection.wait(list(running), max(0.0, soonest - time.monotonic()))
    late = (sentinel for sentinel, each in running.items() if each.until <= time.monotonic())
    return {*ended, *late}


def _child(work: Callable[[], int]) -> None:
    os.setsid()
    silence()
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_LIMIT, MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os._exit(work())


def silence() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
