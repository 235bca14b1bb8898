"""Run the program of an action: its environment, its time limit, a stop, and the notes it leaves.

This is common to shell actions, agents and built-in actions; each has a module of its own.

Not here: storing the output (`action_output`), processes themselves (`system.process`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache

from little_loops.fsm.commands import Job
from little_loops.fsm.signals import SIGNALS
from little_loops.fsm.state import CutBy, LoopState, SignalLine
from little_loops.fsm.variables import SESSION_VARIABLES
from little_loops.light_typing import TYPE_CHECKING, Protocol
from little_loops.records import NamedTuple
from little_loops.reporting.observers import Observer
from little_loops.runs.layout import CONTINUE
from little_loops.system import process
from little_loops.system.files import failure
from little_loops.system.output import Scanner, SignalScanner
from little_loops.system.plain_files import open_plain
from little_loops.system.process_tree import marks_of
from little_loops.system.stops import StopFlag

if TYPE_CHECKING:
    from little_loops.runs.output_files import RunOutput
    from little_loops.system.process_tree import Plan

CONTINUATION_CAP = 8 << 10
EMPTY_NOTES = ("", "Ready for fresh session")
"""Handoff messages without content: the continuation is in a file."""


class OutputSink(Protocol):
    """Receives the output of a program."""

    def stdout(self, chunk: bytes) -> None: ...
    def stderr(self, chunk: bytes) -> None: ...


Redirect = Callable[[Mapping[str, str]], dict[str, str]]


class RunsProgram(Protocol):
    """Runs the program of an action, as `run_program` does."""

    def __call__(
        self,
        at: Workplace,
        job: Job,
        argv: Sequence[str],
        env: Mapping[str, str],
        streams: OutputSink,
        *,
        plan: Plan,
        stdin: bytes | None = None,
        leftovers: Plan | None = None,
    ) -> process.Ended | process.CannotStart: ...


class Workplace(NamedTuple):
    """Where the actions of a run work, their environment, and who observes them."""

    project: str
    run_dir: str
    environ: Mapping[str, str]
    stop: StopFlag | None = None
    onlookers: Observer = Observer()
    output: RunOutput | None = None
    skip_permissions: bool = False
    on_started: Callable[[int], None] | None = None
    scanner: Callable[[], Scanner] = SignalScanner
    kept_open: tuple[int, ...] = ()
    """The descriptors that the action's process inherits."""
    redirect: Redirect = dict
    """Changes variables so that programs use the worktree's files, not the project's."""


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the caller's environment without the variables of an agent session around this
    process."""
    # `LL_DETACHED` marks this run as independent; a run inside an action is not.
    dropped = (*SESSION_VARIABLES, "LL_DETACHED")
    return {name: value for name, value in environ.items() if name not in dropped}


def environment(
    at: Workplace, run: LoopState, job: Job, written: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment of an action: the inherited one, then `written`, which the loop's
    author set, then our own `LL_…` variables, which nothing overrides; in a worktree, redirected to
    it."""
    own = {
        **marks_of(run.run, job.step, job.attempt),
        "LL_ITERATION": str(job.iteration),
        "LL_ITERATION_LIMIT": str(job.iteration_limit),
        "LL_LOOP": run.loop,
        "LL_RUN_DIR": at.run_dir,
        "LL_PYTHON": sys.executable,
    }
    if job.continuation:
        own["LL_CONTINUATION"] = job.continuation
    return at.redirect({**at.environ, **written, **own})


