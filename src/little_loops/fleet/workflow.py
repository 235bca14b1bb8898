"""The workflow of a run: what `drive` is on one machine.

It decides with `advance` and asks the worker that holds the workspace to carry out what was decided.
Waits are timers, people are signals, and runs that it starts are workflows of their own. It reads no
clock but that of Temporal, so that replaying its history leads to the same decisions.

Not here: carrying anything out (`worker`, `seat`), asking about a run (`runtime`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from signal import SIGTERM
from typing import Any  # Temporal reads the hints of what it calls

from temporalio import workflow
from temporalio.common import RetryPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    CancelledError,
    FailureError,
    TimeoutError,
    WorkflowAlreadyStartedError,
)

from little_loops.fleet import names
from little_loops.fleet.child_workflows import ChildWorkflows, labels_of_child
from little_loops.fleet.scopes import ScopeRequest, scope_in_repository
from little_loops.fsm.codec import (
    decode_happening,
    encode_happening,
    to_record,
)
from little_loops.fsm.commands import Command, Finish, RunChildren, Wait
from little_loops.fsm.endings import exit_code_of_end
from little_loops.fsm.events import ActionStart, Entry, LoopInterrupted
from little_loops.fsm.happenings import (
    ChildEnded,
    ChildOutcome,
    ChildrenOutOfTime,
    Happening,
    StopAsked,
    WaitOver,
)
from little_loops.fsm.machine import advance
from little_loops.fsm.plain import decode, encode
from little_loops.fsm.schema import FSMLoop, worktree_of
from little_loops.fsm.state import UNFINISHED, LoopState, Note
from little_loops.fsm.timestamps import Moment, timestamp
from little_loops.fsm.waits import left_ms
from little_loops.runs.layout import child_folder, output_stem

ONCE = RetryPolicy(maximum_attempts=1)
NO_LIMIT = timedelta(days=365)
SCOPES_ARE_TAKEN = "scopes"
CHILDREN_ARE_APART = "children"
"""Decisions that workflows of earlier versions, which are under way, did not make."""
AGREED = timedelta(seconds=5)
"""How long a worker may take to agree, even one that is suspended."""
SAME_WORKER = timedelta(seconds=2)
SOON = timedelta(seconds=10)
LONGEST_PAUSE_S = 30
CARRIED = ("held", "asked", "happenings", "notes", "signal", "ticket")
"""What only an execution that continues another one without a pause is given."""
FINISHED = ("completed", "stopped")
"""Such a run cannot be continued, so its workspace can be removed."""
MOST_BYTES = 1 << 20
"""How much one query returns."""


class Lost(Exception):
    """The worker does not hold the workspace any more."""


class CannotRun(Exception):
    """The run cannot start or continue; the worker has said why."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        super().__init__(answer["error"])
        self.answer = answer


