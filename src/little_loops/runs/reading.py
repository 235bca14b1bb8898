"""Everything that can be read about the runs of a project: which exist, one of them, what it did.

The command line, a web page and a library look at runs only through `Runs`. It reads and never
writes. Who is alive is checked under the shared guard, so that no run can start, end or move
between the check of its lock and the read of its files: a living run is never mistaken for a
crashed one. An invalid snapshot makes a run damaged, and no page fails because of one; so does a
snapshot that the run itself did not write, if that is known (`seals`).

Not here: what a view contains (`view`), following a run (`follow`), moving and deleting runs
(`history`), screens (`terminal`).
"""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress

from little_loops.errors import StorageError, UsageError
from little_loops.fsm.state import UNTIL, Answer, RunSummary
from little_loops.light_typing import TYPE_CHECKING, Any, Literal
from little_loops.runs.claims import (
    MAX_PID_BYTES,
    Blocker,
    alive,
    blockers,
    holders,
    waiting,
    waits_for,
)
from little_loops.runs.folders import event_log, find_folder, folder_of
from little_loops.runs.holders import Holder, from_bytes
from little_loops.runs.journal import is_blank
from little_loops.runs.layout import (
    CHILDREN,
    DATA,
    EVENTS,
    HISTORY,
    PID,
    RUN_JSON,
    RUNNING,
    SPAWN,
    STATE,
    RunFiles,
    named,
    stem_order,
)
from little_loops.runs.project import is_run_name
from little_loops.runs.run_texts import RunTexts, texts_in
from little_loops.runs.sealed import find_seals, not_the_newest, not_written_by
from little_loops.runs.state_file import MAX_BYTES, UnusableState, read_summary
from little_loops.runs.view import CRASH, RunDetail, RunView, Session
from little_loops.system.files import Folder
from little_loops.system.lock_files import guarded_shared

if TYPE_CHECKING:
    from little_loops.fsm.events import Entry
    from little_loops.fsm.schema import FSMLoop
    from little_loops.runs.arrival import StreamName
    from little_loops.runs.seals import Seals

LOOKS = 3
SMALL = 1 << 16
ENTRIES_READ = 80
TEXTS_WITHIN = 20
"""How many events from the end are read to find out why a run ended or paused."""
NO_SNAPSHOT = "killed before its state was first saved; `resume` reads it from the log"


