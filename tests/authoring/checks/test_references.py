"""What a string refers to, and the mistakes beside it; and that much of it takes no time."""

from __future__ import annotations

import pytest

from little_loops.authoring.checks.references import MOST_IN_ONE, beginning, read
from little_loops.authoring.filling import MOST_REFERENCES
from little_loops.authoring.load import load


def test_of_a_text_full_of_mistakes_only_the_first_is_told() -> None:
    found = read("${nowhere.x} " * (MOST_IN_ONE + 1))
    assert [error.start for error in found.errors] == [0]
    assert found.references == ()


@pytest.mark.parametrize(
    ("most", "expected"), [(-1, ""), (0, "a "), (1, "a ${b.c} "), (2, "a ${b.c} ${d.e} f ")]
)
def test_beginning(most: int, expected: str) -> None:
    assert beginning("a ${b.c} ${d.e} f ${g.h}", most) == expected


def test_the_references_of_all_texts_count_together() -> None:
    part = "${context.a} " * (MOST_REFERENCES * 3 // 5)
    loop = (
        "context: {a: b}\ninitial: y\nstates:\n"
        f"  y: {{action: 'echo {part}', next: z}}\n"
        f"  z: {{terminal: true, action: 'printf {part}'}}\n"
    )
    assert [each.message for each in load(loop, "x", "x").problems] == [
        "not everything was checked: the loop has more than 25,000 references"
    ]


def test_of_very_many_references_the_first_are_looked_at() -> None:
    most = MOST_REFERENCES
    text = "${context.a} " * (most - 1) + "${context.no} ${context.beyond}"
    loop = (
        f"context: {{a: b}}\ninitial: z\nstates: {{z: {{terminal: true, action: 'echo {text}'}}}}"
    )
    assert [each.message for each in load(loop, "x", "x").problems] == [
        "not everything was checked: the loop has more than 25,000 references",
        "`context` has no `no`",
    ]
