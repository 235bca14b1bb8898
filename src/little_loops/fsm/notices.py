"""Which notifications a run sends: what people are told, when, and to which kind of address.

A notification has the loop, how the run ended or what it waits for, the reason and the cost. It
never has output, because it leaves the machine.

Not here: sending (`engine.notifying`), the process that does (`engine.send_notice`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from little_loops.fsm.events import (
    AgentWait,
    Entry,
    FinalEvent,
    Handoff,
    HostWait,
    LoopComplete,
    LoopError,
    LoopInterrupted,
    LoopPaused,
    LoopTimeout,
)
from little_loops.fsm.schema import COMPLETED, FAILED, WAITS, Notify
from little_loops.fsm.timestamps import timestamp
from little_loops.light_typing import Any, Final, Literal
from little_loops.records import NamedTuple
from little_loops.templates.parse import Piece, Reference, TemplateError, parse, references

LONG_WAIT_MS: Final = 600_000
"""A wait for an agent that takes longer is worth a notification."""
LONGEST_SHOWN: Final = 40
Channel = Literal["ntfy", "webhook", "command"]
_KINDS_OF_ADDRESS: Final = (
    "write `ntfy://SERVER/TOPIC`, the `https://` URL of a webhook, or a command"
)


class Notice(NamedTuple):
    """What people are told about a run; `until_ms` is when its wait will be over, if known."""

    occasion: str
    loop: str
    run: str
    ending: str
    reason: str
    cost_usd: float | None = None
    until_ms: int | None = None


class Due(NamedTuple):
    """A notification, and the earliest wall-clock time to send it; another event before then
    cancels it."""

    notice: Notice
    at_ms: int


def due(loop: str, entry: Entry, spent_usd: float) -> Due | None:
    """Return the notification for an event of a run that has spent so much; None if it is not
    worth one."""
    event = entry.event
    match event:
        case LoopComplete() | LoopError() | LoopTimeout() | LoopInterrupted():
            return _at_end(loop, entry, event, FAILED)
        case LoopPaused() | Handoff():
            return _at_end(loop, entry, event, WAITS)
        case HostWait():
            notice = _waiting(loop, entry, "agent limit", spent_usd, event.until_wall_ms)
        case AgentWait():
            reason = f"agent {event.wait_for}"
            notice = _waiting(loop, entry, reason, spent_usd, event.until_wall_ms)
        case _:
            return None
    if notice.until_ms is None:  # nobody knows how long, so wait and see
        return Due(notice, entry.wall_ms + LONG_WAIT_MS)
    return Due(notice, entry.wall_ms) if notice.until_ms - entry.wall_ms > LONG_WAIT_MS else None


def _at_end(loop: str, entry: Entry, event: FinalEvent, occasion: str) -> Due:
    occasion = COMPLETED if event.status == "completed" else occasion
    notice = Notice(occasion, loop, entry.run, event.status, event.reason, event.cost_usd)
    return Due(notice, entry.wall_ms)


def _waiting(loop: str, entry: Entry, reason: str, usd: float, until_ms: int | None) -> Notice:
    return Notice(WAITS, loop, entry.run, "waiting", reason, usd, until_ms)


def crash(loop: str, run: str, cost_usd: float) -> Notice:
    """Return the notification about a run whose process is gone."""
    return Notice(FAILED, loop, run, "interrupted", "crash", cost_usd)


def text_of(notice: Notice) -> str:
    """Return a notification as one line: `Loop fix-types failed: max iterations ($1.20)`."""
    if notice.occasion == COMPLETED:
        what = "completed"
    else:
        how = "waits" if notice.occasion == WAITS else _words(notice.ending)
        what = f"{how}: {_words(notice.reason)}"
    until = "" if notice.until_ms is None else f" until {timestamp(notice.until_ms)}"
    cost = "" if notice.cost_usd is None else f" (${notice.cost_usd:.2f})"
    return f"Loop {notice.loop} {what}{until}{cost}"


def _words(name: str) -> str:
    return name.replace("_", " ")


def document_of(notice: Notice, wall_ms: int) -> dict[str, Any]:
    """Return a notification as a command gets it."""
    until = None if notice.until_ms is None else timestamp(notice.until_ms)
    fields = notice._asdict()
    del fields["until_ms"]
    return {**fields, "until": until, "ts": timestamp(wall_ms), "text": text_of(notice)}


# ── addresses ──────────────────────────────────────────────────────────────────────────────────


def channel_of(to: str) -> Channel:
    """Return the kind of an address whose variables are filled in."""
    if to.startswith("ntfy://"):
        return "ntfy"
    return "webhook" if to.startswith(("http://", "https://")) else "command"


def shown_address(to: str) -> str:
    """Return what an address is called where people read it: the rest may be a secret."""
    if is_template(to):
        return f"`{to}`"
    if channel_of(to) == "command":
        return f"`{to.splitlines()[0][:LONGEST_SHOWN]}`"
    server = to.partition("://")[2].partition("/")[0]
    return server.rpartition("@")[2]


def is_template(to: str) -> bool:
    """Return whether `to` is an address with variables to fill in; a command has none."""
    return "${" in to and (channel_of(to) != "command" or to.startswith("${env."))


def wrong_address(to: str) -> tuple[str, str] | None:
    """Return what is wrong with `to`, and the help; None if it can be used."""
    if is_template(to):
        return _wrong_template(to)
    if channel_of(to) == "command":
        return _wrong_command(to)
    if re.fullmatch(r"ntfy://[^/?#\s]+/[^/?#\s]+(\?secure=(true|false))?", to):
        return None
    if re.fullmatch(r"https?://[^/?#\s]+(/\S*)?", to):
        return None
    return "this address is not complete", _KINDS_OF_ADDRESS


def _wrong_template(to: str) -> tuple[str, str] | None:
    try:
        others = [each.text for each in references(to) if each.namespace != "env"]
    except TemplateError as error:
        return error.message, error.help or "write `${env.NAME}`"
    if others:
        return (
            f"`{others[0]}` is not filled in here",
            "in an address, only `${env.NAME}` is filled in",
        )
    return None


def _wrong_command(to: str) -> tuple[str, str] | None:
    if scheme := re.match(r"([a-z][a-z0-9+.-]*)://", to):
        return f"notifications cannot be sent to `{scheme[0]}`", _KINDS_OF_ADDRESS
    if inside := re.search(r"\$\{env\.(\w+)", to):
        help = f"a command reads variables itself: `${inside[1]}`"
        return f"`{inside[0]}}}` is not filled in here", help
    return None


def filled_address(to: str, environ: Mapping[str, str]) -> str:
    """Return an address with its variables filled in; empty if it says that nobody is notified.

    Raises `ValueError` if a variable is not set, or the result is no address.
    """
    if not is_template(to):
        return to
    filled = "".join(_filled_piece(each, environ) for each in parse(to))
    if filled and (channel_of(filled) == "command" or wrong_address(filled)):
        # The value may be a secret, so it is not shown.
        raise ValueError(f"`{to}` is not the address of an ntfy topic or a webhook")
    return filled


def _filled_piece(piece: Piece, environ: Mapping[str, str]) -> str:
    if not isinstance(piece, Reference):
        return piece if isinstance(piece, str) else "${"
    value = environ.get(piece.path[0], piece.fallback)
    if value is None:
        raise ValueError(f"the variable {piece.path[0]} is not set")
    return value.strip()


def recipients(notify: Sequence[Notify]) -> tuple[Notify, ...]:
    """Return each recipient once, with all the occasions on which it is notified."""
    found: dict[str, Notify] = {}
    for each in notify:
        before = found.get(each.to, Notify(each.to, ()))
        found[each.to] = Notify(each.to, tuple(dict.fromkeys((*before.when, *each.when))))
    return tuple(found.values())
