"""Run a command for each event of a chosen kind, beside the run.

The commands run one at a time, in the order of the events. The run never waits for them, but for
`LAST_S` at its end. A command that fails is reported, and changes nothing.

Not here: the hooks around the run and its states, which are part of it (`fsm.hooks`).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping

from little_loops.engine.beside import LAST_S, LOOK_EACH_S, SideCommand
from little_loops.engine.hooks import exit_problem
from little_loops.fsm.codec import to_record
from little_loops.fsm.events import KINDS, Entry
from little_loops.fsm.schema import Hook
from little_loops.fsm.values import seconds_text
from little_loops.records import NamedTuple
from little_loops.reporting.observers import Observer
from little_loops.system.files import to_json
from little_loops.system.stops import StopFlag

MAX_WAITING = 1000
"""How many commands may wait for the one that is running; further events start none."""
_KIND_OF = {kind: name for name, kind in KINDS.items()}


class RunningHook(NamedTuple):
    """A command that was started, and its hook."""

    kind: str
    hook: Hook
    command: SideCommand


class EventHooks(Observer):
    """Starts the commands; `environ` is the environment of actions."""

    def __init__(
        self,
        hooks: Mapping[str, Hook],
        shell: str,
        cwd: str,
        environ: Callable[[], Mapping[str, str]],
        warn: Callable[[str], None],
        stop: StopFlag | None,
    ) -> None:
        self._hooks = hooks
        self._shell = shell
        self._cwd = cwd
        self._environ = environ
        self._warn = warn
        self._stop = stop
        self._waiting: deque[Entry] = deque()
        self._running: RunningHook | None = None
        self._left_s = LAST_S

    def record(self, entry: Entry) -> None:
        """Queue the command for an event, if its kind has one, and start what can start."""
        kind = _KIND_OF.get(type(entry.event))
        if kind in self._hooks:
            if len(self._waiting) < MAX_WAITING:
                self._waiting.append(entry)
            else:
                self._warn(
                    f"warning: hook for {kind}: too many are already waiting, so it was skipped"
                )
        self._proceed()

    def tick(self) -> float | None:
        """Look after the commands while an action runs."""
        self._proceed()
        return LOOK_EACH_S if self._running is not None else None

    def drain(self) -> None:
        """Wait until all commands have ended, as long as the rest of `LAST_S` allows."""
        until = time.monotonic() + self._left_s
        urgent = self._stop
        while self._running is not None and time.monotonic() < until:
            if urgent is not None and urgent.is_urgent:
                break
            self._running.command.wait(min(LOOK_EACH_S, until - time.monotonic()))
            self._proceed()
        self._left_s = max(0.0, until - time.monotonic())

    def close(self) -> None:
        """Give the commands their last seconds, then end what is left, and report it."""
        self.drain()
        if self._running is None:
            return
        waiting = len(self._waiting)
        self._waiting.clear()
        self._end("did not end in time")
        if waiting:
            self._warn(
                f"warning: {waiting} hook{'s were' if waiting > 1 else ' was'} still waiting to run and did not run"
            )

    def _proceed(self) -> None:
        """Report the command that has ended or takes too long, and start the next one."""
        while True:
            if self._running is not None:
                kind, hook, command = self._running
                if (ended := command.exited()) is not None:
                    self._running = None
                    code, last_line = ended
                    problem = exit_problem(code, -code if code < 0 else None, last_line)
                    if problem:
                        self._warn(f"warning: hook for {kind}: {problem}")
                elif command.is_late:
                    self._end(f"took longer than {seconds_text(hook.timeout)}")
                else:
                    return
            if not self._waiting:
                return
            self._start(self._waiting.popleft())

    def _start(self, entry: Entry) -> None:
        """Start the command for an event; report it if that is not possible."""
        kind = _KIND_OF[type(entry.event)]
        hook = self._hooks[kind]
        own = {"LL_HOOK": kind, "LL_EVENT_ID": f"{entry.run}/{entry.seq}"}
        environ = {**self._environ(), **hook.env, **own}
        argv = [self._shell, "-c", hook.action]
        text = to_json(to_record(entry)) + b"\n"
        try:
            command = SideCommand(argv, text, environ, self._cwd, entry.run, hook.timeout)
        except OSError as error:
            self._warn(f"warning: hook for {kind}: {error.strerror}")
            return
        self._running = RunningHook(kind, hook, command)

    def _end(self, why: str) -> None:
        """Kill the command that runs, with all that it has started, and report it."""
        assert self._running is not None, "there is something to stop"
        started, self._running = self._running, None
        started.command.end()
        self._warn(f"warning: hook for {started.kind}: {why}")
