"""Judge within a time limit, whatever the pattern, the filter and the input.

A jq filter may loop forever, and C code does not run signal handlers. So a forked child judges, and
the parent waits with a deadline. The child cannot open files, read environment variables or print,
and has 1 GiB of memory; exceeding any of this gives the verdict `error`.

Not here: what a condition means (`fsm.conditions`).
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import resource
import select
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from importlib import import_module
from math import ceil

from little_loops.engine.large_output import LargeOutput
from little_loops.fsm.conditions import (
    NO_SOURCES,
    Observation,
    Sources,
    cannot_judge,
    judge,
    leaves,
    needs_bound,
)
from little_loops.fsm.extract import CannotJudge
from little_loops.fsm.schema import ERROR, TYPE_OF, Condition, OutputContains, OutputJson
from little_loops.fsm.state import Judgement, Metric
from little_loops.light_typing import NoReturn

MEMORY_BYTES = 1 << 30
MOST_DESCRIPTORS = 1 << 16
# A terminal sends these to the whole group: stopping the run is not a verdict on the output.
NOT_FOR_US = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP)
OUT_OF_TIME = (signal.SIGALRM, signal.SIGXCPU)
_ENGINES = {OutputContains: "re2", OutputJson: "jq"}


def judge_bounded(
    condition: Condition,
    seen: Observation,
    memory: Metric | None = None,
    seconds: float = 2.0,
    sources: Sources = NO_SOURCES,
) -> Judgement:
    """Like `conditions.judge`, but return within about `seconds`.

    If that takes longer, needs too much memory or crashes, the verdict is `error`.
    """
    if not needs_bound(condition):
        return judge(condition, seen, memory, sources)
    for leaf in leaves(condition):
        if type(leaf) in _ENGINES:
            import_module(_ENGINES[type(leaf)])  # once, not in every child
    deadline = time.monotonic() + seconds
    name = f"`{TYPE_OF[type(condition)]}`"
    try:
        _load((seen, *sources.values()))
        # Conditions that need a time limit have no memory.
        pid, reading = _fork(partial(judge, condition, seen, None, sources), seconds)
    except CannotJudge as problem:
        return cannot_judge(str(problem), seen)
    except OSError as error:
        return Judgement(
            ERROR, f"cannot evaluate the condition: failed to start a process: {error.strerror}"
        )
    said, status = _read_answer(pid, reading, deadline)
    if said is None or (os.WIFSIGNALED(status) and os.WTERMSIG(status) in OUT_OF_TIME):
        return cannot_judge(f"{name} did not finish within {seconds:g} s", seen)
    try:
        verdict, reason, *_ = json.loads(said)
    except ValueError:
        return cannot_judge(f"{name} ran out of memory or crashed", seen)
    return Judgement(verdict, reason)


def _load(observed: Iterable[Observation]) -> None:
    """Read the outputs that are in files, because the child cannot open any. Raises
    `CannotJudge`."""
    for each in observed:
        if isinstance(each.large, LargeOutput):
            _ = each.large.data


def _fork(work: Callable[[], Judgement], seconds: float) -> tuple[int, int]:
    """Start the child. Return its pid, and the descriptor to read its answer from. Raises
    `OSError`."""
    reading, writing = os.pipe()
    # Until the child has reset our handlers and wake-up pipe, no signal may reach it.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            _run_child(work, seconds, writing)
    except OSError:
        os.close(reading)
        raise
    finally:
        os.close(writing)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return pid, reading


def _read_answer(pid: int, reading: int, deadline: float) -> tuple[bytes | None, int]:
    """Return the child's answer, or None if it was still running at the deadline, and its exit
    status.

    The child is killed if necessary, and reaped; `reading` is closed.
    """
    said = None
    try:
        said = _read_until(reading, deadline)
    finally:
        if said is None:
            # It holds its end of the pipe, so it is alive, and the pid is still its own.
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        os.close(reading)
        status = _reap(pid)
    return said, status


def _read_until(reading: int, deadline: float) -> bytes | None:
    """Return everything up to the end of the pipe, or None if it is still open at the deadline."""
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    parts: list[bytes] = []
    while poll.poll(max(0, ceil((deadline - time.monotonic()) * 1000))):
        part = os.read(reading, 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)
    return None


def _reap(pid: int) -> int:
    """Wait for the child to exit, and return its status; 0 if someone else has reaped it."""
    try:
        return os.waitpid(pid, 0)[1]
    except ChildProcessError:
        return 0  # another waiter reaped it first


def _run_child(work: Callable[[], Judgement], seconds: float, writing: int) -> NoReturn:
    """Judge, send the answer and exit, without any of the parent's exit handlers."""
    try:
        writing = _confine(writing, seconds)
        try:
            answer = work()
        except MemoryError:
            os._exit(1)  # a message might need memory
        except Exception as error:  # a bug of ours must become a verdict, not a silent failure
            answer = Judgement(ERROR, f"cannot judge: {type(error).__name__}: {error}")
        left = json.dumps(answer).encode()
        while left:
            left = left[os.write(writing, left) :]
    finally:
        os._exit(0)


def _confine(writing: int, seconds: float) -> int:
    """Take files, variables and the terminal from the child, and limit its memory and CPU time.

    Returns the new descriptor of its end of the pipe.
    """
    gc.disable()  # no finalizer of the parent's objects may run here
    _reset_signals()
    signal.setitimer(signal.ITIMER_REAL, seconds + 1)  # in case the parent is killed
    os.environ.clear()  # jq exposes it as `env`
    kept = fcntl.fcntl(writing, fcntl.F_DUPFD, 3)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    size = _address_space()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    most = MOST_DESCRIPTORS if most == resource.RLIM_INFINITY else min(most, MOST_DESCRIPTORS)
    os.closerange(3, kept)
    os.closerange(kept + 1, max(most, kept + 1))
    _set_limit(resource.RLIMIT_CORE, 0)
    _set_limit(resource.RLIMIT_CPU, ceil(seconds) + 1)
    _set_limit(resource.RLIMIT_NOFILE, 0)  # jq's `import` and `include` find nothing
    if size is not None:
        _set_limit(resource.RLIMIT_AS, size + MEMORY_BYTES)
    return kept


def _reset_signals() -> None:
    """Remove the parent's handlers, ignore the signals that stop a run, and unblock all signals."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if callable(signal.getsignal(number)) or number in OUT_OF_TIME:
            signal.signal(number, signal.SIG_DFL)
    for number in NOT_FOR_US:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _set_limit(what: int, most: int) -> None:
    hard = resource.getrlimit(what)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(what, (most, most))


def _address_space() -> int | None:
    """Return how much memory the process has mapped; None if the system does not say (macOS)."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[0]) * resource.getpagesize()
    except OSError:
        return None
