from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.figures import (
    Figure,
    Level,
    Outcome,
    Result,
    Standing,
    cpu_of,
    figure,
    gauged,
    ratio,
    result,
    standing,
    wall_of,
)
from bench.model import Candidate, Command, Gauge, Reading, Row, Sample

FLOOR = Command(("floor",), ".")
OURS = Command(("ours",), ".")
OURS_SHORT = Command(("ours", "short"), ".")

milliseconds = st.floats(min_value=0.001, max_value=1e6)


def samples(*pairs: tuple[float, float]) -> list[Sample]:
    return [Sample(cpu_ms, wall_ms) for cpu_ms, wall_ms in pairs]


def row(**changes: Any) -> Row:
    plain = Row(1, "a row", Candidate("floor", FLOOR), Candidate("ours", OURS), bar=6, beyond=4)
    return plain._replace(**changes)


def outcomes(answer: Result) -> list[Outcome]:
    return [each for each in answer.outcomes if isinstance(each, Outcome)]


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        pytest.param(Candidate("whole", OURS), Figure(210, 230), id="a whole process"),
        pytest.param(
            Candidate("step", OURS, OURS_SHORT, 100), Figure(2, 2.1), id="one step, by difference"
        ),
    ],
)
def test_figure(candidate, expected):
    taken = {
        OURS: samples((230, 0), (210, 0), (250, 0)),
        OURS_SHORT: samples((10, 0), (40, 0), (20, 0)),
    }
    assert figure(candidate, taken, cpu_of) == expected


@pytest.mark.parametrize(
    ("measured_ms", "floor_ms", "expected"),
    [
        pytest.param(30, 10, 3, id="three times the floor"),
        pytest.param(10, 10, 1, id="the floor itself"),
        pytest.param(10, 0, math.inf, id="no floor measured"),
        pytest.param(10, -0.2, math.inf, id="a floor drowned in noise"),
        pytest.param(-0.2, 10, math.inf, id="ours drowned in noise"),
    ],
)
def test_ratio(measured_ms, floor_ms, expected):
    assert ratio(measured_ms, floor_ms) == expected


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        pytest.param([4.0], Standing.BEYOND, id="at the better figure"),
        pytest.param([4.01], Standing.HOLDS, id="between"),
        pytest.param([6.0], Standing.HOLDS, id="at the bar"),
        pytest.param([6.01], Standing.MISSED, id="above the bar"),
        pytest.param([1.0, 5.0], Standing.HOLDS, id="the worst of two decides"),
        pytest.param([1.0, math.inf], Standing.MISSED, id="not measured"),
    ],
)
def test_standing(ratios, expected):
    assert standing(ratios, bar=6, beyond=4) is expected


@pytest.mark.parametrize(
    ("judged", "expected"),
    [
        pytest.param(("cpu",), Standing.BEYOND, id="by CPU"),
        pytest.param(("wall",), Standing.MISSED, id="by wall"),
        pytest.param(("cpu", "wall"), Standing.MISSED, id="by both"),
    ],
)
def test_result_judges_ours_by_the_metrics_of_the_row(judged, expected):
    taken = {FLOOR: samples((10, 10), (12, 10)), OURS: samples((35, 80), (30, 60))}
    answer = result(row(judged=judged), taken)
    assert [(each.name, each.cpu_ratio, each.wall_ratio) for each in outcomes(answer)] == [
        ("floor", 1, 1),
        ("ours", 3, 7),
    ]
    assert answer.standing is expected


def test_another_candidate_is_measured_but_not_judged():
    slow = Command(("slow",), ".")
    taken = {FLOOR: samples((10, 10)), slow: samples((900, 900)), OURS: samples((10, 10))}
    answer = result(row(others=(Candidate("slow", slow),)), taken)
    assert [each.name for each in answer.outcomes] == ["floor", "slow", "ours"]
    assert answer.standing is Standing.BEYOND


@given(st.lists(milliseconds, min_size=1), st.lists(milliseconds, min_size=1), milliseconds)
def test_a_machine_twice_as_slow_gives_the_same_ratio(floor, ours, factor):
    def taken(scale: float) -> dict[Command, list[Sample]]:
        return {
            FLOOR: [Sample(each * scale, each * scale) for each in floor],
            OURS: [Sample(each * scale, each * scale) for each in ours],
        }

    one, other = (outcomes(result(row(), taken(scale)))[-1] for scale in (1.0, factor))
    assert one.cpu_ratio == pytest.approx(other.cpu_ratio)
    assert one.wall_ratio == pytest.approx(other.wall_ratio)


@given(st.lists(milliseconds, min_size=1), milliseconds, st.integers(1, 1000))
def test_start_up_cancels_out_of_a_step(steps_ms, startup_ms, steps):
    candidate = Candidate("step", OURS, OURS_SHORT, steps)
    taken = {
        OURS: [Sample(0, startup_ms + each) for each in steps_ms],
        OURS_SHORT: [Sample(0, startup_ms)],
    }
    expected = pytest.approx(min(steps_ms) / steps, abs=1e-6)
    assert figure(candidate, taken, wall_of).min_ms == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([4, 9, 6], Standing.BEYOND, id="the median is better"),
        pytest.param([1, 14, 15], Standing.HOLDS, id="the median is good enough"),
        pytest.param([1, 17, 18], Standing.MISSED, id="the median is not"),
    ],
)
def test_a_quantity_is_judged_by_its_median(values, expected):
    floor = Reading("floor", lambda: 1.0)
    gauge = Gauge(8, "memory", "MB", Reading("ours", lambda: 1.0), 16, 8, others=(floor,))
    answer = gauged(gauge, {"floor": [1.0], "ours": values})
    assert answer.outcomes == (
        Level("floor", 1, 1, 1),
        Level("ours", values[0], values[1] if expected else 6, max(values)),
    )
    assert answer.standing is expected
