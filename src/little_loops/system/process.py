"""Run a child process to its end: pass its input, read its output, limit its time, stop it.

One poll loop in one thread waits for output, for the exit, for a stop and for the deadline, and for
nothing else: while an action is silent, nothing wakes up, unless it has an `idle_timeout`. An
action ends when its direct child exits, even if a process that it left behind keeps a pipe open.

Not here: starting it (`starting`), what happens to the output (`output`), which processes belong to
an action (`process_tree`), what a shell or an agent is given to run.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

from little_loops.light_modules import signal
from little_loops.light_typing import TYPE_CHECKING, Literal
from little_loops.records import NamedTuple
from little_loops.system import process_tree
from little_loops.system.process_table import SYSTEM
from little_loops.system.starting import CannotStart as CannotStart
from little_loops.system.starting import Pipes, close, start
from little_loops.system.stops import StopFlag, poll_ms

if TYPE_CHECKING:
    from little_loops.system.silence import Silence

DRAIN_S = 0.5
"""How long to keep reading after the exit if a leftover process holds a pipe open."""
CHUNK = 1 << 16

Sink = Callable[[bytes], None]
Tick = Callable[[], float | None]
"""Called when due; returns the seconds until its next call, None for never."""
CutBy = Literal["none", "deadline", "silence", "stop"]


class Ended(NamedTuple):
    """How an action ended; neither code nor signal is set if even KILL did not end it.

    `left` are the processes it had left running, if those were ended with it.
    """

    exit_code: int | None
    signal: int | None
    cut_by: CutBy
    duration_ms: int
    pid: int
    left: tuple[process_tree.Member, ...] = ()


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str,
    stdin: bytes | None,
    stdout: Sink,
    stderr: Sink,
    deadline_s: float | None,
    stop: StopFlag | None,
    stop_plan: process_tree.Plan,
    on_started: Callable[[int], None] | None = None,
    tick: Tick | None = None,
    idle_s: float | None = None,
    leftovers: process_tree.Plan | None = None,
    kept_open: Sequence[int] = (),
) -> Ended:
    """Run a command until it exits, its time is over, it is silent for `idle_s`, or a stop is
    requested; return how it ended. It inherits the descriptors in `kept_open`; `on_started` gets
    its pid.

    `stop_plan` are the signals that end it, `leftovers` those for what it has left running; None
    leaves that running. Raises `CannotStart`; if a callback raises, the command is killed.
    """
    began = time.monotonic()
    child = start(argv, env, cwd, bool(stdin), kept_open)
    deadline = None if deadline_s is None else began + deadline_s
    action = _Action(*child, (stdout, stderr), stdin or b"", env, deadline, stop, tick, idle_s)
    left: tuple[process_tree.Member, ...] = ()
    try:
        if on_started is not None:
            on_started(child.pid)
        cut_by = action.watch(stop_plan)
        duration_s = time.monotonic() - began - action.suspended_s
        action.drain()
        if cut_by == "none" and leftovers is not None:
            left = action.end_leftovers(leftovers)
        elif cut_by == "none":
            action.keep_draining()
    except BaseException:
        action.abandon()
        raise
    finally:
        action.close()
        code = action.reap()
        if process_tree.is_adopting():
            process_tree.reap()
    exit_code, signum = (code, None) if code is None or code >= 0 else (None, -code)
    return Ended(exit_code, signum, cut_by, int(duration_s * 1000), child.pid, left)


# --- watching ---


class _Action:
    """A running child, its descriptors, and the conditions that end it."""

    def __init__(
        self,
        pid: int,
        pipes: Pipes,
        sinks: tuple[Sink, Sink],
        text: bytes,
        env: Mapping[str, str],
        deadline: float | None,
        stop: StopFlag | None,
        tick: Tick | None,
        idle_s: float | None,
    ) -> None:
        """Watch the child `pid`: `text` is its input, `deadline` is on the monotonic clock, and
        `env`, its environment, identifies its processes."""
        self.pid = pid
        self.exited = False
        self.suspended_s = 0.0
        self._code: int | None = None
        self._env = env
        self._deadline = deadline
        self._stop = stop
        self._stop_fd = None if stop is None else stop.fileno()
        self._tick = tick
        self._tick_at = None if tick is None else 0.0
        self._silence = None if idle_s is None else self._watch_silence(idle_s)
        self._sinks = dict(zip((pipes.stdout, pipes.stderr), sinks, strict=True))
        self._exit_fd = _exit_descriptor(pid)
        self._poll = select.poll()
        for fd in (*self._sinks, self._exit_fd, self._stop_fd):
            if fd is not None:
                self._poll.register(fd, select.POLLIN)
        self._input = memoryview(text)
        self._input_fd = pipes.stdin
        if self._input_fd is not None:
            self._poll.register(self._input_fd, select.POLLOUT)

    def watch(self, plan: process_tree.Plan) -> CutBy:
        """Pass input and output until the child exits or has to be ended, by the signals of the
        plan. Return what ended it, `none` for an exit of its own."""
        while not self.exited:
            now = time.monotonic()
            if (cut_by := self._cut_by(now)) != "none":
                found = self._find()
                if self._exited_meanwhile():
                    break  # it finished before our first signal
                self._end(found, plan)
                return cut_by
            self._turn(self._tick_and_wait_time(now))
        return "none"

    def drain(self) -> None:
        """Close the input and read the rest of the output, for `DRAIN_S` at most if something keeps
        a pipe open."""
        self._close_input()
        until = time.monotonic() + DRAIN_S
        while self._sinks and (left := until - time.monotonic()) > 0:
            self._turn(left)

    def keep_draining(self) -> None:
        """Start a reader for processes left running: without one, writing would kill them."""
        if not self._sinks:
            return
        import subprocess  # rare

        path = os.environ.get("PATH", os.defpath)
        for fd in self._sinks:
            with suppress(OSError, subprocess.SubprocessError):
                subprocess.run(
                    ["sh", "-c", "exec 3<&0; cat <&3 >/dev/null 2>&1 &"],
                    stdin=fd,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env={
                        "PATH": path,
                        process_tree.READS_FOR_LEFTOVERS: process_tree.reader_mark(),
                    },
                    cwd="/",
                    start_new_session=True,
                    timeout=DRAIN_S,
                    check=False,
                )

    def end_leftovers(self, plan: process_tree.Plan) -> tuple[process_tree.Member, ...]:
        """End the processes that it has left running, and read their last output. Return those that
        ended."""
        found = self._find()
        return tuple(self._end(found, plan)) if found else ()

    def abandon(self) -> None:
        """Kill it and all its processes at once, and discard their output, because nobody can watch
        it: a full disk, a failed save, an interrupt."""
        self._tick = None
        self._sinks = dict.fromkeys(self._sinks, _discard)
        process_tree.send_signal(
            [], signal.SIGKILL, self._group()
        )  # first, in case finding the others fails
        self._end(self._find(), [])

    def close(self) -> None:
        """Close all descriptors; the child is neither ended nor reaped."""
        self._close_input()
        close(self._sinks)
        if self._exit_fd is not None:
            os.close(self._exit_fd)

    def reap(self) -> int | None:
        """Reap the child if it has exited. Return its exit code, negative for a signal; None if it
        is running or the code is lost."""
        if self._code is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                self.exited = True  # with SIGCHLD ignored, the exit code is lost
                return None
            if pid:
                self.exited = True
                self._code = os.waitstatus_to_exitcode(status)
        return self._code

    # One turn of the poll loop.

    def _turn(self, seconds: float | None) -> list[int]:
        """Wait up to `seconds`, None for no limit, and handle what happens. Return the descriptors
        that are ready and not ours."""
        others = []
        if self._exit_fd is None and not self.exited:
            seconds = (
                process_tree.LOOK_EACH_S
                if seconds is None
                else min(seconds, process_tree.LOOK_EACH_S)
            )
        for fd, event in self._poll.poll(poll_ms(seconds)):
            if fd in self._sinks:
                self._read(fd, event)
            elif fd == self._exit_fd:
                self.exited = True
                self._poll.unregister(fd)
            elif fd == self._input_fd:
                self._feed()
            elif self._stop is not None and fd == self._stop_fd:
                self._stop.drain()
            else:
                others.append(fd)
        if self._exit_fd is None and not self.exited:
            self.reap()
        return others

    def _exited_meanwhile(self) -> bool:
        """Handle pending events, and return whether the child has exited."""
        self._turn(0)
        return self.exited

    def _read(self, fd: int, event: int) -> None:
        """Pass on output; close the pipe at its end."""
        chunk = os.read(fd, CHUNK) if event & select.POLLIN else b""
        if chunk:
            self._sinks[fd](chunk)
            if self._silence is not None:
                self._silence.restart()
        else:
            self._poll.unregister(fd)
            del self._sinks[fd]
            os.close(fd)

    def _feed(self) -> None:
        """Write more input; close the pipe when all is written or the child stops reading."""
        assert self._input_fd is not None
        try:
            self._input = self._input[os.write(self._input_fd, self._input[:CHUNK]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._input = self._input[:0]  # it has stopped reading
        if not self._input:
            self._close_input()

    def _close_input(self) -> None:
        """Close the child's input, if it is still open."""
        if self._input_fd is not None:
            self._poll.unregister(self._input_fd)
            os.close(self._input_fd)
            self._input_fd = None

    def _tick_and_wait_time(self, now: float) -> float | None:
        """Call `tick` if it is due. Return the seconds until the next deadline, None without one."""
        if self._tick is not None and self._tick_at is not None and now >= self._tick_at:
            pause_s = self._tick()
            self._tick_at = None if pause_s is None else now + pause_s
        look_at = None if self._silence is None else self._silence.look_at
        due = [at for at in (self._deadline, self._tick_at, look_at) if at is not None]
        return min(due) - now if due else None

    # Conditions that end it.

    def _cut_by(self, now: float) -> CutBy:
        """Return what ends the child now, `none` if nothing does. Suspends both if Ctrl-Z was
        pressed."""
        if self._stop is not None and self._stop.count:
            return "stop"
        if self._stop is not None and self._stop.suspend_requested:
            self._suspend(self._stop)
        if self._deadline is not None and now >= self._deadline:
            return "deadline"
        is_silent = self._silence is not None and self._silence.is_too_long(now)
        return "silence" if is_silent else "none"

    def _suspend(self, stop: StopFlag) -> None:
        """Suspend the child and this process, until both are continued; its deadline moves by that
        time."""
        found = self._find()
        process_tree.send_signal(found, signal.SIGSTOP, self._group())
        suspended_s = stop.suspend()
        process_tree.send_signal(found, signal.SIGCONT, self._group())
        self.suspended_s += suspended_s
        if self._deadline is not None:
            self._deadline += suspended_s
        if self._silence is not None:
            self._silence.restart()

    def _watch_silence(self, idle_s: float) -> Silence:
        from little_loops.system.silence import Silence  # few actions have an `idle_timeout`

        return Silence(idle_s, self._cpu_s, time.monotonic())

    def _cpu_s(self) -> float:
        return sum(SYSTEM.cpu_s(one.pid) for one in self._find())

    def _end(
        self, found: list[process_tree.Member], plan: process_tree.Plan
    ) -> list[process_tree.Member]:
        """End the processes with the plan's signals. Return those that ended."""
        stop = self._stop
        ended = process_tree.end(
            found,
            self._find,
            plan,
            leader=self._group(),
            wait=self._wait,
            hurry=lambda: stop is not None and stop.is_urgent,
        )
        self._turn(0)
        return ended

    def _group(self) -> int | None:
        """Return the child's process group, unless the number may have been reused."""
        return self.pid if self._code is None else None

    def _find(self) -> list[process_tree.Member]:
        """Return the living processes of the action."""
        found = process_tree.action_members(self.pid, self._env)
        return [one for one in found if one.pid != self.pid] if self.exited else found

    def _wait(self, fds: Collection[int], seconds: float) -> Collection[int]:
        """Wait for descriptors while processes are being ended, and read their last output. Return
        the ready ones."""
        for fd in fds:
            self._poll.register(fd, select.POLLIN)
        try:
            return self._turn(seconds)
        finally:
            for fd in fds:
                self._poll.unregister(fd)


def _exit_descriptor(pid: int) -> int | None:
    """Return a descriptor that is readable once the process has ended; None if not supported."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _discard(_chunk: bytes) -> None:
    pass
