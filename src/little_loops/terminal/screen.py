"""Write to a terminal: permanent lines, and a few live lines below them that are redrawn.

Not here: what the lines say and when they change (`live`).
"""

from __future__ import annotations

from collections.abc import Sequence

from little_loops.light_typing import TextIO
from little_loops.records import NamedTuple

_SGR = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}
_ERASE_ROW = "\r\x1b[2K"
_ROW_ABOVE = "\x1b[1A\x1b[2K"


class StyledText(NamedTuple):
    """A piece of text in one style; it may extend over several rows."""

    text: str
    style: str = ""


class Screen:
    """A terminal; each change is one write, so that a slow reader never sees half of it."""

    def __init__(self, stream: TextIO, *, colour: bool) -> None:
        """Begin without live lines; without `colour`, styles are ignored."""
        self.encoding = stream.encoding or "utf-8"
        self._stream = stream
        self._colour = colour
        self._live: list[str] = []

    def print(self, *spans: StyledText) -> None:
        """Print a permanent line above the live lines."""
        text = "".join(self._styled(span) for span in spans)
        self._write(f"{self._erasure()}{text}\n{self._live_text()}")

    def draw(self, lines: Sequence[str], style: str) -> None:
        """Replace the live lines."""
        erasure = self._erasure()
        self._live = [self._styled(StyledText(line, style)) for line in lines]
        self._write(erasure + self._live_text())

    def erase(self, wrapped_rows: int = 0) -> None:
        """Remove the live lines, including rows they have wrapped into since they were drawn."""
        erasure = self._erasure(wrapped_rows)
        self._live = []
        self._write(erasure)

    def _erasure(self, wrapped_rows: int = 0) -> str:
        if not self._live:
            return ""
        return _ERASE_ROW + _ROW_ABOVE * (len(self._live) - 1 + wrapped_rows)

    def _live_text(self) -> str:
        return "\n".join(self._live)

    def _styled(self, span: StyledText) -> str:
        """Return the text of a span, each row in its style; unchanged without colour."""
        code = _SGR.get(span.style) if self._colour else None
        if code is None:
            return span.text
        rows = span.text.split("\n")
        return "\n".join(f"\x1b[{code}m{row}\x1b[0m" if row else "" for row in rows)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