@workflow.defn(name=names.WORKFLOW, sandboxed=False)
class RunWorkflow:
    """One run, from its start until it is over, or paused until someone continues it."""

    @workflow.init
    def __init__(self, given: dict[str, Any]) -> None:
        """`given` is what the run was started with, or what an earlier workflow of it has left."""
        self.given = given
        if given["loop"] is not None:  # that of a child is known when it has started
            self.loop = FSMLoop.from_dict(given["loop"])
        state = given.get("state")
        self.run_state: LoopState | None = None if state is None else LoopState.from_dict(state)
        self.entries: list[Entry] = []
        self.claim = int(given.get("claim", 0))
        self.order = int(given.get("order", 0))
        self.checkpoint: str = given.get("checkpoint", "")
        self.files: str | None = given.get("files")
        self.held: dict[str, Any] | None = given.get("held")
        self.request: dict[str, Any] | None = given.get("next")
        self.notes = [decode(Note, each) for each in given.get("notes", ())]
        self.signal: int | None = given.get("signal")
        self.problem: dict[str, Any] = given.get("problem") or {}
        self.branch: str | None = given.get("branch")
        self.left_out: list[str] = given.get("left_out", [])
        self.left_out_below: dict[str, None] = dict.fromkeys(given.get("left_out_below", ()))
        self.warning = ""
        self.waits_for = ""
        self.asked: dict[str, Any] = given.get("asked", {})
        self.reply: list[dict[str, Any]] = given.get("happenings", [])
        self.is_working = bool(self.request or self.reply)
        self.in_order = False
        self.stops = 0
        self.ticket: str | None = given.get("ticket")
        self.has_scope = self.ticket is not None
        self.children = ChildWorkflows(given.get("children"))
        self.moved_ms: int = given.get("updated_ms", 0)

    @workflow.run
    async def run(self, given: dict[str, Any]) -> dict[str, Any]:
        return await self._uncancelled(self._sessions())

    async def _sessions(self) -> dict[str, Any]:
        while True:
            await self._session()
            self.is_working = self.request is not None
            if self.run_state is None or self.run_state.status not in UNFINISHED:
                return self._left()
            await workflow.wait_condition(lambda: self.request is not None)

    async def _uncancelled(self, work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
        """Do the work; cancelling the workflow stops the run, so that it is recorded and nothing is
        left running."""
        task = asyncio.ensure_future(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self.stop(int(SIGTERM))
            if self.is_working:
                await workflow.wait_condition(lambda: task.done() or not self.is_working)
            if task.done():
                return task.result()
            raise

    # ── people ─────────────────────────────────────────────────────────────────────────────────

    @workflow.signal
    def stop(self, signum: int) -> None:
        if self.is_working:
            self.signal = self.signal or signum
            self.stops += 1
            if self.stops > 1:
                running = list(self.children.running)
                asyncio.ensure_future(self.children.stop(running, signum))  # noqa: RUF006
            if self.in_order and self.held is not None:
                asyncio.ensure_future(self._interrupt(signum))  # noqa: RUF006

    @workflow.signal
    def resume(self, request: dict[str, Any]) -> None:
        """Continue the run, unless it is running."""
        if not self.is_working:
            self.request, self.is_working = request, True

    @workflow.signal
    def tell(self, note: dict[str, Any]) -> None:
        self.notes.append(Note(note["id"], note["text"]))

    @workflow.signal
    def scope_granted(self, ticket: str) -> None:
        self.has_scope = self.has_scope or ticket == self.ticket

    @workflow.signal
    def scope_blocked(self, by: str) -> None:
        if not self.has_scope:
            self.waits_for = by

    @workflow.signal
    def scope_held(self) -> None:
        """Nothing: that this signal can be sent says that the run is there."""

    @workflow.signal
    def child_ended(self, report: dict[str, Any]) -> None:
        self.children.end(report)

    @workflow.query
    def status(self) -> dict[str, Any]:
        run, waits_for = self.run_state, self.waits_for
        found: dict[str, Any] = {
            "name": self.given["name"],
            "run": self.given["run"],
            "execution": workflow.info().run_id,
            "repository": self.given["repository"],
            "commit": self.given["commit"],
            "status": "running" if run is None else run.status,
            "reason": None if run is None else run.reason,
            "state": self._first_state() if run is None else run.current_state,
            "iteration": 0 if run is None else run.iteration,
            "exit_code": None,
            "is_working": self.is_working,
            "worker": None if self.held is None else self.held["worker"],
            "waits_for": waits_for,
            "problem": self.problem,
            "branch": self.branch,
            "warning": self.warning,
            "left_out": list(dict.fromkeys((*self.left_out, *self.left_out_below))),
            "files": self.files,
            "claim": self.claim,
            "children": self.children.workflows(),
        }
        if self.is_working:
            return found
        if self.problem:
            return found | {
                "status": "failed",
                "reason": self.problem["reason"],
                "exit_code": self.problem["exit_code"],
            }
        assert run is not None, "a run that has ended has started"
        last = self.entries[-1].event if self.entries else None
        by = last.signal if isinstance(last, LoopInterrupted) else None
        code = exit_code_of_end(run.status, run.reason, by or int(SIGTERM))
        return found | {"exit_code": code}

    def _first_state(self) -> str:
        return "" if self.given["loop"] is None else self.loop.initial

    @workflow.query
    def state(self) -> dict[str, Any]:
        """Return the run and its machine, for checks before it is continued."""
        run = None if self.run_state is None else self.run_state.to_dict()
        return {"loop": self.given["loop"], "state": run}

    @workflow.query
    def events(self, after: int) -> list[dict[str, Any]]:
        """Return the events of this workflow above a number, as many as fit; an earlier part of the
        run has those before."""
        found: list[dict[str, Any]] = []
        size = 0
        for entry in self.entries:
            if entry.seq > after and size < MOST_BYTES:
                found.append(to_record(entry))
                size += len(str(found[-1]))
        return found

    @workflow.query
    def earlier(self) -> list[str]:
        """Return the ids of the workflow executions before this one."""
        return list(self.given.get("earlier", ()))

    # ── a session: from a claim to an ending ───────────────────────────────────────────────────

    async def _session(self) -> None:
        """Carry out the run until it ends or pauses."""
        self.problem = {}
        try:
            happenings = self.reply or await self._begin()
            while True:
                try:
                    if await self._follow(happenings):
                        break
                except Lost:
                    happenings = await self._claim_again()
                    continue
                happenings = self.reply
                if workflow.info().is_continue_as_new_suggested():
                    workflow.continue_as_new(self._carried())
        except CannotRun as error:
            self.problem = {"reason": "error", **error.answer}
        except StopBeforeStart:
            self.problem = {
                "reason": "signal",
                "error": "it was stopped before a worker had claimed it",
                "exit_code": 128 + int(SIGTERM),
            }
        if self.children.running:
            await self.children.abandon(int(SIGTERM))
        await self._release()
        await self._give_scope_back()
        self.held, self.signal, self.reply = None, None, []
        self.stops = 0

    async def _begin(self) -> list[dict[str, Any]]:
        """Claim a workspace; return what happened first."""
        request, self.request = self.request, None
        self.is_working = True
        assert request is not None, "a session was asked for"
        self.asked = request
        await self._take_scope()
        found = await self._claim(request["verb"])
        if self.run_state is None:
            self.run_state = LoopState.from_dict(self.started_as)
        return found

    async def _follow(self, happenings: list[dict[str, Any]]) -> bool:
        """Decide what these happenings lead to, and have it carried out; return whether that ended
        the run."""
        command: Command | None = None
        steps: list[dict[str, Any]] = []
        for each in happenings[:-1]:
            command = self._take(decode_happening(each))
        notes = self._new_notes()
        command = self._take(decode_happening(happenings[-1]), notes)
        steps.append(_step(None, notes))
        while (happening := await self._here(command)) is not None:
            notes = self._new_notes()
            command = self._take(happening, notes)
            steps.append(_step(happening, notes))
        await self._send(steps, command)
        return isinstance(command, Finish)

    async def _here(self, command: Command) -> Happening | None:
        """Carry out what needs no worker; None if a worker is needed."""
        if isinstance(command, Wait):
            return await self._wait(command)
        if isinstance(command, RunChildren):
            return await self._run_children(command) if self._are_apart(command) else None
        if self.children.running and not self._has_children():
            await self.children.abandon(int(SIGTERM))  # a resume does not continue them
        return None

    def _take(self, happening: Happening, notes: tuple[Note, ...] = ()) -> Command:
        assert self.run_state is not None, "it has started"
        step = advance(self.loop, self.run_state, happening, notes)
        if isinstance(happening, ChildEnded):
            self.children.recorded(happening.child)
        self.entries.extend(step.events)
        self.run_state = step.run
        self.moved_ms = self._now_ms()
        return step.command

    def _new_notes(self) -> tuple[Note, ...]:
        found, self.notes = tuple(self.notes), []
        return found

    # ── the scope ──────────────────────────────────────────────────────────────────────────────

    async def _take_scope(self) -> None:
        """Wait until no other run of the repository works on the scope. A child works on that of its
        parent. Raises `StopBeforeStart`."""
        if self.has_scope or self.given.get("child") is not None:
            return
        if not workflow.patched(SCOPES_ARE_TAKEN):
            return
        self.ticket = str(workflow.uuid4())
        scope = scope_in_repository(self.given["prefix"], self.loop.scope)
        about = ScopeRequest(self.ticket, workflow.info().workflow_id, self.given["name"], scope)
        self.waits_for = "its turn"
        await self._ask_for_scope(about._asdict())
        await workflow.wait_condition(lambda: self.has_scope or self.signal is not None)
        self.waits_for = ""
        if not self.has_scope:
            raise StopBeforeStart

    async def _ask_for_scope(self, wanted: dict[str, Any]) -> None:
        """Ask the workflow that hands out scopes; start it if it is not there."""
        identity = names.scopes_workflow_id(self.given["repository"])
        while True:
            with suppress(FailureError):  # it is not there, or has ended just now
                await workflow.get_external_workflow_handle(identity).signal("ask", wanted)
                return
            with suppress(WorkflowAlreadyStartedError):
                await workflow.start_child_workflow(
                    names.SCOPES_WORKFLOW,
                    {},
                    id=identity,
                    task_queue=names.RUNS_QUEUE,
                    id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                    parent_close_policy=workflow.ParentClosePolicy.ABANDON,
                )

    async def _give_scope_back(self) -> None:
        if self.ticket is None:
            return
        held = {"workflow": workflow.info().workflow_id, "ticket": self.ticket}
        self.ticket, self.has_scope = None, False
        handle = workflow.get_external_workflow_handle(
            names.scopes_workflow_id(self.given["repository"])
        )
        with suppress(FailureError):  # it is not there, so nobody waits
            await handle.signal("give_back", held)

    # ── waiting ────────────────────────────────────────────────────────────────────────────────

    async def _wait(self, command: Wait) -> Happening:
        """Wait until the time is over, or until a stop."""
        at = self._moment()
        left = left_ms(command.wait, at)
        if command.deadline_ms is not None:
            left = min(left, command.deadline_ms - at.ran_ms)
        with suppress(asyncio.TimeoutError):
            await workflow.wait_condition(
                lambda: self.signal is not None, timeout=timedelta(milliseconds=max(left, 1))
            )
        if self.signal is not None:
            return StopAsked(self._moment(), self.signal)
        return WaitOver(Moment(self._now_ms(), max(self._moment().ran_ms, at.ran_ms + left)))

    def _now_ms(self) -> int:
        return round(workflow.now().timestamp() * 1000)

    def _moment(self) -> Moment:
        assert self.run_state is not None, "it has started"
        now = self._now_ms()
        return Moment(now, self.run_state.ran_ms + max(now - self.moved_ms, 0))

    # ── runs that this one starts ──────────────────────────────────────────────────────────────

    def _has_children(self) -> bool:
        """Return whether the current state still waits for the children that run."""
        children = None if self.run_state is None else self.run_state.children
        if children is None:
            return False
        stem = output_stem(children.step, children.attempt)
        return all(key.startswith(f"{stem}-") for key in self.children.running)

    def _are_apart(self, command: RunChildren) -> bool:
        """Return whether children have clones of their own. Worktrees are in that of their parent."""
        is_new = workflow.patched(CHILDREN_ARE_APART)  # older ones have them in their own clone
        return is_new and worktree_of(self.loop.states[command.state]) is None

    async def _run_children(self, command: RunChildren) -> Happening | None:
        """Start and stop children, then wait for the next one that ends, for a stop or until the
        loop's time is over. Return None if one has ended: a worker takes in its work."""
        step, attempt = command.step, command.attempt
        folders = [child_folder(step, attempt, name) for name in command.stop]
        await self.children.stop(folders, int(SIGTERM))
        for name in command.start:
            await self._start_child(command, name)
        limit = command.deadline_ms
        with suppress(asyncio.TimeoutError):
            await workflow.wait_condition(
                lambda: bool(self.children.arrived) or self._is_stopped(command),
                timeout=None if limit is None else timedelta(milliseconds=max(limit, 1)),
            )
        if self.children.arrived:
            return None
        if self._is_stopped(command):
            return StopAsked(self._moment(), self.signal or 0)
        return ChildrenOutOfTime(self._moment())

    def _is_stopped(self, command: RunChildren) -> bool:
        return self.signal is not None and not command.is_last

    async def _start_child(self, command: RunChildren, name: str) -> None:
        """Start or continue a child, unless it runs: it has not noticed that its parent was lost."""
        assert self.run_state is not None, "it has started"
        key = child_folder(command.step, command.attempt, name)
        if self.children.knows(key):
            return
        most = self.children.share(self.loop, self.run_state, command, name)
        given = self._child_given(command, key, name)
        given["child"]["most"] = most._asdict()
        left = self.children.paused(key)
        if left is not None:
            answer = self.asked.get("answer") if name in command.resumed else None
            verb = "start" if left["state"] is None else "resume"
            given = {**left, "child": given["child"], "next": {"verb": verb, "answer": answer}}
        await self.children.start(key, given, most)

    def _checkpoints(self) -> str:
        """Return under which name this run keeps its checkpoints."""
        child, run = self.given.get("child"), self.given["run"]
        return str(run) if child is None else names.checkpoints_of_child(child["root"], run)

    def _child_given(self, command: RunChildren, key: str, name: str) -> dict[str, Any]:
        """Return what the workflow of a child is started with."""
        assert self.run_state is not None, "it has started"
        above = self.given.get("child") or {}
        own = self.loop.workspace
        root = above.get("root", self.run_state.run)
        parent = {
            "run": self.run_state.run,
            "checkpoints": self._checkpoints(),
            "loop": self.given["loop"],
            "state": self.run_state.to_dict(),
            "start": self.given.get("start"),
        }
        child = {
            "key": key,
            "name": name,
            "state": command.state,
            "below": [*above.get("below", ()), key],
            "owner": workflow.info().workflow_id,
            "root": root,
            "setup": above.get("setup") if own is None else own.setup,
            "parent": parent,
        }
        kept = {name: self.given[name] for name in ("name", "repository", "commit", "prefix")}
        return {
            **kept,
            "labels": labels_of_child(self.loop.states[command.state], name, self.given),
            "run": f"{_stamp(self._now_ms())}-{workflow.random().getrandbits(32):08x}",
            "loop": None,
            "child": child,
            "next": {"verb": "start"},
        }

    # ── the worker ─────────────────────────────────────────────────────────────────────────────

    async def _claim(self, verb: str) -> list[dict[str, Any]]:
        """Have a worker claim the run; return what happened first, or again. Raises `CannotRun`,
        `StopBeforeStart`."""
        refusals = 0
        before, self.held = self.held, None
        if before is not None:
            asyncio.ensure_future(self._release_at(before))  # noqa: RUF006
        while True:
            self.claim += 1
            self.waits_for = self._any_worker()
            try:
                held, answer = await self._until_stopped(self._try_claim(verb))
            except ActivityError as error:
                refusals += 1
                self.waits_for = f"{self._any_worker()}: {_why(error)}"
                await self._pause(min(0.2 * 2**refusals, LONGEST_PAUSE_S))
                continue
            self.waits_for = ""
            if "error" in answer:
                raise CannotRun(answer)
            self.held = held
            self.checkpoint = answer["checkpoint"]
            self.started_as = answer["run"]
            if self.given["loop"] is None:
                self.given |= {"loop": answer["loop"], "start": answer["start"]}
                self.loop = FSMLoop.from_dict(answer["loop"])
            happenings: list[dict[str, Any]] = answer["happenings"]
            return happenings

    def _any_worker(self) -> str:
        """Return which workers may claim the run, in words."""
        labels = self.given.get("labels") or ()
        return f"a worker with the labels {_listed(labels)}" if labels else "a worker"

    async def _claim_again(self) -> list[dict[str, Any]]:
        """Have another worker claim the run. If there is none for as long as it took to notice the
        loss, and again, other runs may use its scope."""
        if self.ticket is None:
            return await self._claim("resume")
        patience_s = 0.0 if self.held is None else 2 * self.held["heartbeat_s"]
        task = asyncio.ensure_future(self._claim("resume"))
        with suppress(asyncio.TimeoutError):
            await workflow.wait_condition(task.done, timeout=timedelta(seconds=patience_s))
        if not task.done():
            await self._give_scope_back()
        found = await task
        await self._take_scope()
        return found

    async def _try_claim(self, verb: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Claim on the worker that had the run last, if it is there, else on any. Return who holds
        the run, and what happened first."""
        last = self.given.pop("last_holder", None)
        if last is not None:
            with suppress(ActivityError):
                held = {**last, "claim": self.claim}
                return held, await self._prepare(held, verb, SAME_WORKER)
            self.claim += 1
        held = await workflow.execute_activity(
            names.CLAIM,
            {"repository": self.given["repository"], "claim": self.claim},
            task_queue=names.claim_queue(self.given.get("labels") or ()),
            start_to_close_timeout=AGREED,
            retry_policy=ONCE,
        )
        beat = timedelta(seconds=held["heartbeat_s"])
        return held, await self._prepare(held, verb, beat)

    async def _prepare(
        self, held: dict[str, Any], verb: str, to_start: timedelta
    ) -> dict[str, Any]:
        answer: dict[str, Any] = await workflow.execute_activity(
            names.PREPARE,
            self._spec(verb),
            task_queue=names.private_queue(held["worker"]),
            start_to_close_timeout=NO_LIMIT,
            schedule_to_start_timeout=to_start,
            heartbeat_timeout=timedelta(seconds=held["heartbeat_s"]),
            retry_policy=ONCE,
        )
        return answer

    async def _until_stopped(self, claim: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the answer to a claim; a stop ends the wait for a worker."""
        task = asyncio.ensure_future(claim)
        await workflow.wait_condition(lambda: task.done() or self.signal is not None)
        if not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError, ActivityError, CancelledError):
                await task
            if task.cancelled() or task.exception() is not None:
                raise StopBeforeStart
        found: tuple[dict[str, Any], dict[str, Any]] = task.result()
        return found

    async def _pause(self, seconds: float) -> None:
        with suppress(asyncio.TimeoutError):
            await workflow.wait_condition(
                lambda: self.signal is not None, timeout=timedelta(seconds=seconds)
            )
        if self.signal is not None:
            raise StopBeforeStart

    def _spec(self, verb: str) -> dict[str, Any]:
        """Return what a worker needs to claim the run."""
        state = None if self.run_state is None else self.run_state.to_dict()
        return {
            **{key: self.given[key] for key in ("name", "run", "repository", "commit", "prefix")},
            "verb": verb if self.run_state is None else "resume",
            **{key: self.given.get(key) for key in ("child", "start")},
            "loop": self.given["loop"],
            "claim": self.claim,
            "order": self.order,
            "state": state,
            "records": [to_record(entry) for entry in self.entries],
            **{key: self.asked.get(key) for key in ("context", "limits", "from_state", "answer")},
        }

    async def _send(self, steps: list[dict[str, Any]], command: Command) -> None:
        """Have the worker carry out the command of the last step. Raises `Lost`."""
        assert self.held is not None, "a worker holds the run"
        self.order += 1
        order = {
            "run": self.given["run"],
            "claim": self.claim,
            "order": self.order,
            "steps": steps,
            "signal": None if isinstance(command, Finish) else self.signal,
            "arrived": self._arrived(command),
        }
        beat = timedelta(seconds=self.held["heartbeat_s"])
        self.in_order = True
        try:
            reply: dict[str, Any] = await workflow.execute_activity(
                names.PERFORM,
                order,
                task_queue=names.private_queue(self.held["worker"]),
                start_to_close_timeout=NO_LIMIT,
                schedule_to_start_timeout=beat,
                heartbeat_timeout=beat,
                retry_policy=ONCE,
            )
        except ActivityError as error:
            workflow.logger.info("lost worker %s: %s", self.held["worker"], _why(error))
            raise Lost from error
        finally:
            self.in_order = False
        self._learn(reply)
        if "error" in reply:
            raise CannotRun(reply)
        self.reply = reply.get("happenings", [])

    def _arrived(self, command: Command) -> dict[str, Any] | None:
        """Return which child has ended, for the worker that takes in its work."""
        if not isinstance(command, RunChildren) or not self._are_apart(command):
            return None
        found = next(iter(self.children.arrived.values()))
        self.left_out_below |= dict.fromkeys(found.get("left_out", ()))
        return {key: found[key] for key in ("name", "checkpoints", "outcome")}

    def _learn(self, reply: Mapping[str, Any]) -> None:
        """Take what the worker reports besides happenings."""
        self.checkpoint = reply.get("checkpoint", self.checkpoint)
        self.files = reply.get("files", self.files)
        self.left_out = reply.get("left_out", self.left_out)
        self.branch = reply.get("branch", self.branch)
        self.warning = reply.get("warning", "")
        for seq, text in reply.get("filled", {}).items():
            self._fill(int(seq), text)

    def _fill(self, seq: int, text: str) -> None:
        """Add the text that an action has run to the event of its start."""
        for index in range(len(self.entries) - 1, -1, -1):
            entry = self.entries[index]
            if entry.seq == seq and isinstance(entry.event, ActionStart):
                filled = entry.event._replace(filled=text)
                self.entries[index] = entry._replace(event=filled)
                return

    async def _interrupt(self, signum: int) -> None:
        """Have the worker stop the action that is under way."""
        assert self.held is not None, "a worker holds the run"
        order = {"run": self.given["run"], "claim": self.claim, "signal": signum}
        with suppress(ActivityError):
            await workflow.execute_activity(
                names.INTERRUPT,
                order,
                task_queue=names.control_queue(self.held["worker"]),
                schedule_to_close_timeout=SOON,
                retry_policy=ONCE,
            )

    async def _release(self) -> None:
        """Let the worker forget the run; it keeps the files."""
        if self.held is not None:
            self.given["last_holder"] = self.held
            await self._release_at(self.held)

    async def _release_at(self, held: Mapping[str, Any]) -> None:
        run = self.run_state
        is_over = self.held is held and run is not None and self._is_over(run)
        order = {key: self.given[key] for key in ("run", "prefix")}
        order |= {"claim": held["claim"], "is_over": is_over}
        with suppress(ActivityError):
            await workflow.execute_activity(
                names.RELEASE,
                order,
                task_queue=names.control_queue(held["worker"]),
                schedule_to_close_timeout=SOON,
                retry_policy=ONCE,
            )

    def _is_over(self, run: LoopState) -> bool:
        """Return whether nothing of the run can be continued, so that its workspace may go. Instead
        of a child that has failed, its parent starts a new one."""
        return run.status in FINISHED if self.given.get("child") is None else is_ended(run)

    def _carried(self) -> dict[str, Any]:
        """Return what the next execution of this workflow continues with."""
        return {
            **self._left(),
            "held": self.held,
            "asked": self.asked,
            "happenings": self.reply,
            "notes": [encode(note) for note in self.notes],
            "signal": self.signal,
            "ticket": self.ticket,
        }

    def _left(self) -> dict[str, Any]:
        """Return what a later workflow needs to continue the run."""
        state = None if self.run_state is None else self.run_state.to_dict()
        here = workflow.info().run_id
        kept = {key: value for key, value in self.given.items() if key not in CARRIED}
        return {
            **kept,
            "state": state,
            "claim": self.claim,
            "order": self.order,
            "checkpoint": self.checkpoint,
            "updated_ms": self.moved_ms,
            "earlier": [*self.given.get("earlier", ()), here],
            "status": self.status(),
            "problem": self.problem,
            "branch": self.branch,
            "files": self.files,
            "left_out": self.left_out,
            "left_out_below": list(self.left_out_below),
            "children": self.children.carried(),
            "next": None,
        }


@workflow.defn(name=names.CHILD_WORKFLOW, sandboxed=False)
class ChildWorkflow(RunWorkflow):
    """A run that another one has started, until it ends or pauses."""

    @workflow.init
    def __init__(self, given: dict[str, Any]) -> None:
        super().__init__(given)

    @workflow.run
    async def run(self, given: dict[str, Any]) -> dict[str, Any]:
        return await self._uncancelled(self._to_its_end())

    async def _to_its_end(self) -> dict[str, Any]:
        await self._session()
        self.is_working = False
        owner = workflow.get_external_workflow_handle(self.given["child"]["owner"])
        with suppress(FailureError):  # nobody waits for it any more
            await owner.signal(names.CHILD_ENDED, self._report())
        return {}

    def _report(self) -> dict[str, Any]:
        """Return how the run has ended, for the one that started it: the rest is in its checkpoint."""
        run, child = self.run_state, self.given["child"]
        is_paused = run is not None and not is_ended(run)
        outcome = None if self.problem == {} else self._outcome()
        is_stopped = outcome is not None and outcome.reason == "signal"
        return {
            "key": child["key"],
            "name": child["name"],
            "workflow": workflow.info().workflow_id,
            "checkpoints": self._checkpoints(),
            "outcome": None if outcome is None else encode(outcome),
            "left": self._left() if is_paused or is_stopped else None,
            "left_out": self.status()["left_out"],
        }

    def _outcome(self) -> ChildOutcome:
        """Return the ending of a run that was not carried out to one."""
        if self.problem["reason"] == "signal":
            return ChildOutcome("interrupted", "signal")
        return ChildOutcome("failed", "error", message=self.problem["error"])


def _listed(labels: Sequence[str]) -> str:
    return ", ".join(f"`{label}`" for label in labels)


def is_ended(run: LoopState) -> bool:
    return run.status not in UNFINISHED


def _stamp(at_ms: int) -> str:
    return timestamp(at_ms)[:19].replace("-", "").replace(":", "")


class StopBeforeStart(Exception):
    """A stop arrived while no worker held the run."""


def _step(happening: Happening | None, notes: tuple[Note, ...]) -> dict[str, Any]:
    step: dict[str, Any] = {}
    if happening is not None:
        step["happening"] = encode_happening(happening)
    if notes:
        step["notes"] = [encode(note) for note in notes]
    return step


def _why(error: ActivityError) -> str:
    """Return why an activity failed, in a few words."""
    cause = error.cause
    if isinstance(cause, ApplicationError):
        return cause.message
    if isinstance(cause, TimeoutError):
        return "it does not answer"
    return str(cause or error)
