"""The output of a run's actions: read in pieces, or searched; as text, with secrets masked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from little_loops.fsm.events import StateEnter
from little_loops.light_typing import TYPE_CHECKING, Any
from little_loops.records import NamedTuple
from little_loops.reporting.escape import visible
from little_loops.runs.arrival import StreamName
from little_loops.runs.outputs import Outputs, StoredOutput, find_output, open_outputs
from little_loops.runs.playback import AgentActivity, AgentStream, PrintedText, ToolEnded
from little_loops.web.errors import bad_request, not_found
from little_loops.web.kinds import OutputStream
from little_loops.web.questions import Query, Question

if TYPE_CHECKING:
    from little_loops.web.site import FoundRun, Site

PIECE = 1 << 16
MOST = 1 << 20
SEARCHED_AT_ONCE = 16 << 20
AGENT_READ = 16 << 20
LINES_AT_ONCE = 1000
MOST_HITS = 200
LONGEST_HIT = 400


def questions() -> list[Question]:
    return [
        Question("/api/runs/{run}/steps/{step:int}/output", output),
        Question("/api/runs/{run}/steps/{step:int}/search", search),
    ]


class OpenStream(NamedTuple):
    """One stream of an action, ready to be read."""

    outputs: Outputs
    stored: StoredOutput
    is_live: bool


@contextmanager
def _opened(found: FoundRun, query: Query, stream: StreamName) -> Iterator[OpenStream]:
    """Open a stream of the action that a query names. Raises `ApiError` if there is none."""
    step, attempt = int(query.path["step"]), query.number("attempt", 1)
    outputs = open_outputs(found.view.files)
    if outputs is None:
        raise not_found("unknown_output", f"`{found.view.name}` has no outputs")
    try:
        where = find_output(found.view.files, outputs, step, attempt)
        if where is None:
            raise not_found("unknown_output", f"nothing ran as attempt {attempt} of step {step}")
        is_live = where.is_live and found.view.is_alive
        yield OpenStream(outputs, where.output.of(stream), is_live)
    finally:
        outputs.close()


def _stream(query: Query) -> OutputStream:
    match query.query.get("stream", "stdout"):
        case "stdout" | "stderr" | "agent" as name:
            return name
        case _:
            raise bad_request("`stream` must be `stdout`, `stderr` or `agent`")


def output(site: Site, query: Query) -> Mapping[str, Any]:
    """Return a piece of what an action printed."""
    found = site.run(query.path["run"])
    match _stream(query):
        case "agent":
            return _agent_lines(found, query)
        case name:
            with _opened(found, query, name) as opened:
                return _piece(opened, query)


def _piece(opened: OpenStream, query: Query) -> Mapping[str, Any]:
    """Return text from an offset on; for -1, the end of it."""
    outputs, stored, is_live = opened
    limit = max(query.number("limit", PIECE, MOST), 4)
    offset = query.number("offset", 0)
    start = max(stored.size - limit, 0) if offset < 0 else min(offset, stored.size)
    if offset < 0 and start:
        start += _after_first_newline(outputs.read(stored, start, min(start + limit, stored.size)))
    end = min(start + limit, stored.size)
    end -= _half_character(
        outputs.read(stored, max(end - 4, start), end), is_end=not is_live and end == stored.size
    )
    text = outputs.shown(stored, start, end).decode("utf-8", "replace")
    return {
        "schema": 1,
        "text": visible(text),
        "offset": start,
        "next": end,
        "size": stored.size,
        "done": not is_live and end >= stored.size,
    }


def _after_first_newline(data: bytes) -> int:
    """Return where the first whole line begins; 0 if there is none."""
    return data.find(b"\n") + 1


def _half_character(tail: bytes, *, is_end: bool) -> int:
    """Return how many bytes at the end begin a character that goes on later."""
    if is_end:
        return 0
    for back in range(1, min(4, len(tail)) + 1):
        byte = tail[-back]
        if byte < 0x80:
            return 0
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return back if length > back else 0
    return 0


def _agent_lines(found: FoundRun, query: Query) -> Mapping[str, Any]:
    """Return what an agent said and did; `offset` counts lines."""
    machine = found.project.runs.machine(found.view)
    step, offset = int(query.path["step"]), max(query.number("offset", 0), 0)
    events = found.project.runs.events_of_steps(found.view, step, step)
    state = next((e.event.state for e in events if isinstance(e.event, StateEnter)), "")
    config = machine.states.get(state) if machine is not None else None
    host = None if machine is None else machine.host.under(config.host if config else None).host
    with _opened(found, query, "stdout") as opened:
        data = opened.outputs.shown(opened.stored, 0, min(opened.stored.size, AGENT_READ))
        is_live = opened.is_live
    lines = list(_said(AgentStream(host or "claude", found.project.root), data, is_live=is_live))
    shown = lines[offset : offset + LINES_AT_ONCE]
    end = offset + len(shown)
    return {
        "schema": 1,
        "text": "".join(f"{line}\n" for line in shown),
        "offset": min(offset, len(lines)),
        "next": end,
        "size": len(lines),
        "done": not is_live and end >= len(lines),
    }


def _said(stream: AgentStream, data: bytes, *, is_live: bool) -> Iterator[str]:
    """Yield the lines of an agent's turn: its texts, what it was doing, and how that ended."""
    items = [*stream.feed(data), *(() if is_live else stream.finish())]
    for item in items:
        match item:
            case PrintedText(data=text):
                yield from visible(text.decode("utf-8", "replace")).splitlines()
            case AgentActivity(text=text):
                yield f"▸ {visible(text, newlines=False)}"
            case ToolEnded(text=text, status=status):
                yield f"  {visible(status, newlines=False)}: {visible(text, newlines=False)}"
            case _:
                continue


# ── searching ──────────────────────────────────────────────────────────────────────────────────


def search(site: Site, query: Query) -> Mapping[str, Any]:
    """Find a text in what an action printed, ignoring case.

    Only what is shown is searched: a search for a secret must not tell that it is there.
    """
    wanted = query.query.get("text", "").casefold()
    if not wanted:
        raise bad_request("`text` is empty")
    name: StreamName = "stderr" if _stream(query) == "stderr" else "stdout"
    found = site.run(query.path["run"])
    with _opened(found, query, name) as opened:
        return _search(opened, wanted, max(query.number("offset", 0), 0))


def _search(opened: OpenStream, wanted: str, start: int) -> dict[str, Any]:
    outputs, stored, _ = opened
    hits: list[dict[str, Any]] = []
    end = min(start + SEARCHED_AT_ONCE, stored.size)
    while start < end:
        stop = min(start + MOST, stored.size)
        raw_end = outputs.read(stored, start, stop).rfind(b"\n") + 1
        stop = start + raw_end if raw_end else stop
        for offset, line in _lines(outputs.shown(stored, start, stop), start):
            column = line.casefold().find(wanted)
            if column >= 0:
                hits.append(
                    {"offset": offset, "line": visible(line[:LONGEST_HIT]), "column": column}
                )
                if len(hits) == MOST_HITS:
                    return {"schema": 1, "hits": hits, "next": offset + len(line.encode()) + 1}
        start = stop
    return {"schema": 1, "hits": hits, "next": start if start < stored.size else None}


def _lines(data: bytes, start: int) -> Iterator[tuple[int, str]]:
    """Yield the lines, each with its offset; after a masked secret, offsets are approximate."""
    for line in data.split(b"\n"):
        if line:
            yield start, line.decode("utf-8", "replace")
        start += len(line) + 1
