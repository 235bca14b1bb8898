"""`json.loads`, `json.dumps` and the encoder of our files, without loading `json`.

`json` loads `re` and `enum`, which takes half a megabyte in every process that waits for an action.
Its work is done in C by `_json`, and this module calls that directly. A text that cannot be read
this way is read by `json`, whose error says what is wrong and where.

Without `_json`, as in PyPy, all of it is done by `json`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from little_loops.light_typing import TYPE_CHECKING, Any

_BLANKS = " \t\n\r"
_NO_NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": -float("inf")}


class _Defaults:
    """The options of `json.loads`, under the names that the scanner in C expects."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = _NO_NUMBERS.__getitem__


def _refuse(value: object) -> None:
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def make_compact_encoder() -> Callable[[Any], str]:
    """Return an encoder that writes no blanks, escapes to ASCII, refuses NaN and infinity, and does
    not check for cycles.

    The part in C is prepared once and not for each value, which saves a quarter of the time.
    """
    pieces = _json.make_encoder(
        None, _refuse, _json.encode_basestring_ascii, None, ":", ",", False, False, False
    )
    return lambda value: "".join(pieces(value, 0))


def dumps(value: Any, *, ensure_ascii: bool = True) -> str:
    escape = _json.encode_basestring_ascii if ensure_ascii else _json.encode_basestring
    pieces = _json.make_encoder({}, _refuse, escape, None, ": ", ", ", False, False, True)
    return "".join(pieces(value, 0))


def loads(text: str | bytes) -> Any:
    """Return what `json.loads` returns, and raise what it raises."""
    try:
        decoded = text if isinstance(text, str) else text.decode("utf-8", "surrogatepass")
        value, end = _scan(decoded, len(decoded) - len(decoded.lstrip(_BLANKS)))
        if not decoded[end:].strip(_BLANKS):
            return value
    except (StopIteration, SystemError, ValueError):
        pass  # before Python 3.13, `_json` raises a `SystemError` if `json` is not loaded
    import json

    return json.loads(text)


if TYPE_CHECKING:
    _json: Any
    _scan: Callable[[str, int], tuple[Any, int]]
else:
    try:
        # An interpreter built for debugging would abort instead of raising that `SystemError`.
        if hasattr(sys, "gettotalrefcount"):
            raise ImportError
        import _json

        _scan = _json.make_scanner(_Defaults)
    except ImportError:
        import json

        dumps, loads = json.dumps, json.loads

        def make_compact_encoder():
            return json.JSONEncoder(
                separators=(",", ":"), allow_nan=False, check_circular=False
            ).encode
