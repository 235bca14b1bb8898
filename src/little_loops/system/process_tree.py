"""Find the processes that belong to a run or an action, and end all of them.

A process is recognised by the run's token in its environment, by its session, by its parent, or by
a working directory that only the run uses. A run started in the background from inside an action
has its own token and is not touched. A pid alone never decides: pids are reused, so each process is
identified by its time of birth and signalled through a descriptor.

Not here: starting an action and reading its output (`process`).
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache

from little_loops.light_modules import signal
from little_loops.records import NamedTuple
from little_loops.system.process_table import SYSTEM, Process, System
from little_loops.system.stops import StopFlag, poll_ms

RUN_ID = "LL_RUN_ID"
DETACHED = "LL_DETACHED"
OF_ONE_ACTION = (RUN_ID, "LL_STEP_ID", "LL_ATTEMPT")
READS_FOR_LEFTOVERS = "LL_DRAIN"

KILL_WAIT_S = 5.0
"""How long to wait for killed processes; one that takes longer hangs in the kernel."""
LOOK_EACH_S = 0.02
"""How often to check a process if the system cannot notify us of its end."""
KILL_AGAIN_S = 0.5
NAME_LENGTH = 80

Plan = Sequence[tuple[int, float]]
"""Signals to send in turn, each with the seconds to wait after it; KILL follows."""

Wait = Callable[[Collection[int], float], Collection[int]]
"""Waits until a descriptor is ready or the time is up; returns the ready ones."""


class Member(NamedTuple):
    """A process of a run; `created` is in the system's own unit, only good for comparison."""

    pid: int
    created: float
    name: str


class ActionSession(NamedTuple):
    """The session of an action; boot id and birth distinguish it from a later one with its number."""

    sid: int
    born: float
    boot: str


@cache
def _boot() -> str:
    return SYSTEM.boot()


def session(pid: int) -> ActionSession:
    """Return the session that `pid`, an action started just now, leads; it is stored with the run."""
    return ActionSession(pid, SYSTEM.born_by(pid), _boot())


# --- members ---


def marks_of(run_id: str, step: int, attempt: int) -> dict[str, str]:
    """Return the variables that identify the processes of one action."""
    return dict(zip(OF_ONE_ACTION, (run_id, f"{run_id}/{step}", str(attempt)), strict=True))


@cache
def reader_mark() -> str:
    """Return the random mark of readers that this process starts; no action can guess it."""
    return os.urandom(8).hex()


def members(
    run_id: str,
    sessions: Collection[ActionSession] = (),
    roots: Collection[int] = (),
    *,
    marks: Mapping[str, str] | None = None,
    place: str | None = None,
    spared: Mapping[str, str] | None = None,
    system: System = SYSTEM,
) -> list[Member]:
    """Return the living processes of a run, everything below `roots`, and what works in `place`.

    With `marks`, only those of the action that has them, and of the sessions. This process, its
    ancestors and background runs are never included, nor is the action that has the marks `spared`.
    """
    seen, marks_at = system.processes(), cache(system.marks)
    known = {one.sid: one.born for one in sessions if one.boot == _boot()}
    token = {**(marks or {}), RUN_ID: run_id}

    def belongs(process: Process) -> bool:
        """Return whether a process has the run's token, session or parent, or works in `place`."""
        if process.parent in roots or _has(marks_at(process.pid), token):
            return True
        if place is not None and _is_in_folder(system.workplace(process.pid), place):
            return True
        leader = seen.get(process.session)
        born = known.get(process.session)
        return born is not None and (leader is None or leader.created <= born)

    is_unrelated = _is_unrelated_to(run_id, seen, marks_at)

    def is_stranger(process: Process) -> bool:
        return is_unrelated(process) or (bool(spared) and _has(marks_at(process.pid), spared or {}))

    return _pick(seen, belongs, is_stranger, system)


