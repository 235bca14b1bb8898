"""Tables and signs that fit the terminal they are printed on.

In a pipe nothing is cut and nothing coloured.  On a terminal a table first gives up what it can do
without, column by column, then shortens what may be shortened.  A colour only repeats what a sign
says already; a terminal that cannot show the signs gets words instead.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple, TextIO

from little_loops.cli.console import ascii_only, colour_wanted

GAP = 2
NARROWEST = 20


class Signs(NamedTuple):
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


ASCII = Signs("ok", "FAIL", "warn", "*", "...", "-", "-", "x", "...", "->")
_GREEN, _RED, _YELLOW, _CYAN, _DIM = 32, 31, 33, 36, 2
_TINTS = {"good": _GREEN, "bad": _RED, "warn": _YELLOW, "running": _CYAN}


class Style(NamedTuple):
    """How to print on one stream; `width` is None where a line may be as long as it likes."""

    signs: Signs = Signs()
    colour: bool = False
    width: int | None = None

    def tinted(self, text: str) -> str:
        """A cell that begins with a sign gets that sign in its colour."""
        sign = text.partition(" ")[0]
        for name, code in _TINTS.items():
            if self.colour and sign == getattr(self.signs, name):
                return f"\x1b[{code}m{sign}\x1b[0m{text[len(sign) :]}"
        return text

    def dim(self, text: str) -> str:
        return f"\x1b[{_DIM}m{text}\x1b[0m" if self.colour else text


def style_for(stream: TextIO, color: str | None) -> Style:
    signs = ASCII if ascii_only(stream) else Signs()
    return Style(signs, colour_wanted(stream, color), width_of(stream))


def width_of(stream: TextIO) -> int | None:
    """The columns of a terminal; of anything else only if `COLUMNS` says so."""
    told = os.environ.get("COLUMNS", "")
    if told.isascii() and told.isdigit() and int(told):
        return max(int(told), NARROWEST)
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):  # no terminal, or no file at all
        return None
    return max(columns, NARROWEST) if columns else None


class Column(NamedTuple):
    """`least`: it may be cut to so many cells; `leaves`: the highest goes first, 0 stays."""

    title: str
    least: int = 0
    leaves: int = 0


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], style: Style) -> list[str]:
    natural = [
        max(cells(text) for text in [column.title, *(row[place] for row in rows)])
        for place, column in enumerate(columns)
    ]
    shown = _kept(columns, natural, style.width)
    widths = _shortened(columns, natural, shown, style.width)
    more = style.signs.more

    def line(texts: Sequence[str], *, head: bool = False) -> str:
        cut_ones = [cut(texts[place], widths[place], more) for place in shown]
        padded = [
            text + " " * (widths[place] - cells(text))
            for text, place in zip(cut_ones, shown, strict=True)
        ]
        padded[-1] = padded[-1].rstrip()
        tinted = padded if head else [style.tinted(text) for text in padded]
        return (" " * GAP).join(tinted).rstrip()

    return [
        style.dim(line([column.title for column in columns], head=True)),
        *(line(row) for row in rows),
    ]


def _kept(columns: Sequence[Column], natural: Sequence[int], width: int | None) -> list[int]:
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
    widths = {place: natural[place] for place in shown}
    for place in reversed(shown):
        over = _total(list(widths.values())) - (width or 0)
        if width is not None and over > 0:
            widths[place] = max(widths[place] - over, _smallest(columns[place], natural[place]))
    return widths


def _smallest(column: Column, natural: int) -> int:
    return min(column.least, natural) if column.least else natural


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def cells(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    import unicodedata  # names and commands are nearly always ASCII

    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) > 0 for char in text)


def cut(text: str, width: int, more: str = "…") -> str:
    """At most so many columns of a text; what is left out is marked."""
    if cells(text) <= width:
        return text
    room = width - len(more)
    if room <= 0:
        return more[:width]
    end = min(len(text), room)
    while cells(text[:end]) > room:
        end -= 1
    return text[:end].rstrip() + more
