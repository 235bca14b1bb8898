"""Problems as people, programs and GitHub see them."""

from __future__ import annotations

import json
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.errors import Place, Problem
from little_loops.terminal.problems import (
    annotation,
    as_dict,
    render,
    render_all,
    report_problems,
)

TYPO = Problem(
    "LL201",
    "`initial` names a state that does not exist: `chekc`",
    Place(".loops/lint.yaml", 4, 10, 5, "initial: chekc        # typo"),
    "did you mean `check`?",
)


def test_the_screen() -> None:
    assert render(TYPO) == dedent("""\
        error[LL201]: `initial` names a state that does not exist: `chekc`
          --> .loops/lint.yaml:4:10
           |
         4 | initial: chekc        # typo
           |          ^^^^^
           = help: did you mean `check`?""")


def test_a_warning_without_help_on_a_long_line_number() -> None:
    place = Place("a.yaml", 1234, 3, 7, "  cleanup:")
    problem = Problem("LL301", "state `cleanup` can never be reached", place, None, "warning")
    assert render(problem) == dedent("""\
        warning[LL301]: state `cleanup` can never be reached
            --> a.yaml:1234:3
             |
        1234 |   cleanup:
             |   ^^^^^^^""")


def test_without_a_place() -> None:
    assert render(Problem("LL001", "too large", None, "make it smaller")) == dedent("""\
        error[LL001]: too large
           = help: make it smaller""")


def excerpt(source: str, column: int, length: int) -> str:
    text = render(Problem("LL1", "x", Place("f", 1, column, length, source)))
    return "\n".join(line[5:] for line in text.splitlines()[3:])


@pytest.mark.parametrize(
    ("source", "column", "length", "expected"),
    [
        pytest.param("a\tb: 1", 3, 1, "a   b: 1\n    ^", id="tab before the caret"),
        pytest.param("\tb: 1", 1, 1, "    b: 1\n^^^^", id="a tab itself"),
        pytest.param("a: \x1b[31mx", 4, 1, "a: \\x1b[31mx\n   ^^^^", id="control character"),
        pytest.param("a: \u202ex", 5, 1, "a: \\u202ex\n         ^", id="direction mark"),
        pytest.param("日本: x", 5, 1, "日本: x\n      ^", id="wide characters"),
        pytest.param("日本: x", 1, 2, "日本: x\n^^^^", id="wide characters marked"),
        pytest.param("e\u0301: x", 5, 1, "e\u0301: x\n   ^", id="combining character"),
        pytest.param("ab", 3, 1, "ab\n  ^", id="behind the end"),
        pytest.param("ab", 9, 4, "ab\n  ^", id="far behind the end"),
        pytest.param("", 1, 1, "\n^", id="empty line"),
        pytest.param("abc", 2, 99, "abc\n ^^", id="longer than the line"),
        pytest.param("abc  ", 1, 1, "abc\n^", id="blanks at the end"),
    ],
)
def test_the_caret_stands_right(source: str, column: int, length: int, expected: str) -> None:
    assert excerpt(source, column, length) == expected


def test_a_long_line_is_cut_around_the_caret() -> None:
    source = "x" * 200 + "HERE" + "y" * 200
    shown, caret = excerpt(source, 201, 4).splitlines()
    assert len(shown) <= 98
    assert shown.startswith("…x")
    assert shown.endswith("y…")
    assert shown[caret.index("^") : caret.rindex("^") + 1] == "HERE"


def test_a_long_line_is_cut_behind_an_early_caret() -> None:
    shown, caret = excerpt("HERE" + "y" * 200, 1, 4).splitlines()
    assert shown == "HERE" + "y" * 92 + "…"
    assert caret == "^^^^"


def test_names_and_messages_cannot_drive_the_terminal() -> None:
    place = Place("a\x1b[2J.yaml", 1, 1, 1, "x")
    text = render(Problem("LL1", "what\x07\nnow", place, "do\x1bit"))
    assert text.splitlines()[:2] == ["error[LL1]: what\\x07\\nnow", "  --> a\\x1b[2J.yaml:1:1"]
    assert text.endswith("= help: do\\x1bit")


@given(st.text(max_size=150), st.integers(1, 200), st.integers(1, 200))
def test_whatever_the_line_it_is_four_lines(source: str, column: int, length: int) -> None:
    line = "".join(source.splitlines())
    text = render(Problem("LL1", "x", Place("f", 1, column, length, line)))
    assert len(text.split("\n")) == 5
    assert "^" in text.split("\n")[4]


def test_the_first_hundred_are_shown_and_all_are_counted() -> None:
    problems = [Problem("LL1", f"number {number}") for number in range(1_234)]
    lines = render_all(problems).split("\n\n")
    assert len(lines) == 101
    assert lines[99] == "error[LL1]: number 99"
    assert lines[100] == "… and 1,134 more"
    assert render_all(problems[:2]) == "error[LL1]: number 0\n\nerror[LL1]: number 1"


def test_for_github() -> None:
    assert annotation(TYPO) == (
        "::error file=.loops/lint.yaml,line=4,col=10,title=LL201::`initial` names a state that "
        "does not exist: `chekc` (did you mean `check`?)"
    )
    place = Place("a,b:c%.yaml", 1, 2, 1, "x")
    assert annotation(Problem("LL1", "50%\nof it", place, None, "warning")) == (
        "::warning file=a%2Cb%3Ac%25.yaml,line=1,col=2,title=LL1::50%25%0Aof it"
    )
    assert annotation(Problem("LL1", "nowhere")) == "::error title=LL1::nowhere"


def test_for_programs() -> None:
    assert as_dict(TYPO) == {
        "code": "LL201",
        "severity": "error",
        "message": "`initial` names a state that does not exist: `chekc`",
        "file": ".loops/lint.yaml",
        "line": 4,
        "column": 10,
        "help": "did you mean `check`?",
    }
    assert as_dict(Problem("LL1", "nowhere"))["line"] is None


def test_reported_to_people(capsys: pytest.CaptureFixture[str]) -> None:
    report_problems([TYPO], json_wanted=False)
    assert capsys.readouterr() == ("", render(TYPO) + "\n")


def test_reported_to_programs(capsys: pytest.CaptureFixture[str]) -> None:
    warning = TYPO._replace(severity="warning", code="LL301")
    report_problems([warning, TYPO], json_wanted=True)
    out, err = capsys.readouterr()
    assert err == ""
    assert json.loads(out) == {
        "error": as_dict(TYPO),
        "problems": [as_dict(warning), as_dict(TYPO)],
    }
