"""Times as they are written and read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from little_loops.fsm.timestamps import LAST_MS, timestamp, wall_ms_of

FIRST = datetime(1970, 1, 1, tzinfo=UTC)
DAY_MS = 86_400_000


@given(st.integers(0, LAST_MS))
@example(951_782_400_000)  # the leap day of 2000
@example(LAST_MS)
def test_a_time_is_that_of_the_standard_library(ms: int):
    expected = FIRST + timedelta(milliseconds=ms)
    assert timestamp(ms) == expected.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert wall_ms_of(timestamp(ms)) == ms


def test_dates_of_all_years_are_those_of_the_standard_library():
    for day in range(0, LAST_MS // DAY_MS + 1, 29):
        assert timestamp(day * DAY_MS)[:10] == (FIRST + timedelta(days=day)).date().isoformat()


@pytest.mark.parametrize(
    ("ms", "shown"),
    [(-1, "1970-01-01T00:00:00.000Z"), (LAST_MS + 1, "9999-12-31T23:59:59.999Z")],
)
def test_a_clock_beyond_the_calendar_shows_its_end(ms: int, shown: str):
    assert timestamp(ms) == shown
