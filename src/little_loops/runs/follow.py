"""Read what a run writes while it runs, and know when it is over.

Files are opened once and kept open: at its end a run moves its files to the history, and open files
move along. Whether a run is over is checked before its files are read to the end, so that nothing
written in between is missed.

Not here: what to show of it (`logs`, `attach`), events and outputs (`playback`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import partial

from little_loops.errors import UsageError
from little_loops.fsm.codec import seq_of
from little_loops.fsm.events import Entry, StateEnter
from little_loops.light_typing import TYPE_CHECKING, Self
from little_loops.runs.claims import alive
from little_loops.runs.entries import readable
from little_loops.runs.folders import open_file
from little_loops.runs.holders import Holder
from little_loops.runs.journal import Record, Records, offset_of
from little_loops.runs.layout import EVENTS, LOG
from little_loops.runs.outputs import Outputs, open_outputs
from little_loops.runs.playback import Item, Playback
from little_loops.system.files import failure

if TYPE_CHECKING:
    from little_loops.fsm.schema import FSMLoop
    from little_loops.runs.reading import Runs
    from little_loops.runs.view import RunView

CHUNK = 1 << 16
POLL_S = 0.05
LOOKS = 10
RECENT_BYTES = 1 << 18
"""How much of the end of a log is read to find out what a run is doing."""


class GrowingFile:
    """A file that another process may be appending to, read from an offset."""

    def __init__(self, descriptor: int, path: str) -> None:
        """Take over the descriptor; reading starts at the beginning. The path is for error
        messages."""
        self._descriptor = descriptor
        self._path = path
        self.offset = 0

    def read(self) -> bytes:
        """Return the next chunk and advance; empty at the current end. Raises `StorageError`."""
        try:
            piece = os.pread(self._descriptor, CHUNK, self.offset)
        except OSError as error:
            raise failure(error, "read", self._path) from error
        self.offset += len(piece)
        return piece

    def rest(self) -> Iterator[bytes]:
        while piece := self.read():
            yield piece

    def seek_last_lines(self, count: int) -> None:
        """Skip to the last `count` lines, unless that position was already passed or there are
        fewer lines."""
        end = os.fstat(self._descriptor).st_size
        place, seen = end, 0
        while place > 0:
            begin = max(place - CHUNK, 0)
            piece = os.pread(self._descriptor, place - begin, begin)
            # The final newline ends the last line; it does not begin another.
            stop = len(piece) - 1 if place == end else len(piece)
            while (found := piece.rfind(b"\n", 0, stop)) >= 0:
                seen += 1
                if seen == count:
                    self.offset = max(self.offset, begin + found + 1)
                    return
                stop = found
            place = begin

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class GrowingLog:
    """The events of a run, existing and future ones."""

    def __init__(self, descriptor: int, most: int | None = None) -> None:
        """Take over the descriptor; with `most`, skip all but that many bytes at the current
        end."""
        self._descriptor = descriptor
        size = os.fstat(descriptor).st_size
        start = 0 if most is None else max(size - most, 0)
        self._records = Records(lambda: os.dup(descriptor), start)

    def skip(self, after: int) -> None:
        """Continue with the events numbered above `after`; some before them may come first."""
        opened = partial(os.dup, self._descriptor)
        self._records.offset = offset_of(opened, lambda record: seq_of(record) <= after)

    def records(self) -> Iterator[Record]:
        """Yield the events as written, for passing them on."""
        return iter(self._records)

    def numbered(self) -> Iterator[tuple[int, Record]]:
        """Yield the events as written, each with its number."""
        return ((seq_of(record), record) for record in self._records)

    def entries(self) -> Iterator[Entry]:
        return readable(self._records)

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Following:
    """What a run does from now on: its events and its actions' output, as they arrive."""

    def __init__(
        self,
        log: GrowingLog,
        outputs: Outputs | None,
        playback: Playback,
        machine: FSMLoop | None = None,
    ) -> None:
        self.machine = machine
        self._log = log
        self._outputs = outputs
        self._playback = playback
        self.began_ms: int | None = None
        """When the current action started."""

    def begin(self) -> list[Item]:
        """Return everything since the run entered its current state, as far as the opened log has
        it."""
        found = list(self._log.entries())
        entered = [at for at, each in enumerate(found) if isinstance(each.event, StateEnter)]
        return self._items_of(found[entered[-1] if entered else 0 :]) + self.news()

    def all(self) -> Iterator[Item]:
        """Yield everything so far, read lazily."""
        for entry in self._log.entries():
            yield from self._items_of([entry])
        yield from self.news()

    def news(self) -> list[Item]:
        """Return what happened since the last call.

        Output is read before the log: if no event has arrived, it belongs to the current action.
        Otherwise the end of the action has all of its output.
        """
        live = self._playback.live()
        found = list(self._log.entries())
        return self._items_of(found) if found else live

    def _items_of(self, entries: list[Entry]) -> list[Item]:
        """Return what to show for these events, and keep track of when the current action
        started."""
        items: list[Item] = []
        for entry in entries:
            items += self._playback.feed(entry)
            if self._playback.action is entry.event:
                self.began_ms = entry.wall_ms
        if self._playback.action is None:
            self.began_ms = None
        return items

    def close(self) -> None:
        self._log.close()
        if self._outputs is not None:
            self._outputs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def follow(runs: Runs, view: RunView, most: int | None = None) -> Following:
    """Follow a run; with `most`, start with what is in that many bytes at the end of its log.

    The caller closes the result. Raises `UsageError` if the run has no event log.
    """
    machine = runs.machine(view)
    view, log = open_events(runs, view, most)
    outputs = open_outputs(view.files)
    return Following(log, outputs, Playback(outputs, machine, runs.root), machine)


