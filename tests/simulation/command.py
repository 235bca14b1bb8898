"""The real command in a forked child, with something happening before its n-th file operation.

The interpreter has been started and the modules are loaded already, so a command takes a few
milliseconds; everything it does it really does.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from mmap import mmap
from pathlib import Path
from typing import Any, NamedTuple

import yaml  # noqa: F401 - these are loaded here, so that no child has to

from little_loops.cli.main import main
from tests.project import Project
from tests.simulation.disk import COUNTED

GONE = 9
"""The exit code of a child that died on the way, as a kill would have it."""
START = "os.posix_spawn"
"""How a process of our own starts an action."""
BOUNDARIES = COUNTED | {START}

Happens = Callable[[str, tuple[Any, ...]], None]


@contextmanager
def in_memory() -> Iterator[Path]:
    """A directory in memory where there is one: a sweep syncs thousands of times."""
    shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    place = Path(tempfile.mkdtemp(prefix="ll-", dir=shm))
    try:
        yield place
    finally:
        shutil.rmtree(place)


@contextmanager
def projects() -> Iterator[Callable[[], Project]]:
    """Projects in memory, as many as are asked for; what their actions left running is ended."""
    made: list[Project] = []

    def make() -> Project:
        place = home / str(len(made))
        place.mkdir()
        made.append(Project(place))
        return made[-1]

    with in_memory() as home:
        try:
            yield make
        finally:
            for project in made[-1:]:
                project.end_actions()


class LineWriters(NamedTuple):
    """What a command said; `reached` is the operation before which it happened, if it did."""

    code: int
    out: str
    err: str
    reached: str | None = None


class At:
    """Counts file operations and lets something happen before the n-th, or from it on."""

    def __init__(self, number: int, happens: Happens, *, for_good: bool = False) -> None:
        self.number = number
        self.happens = happens
        self.for_good = for_good

    def hook(self, place: str, note: int) -> Happens:
        """What listens to a process; it notes where it happened before it does."""
        left = self.number

        def hear(what: str, arguments: tuple[Any, ...]) -> None:
            nonlocal left
            if not is_boundary(what, arguments, place):
                return
            left -= 1
            if left == 0:
                os.write(note, _told(what, arguments).encode())
            if left == 0 or (left < 0 and self.for_good):
                self.happens(what, arguments)

        return hear


class InChildren(At):
    """Counts the operations of all processes that a command forks, but not its own; it happens once."""

    def hook(self, place: str, note: int) -> Happens:
        root, count = os.getpid(), mmap(-1, 8)  # the processes share it

        def hear(what: str, arguments: tuple[Any, ...]) -> None:
            if os.getpid() == root or not is_boundary(what, arguments, place):
                return
            number = int.from_bytes(count[:8], "big") + 1
            count[:8] = number.to_bytes(8, "big")
            if number == self.number:
                os.write(note, _told(what, arguments).encode())
                self.happens(what, arguments)

        return hear


class Noting(At):
    """Lets everything happen as it does, and notes all of it."""

    def __init__(self) -> None:
        super().__init__(0, lambda what, arguments: None)

    def hook(self, place: str, note: int) -> Happens:
        def hear(what: str, arguments: tuple[Any, ...]) -> None:
            if is_boundary(what, arguments, place):
                os.write(note, _told(what, arguments).encode() + b"\n")

        return hear


def is_boundary(what: str, arguments: tuple[Any, ...], place: str) -> bool:
    if what == START or what not in BOUNDARIES:
        return what in BOUNDARIES
    # Names are looked up in a directory held open; what the interpreter imports has a whole path.
    path = arguments[0]
    if what == "open" and not isinstance(path, str):
        return False
    return not (isinstance(path, str) and path.startswith("/")) or path.startswith(place)


def _told(what: str, arguments: tuple[Any, ...]) -> str:
    names = [each for each in arguments if isinstance(each, str)]
    return " ".join([what, *names[:1]])


def dies(what: str, arguments: tuple[Any, ...]) -> None:
    os._exit(GONE)


def fails(code: int) -> Happens:
    def happens(what: str, arguments: tuple[Any, ...]) -> None:
        raise OSError(code, os.strerror(code))

    return happens


class BackgroundRun:
    """A command under way."""

    def __init__(
        self,
        project: Project,
        words: tuple[str, ...],
        at: At | None = None,
        gate: int | None = None,
    ) -> None:
        self._stack = ExitStack()
        open_file = partial(tempfile.TemporaryFile, "w+b")
        self._files = [self._stack.enter_context(open_file()) for _ in range(3)]
        self.pid = os.fork()
        if self.pid == 0:
            if gate is not None:
                os.read(gate, 1)
            _be_the_command(project, words, at, *(file.fileno() for file in self._files))

    def said(self) -> LineWriters:
        """Wait for its end, and hear what it said."""
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        with self._stack:
            out, err, note = (_text(file) for file in self._files)
        return LineWriters(code, out, err, note or None)


def command(project: Project, *words: str, at: At | None = None) -> LineWriters:
    """Run `ll-loop` with these words; what it said, and with which code it ended."""
    return BackgroundRun(project, words, at).said()


def operations(project: Project, *words: str) -> list[str]:
    """All that a command does to files and processes, in order; nothing happens to it."""
    said = command(project, *words, at=Noting())
    assert said.code == 0, said.err
    return (said.reached or "").splitlines()


def _text(file: Any) -> str:
    file.seek(0)
    return str(file.read().decode("utf-8", "replace"))


def _be_the_command(
    project: Project, words: tuple[str, ...], at: At | None, out: int, err: int, note: int
) -> None:
    code = 1  # as the interpreter has it where an exception escapes
    try:
        os.setsid()
        os.chdir(project.root)
        os.environ.clear()
        os.environ.update(project.environ())
        for target, source in ((0, os.open(os.devnull, os.O_RDONLY)), (1, out), (2, err)):
            os.dup2(source, target)
        sys.stdout, sys.stderr = (os.fdopen(each, "w", closefd=False) for each in (1, 2))
        if at is not None:
            # The project and the home: what is known about its files is stored there.
            sys.addaudithook(at.hook(str(project.root.parent), note))
        code = main(words)
    except BaseException:
        with suppress(OSError):
            sys.excepthook(*sys.exc_info())
    finally:
        with suppress(OSError):  # it may be the very thing that fails
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def assert_in_words(said: LineWriters) -> None:
    """No traceback, no bug in the tool; an error says what, and ends with a code of its own."""
    assert "Traceback" not in said.err, said.err
    assert said.code != 70, said.err
    assert said.code >= 0, said.code
