"""Loops and states that say which workers may carry them out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from little_loops.cli.worker import WorkerArgs
from little_loops.errors import UsageError
from little_loops.fleet.names import claim_queue, claim_queues
from little_loops.fleet.worker import labels_of
from tests.contract.suite import effects
from tests.fleet.case import Case
from tests.fleet.fleet import labelled
from tests.project import until

HOLD = "echo begun >> $OUT/effects; until test -e $OUT/ok; do sleep 0.05; done"
LABELLED: dict[str, Any] = {
    "name": "slow",
    "runs_on": {"labels": ["gpu", "linux"]},
    "initial": "work",
    "states": {"work": {"action": HOLD, "next": "done"}, "done": {"terminal": True}},
}
FAN: dict[str, Any] = {
    "name": "slow",
    "initial": "fan",
    "states": {
        "fan": {
            "for_each": ["a", "b"],
            "action": HOLD,
            "runs_on": {"labels": ["gpu"]},
            "next": "done",
        },
        "done": {"terminal": True},
    },
}


def test_a_run_waits_for_a_worker_that_has_all_labels(begin: Callable[..., Case]):
    case = begin(LABELLED)
    expected = "a worker with the labels `gpu`, `linux`"
    until(lambda: (case.runtime.details("slow") or {})["waits_for"] == expected, expected)
    shown = case.project.ll("status", "slow", env={"LL_FLEET": case.fleet.at})
    assert shown.stdout == "slow  … queued\n"
    assert "slow is waiting for a worker with the labels `gpu`, `linux`" in shown.stderr
    with labelled(case.fleet, "gpu"), labelled(case.fleet, "linux", "fast", "gpu") as worker:
        case.effect("begun")
        assert case.holder() is worker
        case.proceed()
        assert case.ends() == "completed terminal"


def test_branches_run_where_their_state_says(begin: Callable[..., Case]):
    case = begin(FAN)
    until(lambda: len(case.runtime.children("slow")) == 2, "branches")
    assert {each["waits_for"] for each in case.runtime.children("slow").values()} == {
        "a worker with the labels `gpu`"
    }
    with labelled(case.fleet, "gpu") as worker:
        until(lambda: effects(case.project) == ["begun", "begun"], "branches")
        found = case.runtime.children("slow").values()
        assert {each["worker"] for each in found} == {worker.name}
        case.proceed()
        assert case.ends() == "completed terminal"


def test_a_worker_listens_for_each_combination_of_its_labels():
    assert claim_queues(("b", "a")) == ["ll-claims", "ll-claims:a", "ll-claims:b", "ll-claims:a,b"]
    assert claim_queue(("b", "a")) == "ll-claims:a,b"


def test_labels_are_checked():
    typed = "--repos URL --labels gpu,linux --labels gpu"
    assert labels_of(WorkerArgs.read(typed.split()).labels) == ("gpu", "linux")
    with pytest.raises(UsageError, match="`two words` is not a label"):
        labels_of(["two words"])
    with pytest.raises(UsageError, match="at most 6 labels"):
        labels_of(["a,b,c,d,e,f,g"])
