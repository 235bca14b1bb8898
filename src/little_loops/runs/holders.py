"""Who holds a name and a scope: the content of a `.pid` file, and whether that process is alive.

A holder is alive while its file is locked (`claims` checks). The content only describes it; before
a signal is sent, the process must prove to be the same one, so that a reused pid is never
signalled.
"""

from __future__ import annotations

import os

from little_loops import light_json as json
from little_loops.errors import UsageError
from little_loops.records import NamedTuple
from little_loops.system.files import to_json
from little_loops.system.process_table import SYSTEM


class Holder(NamedTuple):
    """A run that holds its name and its scope, or is queued for them. `outer`: the enclosing
    runs, `host`: the name of the computer (elsewhere in the code, a host is an agent program)."""

    name: str
    pid: int
    created: float
    boot: str
    host: str
    scope: tuple[str, ...]
    run_id: str
    started_at: str
    loop: str
    outer: tuple[str, ...] = ()
    namespace: str = ""


def this_process(
    name: str,
    scope: tuple[str, ...],
    run_id: str,
    *,
    loop: str,
    started_at: str,
    outer: tuple[str, ...] = (),
) -> Holder:
    """Return this process as the holder of a name and a scope."""
    pid = os.getpid()
    seen = SYSTEM.look(pid)
    created = 0.0 if seen is None else seen.created
    host = os.uname().nodename
    return Holder(
        name,
        pid,
        created,
        SYSTEM.boot(),
        host,
        scope,
        run_id,
        started_at,
        loop,
        outer,
        SYSTEM.namespace(),
    )


def unknown(name: str, root: str) -> Holder:
    """Return a holder of which only the name is known: it may work on anything."""
    return Holder(name, 0, 0.0, "", "", (root,), "", "", name)


def to_bytes(holder: Holder) -> bytes:
    """Encode a holder: the pid on the first line, as usual for such files, then the rest."""
    return b"%d\n%b\n" % (holder.pid, to_json(holder._asdict()))


def from_bytes(raw: bytes, name: str | None, root: str) -> Holder:
    """Decode the output of `to_bytes`; `name` is that of the file, None for a ticket.

    Damaged bytes give an `unknown` holder, whose scope is the whole project.
    """
    try:
        fields = json.loads(raw.split(b"\n")[1])
        fields["scope"], fields["outer"] = tuple(fields["scope"]), tuple(fields["outer"])
        fields["pid"] = int(fields["pid"])
        return _checked(Holder(**{**fields, "name": name or fields["name"]}))
    except (IndexError, KeyError, TypeError, ValueError, OverflowError, RecursionError):
        return unknown(name or "?", root)


def _checked(holder: Holder) -> Holder:
    """Return the holder with its fields checked. Raises `TypeError` or `ValueError` for a wrong
    type."""
    texts = (holder.name, holder.boot, holder.host, holder.run_id, holder.started_at, holder.loop)
    lists = (*holder.scope, *holder.outer)
    if not all(isinstance(text, str) for text in (*texts, *lists, holder.namespace)):
        raise TypeError("a string is not a process")
    return holder._replace(created=float(holder.created))


def still_same(holder: Holder) -> bool:
    """Return whether that pid still belongs to the process that wrote the file, here and since this
    boot; False also if that cannot be seen from this container."""
    if holder.pid < 1 or holder.host != os.uname().nodename or holder.boot != SYSTEM.boot():
        return False
    if holder.namespace not in ("", SYSTEM.namespace()):
        return False
    seen = SYSTEM.look(holder.pid)
    return seen is not None and not seen.is_zombie and seen.created == holder.created


def send(holder: Holder, signum: int) -> bool:
    """Signal a holder's process. Return False, without signalling anyone, if it is gone or not
    here.

    Raises `UsageError` if it belongs to another user.
    """
    if not still_same(holder):
        return False
    try:
        return _send(holder, signum)
    except ProcessLookupError:
        return False
    except PermissionError as error:
        raise UsageError(f"`{holder.name}` (pid {holder.pid}) belongs to another user") from error


def _send(holder: Holder, signum: int) -> bool:
    """Signal the process through a pidfd if possible. Return False if its pid was reused meanwhile.

    Raises `ProcessLookupError` or `PermissionError`.
    """
    from signal import pidfd_send_signal  # only stopping needs it

    descriptor = _pidfd(holder.pid)
    if descriptor is None:
        os.kill(holder.pid, signum)
        return True
    try:
        # The descriptor pins the process; before it was opened, the pid could have been reused.
        if not still_same(holder):
            return False
        pidfd_send_signal(descriptor, signum)
        return True
    finally:
        os.close(descriptor)


def _pidfd(pid: int) -> int | None:
    """Return a descriptor for the process, or None if the system does not support it.

    Raises `ProcessLookupError` if there is no such process.
    """
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except OSError:
        return None