def _is_in_folder(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _has(marks: Mapping[str, str], token: Mapping[str, str]) -> bool:
    return all(marks.get(name) == value for name, value in token.items())


def action_members(leader: int, env: Mapping[str, str], *, system: System = SYSTEM) -> list[Member]:
    """Return the living processes of an action whose leader has not been reaped yet; `env` is the
    environment it was started with."""
    seen, marks = system.processes(), cache(system.marks)
    if leader not in seen and (first := system.look(leader)) is not None:
        seen[leader] = first  # all that is known without /proc
    token = {name: env.get(name) for name in OF_ONE_ACTION}
    # Inside an action of another run, our own token may be the same: then it proves nothing.
    is_unique = token[RUN_ID] is not None and any(os.environ.get(n) != token[n] for n in token)

    def belongs(process: Process) -> bool:
        """Return whether a process has the action's leader, session or token, or is an orphan of it
        that we adopted."""
        if leader in (process.pid, process.session):
            return True
        their = marks(process.pid)
        has_token = is_unique and all(their.get(name) == token[name] for name in token)
        is_earlier = is_unique and not has_token and their.get(RUN_ID) == token[RUN_ID]
        return has_token or (not is_earlier and _was_adopted(seen.get(leader), process))

    is_stranger = _is_unrelated_to(env.get(RUN_ID), seen, marks)
    return _pick(seen, belongs, lambda one: one.pid != leader and is_stranger(one), system)


def _was_adopted(leader: Process | None, process: Process) -> bool:
    """Return whether a process is an orphan that we adopted, born after the action was started."""
    is_ours = is_adopting() and process.parent == os.getpid()
    return is_ours and leader is not None and process.created >= leader.created


def _is_unrelated_to(
    run_id: str | None, seen: Mapping[int, Process], marks: Callable[[int], Mapping[str, str]]
) -> Callable[[Process], bool]:
    """Return a test for processes that a run must never end.

    These are itself, its workers, its ancestors, and background runs.
    """
    own_session = os.getsid(0)
    ancestors = {os.getpid()}
    above = seen.get(os.getpid())
    while above is not None and above.parent not in ancestors:
        ancestors.add(above.parent)
        above = seen.get(above.parent)

    def is_stranger(process: Process) -> bool:
        """Return whether a process must not be ended."""
        if process.pid in ancestors or process.session == own_session:
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
    """Return the processes that belong and all below them, but no strangers and nothing below
    those."""
    settled: dict[int, bool] = {}

    def is_member(process: Process | None) -> bool:
        """Return whether a process, or the nearest ancestor that decides, belongs."""
        path, verdict = [], False
        while process is not None:
            if process.pid in settled:
                verdict = settled[process.pid]
                break
            path.append(process.pid)
            settled[process.pid] = False  # a reused pid may form a cycle
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
    """Send the plan's signals in turn, then KILL until `find` finds no more, for `KILL_WAIT_S` at
    most. Return what was ended.

    `leader` is a child of ours, not yet reaped, that leads a process group; INT goes to it alone.
    When `hurry` returns true, KILL follows at once.
    """
    wait = wait or _wait
    seen_members = {
        one[:2]: one for one in found
    }  # by pid and birth, because a process may change its name
    for signum, grace_s in plan:
        if not found or hurry():
            break
        if signum == signal.SIGINT:  # an agent ends its own tools on INT, better than we can
            receivers, group = [one for one in found if one.pid == leader], None
        else:
            receivers, group = found, leader
        send_signal(receivers, signum, group)
        send_signal(receivers, signal.SIGCONT, group)  # a suspended process cannot react
        _wait_for_exits(receivers, grace_s, wait, hurry)
        found = find()
        seen_members.update({one[:2]: one for one in found})
    until = time.monotonic() + KILL_WAIT_S
    while found and time.monotonic() < until:
        send_signal(found, signal.SIGKILL, leader)
        _wait_for_exits(found, KILL_AGAIN_S, wait, lambda: False)
        found = find()
        seen_members.update({one[:2]: one for one in found})
    left = {one[:2] for one in found}
    return [one for identity, one in seen_members.items() if identity not in left]


def sweep(
    run_id: str,
    sessions: Collection[ActionSession] = (),
    grace_s: float = 5.0,
    *,
    roots: Collection[int] = (),
    marks: Mapping[str, str] | None = None,
    place: str | None = None,
    spared: Mapping[str, str] | None = None,
    stop: StopFlag | None = None,
) -> list[Member]:
    """End what a run has left running, as found by `members`: TERM, and KILL after `grace_s` or a
    second stop request. Return what was ended."""

    def find() -> list[Member]:
        return members(run_id, sessions, roots, marks=marks, place=place, spared=spared)

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


def send_signal(found: Collection[Member], signum: int, group: int | None = None) -> None:
    """Signal each process once, and with `group` that whole group in one call, so that no new
    process escapes. Processes that are gone or not ours are skipped."""
    singly = found
    if group is not None:
        singly = [one for one in found if not _is_in_group(group, one)]
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signum)
    for one in singly:
        _signal(one, signum)


