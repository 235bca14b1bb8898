"""Run one action with real processes: a shell's script, or an agent's turn.

What comes in is a `RunAction` with its values filled in; what goes out is a `Result` and perhaps a
signal line.  Output is kept as it comes (`system.output`), watched by whoever shows it, and scanned
for signals.

Not here: what a verdict means (`verdicts`), how an agent CLI speaks (`hosts`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from signal import SIGTERM
from typing import Any, cast

from little_loops.engine.drive import Acted, ActionResult
from little_loops.engine.resolve import Filled
from little_loops.engine.streams import Streams, kept_output
from little_loops.fsm.commands import RunAction
from little_loops.fsm.schema import ActionType, HostOptions
from little_loops.fsm.signals import SIGNALS
from little_loops.fsm.state import CutBy, FileRef, LoopState, SignalLine
from little_loops.fsm.variables import SESSION_VARIABLES
from little_loops.records import NamedTuple
from little_loops.reporting.observers import Onlooker
from little_loops.runs.layout import CONTINUE
from little_loops.runs.output_files import RunOutput, trim
from little_loops.system import process
from little_loops.system.files import Folder, failure
from little_loops.system.output import Scanner, SignalScanner
from little_loops.system.stops import StopFlag

TRIM_AFTER = 64 << 20
CONTINUATION_CAP = 8 << 10
UNTOLD = ("", "Ready for fresh session")
"""Handoff texts that say nothing: the continuation is in a file, then."""


class Place(NamedTuple):
    """Where a run lives."""

    project: str
    run_dir: str


class ProcessActor:
    """Runs the actions of one run, one at a time."""

    def __init__(
        self,
        place: Place,
        environ: Mapping[str, str],
        *,
        stop: StopFlag | None = None,
        onlookers: Onlooker | None = None,
        output: RunOutput | None = None,
        skip_permissions: bool = False,
        on_started: Callable[[int], None] | None = None,
        scanner: Callable[[], Scanner] = SignalScanner,
    ) -> None:
        self.place = place
        # `LL_DETACHED` marks this run as one on its own feet; a run inside an action is not.
        dropped = (*SESSION_VARIABLES, "LL_DETACHED")
        self.environ = {name: value for name, value in environ.items() if name not in dropped}
        self.stop = stop
        self.onlookers = onlookers or Onlooker()
        self.output = output or _output_in(place.run_dir)
        self.skip_permissions = skip_permissions
        self.on_started = on_started
        self.scanner = scanner
        self._since_trim = TRIM_AFTER  # what earlier processes of this run kept counts too
        self._continuation_files = (
            os.path.join(place.run_dir, CONTINUE),
            os.path.join(place.project, ".claude", "ll-continue-prompt.md"),
        )
        self._before: dict[str, tuple[int, int] | None] = {}

    def act(self, run: LoopState, command: RunAction, filled: Filled) -> Acted:
        acted = self._act(run, command, filled)
        files = (acted.result.output_file, acted.result.stderr_file)
        self._since_trim += sum(file.size for file in files if file is not None)
        if self._since_trim > TRIM_AFTER:
            self._since_trim = 0
            trim(self.place.run_dir)
        return acted

    def _act(self, run: LoopState, command: RunAction, filled: Filled) -> Acted:
        self._hand_over(command.continuation)
        env = {**self.environ, **filled.env, **self._own_variables(run, command)}
        if command.kind == "shell":
            return self._shell(command, filled.text, env)
        from little_loops.engine.agent_actions import run_agent  # only agents pay for hosts

        return run_agent(self, command, filled.text, env)

    def _hand_over(self, continuation: str | None) -> None:
        """Lay the notes of the session before ready, and remember what is there already."""
        if continuation:
            self.write_file(CONTINUE, continuation + "\n")
        self._before = {path: _stamp(path) for path in self._continuation_files}

    def _own_variables(self, run: LoopState, command: RunAction) -> dict[str, str]:
        own = {
            "LL_RUN_ID": run.run,
            "LL_STEP_ID": f"{run.run}/{command.step}",
            "LL_ATTEMPT": str(command.attempt),
            "LL_ITERATION": str(command.iteration),
            "LL_ITERATION_LIMIT": str(command.iteration_limit),
            "LL_LOOP": run.loop,
            "LL_RUN_DIR": self.place.run_dir,
            "LL_PYTHON": sys.executable,
        }
        if command.continuation:
            own["LL_CONTINUATION"] = command.continuation
        return own

    def _shell(self, command: RunAction, script: str, env: Mapping[str, str]) -> Acted:
        scanner = self.scanner()
        streams = self.streams(command, scanner.feed)
        plan = ((SIGTERM, command.kill_grace_s),)
        ended = self.run([command.shell, "-c", script], command, env, streams, plan=plan)
        result = streams.result(ended, self.cut_by(command, ended))
        found = scanner.found
        return Acted(result, None if found is None else self.signal_line(found.kind, found.payload))

    def streams(
        self, command: RunAction, listen: Callable[[bytes], None], *, is_agent: bool = False
    ) -> Streams:
        output = self.output.action(command.step, command.attempt)
        return Streams(output, listen, self.onlookers, is_agent=is_agent)

    def kept(self, command: RunAction, text: str) -> dict[str, Any]:
        """The fields of a result that say where an agent's answer is."""
        raw = text.encode("utf-8", "replace")
        return kept_output(self.output.keep(command.step, command.attempt, raw, "text"))

    def run(
        self,
        argv: list[str],
        command: RunAction,
        env: Mapping[str, str],
        streams: Streams,
        *,
        plan: Any,
        stdin: bytes | None = None,
    ) -> process.Ended | process.CannotStart:
        deadline_s = None if command.deadline_ms is None else command.deadline_ms / 1000
        try:
            return process.run(
                argv,
                env=env,
                cwd=os.path.join(self.place.project, command.cwd or ""),
                stdin=stdin,
                stdout=streams.stdout,
                stderr=streams.stderr,
                deadline_s=deadline_s,
                stop=self.stop,
                stop_plan=plan,
                on_started=self.on_started,
                tick=self.onlookers.tick,
            )
        except process.CannotStart as problem:
            return problem
        except OSError as error:  # the disk is full, most likely
            raise failure(error, "write", self.place.run_dir) from error

    def cut_by(self, command: RunAction, ended: process.Ended | process.CannotStart) -> CutBy:
        if isinstance(ended, process.CannotStart) or ended.cut_by == "none":
            return "none"
        return "stop" if ended.cut_by == "stop" else command.deadline_of

    def signal_line(self, marker: str, payload: str) -> SignalLine:
        kind = SIGNALS.get(marker, marker)
        if kind == "handoff" and payload in UNTOLD:
            payload = self._written_continuation() or payload
        return SignalLine(kind, payload)

    def _written_continuation(self) -> str | None:
        """What the action wrote for its successor, if it did so while it ran."""
        for path in self._continuation_files:
            if _stamp(path) not in (None, self._before[path]):
                with suppress(OSError):
                    return _read_continuation(path)
        return None

    def write_file(self, name: str, text: str) -> None:
        path = os.path.join(self.place.run_dir, name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(path, flags, 0o600), "w", encoding="utf-8", errors="replace") as stream:
            stream.write(text)


