"""Display an action's output: its first and last 64 KiB, masked, escaped and marked as output.

Every line begins with a bar, so that nothing an action prints can be mistaken for one of our lines.

Not here: storing all of it (`system.output`).
"""

from __future__ import annotations

import codecs

from little_loops.fsm.colour_codes import ColourFilter
from little_loops.reporting.escape import visible
from little_loops.reporting.masking import MaskedStream, Masker
from little_loops.system.output import EDGE

BAR = "       | "


class Excerpt:
    """One stream of one action: takes bytes, returns the text to display."""

    def __init__(self, masker: Masker) -> None:
        """Begin without any output; `masker` knows the secrets to mask."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._uncoloured = ColourFilter()
        self._masked = MaskedStream(masker)
        self._room = EDGE
        self._tail = bytearray()
        self._left_out = 0
        self._held = ""
        self._at_line_start = True

    def feed(self, chunk: bytes) -> str:
        """Return the text to display now; beyond the first 64 KiB, keep it for the end."""
        return self._take(self._uncoloured.feed(chunk))

    def _take(self, chunk: bytes) -> str:
        """Display what fits into the first 64 KiB, and keep the rest."""
        now, later = chunk[: self._room], chunk[self._room :]
        self._room -= len(now)
        self._keep(later)
        return self._format(self._masked.feed(self._decoder.decode(now))) if now else ""

    def finish(self) -> str:
        """Return the end of the output, and how much was left out before it."""
        begun = self._take(self._uncoloured.finish())
        text = self._masked.feed(self._decoder.decode(b"", True)) + self._masked.finish()
        if self._left_out:
            text += f"\n… {self._left_out:,} bytes not shown …\n"
        if self._tail:
            # The cut may have split a secret, so the first line is not safe to display.
            tail = bytes(self._tail).decode("utf-8", "replace")
            text += self._masked.feed(tail.partition("\n")[2] if self._left_out else tail)
            text += self._masked.finish()
        shown = begun + self._format(text, last=True)
        return shown if self._at_line_start else shown + "\n"

    def break_line(self) -> str:
        """Return a newline if the other stream would otherwise continue an unfinished line."""
        if self._at_line_start:
            return ""
        self._at_line_start = True
        return "\n"

    def _keep(self, chunk: bytes) -> None:
        """Keep the last 64 KiB, and count what is dropped."""
        self._left_out += max(len(self._tail) + len(chunk) - EDGE, 0)
        if len(chunk) >= EDGE:  # most chunks, if much is printed
            self._tail = bytearray(chunk[-EDGE:])
        else:
            self._tail += chunk
            del self._tail[:-EDGE]

    def _format(self, text: str, *, last: bool = False) -> str:
        """Escape a text, and put a bar before each line.

        A `\\r` at its end may be half of a `\\r\\n`, so it is held back unless this is the last text.
        """
        text = self._held + text
        self._held = "\r" if text.endswith("\r") and not last else ""
        text = visible(text[: len(text) - len(self._held)])
        if not text:
            return ""
        start = BAR if self._at_line_start else ""
        self._at_line_start = text.endswith("\n")
        body = text[:-1] if self._at_line_start else text
        return start + body.replace("\n", "\n" + BAR) + ("\n" if self._at_line_start else "")
