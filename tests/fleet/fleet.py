"""A fleet for tests: a real Temporal server, workers as processes of their own, a bare repository."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from little_loops.fleet.address import Address
from little_loops.fleet.runtime import FleetRuntime, StartingPoint
from tests.project import SOURCE, Project, until

TEMPORAL = shutil.which("temporal", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
HEARTBEAT_S = 2.0
SECRET = "correct-horse-battery"
EVENTS = 60
"""So few that most runs continue in another workflow execution."""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


class Server:
    """A development server whose data survives a restart."""

    def __init__(self, folder: Path, events: int = EVENTS) -> None:
        """`events` is how long a history gets before its run continues in another one."""
        assert TEMPORAL, "the program `temporal` is missing; `make fleet` installs it"
        self.port = free_port()
        self._folder = folder
        self._events = events
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        assert TEMPORAL
        log = (self._folder / "server.log").open("ab")
        self._process = subprocess.Popen(
            [
                *(TEMPORAL, "server", "start-dev", "--headless", "--log-level", "error"),
                *("--namespace", "careful", "--ip", "127.0.0.1", "--port", str(self.port)),
                *("--db-filename", str(self._folder / "temporal.db")),
                *(
                    "--dynamic-config-value",
                    f"limit.historyCount.suggestContinueAsNew={self._events}",
                ),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "HOME": str(self._folder)},
            start_new_session=True,
        )
        log.close()
        until(self._answers, "server")

    def _answers(self) -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", self.port)) == 0

    @property
    def address(self) -> Address:
        return Address(f"127.0.0.1:{self.port}")

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(30)


class FleetWorker:
    """A worker, as a process of its own."""

    def __init__(
        self, server: Server, folder: Path, environ: Mapping[str, str], *words: str
    ) -> None:
        self.log = folder / f"worker-{os.urandom(3).hex()}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.fleet.run_worker"),
                    *(server.address.target, str(folder / "work"), *words),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(environ),
                cwd=Path(__file__).parent.parent.parent,
                start_new_session=True,
            )

    def ready(self) -> None:
        until(lambda: b"is ready" in self.log.read_bytes() or self.process.poll(), "worker")
        assert self.process.poll() is None, self.log.read_text()

    @property
    def name(self) -> str:
        return self.log.read_text().split()[1]

    def send(self, signum: signal.Signals) -> None:
        self.process.send_signal(signum)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait(30)


class Fleet:
    """A server, two workers, and projects with a bare repository each."""

    def __init__(
        self, folder: Path, heartbeat_s: float = HEARTBEAT_S, events: int = EVENTS
    ) -> None:
        self.folder = folder
        self._heartbeat_s = heartbeat_s
        self.home = folder / "home"
        self.bin = self.home / "bin"
        self.bin.mkdir(parents=True)
        self.server = Server(folder, events)
        self.workers = [self.worker(), self.worker()]
        for each in self.workers:
            each.ready()

    @property
    def at(self) -> str:
        return f"temporal://{self.server.address.target}"

    def environ(self) -> dict[str, str]:
        kept = ("LANG", "LC_ALL", "TMPDIR")
        return {
            **{name: os.environ[name] for name in kept if name in os.environ},
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "PYTHONPATH": SOURCE,
            "DEPLOY_TOKEN": SECRET,
            "IS_SANDBOX": "1",
            "TERM": "dumb",
        }

    def worker(self, *labels: str) -> FleetWorker:
        heartbeat = str(self._heartbeat_s)
        return FleetWorker(self.server, self.folder, self.environ(), heartbeat, *labels)

    def runtime(self, project: Project) -> FleetRuntime:
        """Return the runtime for a project whose work is committed; its remote is a bare
        repository."""
        bare = project.root.parent / "bare.git"
        project.git("clone", "-q", "--bare", str(project.root), str(bare))
        project.git("remote", "add", "origin", str(bare))
        commit = project.git("rev-parse", "HEAD")
        return FleetRuntime(self.server.address, StartingPoint(str(bare), commit))

    def play(self, project: Project) -> None:
        """Have workers use the stand-in for `claude` of a project."""
        (self.bin / "claude").unlink(missing_ok=True)
        (self.bin / "claude").symlink_to(project.home / "bin" / "claude")

    def close(self) -> None:
        for each in self.workers:
            each.end()
        self.server.kill()


@contextmanager
def labelled(fleet: Fleet, *labels: str) -> Iterator[FleetWorker]:
    """Another worker of the fleet, with these labels."""
    worker = fleet.worker(*labels)
    fleet.workers.append(worker)
    try:
        worker.ready()
        yield worker
    finally:
        fleet.workers.remove(worker)
        worker.end()
