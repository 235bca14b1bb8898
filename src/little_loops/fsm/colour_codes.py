"""Leave colour codes (`ESC [ … m`) out of what an action printed, when that is read.

Programs print them where their user forces colours.  They are no part of a number, a pattern or a
signal line.  What is stored keeps its bytes; an escape inside JSON (`\\u001b`) is data.

Not here: other control characters, which screens show as escapes (`reporting.escape`).
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from typing import AnyStr, Generic, overload

_CODE = r"\x1b\[[0-9;:]*m"
_CUT_CODE = r"\x1b(\[[0-9;:]{0,32})?\Z"
_LONGEST_CUT = 34


@overload
def without_colours(text: str) -> str: ...
@overload
def without_colours(text: bytes) -> bytes: ...
def without_colours(text: str | bytes) -> str | bytes:
    # The look comes first: few outputs have an escape, and the pattern need not be compiled.
    if isinstance(text, bytes):
        return re.sub(_CODE.encode(), b"", text) if b"\x1b[" in text else text
    return re.sub(_CODE, "", text) if "\x1b[" in text else text


class ColourFilter:
    """A stream of bytes that comes in pieces, without its colour codes."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        if not self._held and b"\x1b" not in chunk:
            return chunk  # as most
        data = self._held + chunk
        cut = re.compile(_CUT_CODE.encode()).search(data, max(0, len(data) - _LONGEST_CUT))
        end = cut.start() if cut else len(data)
        self._held = data[end:]
        return without_colours(data[:end])

    def finish(self) -> bytes:
        """What was held back and has become no code."""
        held, self._held = self._held, b""
        return held


class Uncoloured(Generic[AnyStr]):
    """A text without its colour codes that knows where its characters were."""

    def __init__(self, text: AnyStr) -> None:
        self._starts: list[int] = []
        self._removed: list[int] = []
        self.text: AnyStr = text
        escape = "\x1b[" if isinstance(text, str) else b"\x1b["
        if escape in text:
            self.text = self._remove(text)

    def _remove(self, text: AnyStr) -> AnyStr:
        pattern = _CODE if isinstance(text, str) else _CODE.encode()
        removed = 0
        for code in re.finditer(pattern, text):
            self._starts.append(code.start() - removed)
            removed += code.end() - code.start()
            self._removed.append(removed)
        return without_colours(text)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where that part is in the text as it was."""
        before = bisect_right(self._starts, start)
        inside = bisect_left(self._starts, end)
        return (
            start + (self._removed[before - 1] if before else 0),
            end + (self._removed[inside - 1] if inside else 0),
        )
