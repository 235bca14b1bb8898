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


@pytest.mark.parametrize(
    ("stamp", "ms"),
    [
        pytest.param("1970-01-01T00:00:00.001Z", 1, id="as written"),
        pytest.param("2024-02-29T23:59:59.999Z", 1_709_251_199_999, id="a leap day"),
        pytest.param("2024-03-01T00:00:00.000Z", 1_709_251_200_000, id="after a leap day"),
        pytest.param("1970-01-01T00:00:01Z", 1000, id="without milliseconds"),
        pytest.param("1970-01-01T01:00:00.000+01:00", 0, id="another zone"),
        pytest.param("1969-12-31T23:59:59.000Z", -1000, id="before the calendar"),
    ],
)
def test_a_time_is_read(stamp: str, ms: int):
    assert wall_ms_of(stamp) == ms


@pytest.mark.parametrize(
    "stamp", ["", "soon", "2023-02-29T00:00:00.000Z", "2023-13-01T00:00:00.000Z"]
)
def test_what_is_no_time_is_refused(stamp: str):
    with pytest.raises(ValueError, match=r"isoformat|day is out of range|month must be"):
        wall_ms_of(stamp)
