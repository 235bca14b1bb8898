"""All there is to say about one run, for people and for programs."""

from __future__ import annotations

import json
import os
from contextlib import nullcontext
from typing import Any

from little_loops.errors import StorageError
from little_loops.fsm.events import timestamp, wall_ms_of
from little_loops.fsm.schema import DEFAULT_HOST
from little_loops.fsm.values import duration_text
from little_loops.records import NamedTuple
from little_loops.reporting.escape import visible
from little_loops.reporting.lines import RELAY, one_line
from little_loops.runs.folders import folder_of
from little_loops.runs.inspect import Closer, Facts, Seen, as_json, ran_ms, texts_of
from little_loops.runs.last_output import last_heard_ms
from little_loops.runs.layout import DATA, LOG, RUN_JSON, SPAWN
from little_loops.runs.path_taken import BAD, GOOD, Visit, visits
from little_loops.runs.storage import MAX_BYTES
from little_loops.system.process_table import SYSTEM
from little_loops.terminal.durations import ago, moment, rough
from little_loops.terminal.summaries import count, ending_of, money, signed, word_of
from little_loops.terminal.tables import Style, cells, cut

VISITS = 6
CONTINUATION = 200
LABEL = 11
SECOND = 22
SMALL = 1 << 16
DEFAULT_ITERATIONS = 50


class Session(NamedTuple):
    """The session that was started to go on with a run."""

    pid: int
    is_alive: bool


class Details(NamedTuple):
    """What stands in a run's other files; None where it does not, or cannot be read."""

    machine: dict[str, Any]
    last_output_ms: int | None
    session: Session | None


def details(one: Seen) -> Details:
    try:
        folder = None if one.status == "queued" else folder_of(one.files)
        if folder is None:
            return Details({}, None, None)
        with folder:
            note = _read(folder.read(one.files.base + SPAWN, SMALL))
            data = folder.child(one.files.base + DATA)
            with data or nullcontext():
                heard_ms = last_heard_ms(folder, one.files.base + LOG, data)
                kept = _read(data.read(RUN_JSON, MAX_BYTES)) if data is not None else {}
    except StorageError:
        return Details({}, None, None)
    machine = kept.get("loop")
    return Details(
        machine if isinstance(machine, dict) else {},
        heard_ms,
        _session(note) if one.status == "awaiting_continuation" else None,
    )


