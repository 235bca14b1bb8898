"""The way a run came, from its events."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.fsm.events import Entry
from little_loops.fsm.schema import PROOF_VERDICTS, SOFT_VERDICTS
from little_loops.runs.path_taken import (
    BAD,
    GOOD,
    MOST_BARS,
    Visit,
    compressed,
    letters,
    measurements,
    sparkline,
    units,
    visits,
)
from tests.entries import entry


def enter(state: str) -> Entry:
    return entry("state_enter", state=state)


def eval_of(result: str, reason: str = "", kind: str = "exit_code", **more: float) -> Entry:
    return entry("condition_eval", type=kind, result=result, reason=reason, **more)


@pytest.mark.parametrize(
    ("entries", "path"),
    [
        pytest.param([], [], id="nothing yet"),
        pytest.param([enter("a")], [Visit("a")], id="just entered"),
        pytest.param(
            [enter("a"), entry("action_complete")],
            [Visit("a", "pass")],
            id="ended well",
        ),
        pytest.param(
            [enter("a"), entry("action_complete", agent="fail")],
            [Visit("a", "fail")],
            id="an agent that failed",
        ),
        pytest.param(
            [enter("a"), entry("action_complete"), eval_of("fail")],
            [Visit("a", "fail")],
            id="the condition decides",
        ),
        *(
            pytest.param(
                [enter("a"), entry("action_complete"), eval_of("pass"), *later],
                [Visit("a", verdict)],
                id=f"then {verdict}: {later[0].event.__class__.__name__}",
            )
            for verdict, later in (
                ("fail", [entry("check_result", verdict="fail")]),
                ("fail", [entry("judge_complete", number=1, reason="", verdict="fail")]),
                ("error", [entry("judge_complete", number=1, reason="", verdict="unanswered")]),
                ("pass", [entry("judge_complete", number=1, reason="", verdict="pass")]),
                ("handoff", [entry("handoff_detected")]),
                *((reason, [entry("loop_error", reason=reason)]) for reason in PROOF_VERDICTS),
                ("pass", [entry("loop_error", reason="max_iterations")]),
            )
        ),
        pytest.param(
            [
                enter("a"),
                entry("action_complete", exit_code=1),
                entry("transition", reason="on_error"),
                enter("b"),
            ],
            [Visit("a", "error"), Visit("b")],
            id="the way tells the verdict",
        ),
        pytest.param(
            [
                enter("a"),
                entry("action_complete", exit_code=1),
                entry("transition", reason="next"),
            ],
            [Visit("a", "fail")],
            id="next tells nothing",
        ),
        pytest.param(
            [
                enter("a"),
                entry("action_interrupted"),
                entry("transition", reason="on_interrupt"),
            ],
            [Visit("a", "interrupted")],
            id="interrupted",
        ),
        pytest.param(
            [enter("a"), entry("action_interrupted"), entry("action_start")],
            [Visit("a")],
            id="begun once more",
        ),
        pytest.param([eval_of("pass")], [], id="the beginning is out of reach"),
        pytest.param(
            [enter("a"), entry("action_complete"), entry("loop_error", reason="tampered")],
            [Visit("a", "tampered")],
            id="what was found after the action",
        ),
        pytest.param(
            [
                enter("a"),
                entry("action_complete", exit_code=22),
                entry("loop_error", reason="error"),
            ],
            [Visit("a", "error")],
            id="an error without a transition",
        ),
        pytest.param(
            [
                enter("a"),
                entry("action_complete", exit_code=1),
                entry("loop_error", reason="no_transition"),
            ],
            [Visit("a", "fail")],
            id="a verdict without a transition",
        ),
        pytest.param(
            [enter("a"), entry("action_complete"), entry("handoff_detected")],
            [Visit("a", "handoff")],
            id="handed off",
        ),
        pytest.param(
            [enter("a"), entry("action_complete"), entry("loop_paused", reason="review")],
            [Visit("a", "review")],
            id="waiting at a gate",
        ),
        pytest.param(
            [
                enter("a"),
                entry("loop_paused", reason="review"),
                entry("gate_answered", verdict="approved", gate=1, by="approve"),
            ],
            [Visit("a", "approved")],
            id="answered",
        ),
    ],
)
def test_visits(entries, path):
    assert visits(entries) == path


def test_every_verdict_but_those_of_success_is_marked_as_bad():
    assert set(SOFT_VERDICTS) | {"error", "timeout", *PROOF_VERDICTS} <= {*GOOD, *BAD}
    assert set(PROOF_VERDICTS) <= set(BAD)


def test_measurements_of_version_one_are_read_from_the_reasons():
    entries = [
        eval_of("progress", "12 is the first measurement, the target is 0", "convergence"),
        eval_of("error", "expected a number, got 'x'", "convergence"),
        eval_of("pass", "7 eq 7", "output_numeric"),
        enter("apply"),
        eval_of("progress", "4.5 is closer to 0 than 12", "convergence"),
        eval_of("error", "inf", "convergence"),
        eval_of("target", "0 meets the target 0", "convergence"),
    ]
    assert measurements(entries) == [12.0, 4.5, 0.0]


def test_measurements_are_values():
    entries = [
        eval_of("progress", "4.5 is nearer", "convergence", value=4.5, best=4.5, stalled=0),
        eval_of("error", "1e999 is no number", "convergence", value=float("inf")),
    ]
    assert measurements(entries) == [4.5]


@pytest.mark.parametrize(
    ("values", "bars"),
    [
        pytest.param([5], "▁", id="one"),
        pytest.param([3, 3, 3], "▁▁▁", id="flat"),
        pytest.param([12, 4, 0], "█▃▁", id="down"),
        pytest.param([0, 1, 2, 3, 4, 5, 6, 7], "▁▂▃▄▅▆▇█", id="up"),
        pytest.param(list(range(1000)), "▁▁▂▂▃▃▄▄▅▅▆▆▇▇██", id="thinned out"),
    ],
)
def test_sparkline(values, bars):
    assert sparkline(values) == bars


NUMBERS = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300)


@given(st.lists(NUMBERS, min_size=1, max_size=60))
def test_a_sparkline_is_never_longer_than_it_may_be(values):
    assert len(sparkline(values)) == min(len(values), MOST_BARS)


@pytest.mark.parametrize(
    ("states", "short"),
    [
        pytest.param(["measure", "apply"], ["m", "a"], id="first letters"),
        pytest.param(["check_tests", "check-lint", "fix_lint"], ["ct", "cl", "f"], id="initials"),
        pytest.param(["check", "clean"], ["check", "clean"], id="whole names"),
    ],
)
def test_letters_tell_states_apart(states, short):
    assert list(letters(states).values()) == short


@given(st.lists(st.from_regex(r"[a-c_]{1,4}", fullmatch=True)))
def test_no_two_states_have_the_same_letters(states):
    short = letters(states)
    assert len(set(short.values())) == len(set(states))


@pytest.mark.parametrize(
    ("way", "text"),
    [
        pytest.param("", "", id="nothing"),
        pytest.param("m a m a m", "m a m a m", id="twice is told"),
        pytest.param("m a m a m a m", "m a ×3 m", id="three times is counted"),
        pytest.param("x x x x", "x ×4", id="one state"),
        pytest.param("a b b b a b b b a b b b", "a b b b ×3", id="the larger unit"),
        pytest.param("s a b a b a b e", "s a b ×3 e", id="in the middle"),
    ],
)
def test_what_repeats_is_said_once(way, text):
    assert compressed(way.split()) == text


@given(st.lists(st.sampled_from("abc"), max_size=60))
def test_nothing_is_lost_by_it(words):
    assert [word for unit, count in units(words) for word in unit * count] == words
