"""The runtime of a fleet: each run is a workflow on Temporal, carried out by workers.

Not here: what the workflow does (`workflow`), the words of a command line (`cli`).
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import timedelta
from signal import SIGTERM
from tempfile import TemporaryDirectory

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    DeleteWorkflowExecutionRequest,
    DescribeTaskQueueRequest,
)
from temporalio.client import Client, WorkflowHandle, WorkflowQueryFailedError
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from little_loops.engine.lifecycle import new_run_id
from little_loops.engine.runtime import NO_LIMITS, RunStatus, Stream
from little_loops.errors import UsageError
from little_loops.fleet import names
from little_loops.fleet.address import Address, FleetError, connected
from little_loops.fleet.outputs import OutputStore, Played
from little_loops.fleet.refusals import why_not
from little_loops.fsm.codec import from_record
from little_loops.fsm.endings import is_gate, not_resumable
from little_loops.fsm.events import ActionComplete, ActionStart, Entry, StateEnter
from little_loops.fsm.gates import open_gate, refused_target
from little_loops.fsm.plain import encode
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import UNFINISHED, Answer, Limits, LoopState, Result
from little_loops.light_typing import Any, TypeVar
from little_loops.records import NamedTuple
from little_loops.runs.mailbox import checked_note
from little_loops.runs.refusals import nothing_to_resume
from little_loops.system.clock import wall_ms

POLL_S = 0.05
CALL_S = 60.0
QUERY = timedelta(seconds=3)
QUERIES = 15
MOST_LISTED = 100
NO_ANSWER = (RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED, RPCStatusCode.UNAVAILABLE)
Answered = TypeVar("Answered")


class StartingPoint(NamedTuple):
    """What a run works on: a repository, a commit of it, and where in it the project is."""

    repository: str
    commit: str
    prefix: str = ""


class FleetRuntime:
    """Carries out the runs of one repository on the workers of a fleet."""

    def __init__(self, address: Address, source: StartingPoint) -> None:
        self._address = address.target
        self._source = source
        self._outputs = OutputStore(source.repository, os.environ)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        try:
            self._client: Client = self._call(connected(address))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, asked: Coroutine[Any, Any, Answered], seconds: float = CALL_S) -> Answered:
        """Wait for an answer. Raises `FleetError`."""
        future = asyncio.run_coroutine_threadsafe(asked, self._loop)
        try:
            return future.result(seconds)
        except TimeoutError:
            future.cancel()
            raise FleetError(f"`{self._address}` does not answer") from None
        except RPCError as error:
            raise FleetError(f"`{self._address}`: {error.message}") from error

    def workers(self) -> list[str]:
        """Return the workers that listen, with their versions."""
        return self._call(self._workers())

    async def _workers(self) -> list[str]:
        kind = TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW
        request = DescribeTaskQueueRequest(
            namespace=self._client.namespace,
            task_queue=TaskQueue(name=names.RUNS_QUEUE),
            task_queue_type=kind,
        )
        found = await self._client.workflow_service.describe_task_queue(request)
        return sorted({each.identity for each in found.pollers})

    # ── starting and continuing ────────────────────────────────────────────────────────────────

    def start(
        self,
        loop: FSMLoop,
        *,
        context: Mapping[str, Any] | None = None,
        limits: Limits = NO_LIMITS,
        skip_permissions: bool = False,
        name: str | None = None,
    ) -> str:
        """Start a run, and return its id; `name` is its name, if that is not the loop's. Workers decide themselves whether agents may skip
        permissions, so `skip_permissions` has no effect."""
        if why := why_not(loop):
            raise UsageError(*why)
        name = name or loop.name
        found = self._found(name)
        if found is not None and (found["exit_code"] is None or found["status"] in UNFINISHED):
            raise UsageError(
                f"`{name}` has an unfinished run on the fleet",
                f"`ll-loop resume {name}` continues it",
            )
        run = new_run_id()
        given = {
            "name": name,
            "run": run,
            "loop": loop.to_dict(),
            "labels": () if loop.runs_on is None else loop.runs_on.labels,
            **self._source._asdict(),
            "next": {"verb": "start", "context": dict(context or {}), "limits": limits._asdict()},
        }
        self._start_workflow(name, given)
        return run

    def _start_workflow(self, name: str, given: Mapping[str, Any]) -> None:
        """Start the workflow of a run. Raises `UsageError` if the name has one."""
        begun = self._client.start_workflow(
            names.WORKFLOW,
            given,
            id=names.workflow_id(self._source.repository, name),
            task_queue=names.RUNS_QUEUE,
            task_timeout=names.DECIDE,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
        )
        try:
            self._call(begun)
        except WorkflowAlreadyStartedError:
            raise UsageError(f"`{name}` has an unfinished run on the fleet") from None

    def resume(
        self,
        name: str,
        *,
        context: Mapping[str, Any] | None = None,
        limits: Limits = NO_LIMITS,
        from_state: str | None = None,
    ) -> None:
        self._resume(
            name, {"context": context or {}, "limits": limits._asdict(), "from_state": from_state}
        )

    def _resume(self, name: str, request: Mapping[str, Any]) -> None:
        loop, run = self._state(name)
        if self._needed(name)["exit_code"] is None:
            raise UsageError(f"Cannot resume '{name}' - it is already running")
        if why := not_resumable(loop, run):
            raise UsageError(*nothing_to_resume(name, why))
        asked = {"verb": "resume", **request}
        if run.status in UNFINISHED:
            self._call(self._handle(name).signal("resume", asked))
        else:
            left = self._call(self._handle(name).result())
            self._start_workflow(name, {**left, "next": asked})

    # ── people ─────────────────────────────────────────────────────────────────────────────────

    def approve(self, name: str, text: str = "", to: str | None = None) -> None:
        self._answer(name, Answer(0, "approved", "approve", text, to))

    def reject(self, name: str, text: str = "") -> None:
        self._answer(name, Answer(0, "rejected", "reject", text))

    def _answer(self, name: str, answer: Answer) -> None:
        loop, run = self._state(name, answer.by)
        waits = is_gate(run.status, run.reason)
        # The gate of a child has a number in the child.
        gate = 0 if waits and run.children is not None else open_gate(run) if waits else None
        if gate is None:
            raise UsageError(f"`{name}` is not waiting at a gate")
        if answer.to is not None and (why := refused_target(loop, run, answer.to)):
            raise UsageError(why)
        self._resume(name, {"answer": encode(answer._replace(gate=gate))})

    def tell(self, name: str, text: str) -> None:
        self._needed(name)
        text = checked_note(text)
        note = {"id": f"{wall_ms():013}-{os.urandom(4).hex()}", "text": text}
        self._call(self._handle(name).signal("tell", note))

    def stop(self, name: str) -> None:
        found = self._found(name)
        if found is None or found["exit_code"] is not None:
            return
        try:
            self._call(self._handle(name).signal("stop", int(SIGTERM)))
        except FleetError as error:
            if _is_missing(error):  # somebody has ended its workflow in Temporal
                return
            raise
        self.wait(name)

    # ── reading ────────────────────────────────────────────────────────────────────────────────

    def wait(self, name: str, timeout_s: float | None = None) -> RunStatus | None:
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while (found := self.status(name)) is None or found.exit_code is None:
            if until is not None and time.monotonic() >= until:
                return None
            time.sleep(POLL_S)
        return found

    def status(self, name: str) -> RunStatus | None:
        found = self._found(name)
        return None if found is None else _status(found)

    def details(self, name: str) -> dict[str, Any] | None:
        """Return everything that the workflow of a run reports about it."""
        return self._found(name)

    def children(self, name: str) -> dict[str, dict[str, Any]]:
        """Return what the workflows of the children that a run waits for report, by the names of
        their directories."""
        found = self._needed(name)["children"]
        handles = {key: self._client.get_workflow_handle(each) for key, each in found.items()}
        return {key: self._call(self._query(each, "status")) for key, each in handles.items()}

    def details_of_all(self) -> Sequence[dict[str, Any]]:
        """Return everything that the workflows of running and unfinished runs report."""
        return self._call(self._open_runs())

    def past(self, most: int | None = MOST_LISTED) -> Sequence[dict[str, Any]]:
        """Return what the workflows of runs that are over report, those of the `most` newest."""
        found = self._call(self._reports("ExecutionStatus!='Running'", most))
        newest = {each["run"]: each for each in found}
        return list(newest.values())

    async def _open_runs(self) -> Sequence[dict[str, Any]]:
        return await self._reports("ExecutionStatus='Running'", None)

    async def _reports(self, which: str, most: int | None) -> Sequence[dict[str, Any]]:
        """Return what workflows of this repository report, newest last."""
        prefix = names.workflow_prefix(self._source.repository)
        query = f"WorkflowType='{names.WORKFLOW}' AND {which} AND WorkflowId STARTS_WITH '{prefix}'"
        found = [each async for each in self._client.list_workflows(query, limit=most)]
        handles = [self._client.get_workflow_handle(each.id, run_id=each.run_id) for each in found]
        return [await self._query(each, "status") for each in reversed(handles)]

    def delete_past(self, runs: Collection[str]) -> int:
        """Delete the workflows of these runs, which are over, and the checkpoints of all runs that the
        server does not have any more. Return how many refs that were."""
        refs = self._outputs.checkpoints()  # first: a run that starts meanwhile is not among them
        past = self.past(None)
        kept = {each["run"] for each in (*past, *self.details_of_all())} - set(runs)
        unused = [ref for ref in refs if names.root_of_ref(ref) not in kept]
        self._outputs.delete(unused)
        for each in past:
            if each["run"] not in kept:
                self._call(self._delete(each))
        return len(unused)

    async def _delete(self, details: Mapping[str, Any]) -> None:
        """Delete all workflow executions of a run, and of those that it started."""
        identity = names.workflow_id(self._source.repository, details["name"])
        last = self._handle(details["name"], details["execution"])
        parts = [*await self._query(last, "earlier"), details["execution"]]
        found = [(identity, part) for part in parts]
        children = names.child_workflow_id(identity, details["run"], "")
        below = self._client.list_workflows(f"WorkflowId STARTS_WITH '{children}'")
        found += [(each.id, each.run_id) async for each in below]
        for workflow_id, execution in found:
            about = WorkflowExecution(workflow_id=workflow_id, run_id=execution)
            request = DeleteWorkflowExecutionRequest(
                namespace=self._client.namespace, workflow_execution=about
            )
            with suppress(RPCError):  # retention was faster
                await self._client.workflow_service.delete_workflow_execution(request)

    def list(self) -> Sequence[RunStatus]:
        return sorted(map(_status, self.details_of_all()))

    def events(self, name: str, after: int = 0, part: str | None = None) -> Sequence[Entry]:
        if part is None:
            self._needed(name)
        return [from_record(each) for each in self._call(self._events(name, after, part))]

    async def _events(self, name: str, after: int, last: str | None) -> Sequence[dict[str, Any]]:
        """Return the events of all workflow executions of a run, up to the `last` one."""
        found = await self._events_now(name, after, last)
        for _ in range(QUERIES):
            if [each["seq"] for each in found] == [*range(after + 1, after + 1 + len(found))]:
                break
            # It continued in another execution while it was asked.
            found = await self._events_now(name, after, last)
        return found

    async def _events_now(
        self, name: str, after: int, last: str | None
    ) -> Sequence[dict[str, Any]]:
        newest = self._handle(name, last)
        found = []
        for part in [*await self._query(newest, "earlier"), last]:
            handle = self._handle(name, part)
            while some := await self._query(handle, "events", after):
                found += some
                after = some[-1]["seq"]
        return found

    def output(self, name: str, step: int, attempt: int, stream: Stream) -> bytes:
        """Return what an action has printed, secrets as asterisks; its end, if the whole cannot be
        had any more."""
        entries = self.events(name)
        loop, _ = self._state(name)
        found = [each for at, each in _results(entries) if at == (step, attempt)]
        if not found:
            return b""
        with TemporaryDirectory() as folder, closing(self.played(folder, loop, folder)) as played:
            played.bring(entries, lambda: self.files(name))
            stored = played.outputs.of(found[0]).of(stream)
            tail = (found[0].tail or "").encode() if stream == "stdout" else b""
            return played.outputs.read(stored, 0, stored.size) or tail

    def played(self, folder: str, loop: FSMLoop, root: str) -> Played:
        """Return what plays back a run; whole outputs are put into `folder`."""
        return Played(self._outputs, folder, loop, root)

    def files(self, name: str) -> str | None:
        """Return the key of the files of a run, as far as they are stored."""
        key: str | None = self._needed(name)["files"]
        return key

    def _needed(self, name: str) -> dict[str, Any]:
        found = self._found(name)
        if found is None:
            raise UsageError(f"`{name}` has no run")
        return found

    def _found(self, name: str) -> dict[str, Any] | None:
        """Return what the workflow of a run reports; None if there is none."""
        try:
            found: dict[str, Any] = self._call(self._query(self._handle(name), "status"))
            return found
        except FleetError as error:
            if _is_missing(error):
                return None
            raise

    def state(self, name: str, part: str | None = None) -> tuple[FSMLoop, LoopState | None]:
        """Return the machine of a run and the run, None until a worker has claimed it. `part` is
        its last workflow execution, if that is not the newest one of this name."""
        found = self._call(self._query(self._handle(name, part), "state"))
        run = found["state"]
        return FSMLoop.from_dict(found["loop"]), None if run is None else LoopState.from_dict(run)

    def _state(self, name: str, verb: str = "resume") -> tuple[FSMLoop, LoopState]:
        """Return a run and its machine. Raises `UsageError` if there is none."""
        try:
            found = self._call(self._query(self._handle(name), "state"))
        except FleetError as error:
            if not _is_missing(error):
                raise
            found = {"state": None}
        if found["state"] is None:
            raise UsageError(f"`{name}` has no run to {verb}")
        return FSMLoop.from_dict(found["loop"]), LoopState.from_dict(found["state"])

    async def _query(self, handle: WorkflowHandle[Any, Any], name: str, *given: Any) -> Any:
        """Ask a workflow, again if there is no answer: the worker that was asked may be gone."""
        for _ in range(QUERIES - 1):
            try:
                return await handle.query(name, args=given, rpc_timeout=QUERY)
            except WorkflowQueryFailedError:
                raise
            except RPCError as error:
                if error.status not in NO_ANSWER:
                    raise
        return await handle.query(name, args=given, rpc_timeout=QUERY)

    def _handle(self, name: str, part: str | None = None) -> WorkflowHandle[Any, Any]:
        identity = names.workflow_id(self._source.repository, name)
        return self._client.get_workflow_handle(identity, run_id=part)


def _results(entries: Sequence[Entry]) -> Iterator[tuple[tuple[int, int], Result]]:
    """Yield the results of actions, each with its step and attempt."""
    step, attempt = 0, 1
    for entry in entries:
        match entry.event:
            case StateEnter() as entered:
                step = entered.step
            case ActionStart() as started:
                attempt = started.attempt
            case ActionComplete() as ended:
                yield (step, attempt), ended.result
            case _:
                pass


def _is_missing(error: FleetError) -> bool:
    cause = error.__cause__
    return isinstance(cause, RPCError) and cause.status is RPCStatusCode.NOT_FOUND


def _status(found: Mapping[str, Any]) -> RunStatus:
    return RunStatus(*(found[field] for field in RunStatus._fields))
