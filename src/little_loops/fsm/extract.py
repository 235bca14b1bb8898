"""Read values from text: a number, the match of a pattern, the one value of a jq filter.

Anything that cannot be read raises `CannotJudge` with the reason; nothing is guessed.

Not here: what a value means for a run (`conditions`), the time limit for patterns and filters
(`engine.judging`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import islice

from little_loops.light_modules import re
from little_loops.light_typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from decimal import Decimal

PREVIEW_CHARS = 200
NUMERAL_CHARS = 1000
LARGEST = sys.float_info.max
EXACT_BELOW = 1 << 53
"""From here on, a double (jq's only number type) cannot represent every integer."""

# Not compiled here: `re` compiles and caches them on first use, and start-up stays fast.
_NUMERAL = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_MARK = "\ufdd0"  # a character that no text contains
_OTHER_DIALECT = r"(?s)\(\?<?[=!]|\(.*\\[1-9]"


class CannotJudge(ValueError):
    """No verdict is possible; the message says why."""


class NotANumber(CannotJudge):
    """A finite number was expected; the message quotes the text."""


def preview(text: str) -> str:
    """Return the beginning of a text, on one line and safe for a terminal."""
    return repr(text[:PREVIEW_CHARS]) + ("…" if len(text) > PREVIEW_CHARS else "")


def cut(text: str) -> str:
    return text if len(text) <= PREVIEW_CHARS else f"{text[:PREVIEW_CHARS]}…"


def utf8(text: str) -> bytes:
    """Encode a text for a C library; a lone surrogate, which cannot be encoded, becomes `?`."""
    return text.encode("utf-8", "replace")


# Numbers


def number_in(text: str) -> float:
    """Return the number on the last non-blank line, which must contain nothing else.

    ===============================================  ==========================================
    ``12``, ``-3``, ``+.5``, ``5.``, ``2e3``          these; a whole number exactly, as an `int`
    ``0\\n0``, `` 12 ``, ``Counting\\n7\\n``            0, 12, 7
    nothing, ``abc``, ``12 errors``, ``3%``           no number
    ``1,234``                                        none: 1234 here, 1.234 elsewhere
    ``NaN``, ``inf``, ``1e999``                       none: a comparison with it says nothing
    ``0x10``, ``1_000``, ``१२``                       none: programs disagree about these
    ===============================================  ==========================================

    Raises `NotANumber`.
    """
    whole = text.strip()
    line = whole.rpartition("\n")[2].strip()
    if len(line) > NUMERAL_CHARS or not re.fullmatch(_NUMERAL, line):
        of = "" if line == whole else f" as the last line of {preview(text)}"
        raise NotANumber(f"expected a number, got {preview(line)}{of}")
    if abs(float(line)) > LARGEST:
        raise NotANumber(f"expected a finite number, got {preview(line)}")
    return int(line) if line.lstrip("+-").isdigit() else float(line)


def has_leading_zero(text: str) -> bool:
    return re.match(r"\s*[+-]?0[0-9]", text) is not None


def as_number(value: float | str, field: str) -> float:
    """Return the value of a numeric field: a number, or the text of a filled-in template.

    Raises `CannotJudge`, naming `field`, if it is not a finite number.
    """
    try:
        number = number_in(value) if isinstance(value, str) else value
    except NotANumber:
        raise CannotJudge(f"`{field}` is not a number: {preview(str(value))}") from None
    if not abs(number) <= LARGEST:  # written like this, it also catches NaN
        raise CannotJudge(f"`{field}` is not a finite number")
    return number


def gap(one: float, other: float) -> Decimal:
    """Return the decimal distance of two numbers: 1.1 is 0.1 away from 1, which floats get
    wrong."""
    from decimal import Decimal  # late: only convergence needs it

    return abs(Decimal(str(one)) - Decimal(str(other)))


def median(numbers: Sequence[float]) -> float:
    """Return the median; of an even count, the mean of the two in the middle, as a decimal."""
    from decimal import Decimal  # late: only repeated measurements need it

    ordered = sorted(numbers)
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return low if low == high else float((Decimal(str(low)) + Decimal(str(high))) / 2)


def plain(number: float) -> str:
    """12, not 12.0."""
    return str(int(number)) if abs(number) < 1e15 and number == int(number) else str(number)


def stall_count(stalled: int, patience: int) -> str:
    """Return how many measurements in a row brought no improvement; if the run has continued after a
    stall, these are more than its patience."""
    return f"{stalled} of {patience}" if stalled <= patience else f"{stalled} in a row"


# Patterns


def matches(pattern: str, text: str) -> bool:
    return matches_bytes(pattern, utf8(text))


def matches_bytes(pattern: str, data: bytes | bytearray) -> bool:
    if b"\r\n" in data:  # RE2's `$` does not match before `\r`; replacing it would copy everything
        data = data.replace(b"\r\n", b"\n")
    return compiled(pattern).search(data) is not None


def compiled(pattern: str) -> Any:
    """Compile a pattern with RE2, which is linear in the input; `^` and `$` match at line ends.

    Raises `CannotJudge` if RE2 does not accept it.
    """
    import re2  # late: few loops have a pattern

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True  # twelve times as fast on a large text
    try:
        return re2.compile(utf8(f"(?m){pattern}"), options)
    except re2.error as error:
        why = error.args[0].decode("utf-8", "replace").replace("(?m)", "", 1)
        raise CannotJudge(f"`{cut(pattern)}` is not a valid pattern: {_reason(why)}") from None


def _reason(why: str) -> str:
    """Return RE2's reason with the part of the pattern in backticks."""
    what, _, part = why.partition(": ")
    word, _, mark = what.partition(" ")
    if word in ("missing", "unexpected", "trailing"):
        return f"{word} `{mark}`"
    return f"{what} `{part}`" if part else what


def is_other_dialect(pattern: str) -> bool:
    """Return whether a pattern uses features that RE2 lacks: look-arounds, back-references."""
    return re.search(_OTHER_DIALECT, pattern) is not None


# JSON


def one_value(path: str, text: str) -> Any:
    """Return the single value of a jq filter for a text. Of duplicate keys, jq takes the last.

    Raises `CannotJudge` if the filter is invalid, the text is not JSON, or there is not exactly one
    value.
    """
    import jq  # late: few loops have a path

    if "\0" in text:
        raise CannotJudge("not JSON: there is a NUL character in it")  # jq would stop reading there
    try:
        program = jq.compile(path.replace("\0", "\\0"))
    except ValueError as error:
        raise CannotJudge(f"`{cut(path)}` is not a valid jq filter: {_headline(error)}") from None
    try:
        values = list(islice(iter(program.input_text(utf8(text).decode())), 2))
    except (ValueError, RecursionError) as error:
        raise CannotJudge(_no_value(path, _headline(error))) from None
    if len(values) != 1:
        given = "more than one value" if values else "no value"
        raise CannotJudge(f"`{cut(path)}` gave {given}" if text.strip() else "not JSON: empty")
    return values[0]


def exact_value(path: str, text: str, rounded: Any) -> Any:
    """Return a number that jq has rounded, as it is written in the text. Raises `CannotJudge` if
    the filter computed with it.

    jq runs again on a text in which large numbers are replaced by marked strings. If it returns one
    of these, that is the number; if the result is unchanged, no large number was involved.
    """
    import json  # late: few numbers are that large

    def marked(digits: str) -> int | str:
        return int(digits) if abs(int(digits)) < EXACT_BELOW else f"{_MARK}{digits}"

    try:
        value = one_value(path, json.dumps(json.loads(text, parse_int=marked)))
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, str) and value.startswith(_MARK):
        return int(value.removeprefix(_MARK))
    if value != rounded:
        raise CannotJudge(f"`{cut(path)}` is too large for jq, which keeps about 15 digits")
    return value


def kind(value: Any) -> str:
    """Return the JSON type of a value, for messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "a list" if isinstance(value, list) else "an object"


def _headline(error: Exception) -> str:
    return cut(str(error).partition("\n")[0].removeprefix("jq: error: "))


def _no_value(path: str, error: str) -> str:
    if error.startswith("parse error: "):
        return f"not JSON: {error.removeprefix('parse error: ')}"
    return f"`{cut(path)}` failed: {error}"
