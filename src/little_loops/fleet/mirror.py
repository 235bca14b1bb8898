"""Runs of a fleet as files, for the commands that show runs.

A mirror is a directory that looks like a project with these runs. The claims of running ones are
held by this process, so that they count as running; with `follow`, their files grow as their events
arrive.

Not here: asking the fleet (`runtime`), showing anything (`cli`).
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from little_loops.fleet.outputs import Played
from little_loops.fleet.runtime import FleetRuntime
from little_loops.fsm.codec import to_record
from little_loops.fsm.events import Entry
from little_loops.fsm.limits import iterations_allowed
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import UNFINISHED, LoopState
from little_loops.light_typing import Any
from little_loops.reporting.lines import PlainLines
from little_loops.reporting.masking import Masker
from little_loops.reporting.reporter import Reporter
from little_loops.runs import storage
from little_loops.runs.claims import Claim, Ticket, claim, wait_elsewhere
from little_loops.runs.history import archive
from little_loops.runs.holders import this_process, to_bytes
from little_loops.runs.layout import RunFiles
from little_loops.runs.playback import show
from little_loops.runs.storage import RunWriter
from little_loops.runs.stored_run import find
from little_loops.system.user_state import cache_home

POLL_S = 0.2
LOOPS = ".loops"


class Mirror:
    """The runs of one repository on a fleet, as the files of a project."""

    def __init__(self, root: str, runtime: FleetRuntime, *, printed: bool) -> None:
        """With `printed`, the whole outputs of actions are among the files."""
        self.root = root
        self._printed = printed
        self._runtime = runtime
        self._live: list[LiveRun] = []
        self._waiting: dict[str, Ticket] = {}
        self.past: dict[RunFiles, str] = {}
        """The runs that are over, by their files."""

    def add(self, details: Mapping[str, Any]) -> None:
        """Write the files of a run."""
        name = details["name"]
        loop, run = self._runtime.state(name, details["execution"])
        entries = self._runtime.events(name, part=details["execution"])
        if run is None:
            holder = this_process(name, (), details["run"], loop=loop.name, started_at="")
            self._waiting[name] = wait_elsewhere(self.root, holder._replace(pid=0))
            return
        files = RunFiles(self.root, name)
        storage.create_start(
            files, {"run": run.run, "loop": loop.to_dict(), "context": dict(run.context)}
        )
        played = self._runtime.played(files.data, loop, self.root)
        written = LiveRun(files, loop, details["worker"], played, printed=self._printed)
        written.write(run, entries, details["files"])
        if details["exit_code"] is None:
            written.hold(run)
            self._live.append(written)
        elif run.status not in UNFINISHED:
            past = archive(self.root, name)
            if past is not None:
                self.past[past] = run.run

    def follow(self) -> None:
        """Keep the files of running runs up to date, in a thread."""
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        while self._live or self._waiting:
            time.sleep(POLL_S)
            for name in list(self._waiting):
                self._begin(name)
            for each in list(self._live):
                if each.update(self._runtime):
                    self._live.remove(each)

    def _begin(self, name: str) -> None:
        """Add a run that a worker has claimed meanwhile."""
        details = self._runtime.details(name)
        if details is not None and self._runtime.state(name)[1] is not None:
            self.add(details)
            self._waiting.pop(name).leave_queue()


class LiveRun:
    """The files of one run in a mirror."""

    def __init__(
        self, files: RunFiles, loop: FSMLoop, worker: str | None, played: Played, *, printed: bool
    ) -> None:
        self._root = files.root
        self._name = files.name
        self._loop = loop
        self._played = played
        self._printed = printed
        self._worker = worker or ""
        self._seq = 0
        self._claim: Claim | None = None
        self._writer: RunWriter | None = None
        self._reporter: Reporter | None = None

    def write(self, run: LoopState, entries: Sequence[Entry], key: str | None) -> None:
        """Write all files of the run as it is now; `key` is that of its outputs."""
        if self._printed:
            self._played.bring(entries, lambda: key)
        files = RunFiles(self._root, self._name)
        storage.plant(files, map(to_record, entries), run, None, "")
        self._report(run, entries)

    def _report(self, run: LoopState, entries: Sequence[Entry]) -> None:
        """Append the lines of some events to the log for people."""
        if self._reporter is None:
            lines = PlainLines(self._loop.name, iterations_allowed(self._loop, run), commands=True)
            self._reporter = Reporter(self._log, lines, Masker({}), output=True)
        show(self._played.items(entries), self._reporter)
        self._seq = entries[-1].seq if entries else self._seq

    def _log(self, text: str) -> None:
        with open(RunFiles(self._root, self._name).log, "a", encoding="utf-8") as file:
            file.write(text)

    def hold(self, run: LoopState) -> None:
        """Claim the run, in the name of its worker."""
        self._claim = claim(
            self._root, self._name, (), run.run, loop=run.loop, started_at=run.started_at
        )
        holder = self._claim.holder._replace(pid=0, host=self._worker)
        with open(RunFiles(self._root, self._name).pid, "r+b") as file:
            file.truncate()
            file.write(to_bytes(holder))
        stored = find(self._root, self._name)
        self._writer = storage.reopen(self._root, self._name, stored.stamps, has_snapshot=True)

    def update(self, runtime: FleetRuntime) -> bool:
        """Add what has happened since. Return whether the run has ended."""
        details = runtime.details(self._name) or {}
        entries = runtime.events(self._name, self._seq)
        _, run = runtime.state(self._name)
        assert self._writer is not None, "a run is followed while it is held"
        assert self._claim is not None, "a run is followed while it is held"
        if run is not None and entries:
            if self._printed:
                self._played.bring(entries, lambda: runtime.files(self._name))
            self._writer.append(map(to_record, entries))
            self._writer.save(run)
            self._report(run, entries)
        if details.get("exit_code") is None:
            return False
        self._writer.close()
        self._claim.release()
        return True


def new_folder(environ: Mapping[str, str], loops: str) -> str:
    """Return a new directory for a mirror, with links to the loop files in `loops`. Those of
    processes that have ended are removed."""
    parent = os.path.join(cache_home(environ), "fleet", "mirrors")
    os.makedirs(parent, mode=0o700, exist_ok=True)
    for each in os.listdir(parent):
        if not _is_alive(each):
            shutil.rmtree(os.path.join(parent, each), ignore_errors=True)
    root = os.path.join(parent, str(os.getpid()))
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(os.path.join(root, LOOPS))
    with suppress(OSError):
        for name in os.listdir(loops):
            if not name.startswith("."):
                os.symlink(os.path.join(loops, name), os.path.join(root, LOOPS, name))
    return root


def _is_alive(name: str) -> bool:
    try:
        os.kill(int(name), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True
