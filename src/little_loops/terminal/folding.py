"""Break lines where words end: a terminal that is too narrow would break them anywhere.

What follows goes under what it belongs to: behind a label, or in the second column.  What is in
backticks stays together if it can.  A line that ends in a command to type is broken only between
commands, so that what is copied from it can be run.

Not here: tables, which know what they can do without (`tables`).
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
"""So far in goes what has no room in a second column."""
SHORT = 8
"""A time behind a gap is no second column."""
COUNTED = 7
"""What follows a count like `[1/20] ` stands where everything else about that step does."""


def folded(text: str, width: int) -> str:
    """The text in rows of so many columns, as far as its words let it."""
    return "\n".join(row for line in text.split("\n") for row in _rows(line, width))


def fitted(line: str, width: int) -> str:
    """A line of a log in rows: what an action printed as it is, ours between words."""
    return wrapped(line, width) if line.startswith(BAR) else folded(line, width)


def wrapped(line: str, width: int) -> str:
    """A line that an action printed, in rows: the others hang under it; broken at a blank if near."""
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
    if _taken(line) <= width:
        yield line
    elif _COMMANDS.match(line):
        lead = _lead(line)
        yield from _filled(line, width, " " * _taken(lead), _PART)
    else:
        yield from _in_columns(line, width)


def _in_columns(line: str, width: int) -> Iterator[str]:
    """Two columns stay two if the second has half of the width."""
    gap = _GAP.search(line)
    blanks = len(line) - len(line.lstrip())
    if gap is None or _taken(line[gap.end() :]) <= SHORT:
        hang = _hang(_lead(line))
        margin = " " * (hang if hang <= width // 2 else blanks)
        yield from _filled(line, width, margin, _pieces(line, width - len(margin)))
    elif _taken(line[: gap.end()]) <= width // 2:
        yield from _filled(line, width, " " * _taken(line[: gap.end()]), _WORD)
    else:
        yield from _rows(line[: gap.start()], width)
        yield from _rows(" " * (blanks + SECOND) + line[gap.end() :], width)


def _pieces(line: str, room: int) -> re.Pattern[str]:
    """Parts with dots between them stay whole, unless one is too long for a row."""
    parts = _BETWEEN_DOTS.findall(line) if _DOT in line else []
    return _BETWEEN_DOTS if parts and all(_taken(part) <= room for _, part in parts) else _WORD


def _hang(lead: str) -> int:
    return max(_taken(lead), COUNTED) if lead.startswith("[") else _taken(lead)


def _lead(line: str) -> str:
    found = _LEAD.match(line)
    return found[0] if found else ""


def _filled(line: str, width: int, margin: str, piece: re.Pattern[str]) -> Iterator[str]:
    row = ""
    for blanks, word in piece.findall(line):
        if not row.strip() or _taken(row + blanks + word) <= width:
            row += blanks + word
        elif word != _DOT and not (word == "-" and len(blanks) > 1):
            # What stands between two parts has done its work where a row ends.
            yield _AT_THE_END.sub("", row)
            row = margin + word
    yield row


def _taken(text: str) -> int:
    """The columns of a text; colours take none."""
    return cells(_ESCAPE.sub("", text))
