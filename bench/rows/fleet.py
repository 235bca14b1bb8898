"""What a fleet adds to an activity that only runs a command, and how soon it notices a lost worker
and a stop."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from bench.model import (
    ROOT,
    Candidate,
    Command,
    Gauge,
    Missing,
    NotMeasured,
    Question,
    Reading,
    Row,
    Setting,
)
from bench.processes import awaited, with_root

if TYPE_CHECKING:
    from little_loops.fleet.runtime import FleetRuntime

NUMBER = 22
FILES = 1_400
FEW = 2
SLOW = """\
name: slow
initial: work
states:
  work: {{action: "echo begun >> {out}; sleep 600", next: done}}
  done: {{terminal: true}}
"""
CHANGE = "echo more >> src/f7.txt"
BY_HAND = f"{CHANGE}; git add -A && git commit -qm x && git push -q origin HEAD:refs/heads/bare"


class Fleet(NamedTuple):
    """A server that listens at `target`, and the workers of the row."""

    target: str
    workers: list[subprocess.Popen[bytes]]


def rows(setting: Setting) -> list[Question]:
    many = setting.by_scale(quick=12, normal=42, full=102)
    port = free_port()
    compared = [
        against_an_activity(
            setting, port, many, "an action that changes nothing", "true", "true", 1
        ),
        against_an_activity(
            setting,
            port,
            many,
            f"an action that changes 1 of {FILES:,} files",
            CHANGE,
            BY_HAND,
            FILES,
        ),
    ]
    return [*compared, *gauges(setting, port)]


def against_an_activity(
    setting: Setting, port: int, many: int, name: str, action: str, by_hand: str, files: int
) -> Row:
    slug = f"fleet-{files}"
    project = setting.project(slug, {f"n{n}": chain(f"n{n}", n, action) for n in (FEW, many)})
    client = (setting.python, "-m", "bench.fleet_client", f"127.0.0.1:{port}", project)

    def bare(times: int) -> Command:
        return Command((*client, str(times), by_hand), ROOT)

    def ours(times: int) -> Command:
        return Command((*client, f"n{times}"), ROOT)

    steps = many - FEW
    return Row(
        NUMBER,
        f"fleet: {name}",
        Candidate("bare activity", bare(many), bare(FEW), steps),
        Candidate("ours", ours(many), ours(FEW), steps),
        bar=1.3,
        beyond=1.1,
        judged=("wall",),
        repeats=setting.by_scale(quick=2, normal=7, full=15),
        during=partial(of_one_worker, setting, port, project, files),
        comparable=False,
    )


def gauges(setting: Setting, port: int) -> list[Question]:
    project = setting.project("fleet-slow", {})
    readings = (
        ("a lost worker's run is claimed by another", 5, 3.5, claimed_after),
        ("stop of an action", 3, 2, stopped_after),
    )
    return [
        Gauge(
            NUMBER,
            f"fleet: {name}",
            "s",
            Reading("ours", partial(take, setting, port, project)),
            bar=bar,
            beyond=beyond,
            repeats=setting.by_scale(quick=1, normal=5, full=10),
        )
        for name, bar, beyond, take in readings
    ]


def chain(name: str, length: int, action: str) -> str:
    """A loop of states in a row, each with the same action."""
    names = [*(f"s{n}" for n in range(length)), "done"]
    states = [f'  {each}: {{action: "{action}", next: {after}}}' for each, after in pairwise(names)]
    return "\n".join(
        [f"name: {name}", "initial: s0", "states:", *states, "  done: {terminal: true}", ""]
    )


# ── a fleet ────────────────────────────────────────────────────────────────────────────────────


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@contextmanager
def of_one_worker(setting: Setting, port: int, project: str, files: int) -> Iterator[None]:
    with repository(setting, project, files), fleet(setting, port, 1):
        yield


@contextmanager
def fleet(setting: Setting, port: int, workers: int) -> Iterator[Fleet]:
    """A development server, and workers. Raises `NotMeasured`."""
    try:
        import temporalio  # noqa: F401
    except ImportError:
        raise Missing("the extra `temporal` is missing") from None
    program = shutil.which(
        "temporal", path=f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    )
    if program is None:
        raise Missing("the program `temporal` is missing; `make fleet` installs it")
    words = ("server", "start-dev", "--headless", "--log-level", "error", "--ip", "127.0.0.1")
    data = os.path.join(setting.place, "temporal.db")
    serving = started(setting, program, *words, "--port", str(port), "--db-filename", data)
    begun = [serving]
    try:
        awaited("the server", partial(answers, port))
        target = f"127.0.0.1:{port}"
        begun += [worker(setting, target) for _ in range(workers)]
        yield Fleet(target, begun[1:])
    finally:
        for each in reversed(begun):
            each.terminate()
            each.wait()
        os.remove(data)


def started(setting: Setting, *argv: str, log: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        argv,
        env=with_root(setting),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def worker(setting: Setting, target: str) -> subprocess.Popen[bytes]:
    folder = os.path.join(setting.place, "work")  # one for all: it gives each its name
    words = (setting.python, "-m", "bench.fleet_worker", target, folder)
    child = started(setting, *words, log=subprocess.PIPE)
    assert child.stdout is not None, "it is a pipe"
    if not child.stdout.readline():
        raise NotMeasured("a worker did not start")
    return child


def answers(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def repository(setting: Setting, project: str, files: int) -> Iterator[None]:
    """Commit a project with so many files, and have a bare repository of it beside it."""

    def git(*words: str) -> str:
        who = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")
        argv = ["git", *who, *words]
        done = subprocess.run(
            argv, cwd=project, env=setting.environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise NotMeasured(f"git {words[0]}: {done.stderr.strip()}")
        return done.stdout

    os.makedirs(f"{project}/src", exist_ok=True)
    for number in range(files):
        with open(f"{project}/src/f{number}.txt", "w") as file:
            file.write(f"{number}\n" * 50)
    git("init", "-q", "-b", "main")
    git("config", "user.name", "bench")
    git("config", "user.email", "bench@localhost")
    git("add", "-A")
    git("commit", "-qm", "start")
    git("clone", "-q", "--bare", ".", f"{project}.git")
    git("remote", "add", "origin", f"{project}.git")
    with open(f"{project}.commit", "w") as file:
        file.write(git("rev-parse", "HEAD"))
    try:
        yield
    finally:
        shutil.rmtree(f"{project}/.git")
        shutil.rmtree(f"{project}.git")


# ── a lost worker, and a stop ──────────────────────────────────────────────────────────────────


@contextmanager
def a_slow_action(
    setting: Setting, port: int, project: str
) -> Iterator[tuple[Fleet, FleetRuntime]]:
    """A run in the middle of an action, on one of two workers."""
    out = f"{project}.out"
    with open(f"{project}/.loops/slow.yaml", "w") as file:
        file.write(SLOW.format(out=out))
    with repository(setting, project, 1), fleet(setting, port, 2) as it:
        from bench.fleet_client import source_of  # Temporal may be missing
        from little_loops.definitions.loading import load_loop
        from little_loops.fleet.address import Address
        from little_loops.fleet.runtime import FleetRuntime

        with closing(FleetRuntime(Address(it.target), source_of(project))) as runtime:
            runtime.start(load_loop("slow", project).loop)
            awaited("the action", partial(os.path.exists, out))
            yield it, runtime
            runtime.stop("slow")
    os.remove(out)


def claimed_after(setting: Setting, port: int, project: str) -> float:
    """From the kill of a worker until another one has the run, as the run reports it."""
    with a_slow_action(setting, port, project) as (it, runtime):
        before = (runtime.details("slow") or {})["claim"]
        holder = it.workers[0] if is_held_by(it.workers[0]) else it.workers[1]
        began = time.monotonic()
        holder.send_signal(signal.SIGKILL)
        awaited("another claim", lambda: has_claimed(runtime, before))
        return time.monotonic() - began


def is_held_by(worker: subprocess.Popen[bytes]) -> bool:
    """Return whether a worker has a run, which has a process of its own."""
    with open(f"/proc/{worker.pid}/task/{worker.pid}/children") as file:
        return bool(file.read().split())


def has_claimed(runtime: FleetRuntime, before: int) -> bool:
    details = runtime.details("slow") or {}
    return bool(details["claim"] > before and details["worker"])


def stopped_after(setting: Setting, port: int, project: str) -> float:
    """From `stop` until the run has ended, as interrupted."""
    with a_slow_action(setting, port, project) as (_, runtime):
        began = time.monotonic()
        runtime.stop("slow")
        return time.monotonic() - began
