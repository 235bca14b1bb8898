"""Know which processes belong to a run or an action, and end them to the last one.

A process is known by the run's token in its environment, by its session, by its
parentage or by a directory in which nobody else has any business; a run started in the background from inside an action has a token of its own
and is left alone.  A number alone never decides: processes come and go, and their numbers
are used again, so each is checked by its time of birth and signalled through a descriptor.

Not here: starting an action and reading its output (`process`).
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache

from little_loops.records import NamedTuple
from little_loops.system.process_table import SYSTEM, Process, System
from little_loops.system.stops import StopFlag, poll_ms

RUN_ID = "LL_RUN_ID"
DETACHED = "LL_DETACHED"
OF_ONE_ACTION = (RUN_ID, "LL_STEP_ID", "LL_ATTEMPT")
READS_FOR_LEFTOVERS = "LL_DRAIN"

KILL_WAIT_S = 5.0
"""How long killed processes may take to vanish; beyond it one hangs in the kernel."""
LOOK_EACH_S = 0.02
"""How often to look at a process where the system cannot tell us that it ended."""
KILL_AGAIN_S = 0.5
NAME_LENGTH = 80

Plan = Sequence[tuple[int, float]]
"""Signals to try in turn, each with the seconds it is given; the last word is KILL."""

Wait = Callable[[Collection[int], float], Collection[int]]
"""Wait for one of these descriptors or for the time to pass; which of them are ready."""


class Member(NamedTuple):
    """A process of a run; `created` is on the system's own scale, only good for comparing."""

    pid: int
    created: float
    name: str


class Session(NamedTuple):
    """The session of an action; boot, and born by when, tell it from a later of that number."""

    sid: int
    born: float
    boot: str


@cache
def _boot() -> str:
    return SYSTEM.boot()


def session(pid: int) -> Session:
    """The session that `pid`, an action just started, leads; to be kept with the run."""
    return Session(pid, SYSTEM.born_by(pid), _boot())


# --- who belongs ---


def marks_of(run_id: str, step: int, attempt: int) -> dict[str, str]:
    """The variables by which the processes of one action are known."""
    return dict(zip(OF_ONE_ACTION, (run_id, f"{run_id}/{step}", str(attempt)), strict=True))


@cache
def reader_mark() -> str:
    """By which the readers that this process started are known; no action can make it up."""
    return os.urandom(8).hex()


def members(
    run_id: str,
    sessions: Collection[Session] = (),
    roots: Collection[int] = (),
    *,
    marks: Mapping[str, str] | None = None,
    place: str | None = None,
    system: System = SYSTEM,
) -> list[Member]:
    """The living processes of a run, all that is below `roots`, and what works in `place`.

    With `marks`, only those of the action that has them, and of the sessions.
    """
    seen, marks_at = system.processes(), cache(system.marks)
    known = {one.sid: one.born for one in sessions if one.boot == _boot()}
    token = {**(marks or {}), RUN_ID: run_id}

    def belongs(process: Process) -> bool:
        if process.parent in roots or _has(marks_at(process.pid), token):
            return True
        if place is not None and _is_in_folder(system.workplace(process.pid), place):
            return True
        leader = seen.get(process.session)
        born = known.get(process.session)
        return born is not None and (leader is None or leader.created <= born)

    return _pick(seen, belongs, _is_unrelated_to(run_id, seen, marks_at), system)


