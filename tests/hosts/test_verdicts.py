from __future__ import annotations

import pytest

from little_loops.hosts.verdicts import (
    among,
    any_line_verdict,
    last_line_verdict,
    request_line,
    schema_for,
)


@pytest.mark.parametrize(
    ("text", "last", "anywhere"),
    [
        ("VERDICT: pass", "pass", "pass"),
        ("All good.\n\nVERDICT: pass\n\n", "pass", "pass"),
        ("  **VERDICT:** `fail`.", "fail", "fail"),
        ("> Verdict: FAIL", "FAIL", "FAIL"),
        ("_VERDICT: needs_review-2_", "needs_review-2", "needs_review-2"),
        ("VERDICT: pass\nand so on", None, "pass"),
        ("the line `VERDICT: pass` is missing", None, None),
        ("VERDICT: pass or fail", None, None),
        ("VERDICT:", None, None),
        ("", None, None),
    ],
)
def test_a_verdict_is_a_line_of_its_own(text, last, anywhere):
    assert (last_line_verdict(text), any_line_verdict(text)) == (last, anywhere)


@pytest.mark.parametrize(
    ("word", "found"),
    [("pass", "pass"), ("PASS", "pass"), ("passed", None), (None, None), (1, None), ([], None)],
)
def test_only_the_words_asked_for_count(word, found):
    assert among(word, ("pass", "fail")) == found


def test_a_word_is_taken_as_it_stands_before_its_case_is_changed():
    assert among("Done", ("DONE", "Done")) == "Done"


def test_the_schema_allows_nothing_else():
    assert schema_for(("done", "blocked")) == {
        "type": "object",
        "properties": {
            "verdict": {"type": "string", "enum": ["done", "blocked"]},
            "reason": {"type": "string", "description": "why, in one sentence"},
        },
        "required": ["verdict", "reason"],
        "additionalProperties": False,
    }


def test_pass_and_fail_are_explained():
    meaning = "`pass` if what was asked for is true or done, `fail` if it is not"
    assert schema_for(("pass", "fail"))["properties"]["verdict"]["description"] == meaning
    asks = "End your answer with a line `VERDICT: word`, where word is one of `a`, `b`."
    assert request_line(("a", "b")) == asks
