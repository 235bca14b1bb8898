"""The last line that an action printed, masked and escaped for display.

Only the last few kilobytes of the output are kept. Their start may cut a secret in two, and their
end may be the beginning of a secret: neither part is displayed.

Not here: the width of the terminal (`live`), storing the output (`system.output`).
"""

from __future__ import annotations

import codecs
import re

from little_loops.fsm.colour_codes import without_colours
from little_loops.reporting.escape import visible
from little_loops.reporting.lines import one_line
from little_loops.reporting.masking import MaskedStream, Masker

WINDOW = 4096
LARGEST_CHARACTER = 4  # bytes of UTF-8
_LINE_END = re.compile(r"[\r\n]")


class LastOutput:
    """The last output of both streams of one action."""

    def __init__(self, masker: Masker) -> None:
        """Begin without output; `masker` knows the secrets to mask."""
        self._masker = masker
        self._ends: dict[str, bytes] = {}
        self._cut: set[str] = set()
        self._latest = ""

    @property
    def _unsafe(self) -> int:
        """The number of characters at a cut that may be part of a secret."""
        longest = self._masker.longest
        return longest and longest + LARGEST_CHARACTER

    @property
    def _room(self) -> int:
        """The number of bytes to keep for each stream."""
        return WINDOW + LARGEST_CHARACTER * self._unsafe

    def feed(self, stream: str, chunk: bytes) -> None:
        """Keep the end of the output."""
        end = self._ends.get(stream, b"") + chunk[-self._room :]
        if len(end) > self._room or len(chunk) > self._room:
            self._cut.add(stream)
        self._ends[stream] = end[-self._room :]
        self._latest = stream

    def line(self) -> str:
        """Return the last non-blank line of the stream that printed last, masked and escaped, without
        what may be part of a secret at a cut."""
        raw = without_colours(self._ends.get(self._latest, b""))
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(raw)
        text = MaskedStream(self._masker).feed(text)
        if self._latest in self._cut:
            text = text[self._unsafe :].lstrip("\ufffd")
        lines = (line for line in reversed(_LINE_END.split(text)) if line.strip())
        return visible(one_line(next(lines, "")), newlines=False)
