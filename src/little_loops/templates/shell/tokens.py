"""What the readers of a script hand to each other: words, here-documents, what reaches what.

Not here: reading (`shell_quotes`, `script`).
"""

from __future__ import annotations

from little_loops.records import NamedTuple
from little_loops.templates.shell.positions import Place, Reason
from little_loops.templates.shell.roles import UNKNOWN


class Word(NamedTuple):
    text: str
    holes: tuple[tuple[int, Place], ...]
    bare: bool
    start: int
    stop: int


class Reach(NamedTuple):
    """A stretch of the script whose values end up where they may not stand."""

    start: int
    stop: int
    refused: Reason
    of: str
    through: str


class Lost(Exception):
    """The rest of the script cannot be read."""

    def __init__(self, reason: Reason, what: str) -> None:
        self.reason, self.what = reason, what


class Seen:
    """What has been read of a word so far."""

    __slots__ = ("bare", "holes", "text")

    def __init__(self) -> None:
        self.text: list[str] = []
        self.holes: list[tuple[int, Place]] = []
        self.bare = True

    def word(self, start: int, stop: int) -> Word:
        return Word("".join(self.text), tuple(self.holes), self.bare, start, stop)

    def take(self, other: Seen, refused: Reason) -> None:
        """Add the holes of what was read inside an expansion."""
        self.text.append(UNKNOWN)
        for at, place in other.holes:
            self.holes.append((at, place if place.refused else place._replace(refused=refused)))


class Document:
    """A here-document that was announced; its text begins on the next line."""

    __slots__ = ("at", "delimiter", "literal", "names", "program", "tabs")

    def __init__(self, delimiter: str, literal: bool, tabs: bool, at: int) -> None:
        self.delimiter, self.literal, self.tabs, self.at = delimiter, literal, tabs, at
        self.program, self.names = "", frozenset[str]()