def open_log(runs: Runs, view: RunView) -> tuple[RunView, GrowingFile]:
    """Open a run's log for people, even if the run is being moved to the history."""
    view, descriptor = _open(runs, view, LOG)
    return view, GrowingFile(descriptor, view.files.log)


def open_events(runs: Runs, view: RunView, most: int | None = None) -> tuple[RunView, GrowingLog]:
    """Open a run's events; with `most`, only those in that many bytes at the end, and later
    ones."""
    view, descriptor = _open(runs, view, EVENTS)
    return view, GrowingLog(descriptor, most)


def _open(runs: Runs, view: RunView, suffix: str) -> tuple[RunView, int]:
    """Open a file of a run, even if the run is being moved to the history; wait briefly while a
    living run has not written it.

    Return the view it was found with, and the descriptor. Raises `UsageError` if there is no such
    file.
    """
    for _ in range(LOOKS):
        descriptor = open_file(view.files, suffix)
        if descriptor is not None:
            return view, descriptor
        # It has ended and moved, or has just started and is about to write.
        again = runs.view(view.name) or view
        if again.files == view.files:
            if not again.is_alive:
                break
            time.sleep(POLL_S)
        view = again
    raise UsageError(f"`{view.files.path(suffix)}` is missing")


def until_it_runs(runs: Runs, view: RunView) -> RunView:
    """Wait while a run is queued. Return its view after that. Raises `UsageError` if it left the
    queue without starting."""
    while view.status == "queued":
        time.sleep(POLL_S)
        view = runs.view(view.name) or view._replace(status="gone")
    if view.status == "gone":
        raise UsageError(f"`{view.name}` left the queue without starting")
    return view


def _holder(runs: Runs, view: RunView) -> Holder | None:
    """Return the process of a run if it is alive, also of one that another run has started."""
    if not view.path:
        return alive(runs.root, view.name)
    from little_loops.runs.child_runs import living  # few runs start others

    return living(view.files)


def over_when(runs: Runs, view: RunView) -> Callable[[], bool]:
    """Return a function that tells whether this run's process has ended, even if another run has
    its name by now. It returns True at once for a run that was not alive in `view`."""
    run_id = view.holder.run_id if view.holder else None

    def is_over() -> bool:
        holder = None if run_id is None else _holder(runs, view)
        return holder is None or holder.run_id != run_id

    return is_over
