"""Where a loop file gets the loops from that it names."""

from __future__ import annotations

from collections.abc import Callable

from little_loops.records import NamedTuple


class LoopText(NamedTuple):
    """The text of a loop file: its name in messages, the name of a loop without one, and what
    identifies the file."""

    text: bytes
    file: str
    stem: str
    path: str


class Library(NamedTuple):
    """Finds the loops that a file names; `within` are the files that lead to it.

    `read` returns the file of a loop, given its name or path, or why there is none. `names_only`:
    only the name of the loop itself is wanted, so the others are not read.
    """

    read: Callable[[str], LoopText | str] | None = None
    within: tuple[str, ...] = ()
    names_only: bool = False


NO_LIBRARY = Library()
