"""Paths as people read them."""

from __future__ import annotations

import pytest

from little_loops.fsm.path_text import LONGEST, listed_paths, path_text

LONG = "/".join(f"{number:03}{'x' * 60}" for number in range(6)) + "/test_long.py"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param("tests/a b/é.py", "tests/a b/é.py", id="as it is"),
        pytest.param("new\nline\ttab", r"new\x0aline\x09tab", id="on one line"),
        pytest.param("\x1b[31mred", r"\x1b[31mred", id="a colour is part of the name"),
        pytest.param("a\udcffb", r"a\xffb", id="a byte that is no UTF-8"),
        pytest.param("\udbff", r"\udbff", id="half a character"),
        pytest.param("a\u202egnp.exe", r"a\u202egnp.exe", id="another direction"),
        pytest.param("\U000e0041", r"\U000e0041", id="a tag"),
        pytest.param("x" * LONGEST, "x" * LONGEST, id="long"),
    ],
)
def test_what_cannot_be_printed_is_escaped(path, text):
    assert path_text(path) == text


def test_a_long_path_is_shortened_in_the_middle():
    text = path_text(LONG)
    assert (len(text), text[:36], text[-17:]) == (LONGEST, LONG[:36], LONG[-17:])
    assert text.count("…") == 1


@pytest.mark.parametrize(
    ("paths", "count", "text"),
    [
        (("a",), 1, "a"),
        (("a", "b\n"), 2, r"a, b\x0a"),
        (("a", "b", "c", "d"), 4, "a, b, c and 1 more"),
        (("a",), 1000, "a and 999 more"),
    ],
)
def test_the_first_paths_stand_for_all(paths, count, text):
    assert listed_paths(paths, count) == text