def _read(raw: bytes | None) -> dict[str, Any]:
    try:
        found = json.loads(raw or b"{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _session(note: dict[str, Any]) -> Session | None:
    pid = note.get("pid")
    if type(pid) is not int or pid < 1:
        return None
    found = SYSTEM.look(pid)
    # A number that was given to somebody else since does not make the session alive.
    same = found is not None and note.get("created") in (None, found.created)
    return Session(pid, same and found is not None and not found.is_zombie)


# ── for programs ───────────────────────────────────────────────────────────────────────────────


def document(closer: Closer, now: int) -> dict[str, Any]:
    one, more = closer.seen, details(closer.seen)
    action = _action(closer)
    return as_json(one, now) | {
        "max_iterations": _limit(one, more.machine),
        "action": action.text if action else None,
        "action_type": action.kind if action else None,
        "last_output_at": None if more.last_output_ms is None else timestamp(more.last_output_ms),
        "path": [visit._asdict() for visit in visits(closer.records)[-VISITS:]],
        "wait": _wait(closer),
        "spawn": None
        if more.session is None
        else {"pid": more.session.pid, "alive": more.session.is_alive},
    }


def _wait(closer: Closer) -> dict[str, Any] | None:
    facts = closer.seen.facts
    if facts is None or facts.wait is None:
        return None
    return {**facts.wait, "why": texts_of(closer.seen, closer.records).waits_for}


def _limit(one: Seen, machine: dict[str, Any]) -> int | None:
    """How many iterations it may take; None where nobody knows any more."""
    if one.facts is None or not machine:
        return None
    limit = one.facts.max_iterations or machine.get("max_iterations", DEFAULT_ITERATIONS)
    return limit if type(limit) is int else None


class Action(NamedTuple):
    text: str
    kind: str
    state: str
    started_ms: int


def _action(closer: Closer) -> Action | None:
    """The action under way."""
    if closer.seen.status != "running":
        return None
    for record in reversed(closer.records):
        if record["event"] in ("action_complete", "action_interrupted"):
            return None
        if record["event"] == "action_start":
            return Action(
                str(record.get("action")),
                str(record.get("action_type")),
                str(record.get("state")),
                _ms(record),
            )
    return None


def _ms(record: dict[str, Any]) -> int:
    try:
        return wall_ms_of(record["ts"])
    except (KeyError, TypeError, ValueError):
        return 0


# ── for people ─────────────────────────────────────────────────────────────────────────────────


def page(closer: Closer, style: Style, now: int, verbose: int = 0) -> list[str]:
    one = closer.seen
    lines = [_headline(one, style, now, verbose)]
    if one.damage:
        label = "format" if one.status == "newer" else "damage"
        lines += _row(label, [visible(one.damage, newlines=False)], style)
    if one.facts is not None:
        lines += _body(closer, one.facts, details(one), style, now)
    elif one.status != "queued":
        lines += _row("log", [_from_here(one.files.log)], style)
    return lines


def _headline(one: Seen, style: Style, now: int, verbose: int) -> str:
    facts = one.facts
    parts = [visible(one.name)]
    if one.is_alive or facts is None:
        parts.append(style.tinted(signed(one, word_of(one), style)))
    else:
        ending = visible(ending_of(one), newlines=False)
        parts.append(style.tinted(signed(one, ending, style)))
    if one.holder is not None and one.holder.pid:
        parts.append(f"pid {one.holder.pid}")
    if facts is not None:
        parts.append(duration_text(ran_ms(one, now)))
        if not one.is_alive:
            parts.append(moment(facts.updated_ms) if verbose else ago(facts.updated_ms, now))
        elif verbose:
            parts.append(f"since {moment(facts.started_ms)}")
    return "  ".join(parts)


def _body(closer: Closer, facts: Facts, more: Details, style: Style, now: int) -> list[str]:
    one, shown = closer.seen, texts_of(closer.seen, closer.records)
    iteration = _iteration(facts, _limit(one, more.machine))
    lines = _row("state", [_state(closer, facts, now), iteration], style)
    if one.status == "running" and (wait := _wait(closer)) is not None:
        lines += _row("waiting", [_waiting(wait, ran_ms(one, now), now)], style)
    elif action := _action(closer):
        lines += _doing(action, more, style, now)
    if shown.error and shown.error != facts.reason and not one.is_alive:
        label = "error" if one.status == "failed" else "message"
        lines += _row(label, [visible(one_line(shown.error), newlines=False)], style)
    if path := _path(closer, style):
        lines += _row("path", [path], style)
    if facts.cost_usd or facts.tokens:
        used = f"{money(facts.cost_usd, '$0')} {style.signs.dot} {count(facts.tokens)} tokens"
        lines += _row("cost", [used], style)
    if more.session is not None:
        lines += _row("session", [_session_words(more.session)], style)
    scope = visible(", ".join(facts.scope), newlines=False)
    lines += _row("scope", [scope, f"log {_from_here(one.files.log)}"], style)
    if shown.continuation:
        lines.append(f"Continuation context: {_beginning(shown.continuation, style)}")
    return lines


def _row(label: str, parts: list[str], style: Style) -> list[str]:
    """A label and what it is about; what does not fit beside the first goes below it."""
    first, rest = parts[0], [part for part in parts[1:] if part]
    start = f"  {label:<{LABEL}}"
    if not rest:
        return [start + first]
    padded = first + " " * max(SECOND - cells(first), 4)
    beside = start + padded + rest[0]
    if style.width is None or cells(beside) <= style.width:
        return [beside]
    return [start + first, " " * len(start) + rest[0]]


def _state(closer: Closer, facts: Facts, now: int) -> str:
    state = visible(facts.state, newlines=False)
    if closer.seen.status != "running":
        return state
    entered = [_ms(each) for each in closer.records if each["event"] == "state_enter"]
    since_ms = entered[-1] if entered else facts.updated_ms
    return f"{state} ({duration_text(max(now - since_ms, 0))})"


def _iteration(facts: Facts, limit: int | None) -> str:
    of = f" of {limit}" if limit is not None else ""
    cycle = f", cycle {facts.cycle}" if facts.cycle > 1 else ""
    return f"iteration {facts.iteration}{of}{cycle}"


def _doing(action: Action, more: Details, style: Style, now: int) -> list[str]:
    lead = "$" if action.kind == "shell" else f"{_host(more.machine, action.state)}:"
    shown = next((RELAY[own] for own in RELAY if action.text.startswith(own)), None)
    text = visible(shown or f"{lead} {one_line(action.text)}", newlines=False)
    if style.width is not None:
        text = cut(text, max(style.width - LABEL - 2, 10), style.signs.more)
    heard = more.last_output_ms
    return _row("action", [text, "" if heard is None else f"last output {ago(heard, now)}"], style)


def _waiting(wait: dict[str, Any], ran: int, now: int) -> str:
    if isinstance(wait.get("until_wall_ms"), int):
        left = wait["until_wall_ms"] - now
    elif isinstance(wait.get("until_ran_ms"), int):
        left = wait["until_ran_ms"] - ran
    else:
        left = 0
    why = wait.get("why") or f"before the next {_BEFORE.get(str(wait.get('kind')), 'step')}"
    return f"{rough(left)} more: {visible(one_line(str(why)), newlines=False)}"


_BEFORE = {"backoff": "iteration", "retry": "attempt", "maintain": "cycle", "handoff": "session"}


def _host(machine: dict[str, Any], state: str) -> str:
    """The agent CLI that runs this state's action."""
    states = machine.get("states")
    own = states.get(state) if isinstance(states, dict) else None
    for place in (own, machine):
        host = place.get("host") if isinstance(place, dict) else None
        if isinstance(host, dict) and isinstance(host.get("name"), str):
            return visible(host["name"], newlines=False)
    return DEFAULT_HOST


def _path(closer: Closer, style: Style) -> str:
    way = visits(closer.records)[-VISITS:]
    if closer.seen.status == "running" and way and _action(closer):
        way[-1] = way[-1]._replace(verdict="under way")
    words = [_visited(visit, style) for visit in way]
    if style.width is not None:
        while len(words) > 1 and cells("  ".join(words)) > style.width - LABEL - 2:
            words.pop(0)
    return "  ".join(words)


def _visited(visit: Visit, style: Style) -> str:
    state = visible(visit.state, newlines=False)
    match visit.verdict:
        case None:
            return state
        case "under way":
            return f"{state} {style.signs.more}"
        case verdict if verdict in GOOD:
            return f"{state} {style.signs.good}"
        case verdict if verdict in BAD:
            return f"{state} {style.signs.bad}"
        case word:
            return f"{state} ({visible(word, newlines=False)})"


def _session_words(session: Session) -> str:
    if session.is_alive:
        return f"pid {session.pid} is to go on with it"
    return f"ended without a resume (pid {session.pid})"


def _beginning(text: str, style: Style) -> str:
    flat = " ".join(text.split())
    more = style.signs.more if len(flat) > CONTINUATION else ""
    return visible(flat[:CONTINUATION], newlines=False) + more


def _from_here(path: str) -> str:
    """The way people would type it from here."""
    relative = os.path.relpath(path)
    return visible(path if relative.startswith("..") else relative, newlines=False)
