"""The end of an action is shown with the sign of its verdict, and nothing changes its place."""

from __future__ import annotations

import pytest

from little_loops.fsm.events import Event
from little_loops.reporting.held_end import HeldEnd, WithVerdict
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
    ("next_event", "passed"),
    [
        pytest.param(evaluated("pass"), True, id="passed"),
        pytest.param(evaluated("progress"), True, id="nearer"),
        pytest.param(evaluated("stall"), False, id="no nearer"),
        pytest.param(evaluated("error"), False, id="not to be judged"),
        pytest.param(evaluated("partial"), None, id="a word of the loop's own"),
        pytest.param(taken("on_pass"), True, id="by on_pass"),
        pytest.param(taken("on_timeout"), False, id="by on_timeout"),
        pytest.param(taken("next"), None, id="by next"),
        pytest.param(event("loop_interrupted"), None, id="nobody judged"),
    ],
)
def test_the_verdict_says_whether_it_went_well(next_event: Event, passed: bool | None):
    assert shown(END) == []
    assert shown(END, next_event) == [WithVerdict(END, passed), WithVerdict(next_event)]


def test_what_stands_between_stays_there():
    verdict = evaluated("pass")
    assert shown(WARNING, END, COST, WARNING, verdict, WARNING) == [
        WithVerdict(WARNING),
        WithVerdict(END, True),
        WithVerdict(COST),
        WithVerdict(WARNING),
        WithVerdict(verdict),
        WithVerdict(WARNING),
    ]


def test_one_end_after_another():
    assert shown(END, END, taken("on_fail")) == [
        WithVerdict(END, None),
        WithVerdict(END, False),
        WithVerdict(taken("on_fail")),
    ]
