"""Read events out of a stream that may hold anything.

A line is an event if it is a JSON object with a `type`.  The getters answer with something of the
type asked for, whatever is there: a CLI may drop a key or change its type between two versions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

Event = Mapping[str, Any]

NO_EVENT: Event = {}


def as_text(line: bytes | str) -> str:
    """One line without its end; bytes that are not UTF-8 stay visible."""
    text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
    return text.rstrip("\r\n")


def as_event(line: str) -> Event | None:
    """The event on this line, or None for any other text."""
    if not line.lstrip().startswith("{"):
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict) and isinstance(value.get("type"), str):
        return value
    return None


def is_broken(line: str) -> bool:
    """An event that was cut off: no JSON, but nothing a person would have written either."""
    return line.lstrip().startswith(('{"type"', '{ "type"'))


def text_in(event: Event, key: str) -> str:
    value = event.get(key)
    return printable(value) if isinstance(value, str) else ""


def printable(text: str) -> str:
    """JSON can hold half a character (`\\ud800`), which no file could take later."""
    return text.encode("utf-8", "replace").decode("utf-8")


def number_in(event: Event, key: str) -> float | None:
    """A finite number, not below zero."""
    value = event.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # An int may be too large for a float, so ask before turning it into one.
    return float(value) if 0 <= value < 1e18 and math.isfinite(value) else None


def count_in(event: Event, key: str) -> int:
    return int(number_in(event, key) or 0)


def part_of(event: Event, key: str) -> Event:
    value = event.get(key)
    return value if isinstance(value, dict) else NO_EVENT


def parts_of(event: Event, key: str) -> list[Event]:
    """The objects in a list; what is no object is left out."""
    value = event.get(key)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def texts_in(event: Event, key: str) -> list[str]:
    value = event.get(key)
    found = value if isinstance(value, list) else []
    return [printable(item) for item in found if isinstance(item, str)]


def one_line(text: str, limit: int = 200) -> str:
    """The text on one line, shortened; for reasons and the live line."""
    line = " ".join(text[: limit * 4].split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def because(what: str, why: str, limit: int = 200) -> str:
    """A reason with the other side's own words, if it had any."""
    line = one_line(why, limit)
    return f"{what}: {line}" if line else what
