"""A condition that reads a number hands it on as a number, for readers of the log."""

from __future__ import annotations

from typing import Any

import pytest

from little_loops.fsm.conditions import Observation, judge
from little_loops.fsm.schema import (
    All,
    AnyOf,
    Condition,
    Convergence,
    ExitCode,
    Not,
    OutputContains,
    OutputNumeric,
)
from little_loops.fsm.state import Judgement, LoopState, Metric
from tests.fsm.test_event_catalogue import converging

NUMERIC = OutputNumeric(target=5, operator="lt")


def printed(output: str) -> Observation:
    return Observation(0, None, output)


@pytest.mark.parametrize(
    ("condition", "output", "memory", "value"),
    [
        pytest.param(NUMERIC, "3", None, 3, id="a number that passes"),
        pytest.param(NUMERIC, "7.5", None, 7.5, id="a number that fails"),
        pytest.param(NUMERIC, "none", None, None, id="no number"),
        pytest.param(Convergence(target=0), "0", None, 0, id="the target"),
        pytest.param(Convergence(target=0), "4", None, 4, id="the first measurement"),
        pytest.param(Convergence(target=0), "3", Metric(4), 3, id="nearer"),
        pytest.param(Convergence(target=0), "9", Metric(4), 9, id="not nearer"),
        pytest.param(ExitCode(), "3", None, None, id="an exit code"),
        pytest.param(OutputContains("3"), "3", None, None, id="a pattern"),
        pytest.param(All((NUMERIC,)), "7", None, 7, id="all"),
        pytest.param(AnyOf((NUMERIC,)), "3", None, 3, id="any"),
        pytest.param(Not(NUMERIC), "3", None, None, id="not"),
    ],
)
def test_the_value_of_a_judgement(
    condition: Condition, output: str, memory: Metric | None, value: float | None
) -> None:
    assert judge(condition, printed(output), memory).value == value


def test_the_log_has_the_value_beside_the_best() -> None:
    judged = [each for each in converging().log if each["event"] == "condition_eval"]
    assert [(each["value"], each["best"], each["stalled"]) for each in judged] == [
        (3, 3, 0),
        (3, 3, 1),
        (0, 0, 0),
    ]


@pytest.mark.parametrize("value", [None, 3, 4.5])
def test_a_saved_judgement_keeps_its_value(value: float | None) -> None:
    judgement = Judgement("pass", "3 lt 5", value=value)
    run = LoopState("r", "l", "a", "", "", phase="judged", judgement=judgement)
    assert LoopState.from_dict(run.to_dict()).judgement == judgement


def test_a_judgement_saved_without_a_value_is_read() -> None:
    run = LoopState("r", "l", "a", "", "", phase="judged", judgement=Judgement("pass", "exit 0"))
    data: dict[str, Any] = run.to_dict()
    assert "value" not in data["judgement"]
    assert LoopState.from_dict(data) == run