def _is_in_folder(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _has(marks: Mapping[str, str], token: Mapping[str, str]) -> bool:
    return all(marks.get(name) == value for name, value in token.items())


def action_members(leader: int, env: Mapping[str, str], *, system: System = SYSTEM) -> list[Member]:
    """The living processes of an action of ours whose leader has not been reaped yet."""
    seen, marks = system.processes(), cache(system.marks)
    if leader not in seen and (first := system.look(leader)) is not None:
        seen[leader] = first  # all there is to see without /proc
    token = {name: env.get(name) for name in OF_ONE_ACTION}
    # Inside an action of another run its token may still be ours: then it tells nothing.
    tells = token[RUN_ID] is not None and any(os.environ.get(n) != token[n] for n in token)

    def belongs(process: Process) -> bool:
        if leader in (process.pid, process.session):
            return True
        their = marks(process.pid)
        has_token = tells and all(their.get(name) == token[name] for name in token)
        is_earlier = tells and not has_token and their.get(RUN_ID) == token[RUN_ID]
        return has_token or (not is_earlier and _adopted_since(seen.get(leader), process))

    is_stranger = _is_unrelated_to(env.get(RUN_ID), seen, marks)
    return _pick(seen, belongs, lambda one: one.pid != leader and is_stranger(one), system)


def _adopted_since(leader: Process | None, process: Process) -> bool:
    """Whether it is an orphan that came to us, born after the action was started."""
    is_ours = is_adopting() and process.parent == os.getpid()
    return is_ours and leader is not None and process.created >= leader.created


def _is_unrelated_to(
    run_id: str | None, seen: Mapping[int, Process], marks: Callable[[int], Mapping[str, str]]
) -> Callable[[Process], bool]:
    """What a run may never end: itself, its workers, what started it, runs on their own."""
    own_session = os.getsid(0)
    line = {os.getpid()}
    above = seen.get(os.getpid())
    while above is not None and above.parent not in line:
        line.add(above.parent)
        above = seen.get(above.parent)

    def is_stranger(process: Process) -> bool:
        if process.pid in line or process.session == own_session:
            return True
        their = marks(process.pid)
        is_another = not their.get(RUN_ID) or their[RUN_ID] != run_id
        is_reader = their.get(READS_FOR_LEFTOVERS) == reader_mark()
        return is_reader or (their.get(DETACHED) == "1" and is_another)

    return is_stranger


def _pick(
    seen: Mapping[int, Process],
    belongs: Callable[[Process], bool],
    is_stranger: Callable[[Process], bool],
    system: System,
) -> list[Member]:
    """Those that belong and all below them, but no stranger and nothing below one."""
    settled: dict[int, bool] = {}

    def is_member(process: Process | None) -> bool:
        path, verdict = [], False
        while process is not None:
            if process.pid in settled:
                verdict = settled[process.pid]
                break
            path.append(process.pid)
            settled[process.pid] = False  # a number used again may close a circle
            if is_stranger(process):
                break
            if belongs(process):
                verdict = True
                break
            process = seen.get(process.parent)
        settled.update(dict.fromkeys(path, verdict))
        return verdict

    found = [one for one in seen.values() if not one.is_zombie and is_member(one)]
    return [Member(one.pid, one.created, system.name(one.pid)[:NAME_LENGTH]) for one in found]


# --- ending them ---


def end(
    found: list[Member],
    find: Callable[[], list[Member]],
    plan: Plan,
    *,
    leader: int | None = None,
    wait: Wait | None = None,
    hurry: Callable[[], bool] = lambda: False,
) -> list[Member]:
    """Signal by signal, then KILL until `find` finds no more; gives what was ended.

    `leader` is a child of ours, not yet reaped, that leads a group.
    """
    wait = wait or _wait
    met = {one[:2]: one for one in found}  # by number and birth: a process may change its name
    for signum, grace_s in plan:
        if not found or hurry():
            break
        if signum == signal.SIGINT:  # an agent told so ends its own tools, better than we can
            told, group = [one for one in found if one.pid == leader], None
        else:
            told, group = found, leader
        tell(told, signum, group)
        tell(told, signal.SIGCONT, group)  # what stands still cannot obey
        _await(told, grace_s, wait, hurry)
        found = find()
        met.update({one[:2]: one for one in found})
    until = time.monotonic() + KILL_WAIT_S
    while found and time.monotonic() < until:
        tell(found, signal.SIGKILL, leader)
        _await(found, KILL_AGAIN_S, wait, lambda: False)
        found = find()
        met.update({one[:2]: one for one in found})
    left = {one[:2] for one in found}
    return [one for identity, one in met.items() if identity not in left]


def sweep(
    run_id: str,
    sessions: Collection[Session] = (),
    grace_s: float = 5.0,
    *,
    roots: Collection[int] = (),
    place: str | None = None,
    stop: StopFlag | None = None,
) -> list[Member]:
    """End what a run has left behind, as `members` knows it; gives what was ended."""

    def find() -> list[Member]:
        return members(run_id, sessions, roots, place=place)

    def wait(fds: Collection[int], seconds: float) -> Collection[int]:
        return _wait(fds, seconds, stop)

    ended = end(
        find(),
        find,
        [(signal.SIGTERM, grace_s)],
        wait=wait,
        hurry=lambda: stop is not None and stop.is_urgent,
    )
    if is_adopting():
        reap()
    return ended


def tell(found: Collection[Member], signum: int, group: int | None = None) -> None:
    """Send a signal to all of them once, and to a group as one, so that no newborn slips by."""
    singly = found
    if group is not None:
        singly = [one for one in found if not _is_in(group, one)]
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signum)
    for one in singly:
        _signal(one, signum)


