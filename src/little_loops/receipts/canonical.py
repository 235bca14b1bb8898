"""One way to write a JSON value as bytes, so that a hash of it means something.

Keys are sorted, nothing is added between the signs, all of it is ASCII, whole numbers have no
fraction.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

MAX_EXACT = 1 << 53
"""Beyond this a number with a fraction may not be the whole number it looks like."""


def canonical(value: Any) -> bytes:
    plain = _plain(value)
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def digest(value: Any) -> str:
    return sha256(canonical(value))


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _plain(value: Any) -> Any:
    match value:
        case float() if value.is_integer() and abs(value) < MAX_EXACT:
            return int(value)
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case _:
            return value
