"""`ll-loop logs`: print what a run has printed, and with `-f` what it is printing.

Without options, the run's log is printed as it was written. A part of it (one state, a time, only
the output) is generated again from the run's events and outputs.
"""

from __future__ import annotations

import sys
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from time import sleep

from little_loops.cli.fleet_choice import FLEET, LOCAL, project_of
from little_loops.cli.log_lines import (
    AgentLines,
    Picked,
    RawLines,
    RunPart,
    first_wanted,
    last_failure,
)
from little_loops.cli.options import OutputArgs, age, flag, operand, positive, value
from little_loops.definitions.run_names import run_named
from little_loops.errors import OK, UsageError
from little_loops.fsm.events import Entry
from little_loops.fsm.schema import FSMLoop
from little_loops.reporting.escape import visible
from little_loops.reporting.excerpt import BAR
from little_loops.runs.entries import entry_of, state_in
from little_loops.runs.follow import (
    POLL_S,
    GrowingFile,
    follow,
    open_events,
    open_log,
    over_when,
    until_it_runs,
)
from little_loops.runs.playback import Item, PrintedText, ToolEnded
from little_loops.runs.reading import Runs
from little_loops.runs.view import RunView, no_such_run
from little_loops.system.files import to_json
from little_loops.terminal import paint
from little_loops.terminal.console import ascii_only, colour_wanted, columns_of, talk
from little_loops.terminal.durations import now_ms
from little_loops.terminal.folding import fitted
from little_loops.terminal.pager import paged

EXAMPLES = (
    ("ll-loop logs fix-types", "the current run, or the last one"),
    ("ll-loop logs fix-types -f", "follow it until it ends"),
    ("ll-loop logs fix-types --state fix --raw", "what the actions of `fix` printed"),
    ("ll-loop logs fix-types --failed", "the last action that failed"),
    ("ll-loop logs fix-types --agent", "what its agents ran and changed"),
    ("ll-loop logs fix-types --since 10m", "what happened in the last 10 minutes"),
    ("ll-loop logs fix-types --json --tail 5", "its last five events"),
)
AT_ONCE = 200
RESULTS = ("✓", "✗", "·")
TWINS = str.maketrans({"→": "->", "✓": "ok", "✗": "FAIL", "…": "...", "·": "-"})

IsOver = Callable[[], bool] | None
"""Returns whether the run is over; None if the log is not followed."""


