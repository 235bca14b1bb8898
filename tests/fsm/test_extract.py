"""What a string holds: numbers, matches, the one value of a filter."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.fsm.extract import (
    CannotJudge,
    NotANumber,
    as_number,
    compiled,
    cut,
    exact_value,
    gap,
    is_other_dialect,
    kind,
    matches,
    number_in,
    one_value,
    plain,
    preview,
)

ANY_TEXT = st.text(st.characters(codec=None, categories=None), max_size=60)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        pytest.param("12", 12, id="whole"),
        pytest.param(" 12 ", 12, id="blanks around"),
        pytest.param("\n\n12\r\n\n", 12, id="blank lines around"),
        pytest.param("0\n0", 0, id="grep -c || echo 0"),
        pytest.param("Counting\n 7\n", 7, id="the last line"),
        pytest.param("-3", -3, id="negative"),
        pytest.param("+4", 4, id="plus"),
        pytest.param("007", 7, id="leading zeros"),
        pytest.param("2.50", 2.5, id="point"),
        pytest.param(".5", 0.5, id="point first"),
        pytest.param("5.", 5.0, id="point last"),
        pytest.param("2e3", 2000.0, id="exponent"),
        pytest.param("1E-2", 0.01, id="negative exponent"),
        pytest.param("1e-999", 0.0, id="too small to tell from nothing"),
        pytest.param("9007199254740993", 9007199254740993, id="exact beyond 2**53"),
    ],
)
def test_numbers(text, number):
    read = number_in(text)
    assert (read, type(read)) == (number, type(number))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "expected a number, got ''", id="empty"),
        pytest.param(" \n ", "expected a number, got ''", id="blank"),
        pytest.param("abc", "expected a number, got 'abc'", id="word"),
        pytest.param("12 errors", "expected a number, got '12 errors'", id="word beside it"),
        pytest.param("1,234", "expected a number, got '1,234'", id="comma"),
        pytest.param("NaN", "expected a number, got 'NaN'", id="nan"),
        pytest.param("-inf", "expected a number, got '-inf'", id="inf"),
        pytest.param("1e999", "expected a finite number, got '1e999'", id="overflow"),
        pytest.param("9" * 310, f"expected a finite number, got {'9' * 200!r}…", id="many digits"),
        pytest.param("0x10", "expected a number, got '0x10'", id="hexadecimal"),
        pytest.param("1_000", "expected a number, got '1_000'", id="underscore"),
        pytest.param("१२", "expected a number, got '१२'", id="digits of another script"),
        pytest.param("²", "expected a number, got '²'", id="superscript"),
        pytest.param("1.2.3", "expected a number, got '1.2.3'", id="version"),
        pytest.param("- 5", "expected a number, got '- 5'", id="detached sign"),
        pytest.param("1" * 1001, f"expected a number, got {'1' * 200!r}…", id="too long"),
        pytest.param("\x1b[32m5", "expected a number, got '\\x1b[32m5'", id="coloured"),
        pytest.param(
            "5\ndone",
            "expected a number, got 'done' as the last line of '5\\ndone'",
            id="not on the last line",
        ),
    ],
)
def test_no_numbers(text, message):
    with pytest.raises(NotANumber) as caught:
        number_in(text)
    assert str(caught.value) == message


@given(st.integers(-(10**300), 10**300))
def test_every_whole_number_is_read_exactly(number):
    assert number_in(f"{number}\n") == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_float_is_read_back(number):
    assert number_in(repr(number)) == number


@given(ANY_TEXT)
def test_a_text_is_a_finite_number_or_none(text):
    try:
        number = number_in(text)
    except NotANumber:
        return
    assert abs(number) < float("inf")


@pytest.mark.parametrize(
    ("value", "number"),
    [
        pytest.param(5, 5, id="a number"),
        pytest.param("5\n", 5, id="a filled template"),
    ],
)
def test_fields_that_take_a_number(value, number):
    assert as_number(value, "target") == number


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param("many", "`target` is not a number: 'many'", id="word"),
        pytest.param("", "`target` is not a number: ''", id="empty variable"),
        pytest.param(float("nan"), "`target` is not a finite number", id="nan"),
        pytest.param(10**400, "`target` is not a finite number", id="huge"),
    ],
)
def test_fields_that_hold_no_number(value, message):
    with pytest.raises(CannotJudge) as caught:
        as_number(value, "target")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (12, "12"),
        (12.0, "12"),
        (0.1, "0.1"),
        (-0.0, "0"),
        (1e300, "1e+300"),
        (10**20, "1" + "0" * 20),
        (999_999_999_999_999.0, "999999999999999"),
        (-999_999_999_999_999.0, "-999999999999999"),
        (1e15, "1000000000000000.0"),
        (999_999_999_999_999.5, "999999999999999.5"),
    ],
)
def test_plain(number, text):
    assert plain(number) == text


def test_distances_are_decimal():
    assert gap(1.1, 1) == Decimal("0.1")


def test_a_preview_is_one_line_of_at_most_200_characters():
    assert preview("a\nb\x1b") == r"'a\nb\x1b'"
    assert preview("x" * 201) == repr("x" * 200) + "…"


def test_cut():
    assert (cut("x" * 200), cut("x" * 201)) == ("x" * 200, "x" * 200 + "…")


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        pytest.param("^ok$", "a\nok\nb", True, id="line ends"),
        pytest.param("^ok$", "a\r\nok\r\nb", True, id="line ends in CR LF"),
        pytest.param("^ok$", "not ok", False, id="no such line"),
        pytest.param("a.c", "a\nc", False, id="a point is no newline"),
        pytest.param("(?s)a.c", "a\nc", True, id="a flag of its own"),
        pytest.param("gr[üu]n", "grün", True, id="not ASCII"),
        pytest.param("a.b", "a\udce9b", True, id="an undecodable byte"),
    ],
)
def test_matches(pattern, text, found):
    assert matches(pattern, text) is found


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("[", "`[` is not a valid pattern: missing `]`"),
        ("(abc", "`(abc` is not a valid pattern: missing `)`"),
        ("(?=a)", "`(?=a)` is not a valid pattern: invalid perl operator `(?=`"),
        (r"(a)\1", r"`(a)\1` is not a valid pattern: invalid escape sequence `\1`"),
    ],
)
def test_patterns_refused(pattern, message):
    with pytest.raises(CannotJudge) as caught:
        compiled(pattern)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("pattern", "other"),
    [
        ("(?=a)", True),
        ("(?!a)", True),
        ("(?<=a)b", True),
        ("(?<!a)b", True),
        (r"(a)\1", True),
        (r"C:\1", False),
        ("a{1001}", False),
    ],
)
def test_other_dialects(pattern, other):
    assert is_other_dialect(pattern) is other


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        pytest.param(".summary.failed", '{"summary": {"failed": 0}}', 0, id="the manual's"),
        pytest.param(".a", '{"a": 1, "a": 2}', 2, id="a key twice"),
        pytest.param(".[0]", "[true]", True, id="index"),
        pytest.param(".nope.deep", "{}", None, id="missing"),
        pytest.param("map(.n) | add", '[{"n": 1}, {"n": 2}]', 3, id="a program"),
        pytest.param(".", "\ufeff1", 1, id="byte order mark"),
        pytest.param(".", '"\udce9"', "?", id="an undecodable byte"),
        pytest.param(".", '"a\\u0000b"', "a\0b", id="an escaped NUL"),
    ],
)
def test_one_value(path, text, value):
    assert one_value(path, text) == value


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        pytest.param(".", "", "not JSON: empty", id="empty"),
        pytest.param(
            ".", "oops", "not JSON: Invalid numeric literal at EOF at line 1, column 4", id="prose"
        ),
        pytest.param(
            ".a",
            '{"a": 1',
            "not JSON: Unfinished JSON term at EOF at line 1, column 7",
            id="unfinished",
        ),
        pytest.param(
            ".a",
            '{"a": 1} done',
            "not JSON: Invalid numeric literal at EOF at line 1, column 13",
            id="prose after it",
        ),
        pytest.param(".", "1\0", "not JSON: there is a NUL character in it", id="NUL"),
        pytest.param(
            ".",
            "[" * 20000,
            "not JSON: Exceeds depth limit for parsing at line 1, column 10001",
            id="too deep",
        ),
        pytest.param(".[]", "[1, 2]", "`.[]` gave more than one value", id="two values"),
        pytest.param(".", "1\n2", "`.` gave more than one value", id="two documents"),
        pytest.param("empty", "1", "`empty` gave no value", id="none"),
        pytest.param(
            ".[] | 1 / .",
            "[1, 2, 0]",
            "`.[] | 1 / .` gave more than one value",
            id="wrong only after the second",
        ),
        pytest.param("repeat(.)", "1", "`repeat(.)` gave more than one value", id="without end"),
        pytest.param(
            ".a.b",
            '{"a": 1}',
            '`.a.b` failed: Cannot index number with string ("b")',
            id="wrong kind",
        ),
        pytest.param(
            "foo",
            "1",
            "`foo` is not a valid jq filter: foo/0 is not defined at <top-level>, line 1, column 1:",
            id="unknown function",
        ),
        pytest.param(
            "",
            "1",
            '`` is not a valid jq filter: Top-level program not given (try ".")',
            id="no filter",
        ),
    ],
)
def test_no_value(path, text, message):
    with pytest.raises(CannotJudge) as caught:
        one_value(path, text)
    assert str(caught.value) == message


def test_a_value_as_deep_as_jq_allows():
    assert kind(one_value(".", "[" * 9000 + "]" * 9000)) == "a list"


@pytest.mark.parametrize(
    ("path", "text", "rounded", "value"),
    [
        pytest.param(".", "9007199254740993", 9007199254740992, 9007199254740993, id="marked"),
        pytest.param(".n", '{"n": 1e20}', 1e20, 1e20, id="none to mark"),
        pytest.param(".n + 1", '{"n": 1e20, "m": 9007199254740993}', 1e20, 1e20, id="another one"),
    ],
)
def test_a_number_that_jq_has_rounded(path, text, rounded, value):
    assert exact_value(path, text, rounded) == value


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param(".n + 1", '{"n": 9007199254740993}', id="calculated with"),
        pytest.param(".", "9007199254740993 9007199254740993", id="not one document"),
        pytest.param(".", "[" * 100_000 + "]" * 100_000, id="deeper than Python goes"),
    ],
)
def test_a_number_that_is_too_large_for_jq(path, text):
    with pytest.raises(CannotJudge) as caught:
        exact_value(path, text, 9007199254740992)
    assert str(caught.value) == f"`{path}` is too large for jq, which keeps about 15 digits"


def test_a_filter_is_not_cut_at_a_nul():
    with pytest.raises(CannotJudge, match="is not a valid jq filter"):
        one_value(".\0 | oops", "1")


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "null"),
        (True, "true or false"),
        (1, "a number"),
        (1.5, "a number"),
        ("", "a string"),
        ([], "a list"),
        ({}, "an object"),
    ],
)
def test_kinds(value, name):
    assert kind(value) == name
