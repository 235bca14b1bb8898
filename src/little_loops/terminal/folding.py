"""Fold lines between words, because a narrow terminal would break them anywhere.

Continuation rows are indented to the text that they belong to: after a label, or in the second
column. Text in backticks stays together if possible. A line that ends in commands to type is only
broken between commands, so that they can be copied.

Not here: tables, which drop columns instead (`tables`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from little_loops.reporting.excerpt import BAR
from little_loops.terminal.tables import cells, cut

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_COMMANDS = re.compile(r" *(?:next|fix): |\$ ")
_SIGN = r"(?:\x1b\[[0-9;]*m)?(?:[^\w\s`'\"(\[{/.-]|ok|FAIL|warn|-|->)(?:\x1b\[0m)? "
_LEAD = re.compile(rf" *(?:= help: |Loop (?=\w)|[A-Za-z]+(?:\[\w+\])?: |\[\d+/\d+\] |{_SIGN})?")
_GAP = re.compile(r"(?<=\S) {2,}(?=\S)")
_WORD = re.compile(r"( *)([^\s`]*`[^`]*`\S*|\S+)")
_PART = re.compile(r"( *)(\S+(?: \S+)*)")
_DOT = "·"
_BETWEEN_DOTS = re.compile(rf"( *)({_DOT}|[^\s{_DOT}]+(?: [^\s{_DOT}]+)*)")
_AT_THE_END = re.compile(rf" +{_DOT}$| {{2,}}-$")
LEAST_ROOM = 20
SECOND = 5
"""The indentation of a second column that does not fit next to the first."""
SHORT = 8
"""Text up to this width after a gap, such as a time, is not a second column."""
COUNTED = 7
"""Rows after a count such as `[1/20] ` have the same indentation as the step's other lines."""


def folded(text: str, width: int) -> str:
    """Return the text in rows of at most `width` columns, as far as its words allow."""
    return "\n".join(row for line in text.split("\n") for row in _rows(line, width))


def fitted(line: str, width: int) -> str:
    """Return a line of a log in rows: output of actions wrapped, our own lines folded."""
    return wrapped(line, width) if line.startswith(BAR) else folded(line, width)


def wrapped(line: str, width: int) -> str:
    """Return a line of an action's output in rows, the later ones indented.

    It is broken at a space if there is one in the second half of the row.
    """
    room = width - len(BAR)
    if cells(line) <= width or room < LEAST_ROOM:
        return line
    rows, rest = list[str](), line.removeprefix(BAR)
    while cells(rest) > room:
        row = cut(rest, room, "") or rest[:room]
        at = row.rfind(" ")
        row = row[:at] if at > room // 2 else row
        rows.append(row)
        rest = rest[len(row) :].lstrip(" ")
    margin = " " * len(BAR)
    return BAR + f"\n{margin}".join([*rows, rest])


def _rows(line: str, width: int) -> Iterator[str]:
    """Yield the rows of a line."""
    if _width(line) <= width:
        yield line
    elif _COMMANDS.match(line):
        lead = _lead(line)
        yield from _filled(line, width, " " * _width(lead), _PART)
    else:
        yield from _in_columns(line, width)


def _in_columns(line: str, width: int) -> Iterator[str]:
    """Yield the rows of a line, in two columns if the first takes at most half of the width."""
    gap = _GAP.search(line)
    blanks = len(line) - len(line.lstrip())
    if gap is None or _width(line[gap.end() :]) <= SHORT:
        hang = _indentation(_lead(line))
        margin = " " * (hang if hang <= width // 2 else blanks)
        yield from _filled(line, width, margin, _pieces(line, width - len(margin)))
    elif _width(line[: gap.end()]) <= width // 2:
        yield from _filled(line, width, " " * _width(line[: gap.end()]), _WORD)
    else:
        yield from _rows(line[: gap.start()], width)
        yield from _rows(" " * (blanks + SECOND) + line[gap.end() :], width)


def _pieces(line: str, room: int) -> re.Pattern[str]:
    """Return the pattern to split a line: at dots if all parts fit into a row, else at words."""
    parts = _BETWEEN_DOTS.findall(line) if _DOT in line else []
    return _BETWEEN_DOTS if parts and all(_width(part) <= room for _, part in parts) else _WORD


def _indentation(lead: str) -> int:
    """Return how far the rows after the first are indented."""
    return max(_width(lead), COUNTED) if lead.startswith("[") else _width(lead)


def _lead(line: str) -> str:
    """Return the label, count or sign at the start of a line."""
    found = _LEAD.match(line)
    return found[0] if found else ""


def _filled(line: str, width: int, margin: str, piece: re.Pattern[str]) -> Iterator[str]:
    """Yield rows filled with pieces of the line; rows after the first start with `margin`."""
    row = ""
    for blanks, word in piece.findall(line):
        if not row.strip() or _width(row + blanks + word) <= width:
            row += blanks + word
        elif word != _DOT and not (word == "-" and len(blanks) > 1):
            # A separator between two parts is dropped at the end of a row.
            yield _AT_THE_END.sub("", row)
            row = margin + word
    yield row


def _width(text: str) -> int:
    """Return the columns that a text takes, without colour codes."""
    return cells(_ESCAPE.sub("", text))
