"""The end of an action is shown with the sign of its verdict, and nothing changes its place."""

from __future__ import annotations

import pytest

from little_loops.fsm.events import Event
from little_loops.reporting.held_end import HeldEnd, Mark, WithVerdict
from tests.entries import event

END = event("action_complete", exit_code=1)
COST, WARNING = event("cost"), event("warning")


def shown(*events: Event) -> list[WithVerdict]:
    held = HeldEnd()
    return [each for event in events for each in held.feed(event)]


def evaluated(result: str) -> Event:
    return event("condition_eval", result=result)


def taken(reason: str) -> Event:
    return event("transition", reason=reason)


@pytest.mark.parametrize(
    ("next_event", "mark"),
    [
        pytest.param(evaluated("pass"), "good", id="passed"),
        pytest.param(evaluated("progress"), "neutral", id="nearer, but not there"),
        pytest.param(evaluated("stall"), "bad", id="no nearer"),
        pytest.param(evaluated("error"), "bad", id="not to be judged"),
        pytest.param(evaluated("partial"), "neutral", id="a word of the loop's own"),
        pytest.param(taken("on_pass"), "good", id="by on_pass"),
        pytest.param(taken("on_timeout"), "bad", id="by on_timeout"),
        pytest.param(taken("next"), None, id="by next"),
        pytest.param(event("loop_interrupted"), None, id="nobody judged"),
        pytest.param(event("loop_error", reason="error"), "bad", id="it ends the run"),
        pytest.param(event("loop_error", reason="max_cost"), None, id="a limit ends the run"),
        pytest.param(event("loop_error", reason="terminal"), "neutral", id="in a failure state"),
        pytest.param(event("loop_paused"), "neutral", id="in a review state"),
    ],
)
def test_the_verdict_says_whether_it_went_well(next_event: Event, mark: Mark | None):
    assert shown(END) == []
    assert shown(END, next_event) == [(END, mark), (next_event, None)]


@pytest.mark.parametrize(
    ("kind", "next_event", "mark"),
    [
        pytest.param("error", taken("on_error"), "bad", id="an error with a transition"),
        pytest.param("error", event("loop_error", reason="error"), "bad", id="an error without"),
        pytest.param("handoff", event("handoff_detected"), "neutral", id="a handoff"),
        pytest.param("stop", event("loop_complete"), "neutral", id="a stop"),
        pytest.param("my_own", evaluated("pass"), "good", id="a signal that the loop defines"),
        pytest.param("stop", taken("on_timeout"), "bad", id="a stop, but it timed out"),
        pytest.param("handoff", taken("on_tampered"), "bad", id="a handoff, but it tampered"),
    ],
)
def test_a_signal_line_decides_unless_something_comes_before_it(
    kind: str, next_event: Event, mark: Mark
):
    assert shown(END, event("signal", type=kind), next_event)[0] == (END, mark)


def test_what_stands_between_stays_there():
    verdict = evaluated("pass")
    assert shown(WARNING, END, COST, WARNING, verdict, WARNING) == [
        (WARNING, None),
        (END, "good"),
        (COST, None),
        (WARNING, None),
        (verdict, None),
        (WARNING, None),
    ]


def test_one_end_after_another():
    assert shown(END, END, taken("on_fail")) == [
        (END, None),
        (END, "bad"),
        (taken("on_fail"), None),
    ]
