"""When a change is better, what becomes of it, and what a run remembers of its best tree."""

from __future__ import annotations

from typing import Any

import pytest

from little_loops.fsm.best import decide, evolve_best, judge_change, memory_of
from little_loops.fsm.conditions import Observation, judge
from little_loops.fsm.events import KeepBest
from little_loops.fsm.extract import median
from little_loops.fsm.schema import Convergence, OutputNumeric
from little_loops.fsm.state import Best, Judgement, Metric, NotKept, Trees


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((7,), 7),
        ((9, 1, 5), 5),
        ((1, 2, 2, 9), 2),
        ((1, 2, 4, 9), 3.0),
        ((0.1, 0.2), 0.15),  # in floats: 0.15000000000000002
        ((3, 3, 3), 3),
    ],
)
def test_the_median(numbers, expected):
    assert median(numbers) == expected


@pytest.mark.parametrize(
    ("samples", "output", "reason"),
    [
        pytest.param((), "7", "7 is more than 5", id="alone"),
        pytest.param((1.0, 2.0), "9", "2 is at most 5", id="the median"),
        pytest.param((1.0, 2.0), "x", "expected a number, got 'x'", id="not a number"),
    ],
)
def test_earlier_measurements_count(samples, output, reason):
    seen = Observation(0, None, output, samples=samples)
    assert judge(OutputNumeric(5, "le"), seen).reason == reason


def changing(**fields: Any) -> Convergence:
    return Convergence(
        **{"target": 100, "direction": "min", "keep": "best", "patience": 3, **fields}
    )


@pytest.mark.parametrize(
    ("condition", "value", "memory", "expected"),
    [
        pytest.param(
            *(changing(), 120, None),
            Judgement("progress", "first measurement: 120 (target: 100)", Metric(120), 120),
            id="the first",
        ),
        pytest.param(
            *(changing(direction=None, min_gain=1), 110, Metric(90)),
            Judgement(
                "progress",
                "second measurement: 110 (target: 100); a change is kept if it is better by more than 1",
                Metric(90, 0, 1),
                110,
            ),
            id="the second, as far from the target",
        ),
        pytest.param(
            *(changing(), 123, Metric(120)),
            Judgement(
                "progress",
                "second measurement: 123 (target: 100); a change is kept if it is better by more than 6",
                Metric(120, 0, 6.0),
                123,
            ),
            id="the second is worse",
        ),
        pytest.param(
            *(changing(), 119.9, Metric(120)),
            Judgement(
                "progress",
                "second measurement: 119.9 (target: 100); a change is kept if it is better by more"
                " than 0.2",
                Metric(119.9, 0, 0.2),
                119.9,
            ),
            id="the second is better",
        ),
        pytest.param(
            *(changing(), 120, Metric(120)),
            Judgement(
                "progress",
                "second measurement: 120 (target: 100); a change is kept if it is better",
                Metric(120, 0, 0.0),
                120,
            ),
            id="no noise",
        ),
        pytest.param(
            *(changing(min_gain=2.5), 140, Metric(120)),
            Judgement(
                "progress",
                "second measurement: 140 (target: 100); a change is kept if it is better by more"
                " than 2.5",
                Metric(120, 0, 2.5),
                140,
            ),
            id="a gain that is given",
        ),
        pytest.param(
            *(changing(), 113, Metric(120, 2, 6.0)),
            Judgement(
                "progress",
                "113 is better than 120 by more than 6 (target: 100)",
                Metric(113, 0, 6.0),
                113,
            ),
            id="better",
        ),
        pytest.param(
            *(changing(), 114, Metric(120, 1, 6.0)),
            Judgement(
                "progress",
                "114 is not better than 120 by more than 6 (target: 100; 2 of 3 without improvement)",
                Metric(120, 2, 6.0),
                114,
            ),
            id="exactly the gain is not more",
        ),
        pytest.param(
            *(changing(), 120, Metric(120, 2, 0.0)),
            Judgement(
                "stall",
                "120 is not better than 120 (target: 100; 3 of 3 without improvement)",
                Metric(120, 3, 0.0),
                120,
            ),
            id="the patience is over",
        ),
        pytest.param(
            *(changing(), 120, Metric(120, 3, 0.0)),
            Judgement(
                "stall",
                "120 is not better than 120 (target: 100; 4 in a row without improvement)",
                Metric(120, 4, 0.0),
                120,
            ),
            id="the run has continued after a stall",
        ),
        pytest.param(
            *(changing(), 101, Metric(120, 0, 6.0, is_same=True)),
            Judgement(
                "progress",
                "101, but no file was changed (best: 120; target: 100; 1 of 3 without improvement)",
                Metric(120, 1, 6.0),
                101,
            ),
            id="luck is not a change",
        ),
        pytest.param(
            *(changing(direction="max", target=90), 80.3, Metric(80, 0, 0.2)),
            Judgement(
                "progress",
                "80.3 is better than 80 by more than 0.2 (target: 90)",
                Metric(80.3, 0, 0.2),
                80.3,
            ),
            id="towards a maximum",
        ),
        pytest.param(
            *(changing(direction=None), 96, Metric(103, 0, 0.0)),
            Judgement(
                "progress",
                "96 is not better than 103 (target: 100; 1 of 3 without improvement)",
                Metric(103, 1, 0.0),
                96,
            ),
            id="without a direction, an overshoot counts as distance",
        ),
    ],
)
def test_a_number_is_judged(condition, value, memory, expected):
    assert judge_change(condition, value, condition.target, memory) == expected


