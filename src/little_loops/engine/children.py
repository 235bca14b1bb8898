"""The processes of the runs that a run starts: forked from the runner, watched until they end.

A child is forked, not executed, so it starts in milliseconds. It sends its lines through a pipe; the
pipe closes when it ends, and how it ended is in its files, unless it was killed before it recorded
anything (`_reap`). Its own end of another pipe closes when its parent is gone.

Not here: what a child does (`child_run`), which children run (`fsm.joins`).
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import time
from collections import deque
from contextlib import suppress

from little_loops.engine.child_run import ChildSpec, run_child
from little_loops.engine.resolve import Values
from little_loops.errors import StorageError
from little_loops.fsm.agent_outcomes import agent_exit_code
from little_loops.fsm.branching import branch_step, branch_values
from little_loops.fsm.commands import GatherChildren, RunChildren
from little_loops.fsm.happenings import (
    ChildEnded,
    ChildOutcome,
    ChildrenOutOfTime,
    Happening,
    StopAsked,
)
from little_loops.fsm.joins import CRASHED, ending_text
from little_loops.fsm.limits import cost_allowed_usd
from little_loops.fsm.schema import StateConfig
from little_loops.fsm.state import Children, ChildResult, FileRef, LeftOut, LoopState, Result
from little_loops.fsm.train import branch_of, result_of
from little_loops.light_typing import TYPE_CHECKING, Any
from little_loops.records import NamedTuple
from little_loops.runs.child_runs import (
    end_child,
    files_of,
    hold_pid,
    is_under_way,
    outcome_of,
)
from little_loops.runs.layout import RunFiles, child_folder
from little_loops.runs.stored_run import StoredRun, read_stored
from little_loops.system.stops import STOPS, poll_ms
from little_loops.templates.render import (
    TemplateError,
    TooLarge,
    Unresolved,
    ValueNotANumber,
    render_text,
)
from little_loops.templates.splice import Data, as_text, is_data, spliced

if TYPE_CHECKING:
    from little_loops.engine.local_world import LocalWorld

SHARED_SIGNAL_WINDOW_S = 0.2
MOST_READ = 1 << 16


class ChildInputs(NamedTuple):
    """What a child gets: the values for its context, the names of those that are data, what it
    runs, and for an action the values that it may refer to."""

    context: dict[str, Any]
    data: tuple[str, ...]
    step: StateConfig
    outer: Values | None = None


class RunningChild(NamedTuple):
    """The process of a child; `pipe` brings its lines, and closes when it ends. `path` is that
    below its parent."""

    name: str
    pid: int
    pipe: int
    files: RunFiles
    path: str


class ChildProcesses:
    """The processes of the children of one run."""

    def __init__(self, world: LocalWorld) -> None:
        """Make the pipe that tells children whether their parent is alive."""
        self._world = world
        self._running: dict[int, RunningChild] = {}
        self._ended: deque[tuple[str, ChildOutcome]] = deque()
        self._unread: dict[int, bytes] = {}
        self._stopped: set[str] = set()
        self._stops_sent = 0
        self._items: tuple[tuple[int, int], list[Any], float] | None = None
        # A child keeps the reading end, and closes the other: that is open while its parent lives.
        self._life, self._alive = os.pipe()
        # Otherwise, the first garbage collection of each child would copy all memory of its parent.
        gc.freeze()

    def carry_out(self, run: LoopState, command: RunChildren) -> Happening:
        """Start and stop children, then wait for the next one that ends, for a stop or until the
        loop's time is over."""
        for name in command.stop:
            self._stop(name)
        if command.start:
            self._share_limits(run, command)
        for name in command.start:
            self._start(run, command, name)
        return self._next(command)

    def _share_limits(self, run: LoopState, command: RunChildren) -> None:
        """Record what the children may spend, if the run has a limit."""
        loop = self._world.loop
        limit_tokens = loop.max_tokens if run.limits.max_tokens is None else run.limits.max_tokens
        limit_usd = cost_allowed_usd(loop, run)
        if limit_usd is None and limit_tokens is None:
            return
        from little_loops.spending.shares import (  # few runs have limits
            Limit,
            set_limit,
            share_name,
        )

        used = run.costs.values()
        limit = Limit(
            limit_usd,
            limit_tokens,
            sum(each.cost_usd for each in used),
            sum(each.tokens for each in used),
            command.width,
        )
        # What those have used whose ends are still to be recorded is not in `used` yet.
        names = [each.name for each in self._running.values()] + [name for name, _ in self._ended]
        under_way = [share_name(self._files(command, name)) for name in names]
        set_limit(self._world.run_dir, limit, under_way)

    # Starting.

    def _start(self, run: LoopState, command: RunChildren, name: str) -> None:
        """Start or continue a child. One that has ended meanwhile, or cannot start, ends at once."""
        self._stopped.discard(name)
        files = self._files(command, name)
        try:
            stored = read_stored(files)
        except StorageError as error:
            self._ended.append((name, ChildOutcome("failed", "storage", message=error.message)))
            return
        if stored is not None and not _continues(stored, is_resumed=name in command.resumed):
            self._ended.append((name, outcome_of(files, stored)))
            return
        given = self.inputs(run, command.state, name)
        if isinstance(given, str):
            self._ended.append((name, ChildOutcome("failed", "error", message=given)))
            return
        try:
            lock = hold_pid(files)
        except StorageError as error:
            self._ended.append((name, ChildOutcome("failed", "storage", message=error.message)))
            return
        self._fork(ChildSpec(run, command.state, name, files, stored, lock, *given))

    def inputs(self, run: LoopState, state_name: str, name: str) -> ChildInputs | str:
        """Return what a child runs and what it is given, or why it cannot be."""
        state, values = self._world.loop.states[state_name], self._world.values(run)
        if run.train is not None and run.train.resolving == name:
            return self._given_to_resolver(run, state, values)
        if state.branches is None:
            return _given(state, values, run)
        assert run.children is not None, "the state has started its branches"
        index = run.children.names.index(name)
        try:
            item = self.items(run.children)[index]
        except StorageError as error:
            return error.message
        values = values.with_branch(branch_values(state.branches, name, index, item))
        return _given(branch_step(state, name, item), values, run)

    def _given_to_resolver(
        self, run: LoopState, state: StateConfig, values: Values
    ) -> ChildInputs | str:
        """Return what resolves a branch, and what it is given: the values of that branch, and why
        it cannot be merged."""
        train, children = run.train, run.children
        assert train is not None, "branches are being merged"
        assert children is not None, "the state has started its branches"
        assert state.worktree is not None, "only a state with worktrees resolves conflicts"
        assert state.worktree.resolve is not None, "there is something that resolves"
        name = branch_of(train.resolving or "")
        own: dict[str, Any] = {"index": 0, "name": name}
        if state.branches is not None:
            index = children.names.index(name)
            try:
                own = branch_values(state.branches, name, index, self.items(children)[index])
            except StorageError as error:
                return error.message
        why = train.failing or LeftOut(name)
        tried = f"; the last attempt did not resolve it: {why.resolve}" if why.resolve else ""
        conflict = {"files": list(why.files), "reason": why.reason + tried}
        values = values.with_branch({**own, "conflict": conflict})
        return _given(state.worktree.resolve, values, run)

    def items(self, children: Children) -> list[Any]:
        """Return the items of the branches that the state has started. Raises `StorageError`."""
        return self._branches_of(children)[1]

    def _branches_of(self, children: Children) -> tuple[tuple[int, int], list[Any], float]:
        """Return the items of the branches, read once, and when that was."""
        key = (children.step, children.attempt)
        if self._items is None or self._items[0] != key:
            from little_loops.engine.branches import items_of  # few states have branches

            self._items = key, items_of(self._world, children.state, *key), time.monotonic()
        return self._items

    def _files(self, command: RunChildren, name: str) -> RunFiles:
        return self._world.writer.files.child(child_folder(command.step, command.attempt, name))

    def _fork(self, spec: ChildSpec) -> None:
        """Fork the process of a child. Signals wait until it has its own handlers."""
        reading, writing = os.pipe()
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        try:
            pid = os.fork()
            if pid == 0:
                self._become_child(spec, (reading, writing))
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
        os.close(writing)
        os.close(spec.lock)
        os.set_blocking(reading, False)
        children, name = spec.parent.children, spec.name
        path = name if children is None else children.path(name)
        self._running[reading] = RunningChild(name, pid, reading, spec.files, path)

    def _become_child(self, spec: ChildSpec, pipe: tuple[int, int]) -> None:
        """Carry out the child's run, in its own process, which ends here whatever happens."""
        code = 70
        try:
            os.setpgid(0, 0)  # Ctrl-C is for the parent, which stops its children itself
            for descriptor in (pipe[0], self._alive, *self._running):
                os.close(descriptor)
            run_child(self._world, spec, pipe[1], self._life)
            code = 0
        finally:
            os._exit(code)

    # Stopping.

    def _stop(self, name: str, *, again: bool = False) -> None:
        """Ask a child to stop, once; one without a process has stopped already."""
        if name in self._stopped and not again:
            return
        self._stopped.add(name)
        found = [each for each in self._running.values() if each.name == name]
        for each in found:
            with suppress(ProcessLookupError):
                os.kill(each.pid, signal.SIGTERM)
        if not found and all(name != ended for ended, _ in self._ended):
            self._ended.append((name, ChildOutcome("interrupted", "signal")))

    # Waiting.

    def _next(self, command: RunChildren) -> Happening:
        """Wait for the next child that ends, a stop, or the deadline."""
        stop, clock = self._world.services.stop, self._world.clock
        began = time.monotonic()
        until = None if command.deadline_ms is None else began + command.deadline_ms / 1000
        while not self._ended:
            if stop is not None and stop.suspend_requested:
                self._suspend()
            if stop is not None and stop.signal is not None:
                if not command.is_last:
                    return StopAsked(clock.now(), stop.signal)
                self._hurry(stop.count)
            if until is not None and time.monotonic() >= until:
                return ChildrenOutOfTime(clock.now())
            self._turn(until)
        if (asked := self._stopped_together(command)) is not None:
            return asked
        name, outcome = self._ended.popleft()
        return ChildEnded(clock.now(), name, outcome)

    def _stopped_together(self, command: RunChildren) -> StopAsked | None:
        """Return the stop of this run if it arrives together with that of the child that has just
        ended: a shutdown signals both, and nobody stopped that child alone."""
        stop = self._world.services.stop
        name, outcome = self._ended[0]
        if stop is None or command.is_last or outcome.status != "interrupted":
            return None
        if name in self._stopped or not stop.wait(SHARED_SIGNAL_WINDOW_S):
            return None
        return StopAsked(self._world.clock.now(), stop.signal or 0)

    def _hurry(self, count: int) -> None:
        """Pass a second request to stop on to all children."""
        if count > 1 and self._stops_sent < count:
            for each in list(self._running.values()):
                self._stop(each.name, again=True)
        self._stops_sent = count

    def _suspend(self) -> None:
        """Suspend the children together with this process, and continue them with it."""
        stop = self._world.services.stop
        assert stop is not None, "somebody requested it"
        for each in self._running.values():
            with suppress(ProcessLookupError):
                os.kill(each.pid, signal.SIGTSTP)
        stop.suspend()
        for each in self._running.values():
            with suppress(ProcessLookupError):
                os.kill(each.pid, signal.SIGCONT)

    def _turn(self, until: float | None) -> None:
        """Wait once for lines or ends of children, or for a signal."""
        stop, tick_s = self._world.services.stop, self._world.onlookers.tick()
        left = None if until is None else until - time.monotonic()
        waits = [each for each in (left, tick_s) if each is not None]
        poll = select.poll()
        for descriptor in self._running:
            poll.register(descriptor, select.POLLIN)
        if stop is not None:
            poll.register(stop, select.POLLIN)
        for ready, _ in poll.poll(poll_ms(min(waits, default=None))):
            if ready in self._running:
                self._read(ready)
            elif stop is not None:
                stop.drain()

    def _read(self, pipe: int) -> None:
        """Pass on the lines of a child; when its pipe closes, it has ended."""
        try:
            data = os.read(pipe, MOST_READ)
        except BlockingIOError:
            return
        child = self._running[pipe]
        *lines, rest = (self._unread.pop(pipe, b"") + data).split(b"\n")
        self._unread[pipe] = rest
        for line in lines:
            path, text, *used = json.loads(line)
            name = "/".join(filter(None, (child.path, path)))
            if text:
                self._world.onlookers.below(name, text)
            for cost_usd in used:
                self._world.onlookers.below_used(name, cost_usd)
        if not data:
            self._reap(child)

    def gather(self, command: GatherChildren) -> Result:
        """Return the result of a state whose branches have ended."""
        from little_loops.engine.branches import gather_branches  # few states have branches

        _, items, began = self._branches_of(command.children)
        took_ms = round((time.monotonic() - began) * 1000)
        return gather_branches(self._world, command, items, took_ms)

    def _reap(self, child: RunningChild) -> None:
        """Note how a child has ended, now that its process has."""
        self._unread.pop(child.pipe, None)
        del self._running[child.pipe]
        os.close(child.pipe)
        status = 0
        with suppress(ChildProcessError):
            _, status = os.waitpid(child.pid, 0)
        outcome = end_child(child.files)
        if outcome.status == "interrupted" and os.WIFSIGNALED(status):
            # It was killed before it recorded anything: this is how the process before it ended.
            outcome = outcome._replace(status=CRASHED, reason="crash", message="")
        self._ended.append((child.name, outcome))


