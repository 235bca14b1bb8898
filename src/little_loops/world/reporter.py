"""Tell a run as text: its plain lines, and what its actions print between them.

The log of a run is written by this, and so is a screen that is no terminal.
"""

from __future__ import annotations

from collections.abc import Callable

from little_loops.world.excerpt import Excerpt
from little_loops.world.lines import Teller
from little_loops.world.onlookers import Onlooker, Record
from little_loops.world.secrets import Masker
from little_loops.world.shown import visible

ENDS_AN_ACTION = ("action_complete", "action_interrupted")


class Reporter(Onlooker):
    def __init__(
        self, write: Callable[[str], None], teller: Teller, masker: Masker, *, output: bool
    ) -> None:
        self._write = write
        self._teller = teller
        self._masker = masker
        self._output = output
        self._excerpts: dict[str, Excerpt] = {}

    def record(self, record: Record) -> None:
        if record["event"] in ENDS_AN_ACTION:
            for excerpt in self._excerpts.values():
                self._write(excerpt.finish())
            self._excerpts.clear()
        lines = self._teller.lines(record)
        if lines:
            self._write("".join(visible(line, newlines=False) + "\n" for line in lines))

    def printed(self, stream: str, chunk: bytes) -> None:
        if not self._output:
            return
        if stream not in self._excerpts:
            self._excerpts[stream] = Excerpt(self._masker)
        if shown := self._excerpts[stream].feed(chunk):
            self._write(shown)