def run_program(
    at: Workplace,
    job: Job,
    argv: Sequence[str],
    env: Mapping[str, str],
    streams: OutputSink,
    *,
    plan: Plan,
    stdin: bytes | None = None,
    leftovers: Plan | None = None,
) -> process.Ended | process.CannotStart:
    """Run a program in the project, or in `job.cwd` below it, until it exits or the job's limits or
    a stop end it with the signals in `plan`; those in `leftovers` end what it left running.

    Returns `CannotStart` instead of raising it. Raises `StorageError` if its output cannot be
    stored.
    """
    try:
        return process.run(
            argv,
            env=env,
            cwd=at.project if job.cwd is None else os.path.join(at.project, job.cwd),
            stdin=stdin,
            stdout=streams.stdout,
            stderr=streams.stderr,
            deadline_s=None if job.deadline_ms is None else job.deadline_ms / 1000,
            stop=at.stop,
            stop_plan=plan,
            on_started=at.on_started,
            tick=at.onlookers.tick,
            idle_s=job.idle_s,
            leftovers=leftovers,
            kept_open=at.kept_open,
        )
    except process.CannotStart as problem:
        return problem
    except OSError as error:  # probably the disk is full
        raise failure(error, "write", at.run_dir) from error


def cut_by(job: Job, ended: process.Ended | process.CannotStart) -> CutBy:
    if isinstance(ended, process.CannotStart) or ended.cut_by == "none":
        return "none"
    return job.deadline_of if ended.cut_by == "deadline" else ended.cut_by


def write_file(at: Workplace, name: str, text: str) -> None:
    """Write a file into the run's directory, replacing whatever an action put in its place, even a
    link.

    Raises `StorageError`.
    """
    path = os.path.join(at.run_dir, name)
    try:
        with suppress(FileNotFoundError):
            os.unlink(path)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="utf-8", errors="replace") as stream:
            stream.write(text)
    except OSError as error:
        raise failure(error, "write", path) from error


# ── notes for the next session ─────────────────────────────────────────────────────────────────

Stamp = tuple[int, int]


class ParsedSignal(NamedTuple):
    """A signal line, and a warning if its notes could not be read."""

    line: SignalLine | None = None
    warnings: tuple[str, ...] = ()


class Notes(NamedTuple):
    """The files in which an action may leave notes, and their stamps from before it started."""

    before: Mapping[str, Stamp | None]

    def signal_line(self, marker: str, payload: str) -> ParsedSignal:
        """Return the signal line of a marker such as `CONTEXT_HANDOFF`. A handoff without content
        gets the notes that the action wrote to a file, if any."""
        kind = SIGNALS.get(marker, marker)
        if kind != "handoff" or payload not in EMPTY_NOTES:
            return ParsedSignal(SignalLine(kind, payload))
        written, warnings = self._written()
        return ParsedSignal(SignalLine(kind, written or payload), warnings)

    def _written(self) -> tuple[str | None, tuple[str, ...]]:
        """Return the notes from the first file that changed while the action ran, or None, and a
        warning for each such file that cannot be read."""
        warnings: list[str] = []
        for path, before in self.before.items():
            if _stamp(path) not in (None, before):
                try:
                    return _read(path), tuple(warnings)
                except OSError as error:
                    warnings.append(f"the notes in `{path}` cannot be read: {error.strerror}")
        return None, tuple(warnings)


def hand_over(at: Workplace, continuation: str | None) -> Notes:
    """Write the notes of the previous session to a file for the action, if there are any.

    Returns the files in which the action may leave notes itself, with their stamps from before.
    """
    if continuation:
        write_file(at, CONTINUE, continuation + "\n")
    return Notes({path: _stamp(path) for path in _note_files(at.run_dir, at.project)})


@cache
def _note_files(run_dir: str, project: str) -> tuple[str, ...]:
    """Return the files in which an action may leave notes, in order of precedence."""
    return (
        os.path.join(run_dir, CONTINUE),
        os.path.join(project, ".claude", "ll-continue-prompt.md"),
    )


def _stamp(path: str) -> Stamp | None:
    """Return what changes if a file is written or replaced; None if there is none. Links are not
    followed."""
    if not os.access(path, os.F_OK):  # most often, and an exception takes five times as long
        return None
    try:
        seen = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return seen.st_mtime_ns, seen.st_ino


def _read(path: str) -> str:
    descriptor = open_plain(path, os.O_RDONLY | os.O_NOFOLLOW)
    with open(descriptor, "rb") as stream:
        return stream.read(CONTINUATION_CAP).decode("utf-8", "replace").strip()
