"""The runtime of this computer: each run has a process of its own, and its files in the project."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence

from little_loops.engine.lifecycle import RunRequest, nested_request
from little_loops.engine.request_data import request_to
from little_loops.engine.runtime import NO_LIMITS, RunStatus, Stream
from little_loops.errors import UsageError
from little_loops.fsm.endings import is_gate
from little_loops.fsm.events import Entry
from little_loops.fsm.gates import open_gate, refused_target
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import Answer, Limits, LoopState
from little_loops.light_typing import Any
from little_loops.runs.answers import quoted_answer, settled_answer
from little_loops.runs.folders import data_of
from little_loops.runs.mailbox import post
from little_loops.runs.reading import Runs
from little_loops.runs.stopping import stop
from little_loops.runs.stored_run import StoredRun, find
from little_loops.runs.view import RunView, exit_code_of
from little_loops.system.detached import launch

POLL_S = 0.02
STOP_PLAN = ((signal.SIGTERM, 30.0), (signal.SIGTERM, 10.0), (signal.SIGKILL, 10.0))


class LocalRuntime:
    """Carries out the runs of one project on this computer."""

    def __init__(self, root: str, environ: Mapping[str, str]) -> None:
        self._root = root
        self._environ = environ
        self._runs = Runs(root)
        self._pids: set[int] = set()

    # ── starting and continuing ────────────────────────────────────────────────────────────────

    def start(
        self,
        loop: FSMLoop,
        *,
        context: Mapping[str, Any] | None = None,
        limits: Limits = NO_LIMITS,
        skip_permissions: bool = False,
    ) -> str:
        request = RunRequest(
            self._root,
            loop.name,
            context or {},
            limits=limits,
            skip_permissions=skip_permissions,
        )
        return self._launch("start", loop, request)

    def resume(
        self,
        name: str,
        *,
        context: Mapping[str, Any] | None = None,
        limits: Limits = NO_LIMITS,
        from_state: str | None = None,
    ) -> None:
        request = RunRequest(self._root, name, context or {}, limits=limits, from_state=from_state)
        self._launch("resume", None, request)

    def _launch(self, verb: str, loop: FSMLoop | None, request: RunRequest) -> str:
        """Start a process that carries out the request, and return the id of its run."""
        wanted = {
            "verb": verb,
            "loop": None if loop is None else loop.to_dict(),
            "request": request_to(nested_request(request, self._environ)),
        }
        self.reap()
        started = launch(wanted, self._environ, lambda _: None)
        self._pids.add(started.pid)
        return started.run

    def reap(self) -> bool:
        """Reap the processes of runs that have exited. Return True if none remain."""
        self._pids = {pid for pid in self._pids if os.waitpid(pid, os.WNOHANG) == (0, 0)}
        return not self._pids

    # ── people ─────────────────────────────────────────────────────────────────────────────────

    def approve(self, name: str, text: str = "", to: str | None = None) -> None:
        self._answer(name, Answer(0, "approved", "approve", text, to))

    def reject(self, name: str, text: str = "") -> None:
        self._answer(name, Answer(0, "rejected", "reject", text))

    def _answer(self, name: str, answer: Answer) -> None:
        """Store the answer to the gate of a run, and continue the run.

        Raises `UsageError` if it waits at none, was answered already, or cannot go where the
        answer leads.
        """
        before = find(self._root, name, answer.by)
        gate = _gate_of(before)
        if answer.to is not None and (why := refused_target(before.loop, before.run, answer.to)):
            raise UsageError(why)
        mine = answer._replace(gate=gate)
        with data_of(before.files) as data:
            settled = settled_answer(data, before.run, mine)
        if settled is not mine:
            raise UsageError(f"`{name}` has already been {quoted_answer(settled)}")
        self.resume(name)

    def tell(self, name: str, text: str) -> None:
        with data_of(self._view(name).files) as data:
            post(data, text)

    def stop(self, name: str) -> None:
        view = self._runs.view(name)
        if view is not None and view.holder is not None:
            stop(self._root, view.holder, STOP_PLAN)

    # ── reading ────────────────────────────────────────────────────────────────────────────────

    def wait(self, name: str, timeout_s: float | None = None) -> RunStatus | None:
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while (found := self.status(name)) is None or found.exit_code is None:
            if until is not None and time.monotonic() >= until:
                return None
            time.sleep(POLL_S)
        return found

    def status(self, name: str) -> RunStatus | None:
        found = self._runs.ended(name)
        if found is None:
            return None
        return _status(found.view, found.entries[-1] if found.entries else None)

    def list(self) -> Sequence[RunStatus]:
        return [_status(view, None) for view in self._runs.list()]

    def events(self, name: str, after: int = 0) -> Sequence[Entry]:
        return list(self._runs.events(self._view(name), after))

    def output(self, name: str, step: int, attempt: int, stream: Stream) -> bytes:
        view, parts = self._view(name), bytearray()
        while part := self._runs.output(view, step, attempt, stream, len(parts)):
            parts += part
        return bytes(parts)

    def _view(self, name: str) -> RunView:
        view = self._runs.view(name)
        if view is None:
            raise UsageError(f"`{name}` has no run")
        return view


def _status(view: RunView, last: Entry | None) -> RunStatus:
    summary = view.summary
    return RunStatus(
        view.name,
        "" if summary is None else summary.run,
        view.status,
        view.reason,
        "" if summary is None else summary.current_state,
        0 if summary is None else summary.iteration,
        None if view.is_alive else exit_code_of(view, last),
    )


def _gate_of(before: StoredRun) -> int:
    """Return the number of the event that opened the gate; raise `UsageError` if none is open."""
    run: LoopState = before.run
    gate = open_gate(run) if is_gate(run.status, run.reason) else None
    if gate is None:
        raise UsageError(f"`{before.files.name}` is not waiting at a gate")
    return gate
