"""Read JSON events from a stream that may contain anything.

A line is an event if it is a JSON object with a `type`. The getters always return the expected
type, whatever the event contains: a CLI may drop a key or change its type between two versions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from little_loops.light_typing import Any

Event = Mapping[str, Any]

NO_EVENT: Event = {}


def as_text(line: bytes | str) -> str:
    """Decode one line and strip its line ending; invalid UTF-8 becomes a replacement character."""
    text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
    return text.rstrip("\r\n")


def as_event(line: str) -> Event | None:
    """Return the event on this line; None for any other text."""
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
    """Return whether a line is an incomplete event: not valid JSON, but not text for people either."""
    return line.lstrip().startswith(('{"type"', '{ "type"'))


def text_in(event: Event, key: str) -> str:
    """Return the string at `key`; empty if there is none."""
    value = event.get(key)
    return printable(value) if isinstance(value, str) else ""


def printable(text: str) -> str:
    r"""Replace lone surrogates, which JSON can contain (`\ud800`) but a file cannot."""
    return text.encode("utf-8", "replace").decode("utf-8")


def number_in(event: Event, key: str) -> float | None:
    """Return the number at `key` if it is finite and not negative; else None."""
    value = event.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # An int may be too large for a float, so check before converting.
    return float(value) if 0 <= value < 1e18 and math.isfinite(value) else None


def count_in(event: Event, key: str) -> int:
    return int(number_in(event, key) or 0)


def part_of(event: Event, key: str) -> Event:
    """Return the object at `key`; an empty one if there is none."""
    value = event.get(key)
    return value if isinstance(value, dict) else NO_EVENT


def parts_of(event: Event, key: str) -> list[Event]:
    """Return the objects in the list at `key`, without other items."""
    value = event.get(key)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def texts_in(event: Event, key: str) -> list[str]:
    """Return the strings in the list at `key`, without other items."""
    value = event.get(key)
    found = value if isinstance(value, list) else []
    return [printable(item) for item in found if isinstance(item, str)]


def one_line(text: str, limit: int = 200) -> str:
    """Return the text on one line, shortened to `limit` characters."""
    line = " ".join(text[: limit * 4].split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def because(what: str, why: str, limit: int = 200) -> str:
    """Return `what`, followed by the other side's own explanation if there is one."""
    line = one_line(why, limit)
    return f"{what}: {line}" if line else what
