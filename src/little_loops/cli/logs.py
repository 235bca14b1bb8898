"""`ll-loop logs`: what a run has printed, and with `-f` what it is printing.

The log is text made for people, masked and harmless.  Each action begins with a line of its own,
`[1/20] check → running …`, and what it printed stands behind bars; nothing an action prints can
look like a line of ours, so that a state's part and the bare output are found by lines alone.
"""

from __future__ import annotations

import os
import re
import sys
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from time import sleep

from little_loops.cli.parsing import Args, Parser, add_output_options, positive, seconds
from little_loops.definitions.run_names import run_named
from little_loops.errors import OK
from little_loops.fsm.events import FINAL_EVENTS
from little_loops.fsm.timestamps import wall_ms_of
from little_loops.reporting.escape import visible
from little_loops.reporting.excerpt import BAR
from little_loops.runs.follow import (
    POLL_S,
    Growing,
    open_events,
    open_log,
    over_when,
    until_it_runs,
)
from little_loops.runs.inspect import Seen, newest_seen, no_such_run, past_seen
from little_loops.runs.journal import Record
from little_loops.runs.project import find_project
from little_loops.runs.storage import events
from little_loops.system.files import to_json
from little_loops.terminal.console import ascii_only
from little_loops.terminal.durations import now_ms

EXAMPLES = (
    ("ll-loop logs fix-types", "the last run, or the one under way"),
    ("ll-loop logs fix-types -f", "and go on until it ends"),
    ("ll-loop logs fix-types --state fix --raw", "what the actions of `fix` printed"),
    ("ll-loop logs fix-types --since 10m", "what went on in the last 10 minutes"),
    ("ll-loop logs fix-types --json --tail 5", "its last five events"),
)
HEADER = re.compile(r"\[\d+/\d+\] (\S+) (?:→|->) running ")
STARTS = "action_start"
AT_ONCE = 200
LONGEST_LINE = 1 << 20
TWINS = str.maketrans({"→": "->", "✓": "ok", "✗": "FAIL", "…": "..."})
ENDS = ("action_complete", "action_interrupted")


def parser() -> Parser:
    it = Parser("logs", "What a run has printed.", EXAMPLES)
    it.add_argument("loop", help="a loop's name, or NAME@ID")
    it.add_argument("-f", "--follow", action="store_true", help="go on until the run ends")
    it.add_argument("--tail", type=positive, metavar="N", help="only the last N lines")
    it.add_argument("--since", type=seconds, metavar="TIME", help="only the last 90s, 10m, 2h")
    it.add_argument("--state", metavar="STATE", help="only the actions of this state")
    it.add_argument("--raw", action="store_true", help="only what actions printed")
    it.add_argument("--run", metavar="STAMP", help="an earlier run, as `history` lists it")
    add_output_options(it)
    return it


def main(argv: Sequence[str]) -> int:
    args = parser().parse_args(argv)
    root = find_project(os.getcwd())
    name = run_named(args.loop, root)
    one = past_seen(root, name, args.run) if args.run else newest_seen(root, name)
    if one is None:
        raise no_such_run(name)
    if args.follow:
        one = until_it_runs(root, name, one)
    if args.json:
        _print_events(args, root, one)
    else:
        _print_log(args, root, one)
    return OK


# ── the log ────────────────────────────────────────────────────────────────────────────────────


def _print_log(args: Args, root: str, one: Seen) -> None:
    is_over = over_when(root, one)
    with ExitStack() as stack:
        one, log = open_log(root, one)
        stack.enter_context(log)
        if args.since is not None:
            log.offset = offset_since(one, log, now_ms() - round(args.since * 1000))
        if args.state is None and not args.raw:
            if args.tail is not None:
                log.seek_last_lines(args.tail)
            _copy(log, is_over if args.follow else None)
        else:
            _pick(args, log, is_over if args.follow else None)


def _copy(log: Growing, is_over: Callable[[], bool] | None) -> None:
    """As it comes, also half a line: progress is to be seen."""
    decoder = getincrementaldecoder("utf-8")("replace")
    for piece in _pieces(log, is_over):
        write(visible(decoder.decode(piece)))
    write(visible(decoder.decode(b"", True)))


def _pieces(log: Growing, is_over: Callable[[], bool] | None) -> Iterator[bytes]:
    while True:
        over = is_over is None or is_over()
        yield from log.rest()
        if over:
            return
        sleep(POLL_S)


