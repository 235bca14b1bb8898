"""Kill processes of a tree of runs after each of its events, and let a resume finish it.

A shape is a project with loops, and what its actions leave behind. It is run once to learn how many
events each of its logs gets. Then it is run again for each event of each log, up to that event,
where one process or all of them are killed as `kill -9` does it: also between two events that are
written together.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple

import psutil

from little_loops.system.files import WRITE
from tests.project import Project, until
from tests.simulation.command import At, Happens, LineWriters, command

Victims = Literal["itself", "the root", "all"]
LOG = ".events.jsonl"
Check = Callable[[Project], None]


class Shape(NamedTuple):
    """A loop `top` and those it starts; `effects` is what its actions write to `trace`, each once.

    `in_flight` is how many actions may be under way at once: so many may be run twice. `check` looks
    at what else there is when the run is over. `few` is how many points are tried in `make test`.
    """

    name: str
    loops: Mapping[str, str]
    effects: Sequence[str]
    in_flight: int = 1
    is_ordered: bool = True
    status: str = "completed"
    prepare: Check = lambda project: None
    check: Check = lambda project: None
    few: int = 12


class Kill(NamedTuple):
    """After `number` events of a log, the process that writes it is killed, or others are."""

    log: str
    number: int
    victims: Victims


def _log_of(descriptor: int, place: str) -> str | None:
    """The log that is written to: the path of its run below the project; None for other files."""
    path = os.readlink(f"/proc/self/fd/{descriptor}")
    if not path.endswith(LOG) or not path.startswith(place):
        return None
    folders = path.split("/.running/")[-1].split("/")
    return "/".join(["top", *(name for name in folders if name[:5].isdigit())])


class Counting(At):
    """Notes each event that is written, by its log."""

    def __init__(self) -> None:
        super().__init__(0, lambda what, arguments: None)

    def hook(self, place: str, note: int) -> Happens:
        def hear(what: str, arguments: tuple[Any, ...]) -> None:
            if what == WRITE and (log := _log_of(arguments[0], place)) is not None:
                os.write(note, f"{log}\n".encode() * arguments[1].count(b"\n"))

        return hear


class Killing(At):
    """Kills after the n-th event of a log, which is written as far as that."""

    def __init__(self, kill: Kill) -> None:
        super().__init__(0, lambda what, arguments: None)
        self.kill = kill

    def hook(self, place: str, note: int) -> Happens:
        root, written = os.getpid(), 0

        def hear(what: str, arguments: tuple[Any, ...]) -> None:
            nonlocal written
            if what != WRITE or _log_of(arguments[0], place) != self.kill.log:
                return
            lines = arguments[1].splitlines(keepends=True)
            left = self.kill.number - written
            written += len(lines)
            is_first = os.fstat(note).st_size == 0  # the process that continues has this hook, too
            if is_first and 0 <= left < len(lines):
                os.write(note, b"killed")
                _kill(self.kill.victims, root, arguments[0], b"".join(lines[:left]))

        return hear


def _kill(victims: Victims, root: int, log: int, written: bytes) -> None:
    """Kill runners, not what their actions started. One that is not killed writes all it wanted to."""
    if victims == "the root" and os.getpid() != root:
        os.kill(root, signal.SIGKILL)
        return
    os.write(log, written)
    for pid in [root, *_runners(root)] if victims == "all" else []:
        if pid != os.getpid():
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def _runners(root: int) -> list[int]:
    """The processes below the root that were forked from it and not executed."""
    below = psutil.Process(root).children(recursive=True)
    return [each.pid for each in below if _is_forked(each)]


def _is_forked(process: psutil.Process) -> bool:
    try:
        return process.cmdline() == _OWN
    except psutil.Error:  # it has just ended
        return False


_OWN = psutil.Process().cmdline()


# ── the sweep ──────────────────────────────────────────────────────────────────────────────────


def made(shape: Shape, make: Callable[[], Project]) -> Project:
    project = make()
    for name, text in shape.loops.items():
        project.loop(name, text)
    shape.prepare(project)
    return project


def kills(shape: Shape, make: Callable[[], Project]) -> list[Kill]:
    """Every event of every log of an undisturbed run, with each choice of victims."""
    project = made(shape, make)
    said = command(project, "run", "top", at=Counting())
    judge(shape, project, said, twice=0)
    counts = Counter((said.reached or "").split())
    return [
        Kill(log, number, victims)
        for log, total in sorted(counts.items())
        for number in range(total)
        for victims in _choices(log)
    ]


def _choices(log: str) -> tuple[Victims, ...]:
    return ("the root", "all") if log == "top" else ("itself", "the root", "all")


def play(shape: Shape, make: Callable[[], Project], kill: Kill) -> None:
    """Run a shape up to a kill, and finish it."""
    project = made(shape, make)
    said = command(project, "run", "top", at=Killing(kill))
    assert said.reached == "killed", (kill, said.out, said.err)
    if said.code >= 0:  # the root has lived, and continued the child that was killed
        judge(shape, project, said)
        return
    until(lambda: not _left(project), "end of the children")
    judge(shape, project, _finished(project))


def _left(project: Project) -> list[psutil.Process]:
    """Runners of this project that are still alive."""
    return [each for each in psutil.process_iter() if _is_runner(each, project)]


def _is_runner(process: psutil.Process, project: Project) -> bool:
    try:
        return process.cwd() == str(project.root) and _is_forked(process)
    except psutil.Error:
        return False


def _finished(project: Project) -> LineWriters:
    """Start the run again if it had not begun; resume it if it is not over."""
    said = command(project, "resume", "top")
    return command(project, "run", "top") if "has no run to resume" in said.err else said


def judge(shape: Shape, project: Project, said: LineWriters, twice: int | None = None) -> None:
    """The same ending, and every effect once, except for those that were in flight."""
    assert project.state("top")["status"] == shape.status, said.out + said.err
    trace = project.file("trace").split()
    counts = Counter(trace)
    told = list(dict.fromkeys(trace)) if shape.is_ordered else sorted(counts)
    assert told == (list(shape.effects) if shape.is_ordered else sorted(shape.effects)), trace
    again = [name for name, number in counts.items() if number > 1]
    assert len(again) <= (shape.in_flight if twice is None else twice), trace
    assert max(counts.values()) <= 2, trace
    assert left_of_actions(project) == []
    shape.check(project)


def left_of_actions(project: Project) -> list[int]:
    def marks(process: psutil.Process) -> bool:
        try:
            return process.environ().get("LL_RUN_DIR", "").startswith(str(project.root))
        except psutil.Error:
            return False

    return [each.pid for each in psutil.process_iter() if marks(each)]
