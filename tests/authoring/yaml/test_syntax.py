"""Broken YAML in our words, whichever of the two parsers complains."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from little_loops.authoring.yaml.places import Source
from little_loops.authoring.yaml.pyyaml import FASTEST, PureParser
from little_loops.authoring.yaml.source import parse
from little_loops.authoring.yaml.syntax import explain

both = pytest.mark.parametrize("parser", [FASTEST, PureParser], ids=["C", "pure"])


def told(text: str, parser: Any) -> str:
    (problem,) = parse(text, "x.yaml", parser).problems
    place = problem.place
    assert place is not None
    pointed = place.source[place.column - 1 : place.column - 1 + place.length]
    return f"{problem.code} {place.line}:{place.column} {pointed!r} {problem.message}"


@both
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a:\n\tb: 1\n", "LL021 2:1 '\\t' YAML does not allow tabs for indentation"),
        ("a:\n  b: 1\n  \tc: 2\n", "LL021 3:3 '\\t' YAML does not allow tabs for indentation"),
        ("a: |\n\tfoo\n", "LL021 2:1 '\\t' YAML does not allow tabs for indentation"),
        ("a: 'x\nb: 1\n", "LL022 1:4 \"'x\" this quote is never closed"),
        ('a: "x', "LL022 1:4 '\"x' this quote is never closed"),
        ("a: 'x\n---\n", "LL022 1:4 \"'x\" this quote is never closed"),
        ("a: [1, 2\nb: 3\n", "LL023 1:4 '[' this `[` is not closed"),
        ("a: {b: 1\nc: 2\n", "LL023 1:4 '{' this `{` is not closed"),
        (
            "a: {b: x ${c} y , d: 1}\n",
            "LL030 1:8 'x ${c} y' inside brackets and braces, text with `${` must be quoted",
        ),
        (
            "a: [${c}\n",
            "LL030 1:5 '${c}' inside brackets and braces, text with `${` must be quoted",
        ),
        ("a: {b: 1", "LL023 1:4 '{' this `{` is not closed"),
        ("a: b: c\n", "LL024 1:4 'b: c' a value that contains `: ` must be quoted"),
        ("- a: b: c # d\n", "LL024 1:6 'b: c # d' a value that contains `: ` must be quoted"),
        (
            "a: 1\n  b: 2\n",
            "LL025 2:3 'b' this line is indented too far",
        ),
        (
            "a: 1\n\n  b: 2\n",
            "LL025 3:3 'b' this line is indented too far",
        ),
        (
            "- a: 1\n    b: 2\n",
            "LL025 2:5 'b' this line is indented too far",
        ),
        (
            "a:\n    b: 1\n  c: 2\n",
            "LL025 3:3 'c: 2' this line's indentation does not match that of any line above",
        ),
        ("a: - b\n", "LL025 1:4 '-' a list cannot begin on the same line as its key"),
        ("- a\nb: 1\n", "LL025 2:1 'b: 1' this line's indentation does not match that of any line above"),
        ("a: 1\nfoo\nb: 2\n", "LL026 2:1 'foo' a key must be followed by a colon and a space"),
        ("a#\n  b: 1\n", "LL026 1:1 'a#' a key must be followed by a colon and a space"),
        ("key\nb: 1", "LL026 1:1 'key' a key must be followed by a colon and a space"),
        ("a:b: c: d\nfoo\n", "LL026 1:1 'a:b: c: d' a key must be followed by a colon and a space"),
        ("a:b\nc: 1\n", "LL026 1:1 'a:b' a key must be followed by a colon and a space"),
        ("a: @x y\n", "LL027 1:4 '@x y' text that begins with `@` must be quoted"),
        ("a: `x`\n", "LL027 1:4 '`x`' text that begins with a backtick must be quoted"),
        ("a: * b\n", "LL027 1:4 '* b' text that begins with `*` must be quoted"),
        ("a: & b\n", "LL027 1:4 '& b' text that begins with `&` must be quoted"),
        ("%x y\na: 1\n", "LL027 1:1 '%x y' a line cannot begin with `%`, which starts a YAML directive"),
        ('a: "\\d"\n', "LL028 1:5 '\\\\d' `\\d` is not a YAML escape sequence"),
        ('a: "\\x0"\n', "LL028 1:5 '\\\\x' `\\x` is not a YAML escape sequence"),
        ("a: 'x' y\n", "LL029 1:4 \"'x' y\" unexpected text after the closing quote"),
        ("a: > foo\n  bar\n", "LL029 1:4 '> foo' unexpected text after `|` or `>`"),
        ("a: ]\n", "LL020 1:4 ']' `]` is not a value"),
        ("a: [,]\n", "LL020 1:5 ',' `,` is not a value"),
    ],
)  # fmt: skip
def test_words(text: str, words: str, parser: Any) -> None:
    assert told(text, parser) == words


def test_what_no_rule_knows_is_told_in_the_parsers_words() -> None:
    (problem,) = parse("a: ? b\n", "x.yaml").problems
    assert problem.code == "LL020"
    assert problem.message == ("this is not YAML: mapping keys are not allowed in this context")


class Silent(Exception):
    """A complaint that says nothing about where."""


@pytest.mark.parametrize("lines", [["a"], []], ids=["a line", "no line"])
def test_a_complaint_without_a_place_stands_at_the_start(lines: list[str]) -> None:
    problem = explain(Silent("what"), Source("x.yaml", lines))
    assert problem.message == "this is not YAML: what"
    assert problem.place is not None
    assert (problem.place.line, problem.place.column) == (1, 1)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('"\\', id="escape at the end"),
        pytest.param('a: "x\\\n', id="open escape"),
        pytest.param("a: !<x y\n", id="broken tag"),
        pytest.param("%YAML 3.0\n---\na: 1\n", id="YAML of the future"),
        pytest.param("a: |-5\n  x\n", id="odd block"),
        pytest.param("{a: 1}}", id="one bracket too many"),
        pytest.param("?\n-\n:", id="signs"),
        pytest.param("\n\n  : x\n y: z", id="no key"),
        pytest.param("# x\n  b: c: d", id="comment above"),
        pytest.param("[a, b\n\n\n", id="open at the end"),
        pytest.param("[\n", id="open and empty"),
    ],
)
@both
def test_a_problem_stands_inside_the_file(text: str, parser: Any) -> None:
    (problem,) = parse(text, "x.yaml", parser).problems
    assert problem.place is not None
    assert 1 <= problem.place.line <= len(text.splitlines())


@settings(deadline=None)
@given(st.text("ab:-[]{}'\"\\|>&*!%@`?,# \t\n", max_size=20))
def test_whatever_is_broken_is_told(text: str) -> None:
    for parser in (FASTEST, PureParser):
        for problem in parse(text, "x.yaml", parser).problems:
            assert problem.place is not None
            assert problem.place.line <= max(1, len(text.splitlines()))