def _pick(args: Args, log: Growing, is_over: Callable[[], bool] | None) -> None:
    picker = Picker(args.state, raw=args.raw)
    lines = Lines()
    # A filter comes first: the last lines are the last of those that pass.
    last: deque[str] = deque(maxlen=args.tail)
    for piece in log.rest():
        last.extend(picker.of(lines.feed(piece)))
        if args.tail is None:
            _flush(last)
    _flush(last)
    for piece in _pieces(log, is_over):
        last.extend(picker.of(lines.feed(piece)))
        _flush(last)
    last.extend(picker.of(lines.finish()))
    _flush(last)


def _flush(lines: deque[str]) -> None:
    if lines:
        write("".join(f"{visible(line)}\n" for line in lines))
        lines.clear()


class Lines:
    """Whole lines out of pieces; one that never ends is cut, so that memory stays bounded."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, piece: bytes) -> list[str]:
        *whole, self._held = (self._held + piece).split(b"\n")
        if len(self._held) > LONGEST_LINE:
            whole, self._held = [*whole, self._held], b""
        return [line.decode("utf-8", "replace") for line in whole]

    def finish(self) -> list[str]:
        held, self._held = self._held, b""
        return [held.decode("utf-8", "replace")] if held else []


class Picker:
    """The lines of one state's actions, or what actions printed, or both."""

    def __init__(self, state: str | None, *, raw: bool) -> None:
        self._state = state
        self._raw = raw
        self._is_inside = state is None

    def of(self, lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            header = HEADER.match(line)
            if self._state is not None and (header or not line):
                # An empty line stands before the last words of a run only.
                self._is_inside = header is not None and header[1] == self._state
            if not self._is_inside:
                continue
            if not self._raw:
                yield line
            elif line.startswith(BAR):
                yield line[len(BAR) :]


def offset_since(one: Seen, log: Growing, since_ms: int) -> int:
    """Where in the log the first action begins that was under way at that time or later.

    The log has no times, the events have: as many actions from the end are taken here as there.
    """
    count = actions_since(events(one.files), since_ms, goes_on=one.is_alive)
    starts: deque[int] = deque(maxlen=max(count, 1))
    place = log.offset
    held = b""
    for piece in log.rest():
        *whole, held = (held + piece).split(b"\n")
        for line in whole:
            if HEADER.match(line[:200].decode("utf-8", "replace")):
                starts.append(place)
            place += len(line) + 1
    if count == 0:
        return place + len(held)
    return starts[0] if starts else 0


def actions_since(records: Iterable[Record], since_ms: int, *, goes_on: bool) -> int:
    """How many actions were under way at that time or later."""
    count, under_way = 0, False
    for record in records:
        late = _ms(record) >= since_ms
        if late and under_way and not count:
            count = 1  # begun before, and not ended by then
        if record["event"] == STARTS:
            under_way = True
            count += late
        elif record["event"] in ENDS:
            under_way = False
        elif late and not count and record["event"] in FINAL_EVENTS:
            count = 1  # nothing was under way, but how it ended is news
    return count or int(under_way and goes_on)


def _ms(record: Record) -> int:
    try:
        return wall_ms_of(record["ts"])
    except (KeyError, TypeError, ValueError):
        return 0


# ── the events ─────────────────────────────────────────────────────────────────────────────────


def _print_events(args: Args, root: str, one: Seen) -> None:
    since_ms = 0 if args.since is None else now_ms() - round(args.since * 1000)
    is_over = over_when(root, one) if args.follow else None
    _, log = open_events(root, one)
    with log:
        last: deque[Record] = deque(maxlen=args.tail)
        for record in _wanted(log.rest(), args.state, since_ms):
            last.append(record)
            if args.tail is None and len(last) >= AT_ONCE:
                _print_records(last)
        _print_records(last)
        while is_over is not None:
            over = is_over()
            _print_records(deque(_wanted(log.rest(), args.state, since_ms)))
            if over:
                return
            sleep(POLL_S)


def _wanted(records: Iterable[Record], state: str | None, since_ms: int) -> Iterator[Record]:
    for record in records:
        its_state = record.get("state") or record.get("from")
        if (state is None or its_state == state) and (not since_ms or _ms(record) >= since_ms):
            yield record


def _print_records(records: deque[Record]) -> None:
    if records:
        write("".join(f"{to_json(record).decode()}\n" for record in records))
        records.clear()


def write(text: str) -> None:
    """On stdout at once; a terminal that cannot show our signs gets their twins."""
    if not text:
        return
    if ascii_only(sys.stdout):
        text = text.translate(TWINS)
    encoding = sys.stdout.encoding or "ascii"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
    sys.stdout.flush()
