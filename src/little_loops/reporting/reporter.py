"""Tell a run as text: its plain lines, and what its actions print between them.

The log of a run is written by this, and so is a screen that is no terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from little_loops.reporting.escape import visible
from little_loops.reporting.excerpt import BAR, Excerpt
from little_loops.reporting.held_end import HeldEnd
from little_loops.reporting.lines import Teller, output_of
from little_loops.reporting.masking import Masker
from little_loops.reporting.observers import Onlooker, Record

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
        self._unseen: Record = {}
        self._unwritten: list[str] = []

    def record(self, record: Record) -> None:
        self.records((record,))

    def records(self, records: Sequence[Record]) -> None:
        """One write for all of them: three a step would cost more than their lines do."""
        try:
            for record in records:
                self._hear(record)
        finally:
            self._flush()

    def _flush(self) -> None:
        text, self._unwritten = "".join(self._unwritten), []
        if text:
            self._write(text)

    def _hear(self, record: Record) -> None:
        if record["event"] == "action_start":
            self._is_last_state = bool(record.get("terminal"))
        if record["event"] in ENDS_AN_ACTION:
            for excerpt in self._excerpts.values():
                others = (one for one in self._excerpts.values() if one is not excerpt)
                rest = excerpt.finish()
                self._unwritten += [one.break_line() for one in others if rest]
                self._unwritten.append(rest)
            self._unseen = {} if self._excerpts else record
            self._excerpts.clear()
        for each in self._held.feed(record):
            self._tell(each)

    def _tell(self, record: Mapping[str, Any]) -> None:
        if record["event"] in FAILURES:
            self._unwritten.append(_printed(self._unseen))
        lines = [visible(line, newlines=False) + "\n" for line in self._teller.lines(record)]
        if record["event"] == "warning":
            self._flush()  # what came before it is seen before it
            self._warn("".join(lines))
        else:
            self._unwritten += lines

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
    texts = (output_of(record), record.get("stderr") or "")
    lines = [line for text in texts for line in visible(text).splitlines()]
    if len(lines) < 2:
        return ""
    return "".join(f"{BAR}{line}\n" for line in lines[-MOST_LINES:])