def _continues(stored: StoredRun, *, is_resumed: bool) -> bool:
    """Return whether a child with these files has something to do; otherwise it has ended."""
    return is_resumed or is_under_way(stored.run)


def _given(state: StateConfig, values: Values, run: LoopState) -> ChildInputs | str:
    """Return what a child gets: for a loop the filled-in `with` of a state or branch, or why it
    cannot be filled in; for an action all values of the run."""
    if state.loop is None:
        own = tuple(key for key, value in run.context.items() if isinstance(value, Data))
        return ChildInputs(dict(run.context), own, state, values)
    context: dict[str, Any] = {}
    data: list[str] = []
    for name, value in state.with_.items():
        try:
            context[name] = _filled(value, values)
        except (Unresolved, ValueNotANumber, TemplateError, TooLarge, OSError) as problem:
            return f"`with.{name}`: {problem}"
        if isinstance(context[name], Data):
            data.append(name)
    return ChildInputs(context, tuple(data), state)


def _filled(value: Any, values: Values) -> Any:
    """Return a value of `with`: data as a whole if any reference to data is in it."""
    if isinstance(value, str) and "${" in value:
        text = render_text(value, values, values.context)
        has_data = any(is_data(piece) for piece in spliced(value, values.context))
        return Data(text) if has_data else text
    if isinstance(value, dict | list) and "${" in as_text(value):
        return _filled(as_text(value), values)
    return value


