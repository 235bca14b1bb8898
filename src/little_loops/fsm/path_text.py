"""Paths for people: on one line, short, and with nothing hidden.

Only for screens and messages: programs and agents get the exact path.
"""

from __future__ import annotations

from collections.abc import Sequence

LONGEST = 100
SHOWN = 3
UNDECODABLE = range(0xDC80, 0xDD00)
"""The characters that `os.fsdecode` uses for bytes that are not UTF-8."""


def path_text(path: str) -> str:
    r"""Return a path with unprintable characters escaped, shortened in the middle.

    >>> path_text("tests/a\x1b[31m.py")
    'tests/a\\x1b[31m.py'
    """
    text = path
    if not path.isprintable():
        text = "".join(char if char.isprintable() else escaped(char) for char in path)
    if len(text) <= LONGEST:
        return text
    # The end says more than the beginning: it has the file name.
    end = LONGEST * 3 // 5
    return f"{text[: LONGEST - end - 1]}…{text[-end:]}"


def escaped(char: str) -> str:
    """Return the escape of a character, or of the byte if the name is not UTF-8."""
    code = ord(char)
    if code in UNDECODABLE:
        code -= 0xDC00
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def listed_paths(paths: Sequence[str], count: int) -> str:
    """Return the first of `count` paths for a sentence: `tests/a.py and 3 more`."""
    shown = [path_text(path) for path in paths[:SHOWN]]
    rest = count - len(shown)
    text = ", ".join(shown)
    return f"{text} and {rest} more" if rest > 0 else text
