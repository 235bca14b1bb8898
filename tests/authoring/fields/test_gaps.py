"""What could not be read of a document, and so may hide anything."""

from __future__ import annotations

import pytest

from little_loops.authoring.fields.gaps import ANYTHING, NO_GAPS, Gaps

LOOP = Gaps(loop={"context"}, states={"a": {"action"}, "b": set()})
UNKNOWN = Gaps(loop={ANYTHING}, states={"a": {ANYTHING}})


@pytest.mark.parametrize(
    ("gaps", "any_gap", "in_loop", "in_state", "anywhere", "unsure"),
    [
        pytest.param(NO_GAPS, False, "", "", "", "", id="none"),
        pytest.param(LOOP, True, "context", "a.action", "action", "a b", id="some fields"),
        pytest.param(Gaps({"states"}), True, "states", "", "action next", "a b c", id="states"),
        pytest.param(
            UNKNOWN,
            True,
            "context states",
            "a.action a.next",
            "action next",
            "a b c",
            id="anything",
        ),
    ],
)
def test_where_a_gap_is(
    gaps: Gaps, any_gap: bool, in_loop: str, in_state: str, anywhere: str, unsure: str
) -> None:
    assert bool(gaps) is any_gap
    assert " ".join(name for name in ("context", "states") if gaps.in_loop(name)) == in_loop
    fields = [(state, field) for state in "abc" for field in ("action", "next")]
    found = [f"{state}.{field}" for state, field in fields if gaps.in_state(state, field)]
    assert " ".join(found) == in_state
    assert " ".join(name for name in ("action", "next") if gaps.anywhere(name)) == anywhere
    assert " ".join(name for name in "abc" if gaps.unsure(name)) == unsure
