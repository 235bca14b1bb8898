"""Encode a JSON value as bytes in exactly one way, so that its hash is meaningful.

Keys are sorted, there is no white space between tokens, everything is ASCII, and whole numbers have
no fraction.
"""

from __future__ import annotations

import hashlib
import json

from little_loops.light_typing import Any

MAX_EXACT = 1 << 53
"""From here on, a float may not be exactly the whole number that it looks like."""


def canonical(value: Any) -> bytes:
    """Encode a value as canonical JSON. Raises `ValueError` for NaN and infinity."""
    plain = _normalised(value)
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def digest(value: Any) -> str:
    """Return the SHA-256 of a value's canonical JSON, in hex."""
    return sha256(canonical(value))


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _normalised(value: Any) -> Any:
    """Return the value with text keys, tuples as lists, and whole floats as integers."""
    match value:
        case float() if value.is_integer() and abs(value) < MAX_EXACT:
            return int(value)
        case dict():
            return {str(key): _normalised(item) for key, item in value.items()}
        case list() | tuple():
            return [_normalised(item) for item in value]
        case _:
            return value
