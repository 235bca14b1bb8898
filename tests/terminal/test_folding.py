"""Lines that are too long for a terminal are broken where words end."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.terminal.folding import fitted, folded


@pytest.mark.parametrize(
    ("line", "rows"),
    [
        pytest.param(
            "four words fit here",
            ["four words fit here"],
            id="it fits",
        ),
        pytest.param(
            "what does not fit goes to the next row",
            [
                "what does not fit goes",
                "to the next row",
            ],
            id="at a word",
        ),
        pytest.param(
            "   = help: see `ll-loop run --help`",
            [
                "   = help: see",
                "           `ll-loop run --help`",
            ],
            id="behind its label, and backticks stay together",
        ),
        pytest.param(
            "error: it cannot be started",
            [
                "error: it cannot be",
                "       started",
            ],
            id="behind a word with a colon",
        ),
        pytest.param(
            "error[LL201]: it names nothing",
            [
                "error[LL201]: it names",
                "nothing",
            ],
            id="a label of more than half is none",
        ),
        pytest.param(
            "[1/20] fix → running make it so",
            [
                "[1/20] fix → running",
                "       make it so",
            ],
            id="behind the count",
        ),
        pytest.param(
            "       ✓ it is done (exit 0)",
            [
                "       ✓ it is done",
                "         (exit 0)",
            ],
            id="behind a sign",
        ),
        pytest.param(
            "       ok it is done (exit 0)",
            [
                "       ok it is done",
                "          (exit 0)",
            ],
            id="behind a sign in ASCII",
        ),
        pytest.param(
            "[1/1] fix → running it again",
            ["[1/1] fix → running it", "       again"],
            id="behind a small count",
        ),
        pytest.param(
            "it was stopped and saved   0.1s",
            ["it was stopped and saved", "0.1s"],
            id="a time is no second column",
        ),
        pytest.param(
            "a-loop · up to 50 times in all",
            ["a-loop", "up to 50 times in all"],
            id="parts between dots stay whole",
        ),
        pytest.param(
            "one · two · three · fourth",
            [
                "one · two · three",
                "fourth",
            ],
            id="a dot between parts goes",
        ),
        pytest.param(
            "  run     what it does in many words",
            [
                "  run     what it does",
                "          in many words",
            ],
            id="the second column stays one",
        ),
        pytest.param(
            "  ll-loop run it   what it does",
            [
                "  ll-loop run it",
                "       what it does",
            ],
            id="a second column without room goes below",
        ),
        pytest.param(
            "next: ll-loop attach it   or   ll-loop stop it",
            [
                "next: ll-loop attach it",
                "      or",
                "      ll-loop stop it",
            ],
            id="between commands, not in them",
        ),
        pytest.param(
            "next: ll-loop resume it --max-iterations 40",
            ["next: ll-loop resume it --max-iterations 40"],
            id="a command that is too long stays whole",
        ),
        pytest.param(
            "next: ll-loop attach   ·   ll-loop stop",
            [
                "next: ll-loop attach",
                "      ll-loop stop",
            ],
            id="no dot between commands",
        ),
        pytest.param(
            "\x1b[31m✗\x1b[0m it is so bad that",
            ["\x1b[31m✗\x1b[0m it is so bad that"],
            id="colours take no room",
        ),
        pytest.param(
            "log .loops/.running/a-long-name.log",
            [
                "log",
                ".loops/.running/a-long-name.log",
            ],
            id="a word that is too long has a row of its own",
        ),
        pytest.param(
            "日本語の 長い 文です 日本", ["日本語の 長い 文です", "日本"], id="wide signs"
        ),
    ],
)
def test_a_line_of_at_most_24_columns(line, rows):
    assert folded(line, 24).split("\n") == rows


WORDS = st.lists(st.from_regex(r"[a-z`·✓$:=|-]{1,9}", fullmatch=True), max_size=12)


@given(words=WORDS, blanks=st.integers(0, 8), width=st.integers(20, 60))
def test_nothing_is_lost_but_dots_and_no_row_is_too_long(words, blanks, width):
    line = " " * blanks + " ".join(words)
    rows = folded(line, width).split("\n")
    kept = re.sub(r"[\s·]", "", "".join(rows))
    assert kept == re.sub(r"[\s·]", "", line)
    if "`" not in line and not line.strip().startswith(("$ ", "next: ", "fix: ")):
        assert all(len(row) <= width for row in rows)


@pytest.mark.parametrize(
    ("line", "rows"),
    [
        pytest.param("       | short", ["       | short"], id="fits"),
        pytest.param(
            f"       | {'word ' * 12}",
            ["       | word word word word word word", "         word word word word word word "],
            id="at a blank",
        ),
        pytest.param(
            f"       | {'x' * 50}",
            [f"       | {'x' * 31}", f"         {'x' * 19}"],
            id="a long word",
        ),
        pytest.param("       | ab" + " " * 60 + "c", ["       | ab", "         c"], id="blanks"),
    ],
)
def test_what_an_action_printed_hangs_under_its_bar(line: str, rows: list[str]):
    assert fitted(line, 40).split("\n") == rows


def test_a_line_of_ours_is_folded_between_words():
    assert fitted("[1/20] check → running mypy src/ tests/ tools/...", 40).split("\n") == [
        "[1/20] check → running mypy src/ tests/",
        "       tools/...",
    ]
