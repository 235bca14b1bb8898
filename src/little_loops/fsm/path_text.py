"""Paths as people read them: on one line, short, and with nothing hidden in them.

For screens and messages only: programs and agents get a path as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

LONGEST = 100
SHOWN = 3
UNDECODABLE = range(0xDC80, 0xDD00)
"""What `os.fsdecode` makes of bytes that are no UTF-8."""


def path_text(path: str) -> str:
    """A path with escapes for what cannot be printed, shortened in the middle.

    >>> path_text("tests/a\\x1b[31m.py")
    'tests/a\\\\x1b[31m.py'
    """
    text = path
    if not path.isprintable():
        text = "".join(char if char.isprintable() else escaped(char) for char in path)
    if len(text) <= LONGEST:
        return text
    # The end says more than the beginning: it has the name.
    end = LONGEST * 3 // 5
    return f"{text[: LONGEST - end - 1]}…{text[-end:]}"


def escaped(char: str) -> str:
    """A character by its code; of a name that is not UTF-8, the byte."""
    code = ord(char)
    if code in UNDECODABLE:
        code -= 0xDC00
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def listed(paths: Sequence[str], count: int) -> str:
    """The first of `count` paths in a sentence: `tests/a.py and 3 more`."""
    shown = [path_text(path) for path in paths[:SHOWN]]
    rest = count - len(shown)
    text = ", ".join(shown)
    return f"{text} and {rest} more" if rest > 0 else text
