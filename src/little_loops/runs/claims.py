"""Let only one run at a time work on a scope: claims, the queue, and the rule for who is alive.

`.running/.lock`, the guard, is held only during a decision. `NAME.pid` is locked for the life of a
run, so a claim ends with its process, however that ends. A run is alive if its file is locked; this
is checked under the guard, so that a check never makes a start fail. Files are also removed under
the guard, so that no process can lock a file that has no name any more.

A nested run (`outer` names the enclosing runs) never conflicts with the enclosing ones and works
within the scope of the innermost. It waits only for runs nested in that same run: the enclosing run
cannot end while it waits, so waiting for others could be a deadlock. The same applies to a run that
an action starts in the background, as long as the action waits for it to start (`within` names the
runs that enclose that action).

A killed runner holds nothing any more, but its last action may still be running: until that has
ended, or the user says that it is gone, nothing else starts on its scope.

Not here: what a scope is (`fsm.scope`), the content of a `.pid` file (`holders`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from types import TracebackType

from little_loops.errors import ConflictError, StorageError, UsageError, WaitStopped
from little_loops.fsm.scope import contains, overlaps
from little_loops.light_typing import Literal, Protocol, Self
from little_loops.records import NamedTuple
from little_loops.runs.folders import find_folder, make_folder
from little_loops.runs.holders import Holder, from_bytes, this_process, to_bytes, unknown
from little_loops.runs.layout import PID, QUEUE, RUNNING, named
from little_loops.runs.project import check_run_name, show_scope
from little_loops.system.files import Folder, failure, write_all
from little_loops.system.lock_files import guarded, guarded_shared, has_name, held, hold

RELEASE_WAIT_S = 2.0
POLL_S = 0.1
DEEPEST = 16
MAX_PID_BYTES = 1 << 20
MOST_NAMED = 3


class Stop(Protocol):
    def wait(self, seconds: float | None) -> bool:
        """Wait this long. Return True as soon as a stop is requested."""


class Nesting(NamedTuple):
    """The enclosing runs, outermost first, and the nesting depth."""

    runs: tuple[str, ...] = ()
    depth: int = 0


def nesting(environ: Mapping[str, str]) -> Nesting:
    """Read the enclosing runs of this process from `LL_CLAIM` and `LL_DEPTH`.

    Raises `UsageError` if the depth is not a number or is greater than `DEEPEST`.
    """
    text = environ.get("LL_DEPTH", "0")
    if not (text.isascii() and text.isdigit()):
        raise UsageError(
            f"`LL_DEPTH` is {text!r}, which is not a number",
            "ll-loop uses it to count nested loops; unset it",
        )
    if int(text) > DEEPEST:
        raise UsageError(
            f"loops are nested more than {DEEPEST} deep (`LL_DEPTH` is {text!r})",
            "an action probably starts its own loop again",
        )
    return Nesting(tuple(environ.get("LL_CLAIM", "").split()), int(text))


def nested_in(run_id: str, outer: Nesting) -> dict[str, str]:
    """Return the variables that tell a run started by an action about its enclosing runs."""
    return {"LL_CLAIM": " ".join([*outer.runs, run_id]), "LL_DEPTH": str(outer.depth + 1)}


def holders(root: str) -> list[Holder]:
    """Return every run of the project that is alive; queued ones are not included."""
    folder = find_folder(root, RUNNING)
    if folder is None:
        return []
    with folder, guarded_shared(folder):
        return _live(folder, root)


def alive(root: str, name: str) -> Holder | None:
    """Return the living run of that name, or None; a queued one does not count.

    Raises `UsageError` if the name is not valid.
    """
    folder = find_folder(root, RUNNING)
    if folder is None:
        return None
    with folder, guarded_shared(folder):
        raw = held(folder, check_run_name(name) + PID)
    return None if raw is None else from_bytes(raw, name, root)


def waiting(root: str) -> list[Holder]:
    """Return every queued run whose process is alive, in order of arrival."""
    folder = find_folder(root, RUNNING)
    if folder is None:
        return []
    with folder, guarded_shared(folder):
        return [ticket.holder for ticket in _tickets(folder, root)]


class Claim:
    """A name and a scope held by this process until it releases them or ends.

    `others` are the runs of the project that were alive, or had been killed, when it was taken.
    """

    def __init__(
        self, folder: Folder, holder: Holder, descriptor: int, others: tuple[Holder, ...]
    ) -> None:
        """Take over an open folder and a locked descriptor; `release` closes both."""
        self.holder = holder
        self.others = others
        self._folder = folder
        self._descriptor = descriptor
        _OPEN.add(descriptor)

    def release(self) -> None:
        """Remove the `.pid` file, unlock it and close the folder; a second call does nothing.

        If the guard cannot be taken in time, the file stays, but nobody holds it.
        """
        if self._descriptor not in _OPEN:
            return
        name = self.holder.name + PID
        with suppress(StorageError), guarded(self._folder, RELEASE_WAIT_S):
            if has_name(self._folder, name, self._descriptor):
                self._folder.remove(name)
        # Whatever happened to the file, the claim ends here.
        _OPEN.discard(self._descriptor)
        os.close(self._descriptor)
        self._folder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


# A child that shares the descriptor would hold the lock after we are dead. Executed programs lose
# it by themselves; forked children close it here.
_OPEN: set[int] = set()


def _close_in_child() -> None:
    """Close the descriptors of claims and tickets in a forked child."""
    for descriptor in _OPEN:
        with suppress(OSError):
            os.close(descriptor)
    _OPEN.clear()


os.register_at_fork(after_in_child=_close_in_child)


def claim(
    root: str,
    name: str,
    scope: tuple[str, ...],
    run_id: str,
    *,
    loop: str,
    started_at: str,
    outer: tuple[str, ...] = (),
    within: tuple[str, ...] = (),
    queue: bool = False,
    say: Callable[[str], None] = lambda line: None,
    stop: Stop | None = None,
) -> Claim:
    """Take the claim on a name and a scope (absolute paths), and return it.

    Raises `ConflictError` if another run blocks it. With `queue`, wait for that run instead, if
    waiting cannot deadlock; `say` gets a line for each run waited for, and `stop` raises
    `WaitStopped`.
    """
    check_run_name(name)
    folder = make_folder(root, RUNNING)
    try:
        wanted = this_process(name, scope, run_id, loop=loop, started_at=started_at, outer=outer)
        return _claim(_ClaimContext(folder, root, queue, (*outer, *within)), wanted, say, stop)
    except BaseException:
        folder.close()
        raise


class _ClaimContext(NamedTuple):
    """The directory of claims, and what a new claim brings along."""

    folder: Folder
    root: str
    may_queue: bool
    within: tuple[str, ...]


def _claim(
    claims_file: _ClaimContext, wanted: Holder, say: Callable[[str], None], stop: Stop | None
) -> Claim:
    """Take the claim, or join the queue and wait; takes the guard. The ticket is removed in any
    case.

    Raises `ConflictError` if the run may not wait, `WaitStopped` if it was stopped while waiting.
    """
    with guarded(claims_file.folder):
        live = _live(claims_file.folder, claims_file.root)
        wanted = _limit_to_outer_scope(wanted, live)
        blocker = _blocker(claims_file, wanted, live)
        if blocker is None:
            return _take_claim(claims_file, wanted, live)
        _check_may_wait(claims_file, wanted, blocker, live)
        ticket = _take_ticket(claims_file, wanted)
    try:
        return _wait(claims_file, wanted, ticket.number, blocker, say, stop)
    finally:
        ticket.leave_queue()


def _wait(
    claims_file: _ClaimContext,
    wanted: Holder,
    number: int,
    blocker: Blocker,
    say: Callable[[str], None],
    stop: Stop | None,
) -> Claim:
    """Poll until nothing blocks the run that holds ticket `number`, and take its claim.

    Raises `WaitStopped` on a stop, `ConflictError` if a run that may not be waited for blocks it
    now.
    """
    announced = None
    while True:
        if blocker.holder.name != announced:
            announced = blocker.holder.name
            what = (
                f"the remaining processes of '{announced}'"
                if blocker.doing == "killed"
                else f"'{announced}'"
            )
            say(f"Waiting for {what} to complete...")
        if _stopped(stop):
            raise WaitStopped(f"`{wanted.name}` was stopped while it waited for `{announced}`")
        with guarded(claims_file.folder):
            live = _live(claims_file.folder, claims_file.root)
            found = _blocker(claims_file, wanted, live, number)
            if found is None:
                return _take_claim(claims_file, wanted, live)
            blocker = found
            _check_may_wait(claims_file, wanted, blocker, live)


def _stopped(stop: Stop | None) -> bool:
    """Wait for one polling interval. Return True as soon as a stop is requested."""
    if stop is not None:
        return stop.wait(POLL_S)
    time.sleep(POLL_S)
    return False


def _limit_to_outer_scope(wanted: Holder, live: list[Holder]) -> Holder:
    """Limit a nested run to the scope of the innermost enclosing run that is alive: a path that
    contains parts of that scope becomes those parts, as `.` does.

    Enclosing runs that are not alive are dropped from `outer`; a path outside that scope stays.
    """
    known = {holder.run_id: holder for holder in live}
    outer = [known[run_id] for run_id in wanted.outer if run_id in known]
    if not outer:
        return wanted._replace(outer=())
    room = outer[-1].scope
    scope: dict[str, None] = {}
    for path in wanted.scope:
        below = [each for each in room if contains(path, each)]
        inside = any(contains(each, path) for each in room)
        scope.update(dict.fromkeys([path] if inside or not below else below))
    return wanted._replace(scope=tuple(scope), outer=tuple(holder.run_id for holder in outer))


BlockerActivity = Literal["running", "waiting to run", "killed", "killed elsewhere"]


class Blocker(NamedTuple):
    """A run that must end before another can start; `left` names processes that outlived its
    runner."""

    holder: Holder
    doing: BlockerActivity
    left: str = ""


def blockers(
    root: str, name: str, scope: tuple[str, ...], environ: Mapping[str, str]
) -> list[Blocker]:
    """Return every run that conflicts with this name and scope (absolute paths), to show them: alive,
    queued, or killed while its action still runs, or may still run on another machine.

    The enclosing runs that `environ` names do not conflict, unless they have the same name.
    """
    wanted = unknown(name, root)._replace(scope=scope, outer=nesting(environ).runs)
    folder = find_folder(root, RUNNING)
    if folder is None:
        return []
    with folder, guarded_shared(folder):
        found = [Blocker(holder, "running") for holder in _live(folder, root)]
        found += [Blocker(ticket.holder, "waiting to run") for ticket in _tickets(folder, root)]
        found = [each for each in found if _conflicts(wanted, each.holder)]
        return found + list(_left_behind(folder, root, wanted))


def waits_for(root: str, queued: Holder) -> Blocker | None:
    """Return the run that a queued one waits for; None if nothing is in its way."""
    folder = find_folder(root, RUNNING)
    if folder is None:
        return None
    with folder, guarded_shared(folder):
        for holder in _live(folder, root):
            if _conflicts(queued, holder):
                return Blocker(holder, "running")
        for left in _left_behind(folder, root, queued):
            return left
        for ticket in _tickets(folder, root):
            if ticket.holder == queued:
                break
            if _may_wait(queued, ticket.holder) and _conflicts(queued, ticket.holder):
                return Blocker(ticket.holder, "waiting to run")
    return None


def _blocker(
    claims_file: _ClaimContext, wanted: Holder, live: list[Holder], number: int | None = None
) -> Blocker | None:
    """Return the run that must end first, or None: a living one, else one that was killed and left
    processes, else one that was queued before ticket `number` (any queued run without a number).

    The guard must be held; tickets of dead processes are removed.
    """
    for holder in sorted(live, key=lambda each: (len(each.outer), each.name)):
        if _conflicts(wanted, holder):
            return Blocker(holder, "running")
    for left in _left_behind(claims_file.folder, claims_file.root, wanted):
        return left
    for ticket in _tickets(claims_file.folder, claims_file.root, tidy=True):
        came_first = number is None or ticket.number < number
        if came_first and _may_wait(wanted, ticket.holder) and _conflicts(wanted, ticket.holder):
            return Blocker(ticket.holder, "waiting to run")
    return None


def _conflicts(wanted: Holder, other: Holder) -> bool:
    if wanted.name == other.name:
        return True
    return other.run_id not in wanted.outer and overlaps(wanted.scope, other.scope)


def _may_wait(wanted: Holder, other: Holder) -> bool:
    return not wanted.outer or wanted.outer[-1] in other.outer


def _left_behind(folder: Folder, root: str, wanted: Holder) -> Iterator[Blocker]:
    """Yield runs that conflict, whose runner was killed, and whose last action runs on, or may do
    so elsewhere.

    Leftovers of the wanted run itself on this machine are ended before it starts.
    """
    for holder in _dead(folder, root):
        if not _conflicts(wanted, holder):
            continue
        from little_loops.runs.leftovers import in_flight, left_running, whereabouts  # rare

        where = whereabouts(holder)
        if where == "elsewhere" and in_flight(holder, root) is not None:
            yield Blocker(holder, "killed elsewhere")
        elif where == "here" and holder.name != wanted.name:
            if left := left_running(holder, root):
                names = ", ".join(f"{one.name} (pid {one.pid})" for one in left[:MOST_NAMED])
                yield Blocker(holder, "killed", names)


def _would_deadlock(claims_file: _ClaimContext, blocker: Blocker, live: list[Holder]) -> bool:
    """Return whether the blocker cannot end before the action that is starting this run, which
    waits for the start."""
    if blocker.holder.run_id in claims_file.within:
        return True
    is_inside = any(holder.run_id in claims_file.within for holder in live)
    # That one may itself be waiting for the action.
    return is_inside and blocker.doing == "waiting to run"


def _check_may_wait(
    claims_file: _ClaimContext, wanted: Holder, blocker: Blocker, live: list[Holder]
) -> None:
    """Raise `ConflictError` unless this run may wait in the queue for the blocker."""
    message, remedy = _explain(claims_file, wanted, blocker)
    if blocker.doing == "killed elsewhere":
        raise ConflictError(message, remedy)
    if not _may_wait(wanted, blocker.holder):
        raise ConflictError(
            message,
            f"{remedy}; a nested run cannot wait for a run outside the one it is nested in",
        )
    if claims_file.may_queue and _would_deadlock(claims_file, blocker, live):
        raise ConflictError(message, f"{remedy}; a run cannot wait for the action that starts it")
    if not claims_file.may_queue:
        raise ConflictError(message, f"{remedy}; or use `--queue` to wait until the other run ends")


def _explain(claims_file: _ClaimContext, wanted: Holder, blocker: Blocker) -> tuple[str, str]:
    """Return why the run cannot start, and what the user can do about it."""
    match blocker.doing:
        case "killed":
            return _explain_orphan(claims_file, wanted, blocker)
        case "killed elsewhere":
            return _explain_elsewhere(wanted, blocker)
        case _ if wanted.name == blocker.holder.name:
            return _explain_same_name(wanted, blocker)
        case _:
            return _explain_overlap(claims_file, wanted, blocker)


def _explain_orphan(
    claims_file: _ClaimContext, wanted: Holder, blocker: Blocker
) -> tuple[str, str]:
    its, theirs = blocker.holder.name, show_scope(claims_file.root, blocker.holder.scope)
    return (
        f"Cannot start '{wanted.name}' - loop '{its}' was killed, but its action is still running",
        (
            f"still working on {theirs}: {blocker.left}. `ll-loop stop {its}` ends the action;"
            f" `ll-loop resume {its}` stops it and continues that run"
        ),
    )


def _explain_elsewhere(wanted: Holder, blocker: Blocker) -> tuple[str, str]:
    its, host = blocker.holder.name, blocker.holder.host
    who = "it" if its == wanted.name else f"loop '{its}'"
    return (
        (
            f"Cannot start '{wanted.name}' - {who} was killed on {host}, and this machine cannot see"
            " whether its action is still running there"
        ),
        (
            f"`ll-loop stop {its}` stops it if you run it on that machine;"
            f" `ll-loop stop {its} --gone` frees its scope if you know that it has ended"
        ),
    )


def _explain_same_name(wanted: Holder, blocker: Blocker) -> tuple[str, str]:
    from little_loops.runs.refusals import already  # few runs are refused

    message, help = already(wanted.name, blocker.doing, _process(wanted, blocker.holder))
    return message, help or ""


def _explain_overlap(
    claims_file: _ClaimContext, wanted: Holder, blocker: Blocker
) -> tuple[str, str]:
    mine, its = wanted.name, blocker.holder.name
    ours, theirs = (show_scope(claims_file.root, each.scope) for each in (wanted, blocker.holder))
    process = _process(wanted, blocker.holder)
    works = "is working" if blocker.doing == "running" else "will work"
    return (
        f"Cannot start '{mine}' - loop '{its}' is {blocker.doing} with overlapping scope",
        (
            f"'{its}' ({process}) {works} on {theirs}, and '{mine}' would work on {ours}:"
            " narrow the `scope` of one, or pass `--scope PATH`"
        ),
    )


def _process(wanted: Holder, holder: Holder) -> str:
    """Describe the process of a holder: its pid, and its host if that is not ours."""
    if not holder.pid:
        return f"its `{holder.name}{PID}` belongs to another user or is damaged"
    elsewhere = holder.host not in ("", wanted.host)
    return f"pid {holder.pid} on {holder.host}" if elsewhere else f"pid {holder.pid}"


def _take_claim(claims_file: _ClaimContext, wanted: Holder, live: list[Holder]) -> Claim:
    """Lock the `.pid` file of the name and write it; the guard is held, and no other run has the
    name.

    The claim takes over the folder. Raises `ConflictError` if the file is locked after all.
    """
    folder, name = claims_file.folder, wanted.name + PID
    known = {wanted.name, *(holder.name for holder in live)}
    others = (*live, *_read_dead(folder, claims_file.root, known))
    descriptor = folder.open(name, os.O_RDWR | os.O_CREAT)
    try:
        if not hold(descriptor):
            raise ConflictError(f"Cannot start '{wanted.name}' - it is already running")
        try:
            os.ftruncate(descriptor, 0)
            write_all(descriptor, to_bytes(wanted))
        except OSError as error:
            raise failure(error, "write", folder.place(name)) from error
    except BaseException:
        os.close(descriptor)
        raise
    return Claim(folder, wanted, descriptor, others)


class _Ticket(NamedTuple):
    number: int
    holder: Holder


def wait_elsewhere(root: str, waiting: Holder) -> Ticket:
    """Show a run as queued that waits somewhere else, until it leaves the queue or this process
    ends."""
    with make_folder(root, RUNNING) as folder, guarded(folder):
        return _take_ticket(_ClaimContext(folder, root, True, ()), waiting)


class Ticket:
    """A place in the queue, held like a claim: it disappears with its process."""

    def __init__(self, queue: Folder, number: int, descriptor: int) -> None:
        """Take over the open folder of the queue and a locked descriptor; `leave_queue` closes
        both."""
        self.number = number
        self._queue = queue
        self._descriptor = descriptor
        _OPEN.add(descriptor)

    def leave_queue(self) -> None:
        """Remove the ticket and unlock it. No guard is needed: nobody else removes or reuses its
        number."""
        with suppress(StorageError):
            self._queue.remove(_ticket_name(self.number))
        _OPEN.discard(self._descriptor)
        os.close(self._descriptor)
        self._queue.close()


def _ticket_name(number: int) -> str:
    return f"{number:012}"


def _take_ticket(claims: _ClaimContext, wanted: Holder) -> Ticket:
    """Lock and write a ticket with a number above all others; the guard must be held.

    Raises `StorageError` if it cannot be written.
    """
    queue = claims.folder.make(QUEUE)
    descriptor = None
    try:
        number = max([int(name) for name in queue.names() if name.isdigit()], default=0) + 1
        descriptor = queue.open(_ticket_name(number), os.O_RDWR | os.O_CREAT | os.O_EXCL)
        hold(descriptor)
        write_all(descriptor, to_bytes(wanted))
        return Ticket(queue, number, descriptor)
    except BaseException as error:
        if descriptor is not None:
            os.close(descriptor)
        queue.close()
        if isinstance(error, OSError):
            raise failure(error, "write", queue.path) from error
        raise


def _tickets(folder: Folder, root: str, *, tidy: bool = False) -> list[_Ticket]:
    """Return the tickets of living processes in order of arrival. With `tidy`, remove the others,
    which requires the guard."""
    queue = folder.child(QUEUE)
    if queue is None:
        return []
    tickets = []
    with queue:
        for name in sorted(name for name in queue.names() if name.isdigit()):
            raw = held(queue, name)
            if raw is not None:
                holder = from_bytes(raw, None, root)
                tickets.append(_Ticket(int(name), holder))
            elif tidy:
                queue.remove(name)
    return tickets


def _read_dead(folder: Folder, root: str, known: set[str]) -> Iterator[Holder]:
    """Yield the claims of dead processes: all that are not in `known`, the names of the living
    ones. Unreadable files are skipped."""
    for name in named(folder.names(), PID):
        with suppress(StorageError):
            if name not in known and (raw := folder.read(name + PID, MAX_PID_BYTES)):
                yield from_bytes(raw, name, root)


def _dead(folder: Folder, root: str) -> Iterator[Holder]:
    """Yield the claims whose process ended without releasing them. Unreadable files are skipped."""
    for name in named(folder.names(), PID):
        file = name + PID
        with suppress(StorageError):
            if held(folder, file) is None and (raw := folder.read(file, MAX_PID_BYTES)):
                yield from_bytes(raw, name, root)


def _live(folder: Folder, root: str) -> list[Holder]:
    """Return the holders of locked `.pid` files. The guard must be held, at least shared."""
    found = []
    for name in named(folder.names(), PID):
        raw = held(folder, name + PID)
        if raw is not None:
            found.append(from_bytes(raw, name, root))
    return found