def test_a_target_that_is_reached_is_not_compared():
    judged = judge(changing(), Observation(0, None, "99"), Metric(120, 1, 50.0))
    assert judged == Judgement("target", "99 meets the target 100", Metric(99, 0, 50.0), 99)


BEST = Best("t1", "p1", 3, 110.0, 4.0, changing=True)
GAIN, LOSS = Metric(100.0, 0, 4.0), Metric(110.0, 1, 4.0)


@pytest.mark.parametrize(
    ("best", "tree", "verdict", "metric", "decision"),
    [
        pytest.param(None, "t0", "progress", Metric(1.0), "start", id="nothing was measured"),
        pytest.param(Best(), "t0", "progress", Metric(1.0), "start", id="a new start"),
        pytest.param(None, "t0", "target", Metric(1.0), "kept", id="nothing to do"),
        pytest.param(
            *(BEST._replace(min_gain=None), "t1", "progress", Metric(1.0, 0, 4.0), "kept"),
            id="the start again",
        ),
        pytest.param(BEST, "t2", "progress", GAIN, "kept", id="better"),
        pytest.param(BEST, "t2", "progress", LOSS, "put_back", id="not better"),
        pytest.param(BEST, "t2", "stall", LOSS, "put_back", id="out of patience"),
        pytest.param(BEST, "t2", "stalled", LOSS, "put_back", id="a tree that failed before"),
        pytest.param(BEST, "t2", "progress", None, "put_back", id="not measured"),
        pytest.param(BEST, "t1", "progress", LOSS, "unchanged", id="the best tree"),
        pytest.param(BEST, "t2", "target", GAIN, "kept", id="the target"),
        pytest.param(BEST, "t2", "error", None, None, id="an error says nothing"),
        pytest.param(BEST, "t2", "flaky", None, None, id="a flaky check says nothing"),
        pytest.param(
            *(BEST._replace(changing=False), "t2", "progress", LOSS, "start"),
            id="a change that nobody made here",
        ),
    ],
)
def test_what_becomes_of_the_files(best, tree, verdict, metric, decision):
    trees = Trees(tree=tree, best=best)
    judged = Judgement("progress" if verdict == "stalled" else verdict, "", metric)
    assert decide(trees, Judgement(verdict), judged, clean=False) == decision


@pytest.mark.parametrize(("place", "decision"), [("here", None), ("clean", "kept")])
def test_a_target_counts_once_a_clean_copy_has_confirmed_it(place, decision):
    trees = Trees(tree="t2", best=BEST, place=place)
    assert decide(trees, Judgement("target"), Judgement("target", "", GAIN), clean=True) == decision


@pytest.mark.parametrize(
    ("trees", "memory"),
    [
        pytest.param(None, None, id="no evidence"),
        pytest.param(Trees(tree="t"), None, id="nothing measured"),
        pytest.param(Trees(tree="t", best=Best()), None, id="a new start"),
        pytest.param(Trees(tree="t2", best=BEST), Metric(110.0, 0, 4.0), id="a change"),
        pytest.param(
            Trees(tree="t1", best=BEST), Metric(110.0, 0, 4.0, is_same=True), id="no change"
        ),
        pytest.param(
            Trees(tree="t2", best=BEST._replace(changing=False)), None, id="not our change"
        ),
    ],
)
def test_what_a_measurement_is_compared_with(trees, memory):
    assert memory_of(trees) == memory


WAS = Best("t1", "p1", 3, 110.0, 4.0, 1, 2, (3, 1), changing=True, not_kept=NotKept(110.0, 1.0))


def event(decision: Any, **fields: Any) -> KeepBest:
    return KeepBest("measure", decision, 5, 2, **fields)


@pytest.mark.parametrize(
    ("best", "event", "expected"),
    [
        pytest.param(
            WAS,
            event("start", value=120.0, best=120.0, tree="t2", project="p2", kept_step=5),
            Best("t2", "p2", 5, 120.0, weighed=(5, 2)),
            id="a start",
        ),
        pytest.param(
            WAS,
            event("kept", value=122.0, best=120.0, tree="t2", project="p2", min_gain=4.0),
            Best("t2", "p2", 5, 120.0, 4.0, weighed=(5, 2)),
            id="kept",
        ),
        pytest.param(
            WAS,
            event("unchanged", value=111.0, best=110.0, stalled=2),
            WAS._replace(stalled=2, voids=0, weighed=(5, 2), changing=False, not_kept=None),
            id="unchanged",
        ),
        pytest.param(
            WAS,
            event("put_back", value=111.0, best=110.0, stalled=2),
            WAS._replace(
                stalled=2, voids=0, weighed=(5, 2), undo=True, not_kept=NotKept(110.0, 111.0)
            ),
            id="put back",
        ),
        pytest.param(WAS, event("again"), WAS._replace(voids=3), id="does not count"),
        pytest.param(
            WAS._replace(min_gain=None), event("again"), Best(voids=3), id="nor does the first then"
        ),
        pytest.param(WAS, event("moved"), Best(), id="moved"),
    ],
)
def test_what_is_remembered(best, event, expected):
    assert evolve_best(best, event) == expected
