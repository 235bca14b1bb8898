"""The author's words in our messages, and what was probably meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.authoring.messages import did_you_mean, distance, listed, quoted, shown, suggest

TRANSITIONS = ["on_pass", "on_fail", "on_error", "on_timeout", "next", "action"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("two\nlines", "two\\nlines"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("x" * 80, "x" * 59 + "…"),
    ],
)
def test_shown(text: str, expected: str) -> None:
    assert shown(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("yes", '"yes"'), (" a ", '"a"'), ('say "x"', "'say \"x\"'"), ("it's \\d", "'it''s \\d'")],
)
def test_quoted(text: str, expected: str) -> None:
    assert quoted(text) == expected


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("on_fial", "on_fail"),
        ("onfail", "on_fail"),
        ("ON-FAIL", "on_fail"),
        ("on_eror", "on_error"),
        ("actoin", "action"),
        ("nxt", "next"),
        ("colour", None),
        ("", None),
        ("text", None),
        ("ext", "next"),
        ("enxt", "next"),
        ("version", None),
        ("a", None),
        ("Next", "next"),
    ],
)
def test_suggest(name: str, meant: str | None) -> None:
    assert suggest(name, TRANSITIONS) == meant
    assert did_you_mean(name, TRANSITIONS) == (f"did you mean `{meant}`?" if meant else None)


@pytest.mark.parametrize(
    ("a", "b", "far"), [("", "", 0), ("ab", "ba", 1), ("abc", "ac", 1), ("a", "b", 1), ("kitten", "sitting", 3)]
)  # fmt: skip
def test_distance(a: str, b: str, far: int) -> None:
    assert distance(a, b, 9) == far
    assert distance(a, b, 0) == min(far, 1)


@given(st.text("abc", max_size=6), st.text("abc", max_size=6))
def test_distance_is_the_same_both_ways(a: str, b: str) -> None:
    assert distance(a, b, 9) == distance(b, a, 9)


@pytest.mark.parametrize(
    ("names", "expected"),
    [([], ""), (["a"], "`a`"), (["a", "b"], "`a` or `b`"), (["a", "b", "c"], "`a`, `b` or `c`")],
)
def test_listed(names: list[str], expected: str) -> None:
    assert listed(names) == expected
