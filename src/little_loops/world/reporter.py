"""Tell a run as text: its plain lines, and what its actions print between them.

The log of a run is written by this, and so is a screen that is no terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from little_loops.world.excerpt import BAR, Excerpt
from little_loops.world.held_end import HeldEnd
from little_loops.world.lines import Teller
from little_loops.world.onlookers import Onlooker, Record
from little_loops.world.secrets import Masker
from little_loops.world.shown import visible

ENDS_AN_ACTION = ("action_complete", "action_interrupted")
FAILURES = ("loop_error", "loop_timeout")
MOST_LINES = 20


class Reporter(Onlooker):
    def __init__(
        self,
        write: Callable[[str], object],
        teller: Teller,
        masker: Masker,
        *,
        output: bool,
        warn: Callable[[str], object] | None = None,
    ) -> None:
        """`warn` gets the warnings, where they are not to stand among the lines."""
        self._write = write
        self._warn = warn or write
        self._teller = teller
        self._masker = masker
        self._output = output
        self._excerpts: dict[str, Excerpt] = {}
        self._held = HeldEnd()
        self._is_last_state = False
        self._unseen = ""

    def record(self, record: Record) -> None:
        if record["event"] == "action_start":
            self._is_last_state = bool(record.get("terminal"))
        if record["event"] in ENDS_AN_ACTION:
            for excerpt in self._excerpts.values():
                others = (one for one in self._excerpts.values() if one is not excerpt)
                rest = excerpt.finish()
                self._write("".join(one.break_line() for one in others if rest) + rest)
            self._unseen = "" if self._excerpts else _printed(record)
            self._excerpts.clear()
        for each in self._held.feed(record):
            self._tell(each)

    def _tell(self, record: Mapping[str, Any]) -> None:
        if record["event"] in FAILURES and self._unseen:
            self._write(self._unseen)
        lines = self._teller.lines(record)
        if lines:
            write = self._warn if record["event"] == "warning" else self._write
            write("".join(visible(line, newlines=False) + "\n" for line in lines))

    def printed(self, stream: str, chunk: bytes) -> None:
        if not self._output and not self._is_last_state:
            return
        if stream not in self._excerpts:
            self._excerpts[stream] = Excerpt(self._masker)
        if shown := self._excerpts[stream].feed(chunk):
            others = (one for name, one in self._excerpts.items() if name != stream)
            self._write("".join(one.break_line() for one in others) + shown)


def _printed(record: Record) -> str:
    """The end of what an action printed, for the case that the run fails because of it.

    One line alone has been told already.
    """
    texts = (record.get("output") or record.get("tail") or "", record.get("stderr") or "")
    lines = [line for text in texts for line in visible(text).splitlines()]
    if len(lines) < 2:
        return ""
    return "".join(f"{BAR}{line}\n" for line in lines[-MOST_LINES:])
