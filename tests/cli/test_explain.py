"""`ll-loop explain`: an error code in words, and the lines that an example is about."""

from __future__ import annotations

from textwrap import dedent

import pytest

from little_loops.authoring.codes import ErrorCode
from little_loops.cli.explain import page


@pytest.mark.parametrize(
    ("wrong", "right", "shown"),
    [
        pytest.param(
            "a: 1\nb: 2\nc: 3\n",
            "a: 1\nb: 0\nc: 3\n",
            """\
            LL1: a title

            Why.

            Wrong:
                a: 1
              > b: 2
                c: 3

            Right:
                a: 1
              > b: 0
                c: 3""",
            id="what differs is marked",
        ),
        pytest.param(
            "- a\n",
            "a: 1\n",
            "LL1: a title\n\nWhy.\n\nWrong:\n    - a\n\nRight:\n    a: 1",
            id="unless all of it does",
        ),
        pytest.param(
            "", "a: 1\n", "LL1: a title\n\nWhy.\n\nRight:\n    a: 1", id="nothing wrong to show"
        ),
        pytest.param("", "", "LL1: a title\n\nWhy.", id="no examples"),
    ],
)
def test_a_page(wrong, right, shown):
    assert page(ErrorCode("LL1", "a title", "Why.", wrong, right)) == dedent(shown)
