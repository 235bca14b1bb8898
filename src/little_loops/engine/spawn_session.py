"""Start the session that continues a run after a handoff: detached, few turns, one command.

The session's only task is to run `ll-loop resume NAME --background`; exactly that command is
allowed, so it needs no skipped permissions. The claim of the resumed run shows whether it worked,
not the session's exit code.

Not here: when a session is started (`machine`), saving the run's state and releasing its claim
first (`lifecycle`).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from uuid import uuid4

from little_loops.errors import ProgramError
from little_loops.fsm.schema import HostOptions
from little_loops.fsm.spending import SESSION_USD
from little_loops.fsm.timestamps import timestamp
from little_loops.hosts.base import Request, environment, host_named
from little_loops.hosts.programs import find_program
from little_loops.light_typing import Any
from little_loops.runs.folders import make_folder
from little_loops.runs.layout import SPAWN, RunFiles
from little_loops.system.clock import wall_ms
from little_loops.system.detached import own_environment
from little_loops.system.files import Folder, to_json
from little_loops.system.own_command import path_with_own_command
from little_loops.system.process_table import SYSTEM

TURNS = 5
LOG = "spawn.log"
NOTES = "continue.md"


class Spawner:
    """Starts continuations of one run; pass `start` to a `HandoffHandler`.

    `seq` is the run's last event: a later one shows that the run has been resumed. `most_usd` is
    what the session may cost. `kept_open` are descriptors that it inherits.
    """

    def __init__(
        self,
        files: RunFiles,
        options: HostOptions,
        environ: Mapping[str, str],
        seq: int,
        kept_open: tuple[int, ...] = (),
        most_usd: float = SESSION_USD,
    ) -> None:
        self.files = files
        self.options = options
        self.environ = environ
        self.seq = seq
        self.kept_open = kept_open
        self.most_usd = most_usd

    def start(self, name: str, continuation: str | None) -> subprocess.Popen[str]:
        """Start a detached session that resumes the run `name`, and return its process.

        The continuation and the session's log go into the run's directory, and a file beside it
        names the session. Raises `ProgramError` if its program cannot start.
        """
        command = f"ll-loop resume {name} --background"
        request = self._request(command, has_notes=bool(continuation))
        launch = host_named(self.options.host).build(request)
        argv = (self._program(launch.argv[0]), *launch.argv[1:])
        with make_folder(self.files.root, *self._folder()) as data:
            environ = environment(launch, self._environ(data))
            if continuation:
                text = f"{continuation}\n".encode("utf-8", "replace")
                data.replace(NOTES, text, f".{NOTES}.{os.urandom(8).hex()}")
            log = data.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            try:
                child = self._start(argv, environ, log)
            finally:
                os.close(log)
        assert child.stdin is not None, "it is a pipe"
        with suppress(BrokenPipeError), child.stdin:  # how it ends does not matter here
            child.stdin.write(launch.stdin.decode())
        self._note(child.pid, request.session_id)
        return child

    def _request(self, command: str, *, has_notes: bool) -> Request:
        """Return the request for a session that runs only this command; turns, cost and tools are
        limited for Claude alone."""
        notes = f"\n\n{os.path.join(self.files.data, NOTES)}" if has_notes else ""
        claude = self.options.host == "claude"
        return Request(
            action=f"Continue loop execution. Run: {command}{notes}",
            kind="prompt",
            cwd=self.files.root,
            session_id=str(uuid4()),
            model=self.options.model,
            permission_mode="dontAsk" if claude else self.options.permission_mode,
            allow=(f"Bash({command})",) if claude else (),
            max_turns=TURNS if claude else None,
            max_cost_usd=self.most_usd if claude else None,
            args=("--tools=Bash", "--strict-mcp-config") if claude else (),
            command=self.options.command or (),
            env=self.options.env or {},
        )

    def _program(self, name: str) -> str:
        """Return the absolute path of a program. Raises `ProgramError` if it cannot run."""
        # Use our own PATH: the session's PATH begins with a directory inside the project.
        program = find_program(name, self.environ.get("PATH"), self.files.root)
        if program.why_not:
            raise self._not_started(program.why_not)
        return program.path

    def _not_started(self, why: str) -> ProgramError:
        help = f"`ll-loop resume {self.files.name}` continues the run by hand"
        return ProgramError(f"cannot start a session to continue the run: {why}", help)

    def _start(
        self, argv: tuple[str, ...], environ: Mapping[str, str], log: int
    ) -> subprocess.Popen[str]:
        """Start the program in a session of its own; all output goes to `log`. Raises
        `ProgramError`."""
        try:
            return subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self.files.root,
                env=environ,
                text=True,
                start_new_session=True,
                pass_fds=self.kept_open,
            )
        except OSError as error:
            raise self._not_started(f"`{argv[0]}`: {error.strerror}") from error

    def _folder(self) -> tuple[str, ...]:
        return (".running", f"{self.files.name}.d")

    def _environ(self, data: Folder) -> dict[str, str]:
        own = own_environment(self.environ)
        return {**own, "PATH": path_with_own_command(data, own.get("PATH"))}

    def _note(self, pid: int, session_id: str) -> None:
        """Write the file that names the session, with the run's last event; it replaces an earlier
        one."""
        born = SYSTEM.look(pid)
        noted: dict[str, Any] = {
            "pid": pid,
            "created": born.created if born else 0.0,
            "boot": SYSTEM.boot(),
            "session_id": session_id,
            "started_at": timestamp(wall_ms()),
            "seq": self.seq,
            "log": os.path.join(self.files.data, LOG),
        }
        with make_folder(self.files.root, ".running") as folder:
            name = self.files.name + SPAWN
            folder.replace(name, to_json(noted) + b"\n", f".{name}.{os.urandom(8).hex()}")
