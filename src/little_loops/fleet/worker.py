"""A worker: it claims runs, holds their workspaces, and carries out what their workflows decide.

Each run that it holds has a process of its own (`seat`), which ends together with the worker.

Not here: decisions (`workflow`), the command line (`cli.worker`).
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from typing import Any  # Temporal reads the hints of what it calls

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from little_loops import __version__
from little_loops.authoring.fields.kinds import LABEL, MOST_LABELS
from little_loops.errors import UsageError
from little_loops.fleet import names
from little_loops.fleet.address import Address, connected
from little_loops.fleet.scopes import ScopesWorkflow
from little_loops.fleet.snapshots import store_at
from little_loops.fleet.workflow import ChildWorkflow, RunWorkflow
from little_loops.fleet.workspace import is_served
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import Limits
from little_loops.records import NamedTuple
from little_loops.system.detached import own_environment

STICKY = timedelta(seconds=1)
NOT_SAID: dict[str, Any] = {"child": None, "start": None}
"""What workers of an earlier version do not say of a run."""
LONGEST_LINE = 64 << 20
MOST_ACTIVITIES = 1000
NOT_OURS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "LL_FLEET")


class WorkerOptions(NamedTuple):
    """What a worker was started with. `folder` is where its workspaces are."""

    repositories: tuple[str, ...]
    folder: str
    max_actions: int = 4
    heartbeat_s: float = 30.0
    skip_permissions: bool = False
    labels: tuple[str, ...] = ()


class SeatEnded(Exception):
    """The process of a run has ended without an answer."""


class Seat:
    """The process that holds a run, and its claim."""

    def __init__(self, claim: int, process: asyncio.subprocess.Process, beat_s: float) -> None:
        self.claim = claim
        self._process = process
        self._beats = asyncio.create_task(self._beat(beat_s))

    @classmethod
    async def open(cls, claim: int, heartbeat_s: float, environ: Mapping[str, str]) -> Seat:
        process = await asyncio.create_subprocess_exec(
            # -P: a module in the working directory must not be imported instead of ours.
            *(sys.executable, "-P", "-m", "little_loops.fleet.seat", str(heartbeat_s)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=dict(environ),
            start_new_session=True,
            limit=LONGEST_LINE,
        )
        return cls(claim, process, heartbeat_s / 3)

    async def ask(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Send a message, and return the answer. Raises `SeatEnded`."""
        self._write(message)
        return await self.answer()

    async def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None, "it is a pipe"
        line = await self._process.stdout.readline()
        if not line:
            raise SeatEnded
        answer: dict[str, Any] = json.loads(line)
        return answer

    def interrupt(self, signum: int) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(signum)

    def _write(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None, "it is a pipe"
        self._process.stdin.write(json.dumps(message).encode() + b"\n")

    async def _beat(self, every_s: float) -> None:
        """Send signs of life, without which the process ends."""
        while True:
            self._write({})
            await asyncio.sleep(every_s)

    async def close(self) -> None:
        """Let the process end, with everything that it has started, and wait for that."""
        self._beats.cancel()
        assert self._process.stdin is not None, "it is a pipe"
        self._process.stdin.close()
        await self._process.wait()


class Activities:
    """What workflows may ask of this worker."""

    def __init__(self, name: str, options: WorkerOptions, environ: Mapping[str, str]) -> None:
        self._name = name
        self._options = options
        self._environ = {k: v for k, v in own_environment(environ).items() if k not in NOT_OURS}
        self._seats: dict[str, Seat] = {}
        self._slots = asyncio.Semaphore(options.max_actions)

    @activity.defn(name=names.CLAIM)
    async def claim(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Agree to carry out a run."""
        if not is_served(spec["repository"], self._options.repositories):
            raise ApplicationError(
                f"worker `{self._name}` does not serve `{spec['repository']}`", type=names.REFUSED
            )
        return {
            "worker": self._name,
            "claim": spec["claim"],
            "heartbeat_s": self._options.heartbeat_s,
        }

    @activity.defn(name=names.PREPARE)
    async def prepare(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Prepare the workspace of a run and its process; return what happened first."""
        await self.claim(spec)
        run = spec["run"]
        async with self._beating():
            await self._drop(run)
            seat = await Seat.open(spec["claim"], self._options.heartbeat_s, self._environ)
            try:
                answer = await seat.ask({**NOT_SAID, **spec, **self._given(spec)})
                if "prepared" not in answer:
                    await seat.close()
                    return self._cannot(answer)
                first = await seat.answer()
            except SeatEnded:
                await seat.close()
                raise ApplicationError("the run's process ended", type=names.LOST) from None
            except BaseException:
                await asyncio.shield(seat.close())
                raise
        if "happenings" not in first:
            await seat.close()
            return self._cannot(first)
        self._seats[run] = seat
        return {
            "checkpoint": answer["prepared"],
            **first,
        }

    def _cannot(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer of a process that cannot carry out the run."""
        if "lost" in answer:
            raise ApplicationError(answer["lost"], type=names.LOST)
        return {**answer, "worker": self._name}

    def _folder(self, run: str) -> str:
        return os.path.join(self._options.folder, self._name, run)

    def _given(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the process of a run needs besides."""
        folder = self._folder(spec["run"])
        child = spec.get("child")
        loop = FSMLoop.from_dict(child["parent"]["loop"] if child else spec["loop"])
        request = {
            "root": _root(folder, spec["prefix"]),
            "name": spec["name"],
            "context": spec["context"] or {},
            "limits": Limits(**(spec["limits"] or {}))._asdict(),
            "scope": None,
            "from_state": spec["from_state"],
            "started_in": [],
            "skip_permissions": self._options.skip_permissions,
            "run_id": spec["run"],
        }
        scope = list(loop.scope)
        return {"folder": folder, "scope": scope, "request": request, "worker": self._name}

    @activity.defn(name=names.PERFORM)
    async def perform(self, order: dict[str, Any]) -> dict[str, Any]:
        """Carry out an order in the process that holds the run."""
        seat = self._seats.get(order["run"])
        if seat is None or seat.claim != order["claim"]:
            raise ApplicationError(f"worker `{self._name}` does not hold it", type=names.LOST)
        async with self._beating(), self._slots:
            try:
                answer = await seat.ask(order)
            except SeatEnded:
                await self._drop(order["run"])
                raise ApplicationError("the run's process ended", type=names.LOST) from None
            except asyncio.CancelledError:
                # Temporal has given this worker up, so another one may be at work already.
                await asyncio.shield(self._drop(order["run"]))
                raise
        if "lost" in answer:
            await self._drop(order["run"])
        return self._cannot(answer)

    @activity.defn(name=names.INTERRUPT)
    async def interrupt(self, order: dict[str, Any]) -> None:
        """Stop the action of a run."""
        seat = self._seats.get(order["run"])
        if seat is not None and seat.claim == order["claim"]:
            seat.interrupt(order["signal"])

    @activity.defn(name=names.RELEASE)
    async def release(self, order: dict[str, Any]) -> None:
        """Forget a run, unless it was claimed here again; if it is over, remove its workspace."""
        seat = self._seats.get(order["run"])
        if seat is not None and seat.claim <= order["claim"]:
            await self._drop(order["run"])
        if order["is_over"] and order["run"] not in self._seats:
            folder = self._folder(order["run"])
            store = store_at(_root(folder, order["prefix"]))
            for path in (folder, store):
                await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)

    async def _drop(self, run: str) -> None:
        """End the process of a run, if there is one."""
        seat = self._seats.pop(run, None)
        if seat is not None:
            await seat.close()

    @asynccontextmanager
    async def _beating(self) -> AsyncIterator[None]:
        """Send heartbeats meanwhile."""

        async def beat() -> None:
            while True:
                activity.heartbeat()
                await asyncio.sleep(self._options.heartbeat_s / 3)

        beats = asyncio.create_task(beat())
        try:
            yield
        finally:
            beats.cancel()

    async def close(self) -> None:
        for run in list(self._seats):
            await self._drop(run)


def _root(folder: str, prefix: str) -> str:
    """Return the project in the clone of a workspace."""
    return os.path.join(folder, "clone", prefix).rstrip("/")


async def serve(
    client: Client, options: WorkerOptions, environ: Mapping[str, str], stop: asyncio.Event
) -> None:
    """Claim runs and carry them out until `stop`; then end the processes of those held here.

    The name is held until these have ended, so that no other worker gets a run whose old process
    still writes to its workspace.
    """
    name, lock = own_name(options.folder)
    about = "; ".join(filter(None, (f"ll-loop {__version__}", ", ".join(options.labels))))
    identity = f"{name} ({about})"
    activities = Activities(name, options, environ)
    beat = timedelta(seconds=options.heartbeat_s / 3)

    def worker(queue: str, *offered: Any) -> Worker:
        return Worker(
            client,
            task_queue=queue,
            activities=offered,
            identity=identity,
            max_concurrent_activities=MOST_ACTIVITIES,
            max_concurrent_activity_task_polls=1,
            max_heartbeat_throttle_interval=beat,
            default_heartbeat_throttle_interval=beat,
        )

    workers = [
        Worker(
            client,
            task_queue=names.RUNS_QUEUE,
            workflows=[RunWorkflow, ChildWorkflow, ScopesWorkflow],
            workflow_runner=UnsandboxedWorkflowRunner(),
            sticky_queue_schedule_to_start_timeout=STICKY,
            max_concurrent_workflow_task_polls=2,
            identity=identity,
        ),
        worker(names.private_queue(name), activities.prepare, activities.perform),
        worker(names.control_queue(name), activities.interrupt, activities.release),
        *(worker(queue, activities.claim) for queue in names.claim_queues(options.labels)),
    ]
    async with AsyncExitStack() as stack:
        stack.callback(os.close, lock)
        stack.push_async_callback(activities.close)
        for each in workers:
            await stack.enter_async_context(each)
        print_ready(name)
        await stop.wait()


def own_name(folder: str) -> tuple[str, int]:
    """Return a name for this worker, and a descriptor that keeps others from using it. A worker that
    is started again has the same name, and finds the workspaces of paused runs."""
    for number in range(1, 1000):
        name = f"{socket.gethostname()}-{number}"
        os.makedirs(os.path.join(folder, name), mode=0o700, exist_ok=True)
        lock = os.open(
            os.path.join(folder, f"{name}.lock"), os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o600
        )
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        return name, lock
    raise UsageError(f"too many workers use `{folder}`")


def print_ready(name: str) -> None:
    sys.stdout.write(f"worker {name} is ready\n")
    sys.stdout.flush()


async def work(address: str, options: WorkerOptions) -> None:
    """Connect, and work until SIGTERM or SIGINT. Raises `UsageError`, `FleetError`."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stop.set)
    await serve(await connected(Address.of(address)), options, os.environ, stop)


def patterns_of(words: Sequence[str]) -> tuple[str, ...]:
    """Return the patterns of `--repos`, which may be separated by commas."""
    return tuple(part for word in words for part in word.split(",") if part)


def labels_of(words: Sequence[str]) -> tuple[str, ...]:
    """Return the labels of `--labels`, which may be separated by commas. Raises `UsageError`."""
    labels = tuple(dict.fromkeys(patterns_of(words)))
    if wrong := [label for label in labels if re.fullmatch(LABEL, label) is None]:
        raise UsageError(
            f"`{wrong[0]}` is not a label", "use letters, digits, dots, dashes and underscores"
        )
    if len(labels) > MOST_LABELS:
        raise UsageError(f"a worker can have at most {MOST_LABELS} labels")
    return labels
