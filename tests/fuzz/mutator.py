"""Spoil a file a little, or thoroughly: the same number always makes the same of it.

Most changes keep a file nearly right, for what is plainly wrong is refused by the first look.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

LONGEST = 1 << 17
NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
WORD = re.compile(rb"[A-Za-z_]{2,}")

NUMBERS = (
    *(b"0", b"-1", b"1", b"99999999999999999999", b"1e999", b"-0.0", b"0.1", b"010", b"1:30"),
    *(b"NaN", b"Infinity", b".inf", b"9" * 5000, b"1_000", b"0x10", b"18446744073709551616"),
)
PIECES = (
    *(b"\x00", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\x1b[2J", b"\r", b"\n", b"\n\n", b"\t"),
    *(b"{", b"}", b"[", b"]", b'"', b"'", b",", b":", b": ", b"- ", b"#", b"|", b">", b"?", b"---"),
    *(b"&a ", b"*a", b"!x ", b"!!python/object:os.system ", b"<<: ", b"%", b"@", b"`", b"\\", b"~"),
    *(b"${", b"$${", b"${context.x}", b"${captured.x.output}", b"${prev.output:raw}", b"}"),
    *(b"null", b"true", b"yes", b"[]", b"{}", b'""', b"\\u0000", b"\\ud800", b"\xe2\x80\xae"),
    *(b"../", b"/dev/stdin", b"$current", b"$error", b"terminal", b"states", b"action", b"next"),
    *(b"[" * 2000, b"{a: " * 60, b'{"a":' * 2000, b"(" * 500, b"x" * 5000, b" " * 5000),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**63, 10**400, 1e308, float("nan"), float("inf"), 0.5),
    *("", "x", "0", "\x00", "\ud800", "\u202e", "\x1b]0;x\x07", "a" * 5000, "../../etc/passwd"),
    *([], {}, [None], [[]], {"": None}, {"a": {"a": {"a": []}}}, ["x"] * 300, "2026-99-99T99:99:99"),
)  # fmt: skip

Change = Callable[[bytes, random.Random], bytes]


def spoiled(data: bytes, others: Sequence[bytes], dice: random.Random) -> bytes:
    """The file after one to four changes."""
    for _ in range(dice.choice((1, 1, 2, 2, 3, 4))):
        change = dice.choice(CHANGES)
        data = spliced(data, dice.choice(others), dice) if change is keep else change(data, dice)
    return data[:LONGEST]


def span(data: bytes, dice: random.Random) -> tuple[int, int]:
    start = dice.randint(0, len(data))
    longest = dice.choice((1, 4, 40, len(data)))
    return start, min(len(data), start + dice.randint(0, longest))


def keep(data: bytes, dice: random.Random) -> bytes:
    return data


def spliced(data: bytes, other: bytes, dice: random.Random) -> bytes:
    """The beginning of one, the end of another."""
    return data[: dice.randint(0, len(data))] + other[dice.randint(0, len(other)) :]


def flip(data: bytes, dice: random.Random) -> bytes:
    if not data:
        return b"\x00"
    at = dice.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << dice.randrange(8))]) + data[at + 1 :]


def remove(data: bytes, dice: random.Random) -> bytes:
    start, end = span(data, dice)
    return data[:start] + data[end:]


def repeat(data: bytes, dice: random.Random) -> bytes:
    start, end = span(data, dice)
    times = dice.choice((1, 2, 30, 1000))
    return (data[:end] + data[start:end][:4000] * times + data[end:])[:LONGEST]


def insert(data: bytes, dice: random.Random) -> bytes:
    at = dice.randint(0, len(data))
    return data[:at] + dice.choice(PIECES) + data[at:]


def replace(data: bytes, dice: random.Random) -> bytes:
    start, end = span(data, dice)
    return data[:start] + dice.choice(PIECES) + data[end:]


def another_number(data: bytes, dice: random.Random) -> bytes:
    return _instead(NUMBER, data, dice, dice.choice(NUMBERS))


def another_word(data: bytes, dice: random.Random) -> bytes:
    words = WORD.findall(data)
    return _instead(WORD, data, dice, dice.choice(words)) if words else data


def _instead(what: re.Pattern[bytes], data: bytes, dice: random.Random, new: bytes) -> bytes:
    places = [match.span() for match in what.finditer(data)]
    if not places:
        return data
    start, end = dice.choice(places)
    return data[:start] + new + data[end:]


def lines_in_another_order(data: bytes, dice: random.Random) -> bytes:
    lines = data.split(b"\n")
    one, other = dice.randrange(len(lines)), dice.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return b"\n".join(lines)


def another_line_less(data: bytes, dice: random.Random) -> bytes:
    lines = data.split(b"\n")
    del lines[dice.randrange(len(lines))]
    return b"\n".join(lines)


def another_value(data: bytes, dice: random.Random) -> bytes:
    """In one line of JSON, or in all of it, one value is another, gone, or elsewhere."""
    lines = data.split(b"\n")
    at = dice.randrange(len(lines))
    try:
        document = json.loads(lines[at])
    except (ValueError, RecursionError):
        return data
    lines[at] = json.dumps(changed(document, dice)).encode()
    return b"\n".join(lines)


def changed(document: Any, dice: random.Random) -> Any:
    place = document
    while isinstance(place, dict | list) and place:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = dice.choice(keys)
        if isinstance(place[key], dict | list) and place[key] and dice.random() < 0.7:
            place = place[key]
            continue
        if dice.random() < 0.3:
            del place[key]
        else:
            place[key] = dice.choice((*VALUES, document)) if dice.random() < 0.9 else place[keys[0]]
        return json.loads(json.dumps(document)) if not _is_in(document, place) else {}
    return dice.choice(VALUES)


def _is_in(document: Any, place: Any) -> bool:
    """Does it now hold itself?  JSON cannot write that."""
    try:
        json.dumps(document)
    except (ValueError, RecursionError):
        return True
    return False


CHANGES: tuple[Change, ...] = (
    *(keep, flip, remove, remove, repeat, insert, insert, replace, another_number, another_word),
    *(lines_in_another_order, another_line_less, another_value, another_value, another_value),
)
