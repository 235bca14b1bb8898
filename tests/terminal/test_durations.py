"""Times for people."""

from __future__ import annotations

import pytest

from little_loops.terminal.durations import ago, compact, moment, rough


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        pytest.param(-5000, "0s", id="a clock set back"),
        pytest.param(0, "0s", id="now"),
        pytest.param(59_999, "59s", id="seconds"),
        pytest.param(60_000, "1m", id="a minute"),
        pytest.param(3_599_999, "59m", id="minutes"),
        pytest.param(3_600_000, "1h", id="an hour"),
        pytest.param(47 * 3_600_000, "47h", id="hours, up to two days"),
        pytest.param(48 * 3_600_000, "2d", id="days"),
    ],
)
def test_a_rough_length_of_time(ms, text):
    assert rough(ms) == text
    assert ago(0, ms) == f"{text} ago"


def test_a_length_of_time_for_a_column():
    assert [compact(ms) for ms in (400, 42_000, 154_000, 3_900_000)] == [
        *("0.4s", "42s", "2m34s", "1h05m"),
    ]


def test_a_moment_is_told_in_the_zone_of_the_user(monkeypatch):
    import time

    monkeypatch.setenv("TZ", "UTC-2")
    time.tzset()
    try:
        assert moment(1_794_744_000_000) == "2026-11-15 14:00:00"
    finally:
        monkeypatch.undo()
        time.tzset()