def _is_in_group(group: int, member: Member) -> bool:
    with suppress(OSError):
        return os.getpgid(member.pid) == group
    return False


def _signal(member: Member, signum: int) -> None:
    """Signal exactly this process, unless it is gone."""
    descriptor = _pidfd(member)
    with suppress(ProcessLookupError, PermissionError):
        if descriptor is not None:
            signal.pidfd_send_signal(descriptor, signum)
        elif _is_alive(member):
            os.kill(member.pid, signum)
    if descriptor is not None:
        os.close(descriptor)


def _pidfd(member: Member) -> int | None:
    """Return a descriptor of exactly this process; None if it is gone or not supported."""
    try:
        descriptor = os.pidfd_open(member.pid)
    except (AttributeError, OSError):
        return None
    # It refers to whichever process has the pid now, and stays with it.
    if _is_alive(member):
        return descriptor
    os.close(descriptor)
    return None


def _is_alive(member: Member) -> bool:
    """Return whether this very process is still running."""
    seen = SYSTEM.look(member.pid)
    return seen is not None and seen.created == member.created and not seen.is_zombie


def _wait_for_exits(
    receivers: Collection[Member], seconds: float, wait: Wait, hurry: Callable[[], bool]
) -> None:
    """Wait until all of these processes have ended, the time is over, or `hurry` returns true."""
    until = time.monotonic() + seconds
    watched, polled = [], []
    for one in receivers:
        if (fd := _pidfd(one)) is not None:
            watched.append(fd)
        else:
            polled.append(one)
    pending = watched.copy()
    try:
        while not hurry() and (left := until - time.monotonic()) > 0:
            polled = [one for one in polled if _is_alive(one)]
            if not pending and not polled:
                return
            ready = wait(pending, min(left, LOOK_EACH_S) if polled else left)
            pending = [fd for fd in pending if fd not in ready]
    finally:
        for fd in watched:
            os.close(fd)


def _wait(fds: Collection[int], seconds: float, stop: StopFlag | None = None) -> Collection[int]:
    """Wait for descriptors or a stop, `seconds` at most. Return the ready ones."""
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
    """Make orphans of our actions our children from now on, after any fork. Has no effect except on
    Linux."""
    global _adopter  # noqa: PLW0603 - stands for a flag of the process itself
    if is_adopting():
        return
    if sys.platform == "linux" and _prctl(_PR_SET_CHILD_SUBREAPER, 1) == 0:
        _adopter = os.getpid()


def _prctl(option: int, value: int) -> int:
    """Call `prctl`, which Python does not offer. Return 0 if it worked."""
    # What `ctypes` is built on; importing all of it takes 1 ms.
    from _ctypes import call_function, dlopen, dlsym

    own_symbols = dlopen(None, os.RTLD_NOW)  # type: ignore[arg-type]
    return int(call_function(dlsym(own_symbols, "prctl"), (option, value, 0, 0, 0)))


def is_adopting() -> bool:
    return _adopter is not None and _adopter == os.getpid()


def reap() -> bool:
    """Reap the orphans that have ended. Return True if no child is left at all.

    Only for a process that has adopted them: other children must not be reaped here.
    """
    own_session = os.getsid(0)
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return True
        # Our own workers are in our session; an orphan of an action never is.
        if ended is None or os.getsid(ended.si_pid) == own_session:
            return False
        os.waitpid(ended.si_pid, 0)
