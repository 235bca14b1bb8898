"""A chained hash over an event log: each line's hash covers all lines before it.

With the number of lines and the last hash in a receipt, no line can be changed, removed or inserted
unnoticed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from little_loops.light_typing import Literal
from little_loops.records import NamedTuple
from little_loops.runs.journal import parse

START = bytes(32)


class Chain(NamedTuple):
    """A number of lines, and the hash of the last one."""

    lines: int = 0
    head: str = START.hex()


def links(data: bytes) -> Iterator[Chain]:
    """Yield the chain after each line; an unfinished last line counts as a line."""
    head = START
    for number, line in enumerate(_lines(data), 1):
        head = hashlib.sha256(head + line).digest()
        yield Chain(number, head.hex())


def chain_of(data: bytes) -> Chain:
    """Return the chain of a whole log."""
    last = Chain()
    for last in links(data):  # noqa: B007
        pass
    return last


def _lines(data: bytes) -> list[bytes]:
    """Split at newlines only; `splitlines` splits at other characters, too."""
    *whole, rest = data.split(b"\n")
    return [line + b"\n" for line in whole] + ([rest] if rest else [])


Comparison = Literal["same", "longer", "different"]


def compare(recorded: Chain, data: bytes) -> Comparison:
    """Compare a log with the chain in a receipt; the log of a run that was resumed is longer.

    Additional lines that are not complete events make it different.
    """
    is_prefix = any(each == recorded for each in links(data)) or recorded == Chain()
    lines = _lines(data)
    if not is_prefix:
        return "different"
    later = lines[recorded.lines :]
    if not later:
        return "same"
    return "longer" if _are_events(later) else "different"


def _are_events(lines: Iterable[bytes]) -> bool:
    return all(line.endswith(b"\n") and parse(line) is not None for line in lines)