def _output_in(directory: str) -> RunOutput:
    folder = Folder.at(directory)
    assert folder is not None, "a run has its directory"
    return RunOutput(folder)


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        seen = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return seen.st_mtime_ns, seen.st_ino


def _read_continuation(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "rb") as stream:
        return stream.read(CONTINUATION_CAP).decode("utf-8", "replace").strip()


def run_simply(
    action: str, timeout_s: float | None, action_type: str, env: Mapping[str, str]
) -> ActionResult:
    """One action without a run around it."""
    import tempfile  # the library's default runner only

    with tempfile.TemporaryDirectory(prefix="ll-") as directory:
        actor = ProcessActor(Place(os.getcwd(), directory), os.environ)
        command = RunAction(
            state="action",
            step=1,
            attempt=1,
            iteration=1,
            kind=cast(ActionType, action_type),
            action=action,
            context={},
            env={},
            cwd=None,
            shell="sh",
            kill_grace_s=5.0,
            deadline_ms=None if timeout_s is None else round(timeout_s * 1000),
            deadline_of="action",
            host=HostOptions(),
        )
        run = LoopState("in-memory", "action", "action", "", "")
        result = actor.act(run, command, Filled(action, dict(env))).result
        if result.failure is not None:
            return ActionResult(127, "", result.failure, 0)
        out = _whole(directory, result.output, result.output_file)
        err = _whole(directory, result.stderr, result.stderr_file)
        code = 128 + result.signal if result.signal is not None else result.exit_code
        timed_out = result.cut_by == "action"
        return ActionResult(-1 if code is None else code, out, err, result.duration_ms, timed_out)


def _whole(directory: str, text: str | None, file: FileRef | None) -> str:
    if file is None:
        return text or ""
    with open(os.path.join(directory, file.path), "rb") as stream:
        return stream.read().decode("utf-8", "replace")
