"""Tell a screen about a run that another process carries, from the run's two logs.

Events and output lie in two files.  They are put together again by counting: the n-th action that
is announced in the one is the n-th that has a line of its own in the other.  An event is written
before the log tells it, and an action's output before its end: so events are read first, and what
an action printed is there when its end is told.
"""

from __future__ import annotations

from contextlib import suppress

from little_loops.cli.logs import HEADER, Lines
from little_loops.fsm.codec import from_record
from little_loops.fsm.plain import WrongShape
from little_loops.fsm.timestamps import wall_ms_of
from little_loops.reporting.excerpt import BAR
from little_loops.reporting.observers import Onlooker
from little_loops.runs.follow import Growing, GrowingEvents
from little_loops.runs.journal import Record

LOG_READ = 1 << 20
ENDS = ("action_complete", "action_interrupted")


class Watch:
    def __init__(self, events: GrowingEvents, log: Growing, screen: Onlooker) -> None:
        self.screen = screen
        self.last: Record | None = None
        self._events = events
        self._log = log
        self._lines = Lines()
        self._action = -1
        self._block = -1
        self._printed: dict[int, str] = {}
        self._began_ms: int | None = None

    def begin(self) -> None:
        """Tell what the run is doing just now: all since it entered its state.

        Here the log is read first, so that it knows of no action the events do not know.  It may
        know of one less: the last one has been announced, and its line is about to be written.
        """
        self._log.seek_end(LOG_READ)
        blocks = self._read_log()
        records = list(self._events.rest())
        entered = [n for n, each in enumerate(records) if each["event"] == "state_enter"]
        records = records[entered[-1] if entered else 0 :]
        starts = [each.get("state") for each in records if each["event"] == "action_start"]
        is_behind = bool(starts) and (not blocks or blocks[-1] != starts[-1])
        self._shift(len(starts) - 1 - is_behind - self._block)
        self._tell(records)

    def catch_up(self) -> None:
        """Tell what has happened since."""
        records = list(self._events.rest())
        self._read_log()
        self._tell(records)

    def under_way_s(self, now: int) -> float:
        """How long the action has been running that is running."""
        return 0.0 if self._began_ms is None else max(now - self._began_ms, 0) / 1000

    def _read_log(self) -> list[str]:
        """Sort new output by the action it is of; gives the states of the actions that began."""
        began = []
        for piece in self._log.rest():
            for line in self._lines.feed(piece):
                if header := HEADER.match(line):
                    self._block += 1
                    began.append(header[1])
                elif line.startswith(BAR):
                    self._printed[self._block] = (
                        self._printed.get(self._block, "") + line[len(BAR) :] + "\n"
                    )
        return began

    def _shift(self, places: int) -> None:
        """Count the blocks as the actions are counted; what came before those is old."""
        self._block += places
        shifted = {block + places: text for block, text in self._printed.items()}
        self._printed = {block: text for block, text in shifted.items() if block >= 0}

    def _tell(self, records: list[Record]) -> None:
        self._print()
        for record in records:
            if record["event"] == "action_start":
                self._action += 1
                self._began_ms = _ms(record)
            elif record["event"] in ENDS:
                self._began_ms = None
            with suppress(WrongShape):  # a line of the log that somebody has edited
                self.screen.record(from_record(record))
            self.last = record
            if record["event"] == "action_start":
                self._print()

    def _print(self) -> None:
        text = self._printed.pop(self._action, "")
        if text:
            self.screen.printed("stdout", text.encode())
        for block in [each for each in self._printed if each < self._action]:
            del self._printed[block]


def _ms(record: Record) -> int | None:
    try:
        return wall_ms_of(record["ts"])
    except (KeyError, TypeError, ValueError):
        return None
