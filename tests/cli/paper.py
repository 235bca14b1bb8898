"""A terminal for tests: what is written to it, and how it looks then.

It knows only what our screens are allowed to send; anything else is a failure.
"""

from __future__ import annotations

import re

from rich.cells import cell_len

_PIECE = re.compile(r"\x1b\[(\?25[lh]|[0-9;]*[A-Za-z])|\r|\n|[^\x00-\x1f\x7f-\x9f]|(.)", re.DOTALL)


class ExcerptWidth:
    """As wide as it is told, as long as it takes; `reflows` as most terminals do today."""

    def __init__(self, width: int = 80) -> None:
        self.width = width
        self.rows = [""]
        self.row = 0
        self.column = 0
        self.wraps = 0
        self.has_cursor = True
        self.styles: set[str] = set()

    @classmethod
    def showing(cls, written: str, width: int = 80) -> ExcerptWidth:
        paper = cls(width)
        paper.write(written)
        return paper

    @property
    def text(self) -> str:
        return "\n".join(row.rstrip() for row in self.rows).rstrip("\n")

    def write(self, written: str) -> None:
        for piece in _PIECE.finditer(written):
            assert piece[2] is None, f"{piece[2]!r} was sent to the terminal"
            if piece[1] is not None:
                self._obey(piece[1])
            elif piece[0] == "\r":
                self.column = 0
            elif piece[0] == "\n":
                self._next_row()
            else:
                self._put(piece[0])

    def _obey(self, order: str) -> None:
        match order:
            case "?25l" | "?25h":
                self.has_cursor = order == "?25h"
            case "1A":
                self.row = max(self.row - 1, 0)
            case "2K":
                self.rows[self.row] = ""
            case _ if order.endswith("m"):
                self.styles.add(order)
            case _:
                raise AssertionError(f"ESC [ {order} was sent to the terminal")

    def _next_row(self) -> None:
        self.row, self.column = self.row + 1, 0
        if self.row == len(self.rows):
            self.rows.append("")

    def _put(self, character: str) -> None:
        width = cell_len(character)
        if self.column + width > self.width:
            self.wraps += 1
            self._next_row()
        row = self.rows[self.row].ljust(self.column)
        # Nothing of ours is written over: a row is erased first, or new.
        self.rows[self.row] = row + character
        self.column += width

    def resize(self, width: int) -> None:
        """Rows that no longer fit are broken, and the cursor stays with its text."""
        rows: list[str] = []
        at = 0
        for number, row in enumerate(self.rows):
            pieces = [row[at : at + width] for at in range(0, len(row), width)] or [""]
            rows += pieces
            if number == self.row:
                at = len(rows) - 1
        self.rows, self.row, self.width = rows, at, width
        self.column = min(len(self.rows[at]), width)
