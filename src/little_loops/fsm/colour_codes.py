r"""Remove colour codes (`ESC [ … m`) from an action's output before it is judged.

Programs print them when the user forces colours. They do not belong to a number, a match or a
signal line. Stored output keeps its bytes; an escape inside JSON (`\u001b`) is data.

Not here: other control characters, which screens show as escapes (`reporting.escape`).
"""

from __future__ import annotations

from little_loops.light_modules import re
from little_loops.light_typing import AnyStr, Generic, overload

_CODE = r"\x1b\[[0-9;:]*m"
_CUT_CODE = r"\x1b(\[[0-9;:]{0,32})?\Z"
_LONGEST_CUT = 34


@overload
def without_colours(text: str) -> str: ...
@overload
def without_colours(text: bytes) -> bytes: ...
def without_colours(text: str | bytes) -> str | bytes:
    """Return the text without colour codes."""
    # Search first: few outputs contain an escape, and then the pattern need not be compiled.
    if isinstance(text, bytes):
        return re.sub(_CODE.encode(), b"", text) if b"\x1b[" in text else text
    return re.sub(_CODE, "", text) if "\x1b[" in text else text


class ColourFilter:
    """Remove colour codes from a stream of bytes that arrives in chunks."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        """Return the next part of the stream without colour codes. The beginning of a code at the
        end of the chunk is held back until the next call."""
        if not self._held and b"\x1b" not in chunk:
            return chunk  # the usual case
        data = self._held + chunk
        cut = re.compile(_CUT_CODE.encode()).search(data, max(0, len(data) - _LONGEST_CUT))
        end = cut.start() if cut else len(data)
        self._held = data[end:]
        return without_colours(data[:end])

    def finish(self) -> bytes:
        """Return the bytes that were held back and turned out not to be a colour code."""
        held, self._held = self._held, b""
        return held


class Uncoloured(Generic[AnyStr]):
    """A text without its colour codes that can map positions back to the original text."""

    def __init__(self, text: AnyStr) -> None:
        """Remove the colour codes from `text`; `span` maps positions in the result back to it."""
        self._starts: list[int] = []
        self._removed: list[int] = []
        self.text: AnyStr = text
        escape = "\x1b[" if isinstance(text, str) else b"\x1b["
        if escape in text:
            self.text = self._remove(text)

    def _remove(self, text: AnyStr) -> AnyStr:
        """Remove the colour codes, and record where and how much was removed, for `span`."""
        pattern = _CODE if isinstance(text, str) else _CODE.encode()
        removed = 0
        for code in re.finditer(pattern, text):
            self._starts.append(code.start() - removed)
            removed += code.end() - code.start()
            self._removed.append(removed)
        return without_colours(text)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the position of this part in the original text."""
        from bisect import bisect_left, bisect_right  # few commands map positions

        before = bisect_right(self._starts, start)
        inside = bisect_left(self._starts, end)
        return (
            start + (self._removed[before - 1] if before else 0),
            end + (self._removed[inside - 1] if inside else 0),
        )
