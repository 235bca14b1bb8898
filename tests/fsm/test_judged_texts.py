"""What a judge is shown of texts that are too long: rows and a law."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.fsm.judged_texts import JudgedText, of_diff, of_text


def change(path: str, chars: int) -> str:
    """The diff of a file with so many characters; its header is shorter."""
    header = f"diff --git a/{path} b/{path}\n"
    return header + "+" * (chars - len(header) - 1) + "\n"


def test_a_text_that_fits_is_shown_whole():
    assert of_text("output", "all", 3) == JudgedText("all")


def test_a_longer_text_is_cut_and_says_so():
    cut = JudgedText("al\n(1 more characters are left out)\n", ("output",))
    assert of_text("output", "all", 2) == cut


@pytest.mark.parametrize(
    ("sizes", "cut"),
    [
        pytest.param({"a": 300, "b": 300}, (), id="all fit"),
        pytest.param({"a": 990, "b": 40}, ("a",), id="a large file before a small one"),
        pytest.param({"a": 40, "b": 990}, ("b",), id="and after one"),
        pytest.param({"a": 500, "b": 600, "c": 50}, ("a", "b"), id="two large ones"),
        pytest.param({"a": 100, "b": 480, "c": 480}, ("b", "c"), id="what a small one leaves"),
    ],
)
def test_small_changes_are_shown_whole_beside_large_ones(sizes, cut):
    diff = "".join(change(path, size) for path, size in sizes.items())
    shown = of_diff(diff, 1000, 40)
    assert shown is not None
    assert shown.cut == cut
    for path, size in sizes.items():
        assert (change(path, size) in shown.text) == (path not in cut)
        assert f"diff --git a/{path} b/{path}\n" in shown.text


def test_so_many_files_that_none_can_be_judged_are_not_shown():
    assert of_diff("".join(change(f"f{n}", 100) for n in range(11)), 1000, 95) is None


def test_a_name_that_git_quotes_is_named():
    diff = 'diff --git "a/t\\303\\244" "b/t\\303\\244"\n' + "+" * 200
    shown = of_diff(diff, 100, 10)
    assert shown is not None
    assert shown.cut == ("t\\303\\244",)


@given(st.lists(st.integers(30, 400), min_size=1, max_size=8), st.integers(60, 900))
def test_no_more_is_shown_than_allowed_and_something_of_every_file(sizes, most):
    changes = [change(f"f{number}", size) for number, size in enumerate(sizes)]
    shown = of_diff("".join(changes), most, 1)
    assert shown is not None
    notes = len("\n(999 more characters are left out)\n") * len(shown.cut)
    assert len(shown.text) <= most + notes
    whole = [each for each in changes if each in shown.text]
    assert len(whole) == len(changes) - len(shown.cut)
    if shown.cut:
        assert min(len(each) for each in changes if each not in whole) > max(
            map(len, whole), default=0
        )
