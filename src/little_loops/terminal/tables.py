"""Tables and signs that fit the terminal.

In a pipe, nothing is cut or coloured. On a terminal, a table first drops columns that it can do
without, then shortens others. A colour only repeats what a sign says; a terminal that cannot
display the signs gets words instead.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache

from little_loops.light_typing import Literal, TextIO
from little_loops.records import NamedTuple
from little_loops.terminal.console import ascii_only, colour_wanted

GAP = 2
NARROWEST = 20
LEAST = 8


SignName = Literal["good", "bad", "warn", "running", "waiting", "none"]
"""The signs for a run's status."""


class TableSymbols(NamedTuple):
    good: str = "✓"
    bad: str = "✗"
    warn: str = "!"
    running: str = "●"
    waiting: str = "…"
    none: str = "–"
    dot: str = "·"
    times: str = "×"
    more: str = "…"
    to: str = "→"


ASCII = TableSymbols("ok", "FAIL", "warn", "*", "...", "-", "-", "x", "...", "->")
_OURS = dict.fromkeys(map(ord, "".join(TableSymbols())))
_GREEN, _RED, _YELLOW, _CYAN, _DIM, _BOLD = 32, 31, 33, 36, 2, 1
_TINTS = {"good": _GREEN, "bad": _RED, "warn": _YELLOW, "running": _CYAN}


class Style(NamedTuple):
    """How to print on one stream; `width` is None if lines may have any length."""

    signs: TableSymbols = TableSymbols()
    colour: bool = False
    width: int | None = None

    def tinted(self, text: str) -> str:
        """Return a cell with its leading sign, if any, in that sign's colour."""
        sign = text.partition(" ")[0]
        for name, code in _TINTS.items():
            if self.colour and sign == getattr(self.signs, name):
                return f"\x1b[{code}m{sign}\x1b[0m{text[len(sign) :]}"
        return text

    def bold(self, text: str) -> str:
        return f"\x1b[{_BOLD}m{text}\x1b[0m" if self.colour else text

    def dim(self, text: str) -> str:
        return f"\x1b[{_DIM}m{text}\x1b[0m" if self.colour else text


def style_for(stream: TextIO, color: str | None) -> Style:
    signs = ASCII if ascii_only(stream) else TableSymbols()
    return Style(signs, colour_wanted(stream, color), width_of(stream))


def width_of(stream: TextIO) -> int | None:
    """Return `COLUMNS` if it is set, else the width of the terminal, but at least 20.

    None if the stream is not a terminal.
    """
    columns_variable = os.environ.get("COLUMNS", "")
    if columns_variable.isascii() and columns_variable.isdigit() and int(columns_variable):
        return max(int(columns_variable), NARROWEST)
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):  # no terminal, or no file at all
        return None
    return max(columns, NARROWEST) if columns else None


class Column(NamedTuple):
    """A column; `least` is the width it may be cut to, and the highest `leaves` is dropped first, 0
    never."""

    title: str
    least: int = 0
    leaves: int = 0


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], style: Style) -> list[str]:
    """Return the lines of a table: the titles, then the rows."""
    titles = [column.title for column in columns]
    texts = list(zip(titles, *rows, strict=True))  # by column
    natural = [max(map(cells, column)) for column in texts]
    shown = _kept(columns, natural, style.width)
    widths = _shortened(columns, natural, shown, style.width)
    fitted = [
        [_padded_or_cut(text, widths[place], style.signs.more) for text in texts[place]]
        for place in shown
    ]
    lines = list(zip(*fitted, strict=True))
    gap = " " * GAP
    head = gap.join(lines[0]).rstrip()
    if not style.colour:
        return [head, *(gap.join(line).rstrip() for line in lines[1:])]
    return [style.dim(head), *(gap.join(map(style.tinted, line)).rstrip() for line in lines[1:])]


def _padded_or_cut(text: str, width: int, more: str) -> str:
    """Return the text in exactly `width` cells."""
    text = cut(text, width, more)
    return text + " " * (width - cells(text))


def _kept(columns: Sequence[Column], natural: Sequence[int], width: int | None) -> list[int]:
    """Return the indexes of the columns that fit at their minimum widths."""
    shown = list(range(len(columns)))
    while width is not None:
        smallest = [_smallest(columns[place], natural[place]) for place in shown]
        leaver = max(shown, key=lambda place: columns[place].leaves)
        if _total(smallest) <= width or not columns[leaver].leaves:
            break
        shown.remove(leaver)
    return shown


def _shortened(
    columns: Sequence[Column], natural: Sequence[int], shown: Sequence[int], width: int | None
) -> dict[int, int]:
    """Return the width of each column: shortened in steps until the table fits."""
    widths = {place: natural[place] for place in shown}
    if width is None:
        return widths
    least = {place: _smallest(columns[place], natural[place]) for place in shown}
    less = {place: LEAST for place in shown if columns[place].least}
    for bounds in (least, less, dict.fromkeys(shown, LEAST), dict.fromkeys(shown, 1)):
        for place in reversed(list(bounds)):
            over = max(_total(list(widths.values())) - width, 0)
            widths[place] = max(widths[place] - over, min(bounds[place], widths[place]))
    return widths


def _smallest(column: Column, natural: int) -> int:
    return min(column.least, natural) if column.least else natural


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


@cache
def cells(text: str) -> int:
    """Return the number of terminal columns that a text takes."""
    if text.isascii() or text.translate(_OURS).isascii():
        return len(text)
    import unicodedata  # names and commands are nearly always ASCII

    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) > 0 for char in text)


def cut(text: str, width: int, more: str = "…") -> str:
    """Return at most `width` columns of a text, with a mark for what is left out."""
    if cells(text) <= width:
        return text
    room = width - len(more)
    if room <= 0:
        return more[:width]
    end = min(len(text), room)
    while cells(text[:end]) > room:
        end -= 1
    return text[:end].rstrip() + more
