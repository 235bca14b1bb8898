"""The past runs of a project, for lists and statistics: from the index, and from files what it lacks.

Made for a process that asks often: names are listed again only if a directory has changed, and the
index is read from where it ended last time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence

from little_loops.errors import StorageError
from little_loops.records import NamedTuple
from little_loops.runs.folders import find_folder
from little_loops.runs.history_index import (
    MAX_INDEX_BYTES,
    PastRun,
    parse_lines,
    write_index,
)
from little_loops.runs.layout import HISTORY, INDEX, RunFiles, is_stem, stem_order
from little_loops.runs.project import is_run_name, loops_of
from little_loops.runs.reading import Runs
from little_loops.runs.view import RunView
from little_loops.system.files import Folder

SETTLED_NS = 2_000_000_000
"""A directory that has just changed may change again without a new timestamp."""


class _Listed(NamedTuple):
    """The past runs of one name, as its directory had them."""

    mtime_ns: int
    stems: tuple[str, ...]


class GatheredRuns(NamedTuple):
    """All past runs that can be read, each list newest first."""

    runs: Sequence[PastRun] = ()
    of_loop: Mapping[str, Sequence[PastRun]] = {}
    newest: Mapping[str, str] = {}
    """The newest stem of each name."""


class PastRuns:
    """The past runs of a project; kept in memory, and up to date with every call."""

    def __init__(self, root: str) -> None:
        self._runs = Runs(root)
        self._root = root
        self._listed: dict[str, _Listed] = {}
        self._index: dict[tuple[str, str], PastRun] = {}
        self._offset = 0
        self._inode = 0
        self._from_files: dict[tuple[str, str], tuple[int, PastRun | None]] = {}
        self._gathered: tuple[object, GatheredRuns] = (None, GatheredRuns())

    def gathered(self) -> GatheredRuns:
        """Return all past runs that can be read, arranged as lists need them."""
        self._read_index()
        self._list()
        state = (self._inode, self._offset, tuple(self._listed.items()))
        if self._gathered[0] != state:
            self._gathered = (state, _arranged(self._gather()))
        return self._gathered[1]

    def all(self) -> Sequence[PastRun]:
        """Return all past runs that can be read, newest first."""
        return self.gathered().runs

    def files(self, run: PastRun) -> RunFiles:
        return RunFiles(self._root, run.name, run.stem)

    def _gather(self) -> list[PastRun]:
        found = [self._index.get((name, stem)) for name, stem in self._places()]
        if None in found:
            more = self._read_files()
            found = [self._index.get(place) or more.get(place) for place in self._places()]
        kept = [run for run in found if run is not None]
        return sorted(kept, key=lambda run: (stem_order(run.stem), run.name), reverse=True)

    def _places(self) -> Iterable[tuple[str, str]]:
        return ((name, stem) for name, listed in self._listed.items() for stem in listed.stems)

    def _list(self) -> None:
        """List the names whose directories have changed."""
        place = os.path.join(self._root, loops_of(self._root), HISTORY)
        try:
            with os.scandir(place) as entries:
                folders = {
                    each.name: each.stat(follow_symlinks=False).st_mtime_ns
                    for each in entries
                    if is_run_name(each.name) and each.is_dir(follow_symlinks=False)
                }
        except OSError:
            folders = {}
        recent_ns = time.time_ns() - SETTLED_NS
        before = self._listed
        self._listed = {}
        for name, mtime_ns in folders.items():
            known = before.get(name)
            if known is None or known.mtime_ns != mtime_ns or mtime_ns > recent_ns:
                known = _Listed(mtime_ns, _stems(os.path.join(place, name)))
            self._listed[name] = known

    def _read_index(self) -> None:
        """Read the lines that the index has got since last time; all of them if it is another
        file."""
        history = find_folder(self._root, HISTORY)
        if history is None:
            return
        with history:
            stamp = history.stamp(INDEX)
            if stamp is None or stamp.inode != self._inode or stamp.size < self._offset:
                self._index, self._offset, self._inode = {}, 0, 0
            if stamp is not None and stamp.size > self._offset:
                self._inode = stamp.inode
                self._take(_read_from(history, self._offset))

    def _take(self, data: bytes) -> None:
        """Take over complete lines; half a line at the end is read again later."""
        end = data.rfind(b"\n") + 1
        self._offset += end
        self._index.update((run.place, run) for run in parse_lines(data[:end]))

    def _read_files(self) -> dict[tuple[str, str], PastRun]:
        """Return the runs that the index lacks, read again only if their directory has changed."""
        missing = [place for place in self._places() if place not in self._index]
        known = {
            place: kept
            for place in missing
            if (kept := self._from_files.get(place)) is not None
            and kept[0] == self._listed[place[0]].mtime_ns
        }
        unread = [place for place in missing if place not in known]
        views = self._runs.views(RunFiles(self._root, *place) for place in unread)
        found = {(view.files.name, view.files.stem or ""): past_run_of(view) for view in views}
        for place in unread:
            known[place] = (self._listed[place[0]].mtime_ns, found.get(place))
        self._from_files = known
        return {place: run for place, (_, run) in known.items() if run is not None}


def _arranged(runs: Sequence[PastRun]) -> GatheredRuns:
    of_loop: dict[str, list[PastRun]] = {}
    newest: dict[str, str] = {}
    for run in runs:
        of_loop.setdefault(run.loop, []).append(run)
        newest.setdefault(run.name, run.stem)
    return GatheredRuns(runs, of_loop, newest)


def _stems(folder: str) -> tuple[str, ...]:
    try:
        names = os.listdir(folder)
    except OSError:
        return ()
    stems = {each.partition(".")[0] for each in names}
    return tuple(sorted(stem for stem in stems if is_stem(stem)))


def _read_from(history: Folder, offset: int) -> bytes:
    try:
        descriptor = history.open(INDEX, os.O_RDONLY)
    except (FileNotFoundError, StorageError):  # there is none, or something else in its place
        return b""
    try:
        return os.pread(descriptor, MAX_INDEX_BYTES, offset)
    finally:
        os.close(descriptor)


def past_run_of(view: RunView) -> PastRun:
    """Return a past run as the index would have it; what cannot be read is empty."""
    files, summary = view.files, view.summary
    return PastRun(
        files.name,
        files.stem or "",
        summary.run if summary else "",
        view.loop,
        view.status,
        view.reason,
        summary.current_state if summary else "",
        view.started_ms,
        view.updated_ms,
        summary.ran_ms if summary else 0,
        summary.iteration if summary else 0,
        round(summary.cost_usd, 6) if summary else 0.0,
        summary.tokens if summary else 0,
    )


def reindex(root: str) -> int:
    """Write the index again, from the files of all past runs. Return their number.

    Runs that cannot be read are left out. Raises `StorageError` if it cannot be written.
    """
    from little_loops.runs.history import guarded_history  # writing is rare

    with guarded_history(root) as history:
        if history is None:
            return 0
        runs = Runs(root)
        views = runs.views(reversed(runs.past_files()))
        found = [past_run_of(view) for view in views if view.summary is not None]
        write_index(history, found)
        return len(found)
