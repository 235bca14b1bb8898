from __future__ import annotations

import pytest

from little_loops.hosts.json_lines import (
    as_event,
    as_text,
    because,
    count_in,
    number_in,
    one_line,
    part_of,
    parts_of,
    text_in,
    texts_in,
)


@pytest.mark.parametrize(
    ("line", "event"),
    [
        pytest.param('{"type": "a"}', {"type": "a"}, id="an event"),
        pytest.param('  {"type": "a"}', {"type": "a"}, id="blanks before it"),
        pytest.param('{"type": 1}', None, id="type is no text"),
        pytest.param('{"a": 1}', None, id="no type"),
        pytest.param('["type"]', None, id="a list"),
        pytest.param('{"type": "a"', None, id="cut off"),
        pytest.param('{"type": "a"} x', None, id="more behind it"),
        pytest.param('{"type": ' + '{"a":' * 100_000, None, id="deep"),
        pytest.param('{"type": "a", "n": ' + "9" * 10_000 + "}", None, id="an endless number"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_what_is_an_event(line, event):
    assert as_event(line) == event


def test_bytes_that_are_no_text():
    assert as_text(b"a\xff\r\n") == "a\ufffd"
    assert as_text("a\n") == "a"


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (1, 1.0),
        (0.5, 0.5),
        (0, 0.0),
        (True, None),
        ("1", None),
        (-1, None),
        (float("nan"), None),
        (float("inf"), None),
        (10**400, None),
        (None, None),
    ],
)
def test_numbers(value, number):
    assert number_in({"n": value}, "n") == number
    assert count_in({"n": value}, "n") == int(number or 0)


def test_the_wrong_type_is_as_good_as_nothing():
    event = {"a": [1, "x", {"b": 2}], "c": {"d": 1}, "e": "\ud800"}
    assert (text_in(event, "a"), text_in(event, "e"), text_in(event, "z")) == ("", "?", "")
    assert (part_of(event, "a"), part_of(event, "c")) == ({}, {"d": 1})
    assert (parts_of(event, "a"), parts_of(event, "c")) == ([{"b": 2}], [])
    assert (texts_in(event, "a"), texts_in(event, "c")) == (["x"], [])


def test_one_line():
    assert one_line("  a\n b\t c ") == "a b c"
    assert one_line("abcdef", 4) == "abc…"
    assert because("it failed", " so\nbadly ") == "it failed: so badly"
    assert because("it failed", " \n") == "it failed"