def _is_in(group: int, member: Member) -> bool:
    with suppress(OSError):
        return os.getpgid(member.pid) == group
    return False


def _signal(member: Member, signum: int) -> None:
    descriptor = _pidfd(member)
    with suppress(ProcessLookupError, PermissionError):
        if descriptor is not None:
            signal.pidfd_send_signal(descriptor, signum)
        elif _lives(member):
            os.kill(member.pid, signum)
    if descriptor is not None:
        os.close(descriptor)


def _pidfd(member: Member) -> int | None:
    """A descriptor of this very process; none if it is gone or there are none to be had."""
    try:
        descriptor = os.pidfd_open(member.pid)
    except (AttributeError, OSError):
        return None
    # It stands for whoever has the number now, and for nobody else from now on.
    if _lives(member):
        return descriptor
    os.close(descriptor)
    return None


def _lives(member: Member) -> bool:
    seen = SYSTEM.look(member.pid)
    return seen is not None and seen.created == member.created and not seen.is_zombie


def _await(told: Collection[Member], seconds: float, wait: Wait, hurry: Callable[[], bool]) -> None:
    """Wait until all of them have ended or the time is over."""
    until = time.monotonic() + seconds
    watched, looked_at = [], []
    for one in told:
        if (fd := _pidfd(one)) is not None:
            watched.append(fd)
        else:
            looked_at.append(one)
    pending = watched.copy()
    try:
        while not hurry() and (left := until - time.monotonic()) > 0:
            looked_at = [one for one in looked_at if _lives(one)]
            if not pending and not looked_at:
                return
            ready = wait(pending, min(left, LOOK_EACH_S) if looked_at else left)
            pending = [fd for fd in pending if fd not in ready]
    finally:
        for fd in watched:
            os.close(fd)


def _wait(fds: Collection[int], seconds: float, stop: StopFlag | None = None) -> Collection[int]:
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    if stop is not None:
        poll.register(stop, select.POLLIN)
    ready = {fd for fd, _ in poll.poll(poll_ms(seconds))}
    if stop is not None and stop.fileno() in ready:
        stop.drain()
    return ready


# --- orphans ---

_PR_SET_CHILD_SUBREAPER = 36
_adopter: int | None = None


def adopt_orphans() -> None:
    """From now on orphans of our actions become our children: called once, after any fork."""
    global _adopter  # noqa: PLW0603 - stands for a flag of the process itself
    if sys.platform == "linux":
        import ctypes  # slow, and only a run needs it

        if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0:
            _adopter = os.getpid()


def is_adopting() -> bool:
    return _adopter is not None and _adopter == os.getpid()


def reap() -> bool:
    """Bury the orphans that have ended; whether no child is left at all.

    Only for a process that has adopted them: another's children are not ours to bury.
    """
    own_session = os.getsid(0)
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return True
        # A worker of ours is in our session, an orphan of an action never is.
        if ended is None or os.getsid(ended.si_pid) == own_session:
            return False
        os.waitpid(ended.si_pid, 0)
