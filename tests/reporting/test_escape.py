"""What is shown cannot drive a terminal and hides nothing."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.reporting.escape import visible

ANY_TEXT = st.text(st.characters(codec=None, categories=None))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("plain text, \\ and all", "plain text, \\ and all", id="plain"),
        pytest.param("a\tb\nc", "a\tb\nc", id="tab and newline"),
        pytest.param("grün 日本 🎉 ✔️", "grün 日本 🎉 ✔️", id="any script"),
        pytest.param("العربية ۝", "العربية ۝", id="right to left by itself"),
        pytest.param("\x1b[2J\x1b]0;title\x07", r"\x1b[2J\x1b]0;title\x07", id="escape sequences"),
        pytest.param("\x9b31m", r"\x9b31m", id="C1"),
        pytest.param("a\x00b\x08c\x7f", r"a\x00b\x08c\x7f", id="NUL, backspace, delete"),
        pytest.param("10%\r20%\r\ndone\n", "10%\n20%\ndone\n", id="carriage returns"),
        pytest.param("\r\r\n", "\n\n", id="carriage return before CR LF"),
        pytest.param("a\u202eb\u2066c\u200f", r"a\u202eb\u2066c\u200f", id="direction"),
        pytest.param("pass\u200bword\u200d\ufeff", r"pass\u200bword\u200d\ufeff", id="no width"),
        pytest.param("a\u2028b", r"a\u2028b", id="line separator"),
        pytest.param("a\U000e0041", r"a\U000e0041", id="tags"),
        pytest.param("\udbff", r"\udbff", id="lone surrogate"),
        pytest.param("\udc80", r"\x80", id="a byte that is no UTF-8"),
        pytest.param("\u3164\u00ad", r"\u3164\xad", id="fillers"),
        pytest.param("", "", id="empty"),
    ],
)
def test_visible(text, shown):
    assert visible(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a\nb", r"a\nb"), ("a\r\nb\r", r"a\nb\n"), ("a\tb", "a\tb"), ("ab", "ab")],
)
def test_on_one_line(text, shown):
    assert visible(text, newlines=False) == shown


def test_a_plain_text_is_not_copied():
    text = "x" * 100
    assert visible(text) is text


@given(ANY_TEXT)
def test_nothing_that_a_terminal_obeys_is_left(text):
    left = visible(text)
    assert not {char for char in left if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")} - {
        "\t",
        "\n",
    }
    left.encode("utf-8")


@given(ANY_TEXT)
def test_one_line_is_one_line(text):
    assert len(visible(text, newlines=False).splitlines()) <= 1


@given(ANY_TEXT)
def test_what_is_visible_stays_as_it_is(text):
    once = visible(text)
    assert visible(once) == once


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"], max_codepoint=0x24F)))
def test_ordinary_characters_are_left_alone(text):
    assert visible(text) == text
