"""Determine the type of a plain scalar: text, number, boolean or null.

YAML 1.1 and 1.2 read some notations differently (`yes`, `0777`, `12:30:45`). If that would surprise
the author, the kind is that of YAML 1.1, so that the reader can explain it; notations that only one
of them recognises (dates, base 60) are text.
"""

from __future__ import annotations

import math
import re

from little_loops.light_typing import Any

WORDS: dict[str, tuple[str, Any]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), ("null", None)),
    **{
        spelling: ("bool", value)
        for word, value in {
            "true": True,
            "yes": True,
            "on": True,
            "false": False,
            "no": False,
            "off": False,
        }.items()
        for spelling in (word, word.capitalize(), word.upper())
    },
    **{
        sign + spelling: ("float", -math.inf if sign == "-" else math.inf)
        for sign in ("", "+", "-")
        for spelling in (".inf", ".Inf", ".INF")
    },
    **dict.fromkeys((".nan", ".NaN", ".NAN"), ("float", math.nan)),
}
_MAY_BE_A_NUMBER = frozenset("0123456789+-.")
_OF_NUMBERS = "0123456789+-._xXoObBaAcCdDeEfF"
# Compiled on first use; a file of words and plain numbers never needs them.
_INT = r"[-+]?(?:0|[1-9][0-9]*)"
_FLOAT = r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?"
_ODD = r"[-+]?(?:0x[0-9a-fA-F_]+|0o[0-7_]+|0b[01_]+|0[0-9_]+|[0-9][0-9_]*_[0-9_]*(?:\.[0-9_]*)?)"
_MOST_DIGITS = 300  # too large for any float, and slow in Python


def resolve(text: str) -> tuple[str, Any]:
    """Return the kind and the value of a plain scalar."""
    return WORDS.get(text) or other_than_words(text)


def other_than_words(text: str) -> tuple[str, Any]:
    """Like `resolve`, for scalars that are not one of `WORDS`."""
    if text[0] not in _MAY_BE_A_NUMBER or text.strip(_OF_NUMBERS):
        return "str", text
    if re.fullmatch(_INT, text):
        return "int", int(text) if len(text) <= _MOST_DIGITS else math.inf
    if re.fullmatch(_FLOAT, text):
        return "float", float(text)
    if re.fullmatch(_ODD, text):
        return "int", text
    return "str", text


def notation(text: str) -> str | None:
    """Return the name of a notation that YAML 1.1 reads as something unexpected; None for others."""
    for pattern, name in _NOTATIONS.items():
        if re.fullmatch(pattern, text):
            return name
    return None


# Only needed for an error, so compiled then.
_NOTATIONS = {
    r"[-+]?0x[0-9a-fA-F_]+": "hexadecimal notation",
    r"[-+]?0b[01_]+": "binary notation",
    r"[-+]?0o?[0-7_]+": "octal notation",
    r"[-+]?0[0-9_]+": "a number with a leading zero",
    r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?": "a base-60 number in YAML",
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ].*)?": "a date in YAML",
    r"[-+]?[0-9_.]*_[0-9_.]*": "a number with `_` in it",
}
