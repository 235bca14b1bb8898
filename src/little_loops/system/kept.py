"""A program that outlives the process that has started it, and whose output is kept for the next.

A process of our own, the keeper, starts the program, limits its time, stores its output, and passes
it on to whoever started it, while there is somebody. It holds a lock as long as it lives.

    PLACE/turn            what is run, and what the next process has to know of it
    PLACE/lock            locked while the keeper lives
    PLACE/started         the program was started, or was about to be
    PLACE/stdout, stderr  what it has printed
    PLACE/ended           how it has ended

`started` is synced before the program starts: after a kill or a power cut, what is there says
whether it was started, and it is started once.

Not here: which programs are kept, and where (`engine.kept_judges`).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from signal import SIGTERM

from little_loops.light_typing import Any, Final
from little_loops.records import NamedTuple
from little_loops.system import process
from little_loops.system.files import Folder, to_json
from little_loops.system.lock_files import hold
from little_loops.system.process_tree import Plan
from little_loops.system.stops import STOPS, StopFlag, listen

TURN: Final = "turn"
LOCK: Final = "lock"
STARTED: Final = "started"
ENDED: Final = "ended"
STREAMS: Final = ("stdout", "stderr")
LARGEST: Final = 1 << 28
CHUNK: Final = 1 << 16
LOOK_EACH_S: Final = 0.1
"""How often to check whether the keeper has ended: only its parent would be notified."""
TOGETHER_S: Final = 0.2
"""A stop signals the program and its keeper at the same time, in either order."""
_MAIN: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); from little_loops.system.kept import keep;"
    " keep(sys.argv[2])"
)


class Turn(NamedTuple):
    """A program to run: its command line, input and limits. `about` is data for whoever collects
    its output."""

    argv: Sequence[str]
    stdin: str
    deadline_s: float
    plan: Plan
    grace_s: float
    about: Any


# ── whoever starts it, and whoever collects its output ─────────────────────────────────────────


def prepare(place: Folder, turn: Turn) -> int:
    """Store the turn, synced. Return the locked descriptor that the keeper has to inherit."""
    place.replace(TURN, to_json(turn._asdict()), f".{TURN}.tmp", sync=True)
    descriptor = place.open(LOCK, os.O_RDWR | os.O_CREAT)
    hold(descriptor)
    return descriptor


def command(place: Folder) -> list[str]:
    """Return the command line of the keeper. What the program's environment says about Python does
    not concern it."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return [sys.executable, "-I", "-c", _MAIN, package, place.path]


def wait(place: Folder, stop: StopFlag | None, tick: Callable[[], object]) -> bool:
    """Wait until the keeper has ended, or a stop is requested. Return whether it has ended. `tick`
    is called meanwhile."""
    try:
        descriptor = place.open(LOCK, os.O_RDWR)
    except FileNotFoundError:  # there never was one
        return True
    alone = stop or StopFlag()
    try:
        while not hold(descriptor):
            tick()
            if alone.wait(LOOK_EACH_S):
                return False
        return True
    finally:
        os.close(descriptor)
        if stop is None:
            alone.close()


def was_started(place: Folder) -> bool:
    return place.stamp(STARTED) is not None


def turn_in(place: Folder) -> Turn | None:
    """Return the turn; None if the process that was to start it did not get that far."""
    raw = place.read(TURN, LARGEST)
    return None if raw is None else Turn(**json.loads(raw))


def end_of(place: Folder) -> process.Ended | None:
    """Return how the program has ended; None if nobody saw that."""
    raw = place.read(ENDED, LARGEST)
    return None if raw is None else process.Ended(**json.loads(raw))


def printed(place: Folder, stream: str) -> Iterator[bytes]:
    """Yield what the program has printed, in pieces."""
    with suppress(FileNotFoundError), open(place.open(stream, os.O_RDONLY), "rb") as kept:
        while piece := kept.read(CHUNK):
            yield piece


def discard(place: Folder) -> None:
    """Remove all files of a turn."""
    for name in place.names():
        place.remove(name)


# ── the keeper ─────────────────────────────────────────────────────────────────────────────────


def keep(path: str) -> None:
    """Run the program of a turn. Its environment, directory and output are those of this process."""
    place = Folder.at(path)
    assert place is not None, "the place is made before the keeper is started"
    turn = turn_in(place)
    assert turn is not None, "the keeper is started with a turn"
    stop = StopFlag()
    listen(stop)
    place.replace(STARTED, b"", f".{STARTED}.tmp", sync=True)
    out, err = (Copy(place, name, number) for number, name in enumerate(STREAMS, 1))
    try:
        ended = process.run(
            turn.argv,
            env=os.environ,
            cwd=os.getcwd(),
            stdin=turn.stdin.encode("utf-8", "surrogateescape") or None,
            stdout=out.feed,
            stderr=err.feed,
            deadline_s=turn.deadline_s,
            stop=stop,
            stop_plan=turn.plan,
            leftovers=((SIGTERM, turn.grace_s),),
        )
    except process.CannotStart as problem:
        err.feed(f"{problem.reason}\n".encode())
        ended = process.Ended(127, None, "none", 0, 0)
    if ended.signal in STOPS and stop.wait(TOGETHER_S):
        ended = ended._replace(cut_by="stop")
    place.replace(ENDED, to_json(ended._replace(left=())._asdict()), f".{ENDED}.tmp", sync=True)


class Copy:
    """Stores a stream, and passes it on for as long as somebody reads it."""

    def __init__(self, place: Folder, name: str, descriptor: int) -> None:
        self._kept = place.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._reader: int | None = descriptor

    def feed(self, chunk: bytes) -> None:
        os.write(self._kept, chunk)
        left = memoryview(chunk)
        try:
            while left and self._reader is not None:
                left = left[os.write(self._reader, left) :]
        except BrokenPipeError:
            self._reader = None  # our starter was killed