class Runs:
    """The runs of one project."""

    def __init__(self, root: str) -> None:
        self.root = root

    # ── what there is ──────────────────────────────────────────────────────────────────────────

    def alive(self) -> tuple[RunView, ...]:
        """Return every run that is alive, by name, then the queued ones; reads nothing of the
        others."""
        folder = find_folder(self.root, RUNNING)
        if folder is None:
            return ()
        with folder, guarded_shared(folder), _without_collecting():
            living = sorted(holders(self.root), key=lambda holder: holder.name)
            found = (_read_view(folder, RunFiles(self.root, one.name), one, None) for one in living)
            return (*(view for view in found if view is not None), *self.queued())

    def past(self, name: str | None = None) -> Iterator[RunView]:
        """Yield the runs in the history, newest first, read lazily; for a path such as
        `nightly/types`, the run at that path in each of them that has one."""
        if name is not None and "/" in name:
            return self.past_children(self.past(name.partition("/")[0]), name)
        return self.views(self.past_files(name))

    def just_ended(self) -> Iterator[RunView]:
        """Yield the past runs that may be the last one: of each name the newest, if it started in
        the same second as the newest of all. Stems are no more precise than that."""
        files = self.past_files()
        second = _second(files[0]) if files else ""
        last_of = {one.name: one for one in reversed(files) if _second(one) == second}
        return self.views(last_of.values())

    def past_files(
        self, name: str | None = None, since_ms: float | None = None
    ) -> Sequence[RunFiles]:
        """Return the files of past runs, newest first; with `since_ms`, only of those started since
        then. Reads none of them."""
        from little_loops.runs.history import past_files  # a list of current runs needs no past

        return past_files(self.root, name, since_ms)

    def views(self, of: Iterable[RunFiles]) -> Iterator[RunView]:
        """Yield past runs, read lazily; one that disappears meanwhile is left out.

        The folders stay open until the iterator is exhausted or closed.
        """
        history = find_folder(self.root, HISTORY)
        if history is None:
            return
        seals = find_seals(self.root)
        with ExitStack() as stack:
            stack.enter_context(history)
            opened: dict[str, Folder | None] = {}
            for files in of:
                if files.name not in opened:
                    folder = history.child(files.name)
                    opened[files.name] = None if folder is None else stack.enter_context(folder)
                folder = opened[files.name]
                view = None if folder is None else _read_view(folder, files, None, seals)
                if view is not None:
                    yield view

    def past_names(self) -> tuple[str, ...]:
        """Return the names that have runs in the history; empty if it cannot be read."""
        from little_loops.runs.history import past_names

        try:
            return tuple(past_names(self.root))
        except StorageError:
            return ()

    def list(self) -> tuple[RunView, ...]:
        """Return every run that is alive or unfinished, by name, then the queued ones."""
        folder = find_folder(self.root, RUNNING)
        if folder is None:
            return ()
        with folder, guarded_shared(folder), _without_collecting():
            living = {holder.name: holder for holder in holders(self.root)}
            names = sorted({*named(folder.names(), STATE, EVENTS), *living})
            seals = find_seals(self.root)
            found = (
                _read_view(folder, RunFiles(self.root, n), living.get(n), seals) for n in names
            )
            views = tuple(self._with_recorded_end(view) for view in found if view is not None)
            return views + self.queued()

    def queued(self) -> tuple[RunView, ...]:
        """Return every queued run, in order of arrival."""
        return tuple(
            RunView(RunFiles(self.root, holder.name), "queued", holder=holder)
            for holder in waiting(self.root)
        )

    def continues(self, queued: RunView) -> RunView | None:
        """Return the stopped run that a queued one continues; None if it is a new one."""
        found = self._newest(queued.name)
        if found is None or found.summary is None or queued.holder is None:
            return None
        return found if found.summary.run == queued.holder.run_id else None

    def waits_for(self, queued: RunView) -> Blocker | None:
        """Return the run that a queued one waits for; None if nothing is in its way."""
        return None if queued.holder is None else waits_for(self.root, queued.holder)

    def has(self, name: str) -> bool:
        """Return whether there is, or was, a run of that name; reads none."""
        return self.has_files(name) or self.is_alive(name) is not None

    def has_files(self, name: str) -> bool:
        """Return whether a run of that name has recorded anything, now or in the past."""
        folder = find_folder(self.root, RUNNING)
        if folder is not None:
            with folder:
                if name in named(folder.names(), STATE, EVENTS):
                    return True
        return bool(self.past_files(name))

    def is_alive(self, name: str) -> Literal["running", "queued"] | None:
        """Return whether the run of that name is running or queued, by its locks alone; None if
        neither."""
        if alive(self.root, name) is not None:
            return "running"
        return "queued" if any(one.name == name for one in waiting(self.root)) else None

    def blockers(
        self, name: str, scope: tuple[str, ...], environ: Mapping[str, str]
    ) -> Sequence[Blocker]:
        """Return every run that conflicts with this name and scope (absolute paths)."""
        return blockers(self.root, name, scope, environ)

    def pid_files(self) -> dict[str, int | None]:
        """Return the names of all `.pid` files, whether a process holds them or not, with their
        pids; None for a damaged one."""
        folder = find_folder(self.root, RUNNING)
        if folder is None:
            return {}
        with folder:
            return {name: _pid_in(folder, name) for name in named(folder.names(), PID)}

    # ── one run ────────────────────────────────────────────────────────────────────────────────

    def view(self, name: str) -> RunView | None:
        """Return the run that a name means: the current one, else the last one; None if there is
        none.

        A queued run counts as current, unless one of its name is running.
        """
        if "/" in name:
            return self.child(name)
        with self.frozen():
            found = self._newest(name)
            its_turn = [view for view in self.queued() if view.name == name]
        if its_turn and (found is None or not found.is_alive):
            return its_turn[0]
        return found

    def child(self, path: str) -> RunView | None:
        """Return the run at a path such as `nightly/types`, which another run has started; None if
        there is none."""
        from little_loops.runs.child_paths import find_child  # few runs start others
        from little_loops.runs.child_runs import living

        root, *steps = path.split("/")
        above = self.view(root) if is_run_name(root) else None
        found = None if above is None else find_child(above.files, steps)
        folder = None if found is None else folder_of(found.files)
        if found is None or folder is None:
            return None
        with folder:
            view = _read_view(folder, found.files, living(found.files), find_seals(self.root))
        return None if view is None else view._replace(path=found.path)

    def past_children(self, views: Iterable[RunView], path: str) -> Iterator[RunView]:
        """Yield the run at a path in each of these past runs that has one."""
        from little_loops.runs.child_paths import find_child  # few runs start others

        _, *steps = path.split("/")
        seals = find_seals(self.root)
        for above in views:
            found = find_child(above.files, steps)
            folder = None if found is None else folder_of(found.files)
            if found is None or folder is None:
                continue
            with folder:
                view = _read_view(folder, found.files, None, seals)
            if view is not None:
                yield view._replace(path=found.path)

    def starts_others(self, view: RunView) -> bool:
        """Return whether a run that is alive waits for runs that it has started."""
        if not view.is_alive or view.summary is None:
            return False
        from little_loops.runs.stored_run import read_stored

        stored = read_stored(view.files)
        return stored is not None and stored.run.children is not None

    def answer(self, view: RunView) -> Answer | None:
        """Return the answer that is stored for the gate of a run that has not continued since; None
        if there is none, or it cannot be read."""
        if view.status != "needs_review" or view.summary is None:
            return None
        from little_loops.fsm.gates import open_gate  # few runs wait at a gate
        from little_loops.runs.answers import may_have_answer, read_answer

        if open_gate(view.summary) is None or not may_have_answer(view.files, view.summary):
            return None
        with suppress(StorageError), ExitStack() as stack:
            folder = folder_of(view.files)
            if folder is None:
                return None
            data = stack.enter_context(folder).child(view.files.base + DATA)
            return None if data is None else read_answer(stack.enter_context(data), view.summary)
        return None

    def has_children(self, view: RunView) -> bool:
        """Return whether a run has started others; reads none of them."""
        return os.path.isdir(os.path.join(view.files.data, CHILDREN))

    def children(self, view: RunView) -> tuple[RunView, ...]:
        """Return the runs that a run has started, the last of each name; unreadable ones are left
        out."""
        from little_loops.runs.child_paths import children_of  # few runs start others

        paths = (f"{view.name}/{each.path}" for each in children_of(view.files))
        return tuple(found for path in paths if (found := self.child(path)) is not None)

    def children_of(self, view: RunView) -> tuple[RunView, ...]:
        """Return the runs that this run has started, even if it is not the last one of its name."""
        if view.files.stem is None:
            return self.children(view)
        from little_loops.runs.child_paths import children_of  # few runs start others

        seals = find_seals(self.root)
        found = []
        for each in children_of(view.files):
            folder = folder_of(each.files)
            if folder is None:
                continue
            with folder:
                child = _read_view(folder, each.files, None, seals)
            if child is not None:
                above = f"{view.path}/" if view.path else ""
                found.append(child._replace(path=f"{above}{each.path}"))
        return tuple(found)

    def _newest(self, name: str) -> RunView | None:
        """Return the current run of a name, else its newest past one, else None; queued runs do not
        count."""
        files = RunFiles(self.root, name)
        folder = folder_of(files)
        if folder is not None:
            with folder:
                current = _read_view(folder, files, alive(self.root, name), find_seals(self.root))
            if current is not None:
                return current
        last = next(self.past(name), None)
        return last and _if_newest(last, find_seals(self.root))

    def past_view(self, name: str, stamp: str) -> RunView:
        """Return the past run that a stamp of the history means; a unique prefix is enough.

        Raises `UsageError` if there is none, or more than one.
        """
        found = [view for view in self.past(name) if (view.files.stem or "").startswith(stamp)]
        exact = [view for view in found if view.files.stem == stamp]
        if len(exact or found) == 1:
            return (exact or found)[0]
        listed = ", ".join(f"`{view.files.stem}`" for view in found[:5])
        raise UsageError(
            f"more than one run of `{name}` matches `{stamp}`"
            if found
            else f"`{name}` has no run `{stamp}`",
            listed or f"`ll-loop history {name}` lists them",
        )

    def detail(self, name: str, count: int = ENTRIES_READ) -> RunDetail | None:
        """Return a run, its last `count` events, and what its other files contain; None if there is
        none."""
        ended = self.ended(name, count)
        if ended is None:
            return None
        more = _details(ended.view)._replace(view=ended.view, entries=ended.entries)
        return (
            more
            if more.last_output_ms
            else more._replace(last_output_ms=_last_action_printed_ms(more))
        )

    def ended(self, name: str, count: int = 1) -> RunDetail | None:
        """Return a run and its last `count` events, without its other files; None if there is none.

        Read again a few times if the snapshot and the log are not from the same moment.
        """
        detail = None
        for _ in range(LOOKS):
            view = self.view(name)
            if view is None:
                return None
            # A queued run has no events: what is there belongs to an earlier run of its name.
            detail = RunDetail(view) if view.status == "queued" else self._own_events(view, count)
            if _is_up_to_date(detail):
                break
        return None if detail is None else _with_its_end(detail)

    def forks(self, view: RunView) -> Sequence[RunView]:
        """Return the runs that were forked from this one, the oldest first."""
        if view.summary is None:
            return []
        # A fork has the name of its loop, and an id.
        names = [name for name in self.past_names() if name.startswith(f"{view.loop}@")]
        found = [*self.list(), *(each for name in names for each in self.past(name))]
        mine = [each for each in found if _parent_of(each) == view.summary.run]
        return sorted(mine, key=lambda each: each.started_ms)

    def machine(self, view: RunView) -> FSMLoop | None:
        """Return the machine that the run was started with."""
        return _details(view).machine

    def context(self, view: RunView) -> Mapping[str, Any]:
        """Return the variables that the run was started with."""
        return _details(view).context

    def texts(self, view: RunView, entries: Sequence[Entry] | None = None) -> RunTexts:
        """Return the run's texts for people, with secrets hidden.

        The log is read only for a run that has any, and not if its last `entries` are given.
        """
        kept = RunTexts() if view.summary is None else texts_in(view.summary)
        if not any(kept):
            return kept
        from little_loops.runs.run_texts import shown_texts

        within = self.last_events(view, TEXTS_WITHIN) if entries is None else entries
        return shown_texts(kept, within)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Prevent runs of the project from starting, ending or moving meanwhile, by holding the
        guard shared."""
        folder = find_folder(self.root, RUNNING)
        if folder is None:
            yield
            return
        with folder, guarded_shared(folder):
            yield

    # ── what it did ────────────────────────────────────────────────────────────────────────────

    def events(self, view: RunView, after: int = 0) -> Iterator[Entry]:
        """Yield its events numbered above `after`, as far as they are written."""
        from little_loops.runs.entries import entries  # a list of runs needs no events

        return entries(view.files, after)

    def events_of_steps(self, view: RunView, first: int, last: int) -> Iterator[Entry]:
        """Yield the events of these steps, without reading those before them."""
        from little_loops.runs.entries import entries_of_steps

        return entries_of_steps(view.files, first, last)

    def last_events(self, view: RunView, count: int) -> Sequence[Entry]:
        from little_loops.runs.entries import last_entries

        return last_entries(view.files, count)

    def output(
        self, view: RunView, step: int, attempt: int, stream: StreamName, offset: int = 0
    ) -> bytes:
        """Return a raw piece of an action's output from an offset on; empty at its end.

        For the current action, it ends with what has been printed so far. Secrets are not hidden.
        """
        from little_loops.runs.outputs import read_output

        return read_output(view.files, step, attempt, stream, offset)

    def _with_recorded_end(self, view: RunView) -> RunView:
        """Return the run with its recorded end: a run that looks crashed may have ended without a
        last snapshot."""
        return _with_its_end(self._own_events(view, 1)).view if view.is_crashed else view

    def _own_events(self, view: RunView, count: int) -> RunDetail:
        """Return the run with its last events, as far as its seals show that it wrote them itself.

        A run that is alive, or has no seal, is trusted. The view is damaged if the log is not its
        own.
        """
        from little_loops.runs.entries import last_entries

        seals = None if view.is_alive else find_seals(self.root)
        if seals is not None and view.summary is None:
            return RunDetail(view)
        sealed = seals.of(view.summary.run) if seals is not None and view.summary else None
        if sealed is None:
            return RunDetail(view, last_entries(view.files, count))
        end = sealed.length_in_log(event_log(view.files))
        if end is None:
            return RunDetail(_damaged(view.files, not_written_by(view.files.events), None))
        return RunDetail(view, last_entries(view.files, count, end))


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Pause garbage collection: hundreds of snapshots are read and all are kept."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


# ── one rule for what a run is ─────────────────────────────────────────────────────────────────


def _read_view(
    folder: Folder, files: RunFiles, holder: Holder | None, seals: Seals | None
) -> RunView | None:
    """Return the view of a run; None if nothing of it was recorded and nobody holds it.

    With `seals`, only what the run itself wrote counts once it has ended.
    """
    seals = seals if holder is None else None
    try:
        summary = read_summary(folder, files.base, seals)
    except StorageError as error:
        summary = UnusableState(error.message)
    match summary:
        case RunSummary():
            view = _view(files, summary, holder)
            if files.name.startswith(UNTIL):
                view = view._replace(has_file=not _is_from_command_line(folder, files))
            is_newest = files.stem is not None or files.below
            return view if is_newest else _if_newest(view, seals)
        case UnusableState(why, is_newer):
            return _damaged(files, why, holder, "newer" if is_newer else "damaged")
        case None if holder is None and is_blank(event_log(files)):
            return None  # moved away meanwhile, or nothing of it was ever recorded
        case None:
            return _damaged(files, None if holder else NO_SNAPSHOT, holder)


def _is_from_command_line(folder: Folder, files: RunFiles) -> bool:
    """Return whether the run has no loop file, because `until` started it; False if that cannot be
    read."""
    try:
        data = folder.child(files.base + DATA)
        if data is None:
            return False
        with data:
            return "until" in _object(data.read(RUN_JSON, MAX_BYTES))
    except StorageError:
        return False


def _view(files: RunFiles, summary: RunSummary, holder: Holder | None) -> RunView:
    """Return the view of a readable snapshot: a run whose lock is held is alive, whatever the
    snapshot says, and one that only looks alive has crashed."""
    if holder is not None:
        view = RunView(files, "running", None, summary, None, holder)
    elif summary.status == "running":
        view = RunView(files, "interrupted", CRASH, summary)
    else:
        view = RunView(files, summary.status, summary.reason, summary)
    try:
        _ = view.started_ms, view.updated_ms
    except (ValueError, OverflowError) as error:
        return _damaged(files, f"`{files.state}` is damaged: {error}", holder)
    return view


def _if_newest(view: RunView, seals: Seals | None) -> RunView:
    """Return the view, or one that is damaged if a newer run of its name existed whose files are
    gone."""
    newest = None if seals is None or view.summary is None else seals.newest(view.name)
    if newest is None or (view.summary is not None and view.summary.run == newest):
        return view
    return _damaged(view.files, not_the_newest(newest), None)


def _damaged(
    files: RunFiles, why: str | None, holder: Holder | None, status: str = "damaged"
) -> RunView:
    return RunView(files, status if holder is None else "running", None, None, why, holder)


def _is_up_to_date(detail: RunDetail) -> bool:
    summary, entries = detail.view.summary, detail.entries
    return not entries or summary is None or summary.seq == entries[-1].seq


def _with_its_end(detail: RunDetail) -> RunDetail:
    """Return the run with the ending that its last event records, if its snapshot is older: the log
    is the source of truth."""
    view, last = detail.view, detail.entries[-1] if detail.entries else None
    if view.summary is None or view.is_alive or last is None or last.seq <= view.summary.seq:
        return detail
    from little_loops.fsm.events import FinalEvent  # only after a crash

    if not isinstance(last.event, FinalEvent):
        return detail
    return detail._replace(view=view._replace(status=last.event.status, reason=last.event.reason))


def _last_action_printed_ms(detail: RunDetail) -> int | None:
    """Return when the most recent action ended, if it has printed something; None if it has printed
    nothing, or is still running."""
    from little_loops.fsm.events import ActionComplete, ActionStart

    for entry in reversed(detail.entries):
        match entry.event:
            case ActionStart():
                return None
            case ActionComplete(result=result) if result.output != "" or result.stderr != "":
                return int(entry.wall_ms)
            case _:
                continue
    return None


def _pid_in(folder: Folder, name: str) -> int | None:
    """Return the pid in a `.pid` file; None if it is damaged or cannot be read."""
    try:
        return from_bytes(folder.read(name + PID, MAX_PID_BYTES) or b"", name, "").pid or None
    except StorageError:
        return None


# ── its other files ────────────────────────────────────────────────────────────────────────────


def _details(view: RunView) -> RunDetail:
    """Return the run with its machine, its last output and its session, each None if unknown, and
    without events."""
    nothing = RunDetail(view)
    try:
        folder = None if view.is_blank else folder_of(view.files)
        if folder is None:
            return nothing
        with folder:
            note = _object(folder.read(view.files.base + SPAWN, SMALL))
            data = folder.child(view.files.base + DATA)
        if data is None:
            return nothing
        with data:
            from little_loops.runs.outputs import last_output_ms

            kept, heard_ms = _object(data.read(RUN_JSON, MAX_BYTES)), last_output_ms(data)
    except StorageError:
        return nothing
    session = _session(note) if _is_awaited(view, note) else None
    worktree = _worktree(_object_in(kept, "worktree").get("project"))
    machine, context = _machine(kept.get("loop")), _object_in(kept, "context")
    return RunDetail(view, (), machine, heard_ms, session, worktree, context)


def _worktree(path: object) -> str | None:
    """Return where a run works, unless that was removed after the run."""
    return path if isinstance(path, str) and os.path.isdir(path) else None


def _parent_of(view: RunView) -> str | None:
    """Return the run that another one was forked from; None if it is no fork."""
    fork = None if view.summary is None else view.summary.fork
    return None if fork is None else fork.run


def _object_in(kept: dict[str, Any], name: str) -> dict[str, Any]:
    """Return an object within another; empty if it is missing or something else."""
    found = kept.get(name)
    return found if isinstance(found, dict) else {}


def _object(raw: bytes | None) -> dict[str, Any]:
    """Parse a JSON object; empty if it is missing or damaged."""
    try:
        found = json.loads(raw or b"{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _machine(data: Any) -> FSMLoop | None:
    """Decode a machine; None if it is damaged."""
    from little_loops.fsm.schema import FSMLoop  # only a single run is shown with its machine

    try:
        return FSMLoop.from_dict(data)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _is_awaited(view: RunView, note: dict[str, Any]) -> bool:
    """Return whether the run waits for the session of the note, and has not been resumed since that
    was started."""
    if view.status != "awaiting_continuation" or view.summary is None:
        return False
    seq = note.get("seq")
    return type(seq) is not int or view.summary.seq <= seq


def _session(note: dict[str, Any]) -> Session | None:
    """Return the session that was started to continue a run; None if the note has no valid pid."""
    from little_loops.system.process_table import SYSTEM

    pid = note.get("pid")
    if type(pid) is not int or pid < 1:
        return None
    found = SYSTEM.look(pid)
    # A reused pid does not make the session alive.
    same = found is not None and note.get("created") in (None, found.created)
    return Session(pid, same and found is not None and not found.is_zombie)


def _second(files: RunFiles) -> str:
    return stem_order(files.stem or "")[0]