# ── when all have ended ────────────────────────────────────────────────────────────────────────


def gather(world: LocalWorld, run: LoopState, command: GatherChildren) -> Result:
    """Return the result of a state whose children have ended, and what became of their branches."""
    merge = None if run.train is None else result_of(run.train)
    if command.children.several:
        return world.children.gather(command)._replace(merge=merge)
    return _gather_only(world, command)._replace(merge=merge)


def _gather_only(world: LocalWorld, command: GatherChildren) -> Result:
    """Return the result of a state whose only child has ended."""
    name = command.children.names[0]
    files = files_of(world.writer.files, command.children, name)
    stored = read_stored(files)
    verdict = command.judgement.verdict
    exit_code = agent_exit_code("success", verdict)
    if stored is None:
        return Result(exit_code, 0, verdict=verdict, reason=command.judgement.reason)
    child = stored.run
    outcome = outcome_of(files, stored)
    reason = command.judgement.reason or ending_text(outcome)
    text = _last_output(child, os.path.relpath(files.data, world.run_dir))
    return text._replace(
        exit_code=exit_code,
        duration_ms=child.ran_ms,
        verdict=verdict,
        reason=reason,
        cost_usd=outcome.cost_usd,
        child=ChildResult(
            child.status,
            child.reason or "",
            child.current_state,
            child.iteration,
            child.result or {},
        ),
    )


def _last_output(child: LoopState, folder: str) -> Result:
    """Return the output of a child's last action; its files are in `folder` now."""
    last = child.captured.get(child.prev_state or "")
    if last is None:
        return Result(None, 0)
    return Result(
        None,
        0,
        last.output,
        "",
        _moved(last.output_file, folder),
        tail=last.tail,
        open_ended=last.open_ended,
    )


def _moved(file: FileRef | None, folder: str) -> FileRef | None:
    return None if file is None else file._replace(path=os.path.join(folder, file.path))