class LogsArgs(OutputArgs, verb="logs", summary="Show what a run has printed.", examples=EXAMPLES):
    loop: str = operand("a loop's name, or NAME@ID")
    follow: bool = flag("follow the run until it ends", "-f")
    tail: int | None = value("only the last N lines", convert=positive, metavar="N")
    since: float | None = value("only the last 90s, 10m, 2h", convert=age, metavar="TIME")
    state: str | None = value("only this state's actions", metavar="STATE", names="states")
    raw: bool = flag("only what actions printed")
    agent: bool = flag("only what agents ran and changed")
    failed: bool = flag("only the last action that failed")
    timestamps: bool = flag("show the time of each line", "-t")
    run: str | None = value("start time of an earlier run, from `ll-loop history`", metavar="STAMP")
    fleet: str | None = FLEET
    local: bool = LOCAL


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop logs`: print a run's log or a part of it, with `-f` until it ends. Return 0."""
    args = LogsArgs.read(argv)
    runs = Runs(project_of(args, args.loop, follow=args.follow, printed=True))
    name = run_named(args.loop, runs.root)
    view = runs.past_view(name, args.run) if args.run else runs.view(name)
    if view is None:
        raise no_such_run(name)
    if args.follow:
        view = until_it_runs(runs, view)
    if args.state is not None:
        _check_state(runs, view, args.state)
    is_over = over_when(runs, view) if args.follow else None
    since_ms = None if args.since is None else now_ms() - round(args.since * 1000)
    if args.json:
        _print_events(args, runs, view, since_ms, is_over)
        return OK
    colour = not args.raw and colour_wanted(sys.stdout, args.color)
    width = None if args.raw else columns_of(sys.stdout)
    out = Rows(width, colour=colour, is_live=args.follow)
    with nullcontext() if args.follow else paged():
        if _wants_all(args):
            _print_log(args, runs, view, is_over, out)
        else:
            _print_part(args, runs, view, since_ms, is_over, out)
    return OK


def _check_state(runs: Runs, view: RunView, state: str) -> None:
    """Raise `UsageError` if the loop has no such state, and had none when it was resumed."""
    machine = runs.machine(view)
    if machine is None or state in machine.states:
        return
    if not any(state_in(entry) == state for entry in runs.events(view)):
        known = ", ".join(f"`{each}`" for each in machine.states)
        raise UsageError(f"the loop has no state `{state}`", f"known: {known}")


def _wants_all(args: LogsArgs) -> bool:
    """Return whether no option selects a part, so that the log is printed as it was written."""
    some = (args.state, args.since, args.raw, args.agent, args.failed, args.timestamps)
    return not any(some)


class Rows:
    """Writes text to stdout, folded to the terminal and coloured if wanted.

    On a terminal, an output of one line that the result repeats is not printed twice, unless
    `is_live`: then output is printed immediately.
    """

    def __init__(self, width: int | None, *, colour: bool = False, is_live: bool = False) -> None:
        """Write rows of at most `width` columns, or whole lines if that is None."""
        self._width = width
        self._colour = colour
        self._is_live = is_live
        self._half = ""
        self._held: str | None = None
        self._before = ""

    def write(self, text: str) -> None:
        """Write a text; incomplete lines are kept until they are complete."""
        if self._width is None and not self._colour:
            write(text)
            return
        *whole, self._half = (self._half + text).split("\n")
        write("".join(self._rows(line) + "\n" for line in self._without_repeats(whole)))

    def _without_repeats(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield the lines without an output line that the line about the result repeats."""
        for line in lines:
            held, self._held = self._held, None
            if held is not None and not _repeats(line, held):
                yield held
            is_first = line.startswith(BAR) and not self._before.startswith(BAR)
            self._before = line
            if is_first and self._width is not None and not self._is_live:
                self._held = line
            else:
                yield line

    def _rows(self, line: str) -> str:
        rows = line if self._width is None else fitted(line, self._width)
        return paint.log(line, rows) if self._colour else rows

    def finish(self) -> None:
        write("" if self._held is None else self._rows(self._held) + "\n")
        write(self._half)


def _repeats(result: str, printed: str) -> bool:
    """Return whether the line about a result starts with all that was printed."""
    sign, _, text = result.strip().partition(" ")
    return sign in RESULTS and text.startswith(" ".join(printed.removeprefix(BAR).split()))


# ── all of the log ─────────────────────────────────────────────────────────────────────────────


def _print_log(args: LogsArgs, runs: Runs, view: RunView, is_over: IsOver, out: Rows) -> None:
    """Print the log, including incomplete lines, so that progress is visible."""
    decoder = getincrementaldecoder("utf-8")("replace")
    with open_log(runs, view)[1] as log:
        if args.tail is not None:
            log.seek_last_lines(args.tail)
        for piece in _pieces(log, is_over):
            out.write(visible(decoder.decode(piece)))
    out.write(visible(decoder.decode(b"", True)))
    out.finish()


def _pieces(log: GrowingFile, is_over: IsOver) -> Iterator[bytes]:
    """Yield the log in pieces; when following, until the run is over."""
    while True:
        over = is_over is None or is_over()
        yield from log.rest()
        if over:
            return
        sleep(POLL_S)


# ── a part of it ───────────────────────────────────────────────────────────────────────────────


def _print_part(
    args: LogsArgs, runs: Runs, view: RunView, since_ms: int | None, is_over: IsOver, out: Rows
) -> None:
    """Print a part of the log, generated from events and outputs.

    With `--failed`, print a message if no action failed.
    """
    part = _part(args, runs, view, since_ms)
    if part is None:
        talk("no action failed")
        return
    # `--tail` counts the lines that pass the filter.
    last: deque[str] = deque(maxlen=args.tail)
    with follow(runs, view) as following:
        picked = _picker(args, view, part, following.machine, last.append)
        _feed(picked, following.all(), last, out, at_once=args.tail is None)
        while is_over is not None:
            over = is_over()
            _feed(picked, following.news(), last, out, at_once=True)
            if over:
                break
            sleep(POLL_S)
    picked.finish()
    _flush(last, out.write)


def _part(args: LogsArgs, runs: Runs, view: RunView, since_ms: int | None) -> RunPart | None:
    """Return which part of the run is wanted; None if no action failed."""
    if args.failed:
        return last_failure(runs.events(view))
    if since_ms is None:
        return RunPart(state=args.state)
    first = first_wanted(runs.events(view), since_ms, goes_on=view.is_alive)
    return RunPart(first, state=args.state)


def _feed(
    picked: Picked, items: Iterable[Item], last: deque[str], out: Rows, *, at_once: bool
) -> None:
    """Pass items to the picker and print its lines: at once, or at the end."""
    for item in items:
        match item:
            case Entry():
                picked.record(item)
            case PrintedText(stream, data):
                picked.printed(stream, data)
            case ToolEnded():
                picked.did(item)
            case _:
                continue
        if at_once:
            _flush(last, out.write)
    _flush(last, out.write)


def _picker(
    args: LogsArgs,
    view: RunView,
    part: RunPart,
    machine: FSMLoop | None,
    write_line: Callable[[str], object],
) -> Picked:
    """Return the picker for the options."""
    kind = RawLines if args.raw else AgentLines if args.agent else Picked
    return kind(view, machine, write_line, part, timestamps=args.timestamps)


def _flush(lines: deque[str], put: Callable[[str], None]) -> None:
    if lines:
        put("".join(lines))
        lines.clear()


# ── the events ─────────────────────────────────────────────────────────────────────────────────


def _print_events(
    args: LogsArgs, runs: Runs, view: RunView, since_ms: int | None, is_over: IsOver
) -> None:
    """Print the events as JSON; when following, until the run is over."""
    with open_events(runs, view)[1] as log:
        last: deque[str] = deque(maxlen=args.tail)
        for line in _matching_lines(log.records(), args.state, since_ms):
            last.append(line)
            if args.tail is None and len(last) >= AT_ONCE:
                _flush(last, write)
        _flush(last, write)
        while is_over is not None:
            over = is_over()
            _flush(deque(_matching_lines(log.records(), args.state, since_ms)), write)
            if over:
                return
            sleep(POLL_S)


def _matching_lines(
    records: Iterable[dict[str, object]], state: str | None, since_ms: int | None
) -> Iterator[str]:
    """Yield the events of a state, or since a time, as lines of JSON with all their fields."""
    for record in records:
        if state is not None or since_ms is not None:
            entry = entry_of(record)
            if entry is None or (state is not None and state_in(entry) != state):
                continue
            if since_ms is not None and entry.wall_ms < since_ms:
                continue
        yield f"{to_json(record).decode()}\n"


def write(text: str) -> None:
    """Print text to stdout immediately, with ASCII signs if the terminal needs them."""
    if not text:
        return
    if ascii_only(sys.stdout):
        text = text.translate(TWINS)
    encoding = sys.stdout.encoding or "ascii"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
    sys.stdout.flush()
