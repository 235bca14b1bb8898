"""A hash over an event log in which every line hangs on all lines before it.

With the number of lines and the last hash in a receipt, no line can be changed, left out or put in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Literal

from little_loops.records import NamedTuple
from little_loops.runs.journal import parse

START = bytes(32)


class Chain(NamedTuple):
    """So many lines, and the hash of the last."""

    lines: int = 0
    head: str = START.hex()


def links(data: bytes) -> Iterator[Chain]:
    """The chain after each line; a last line without an end counts, and is another one."""
    head = START
    for number, line in enumerate(_lines(data), 1):
        head = hashlib.sha256(head + line).digest()
        yield Chain(number, head.hex())


def chain_of(data: bytes) -> Chain:
    last = Chain()
    for last in links(data):  # noqa: B007
        pass
    return last


def _lines(data: bytes) -> list[bytes]:
    """Split at newlines alone: `splitlines` knows other ends, too."""
    *whole, rest = data.split(b"\n")
    return [line + b"\n" for line in whole] + ([rest] if rest else [])


Standing = Literal["same", "longer", "different"]


def compare(recorded: Chain, data: bytes) -> Standing:
    """How a log stands to the chain of a receipt; a run that was resumed has a longer one."""
    there = any(each == recorded for each in links(data)) or recorded == Chain()
    lines = _lines(data)
    if not there:
        return "different"
    later = lines[recorded.lines :]
    if not later:
        return "same"
    return "longer" if _are_events(later) else "different"


def _are_events(lines: Iterable[bytes]) -> bool:
    return all(line.endswith(b"\n") and parse(line) is not None for line in lines)
