"""Gates: what an answer leads to, which answer counts, and what a rejection leaves."""

from __future__ import annotations

from typing import Any

import pytest

from little_loops.fsm.gates import open_gate, refused_target
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import Answer, LoopState
from tests.fsm.scripted import ScriptedWorld, Stop, begin, cut, go_on

STATES: dict[str, Any] = {
    "build": {"action": "build", "next": "look"},
    "look": {"terminal": True, "outcome": "review", "next": "ship", "choices": ["polish", "ship"]},
    "polish": {"action": "polish", "next": "look"},
    "ship": {"action": "ship", "next": "done"},
    "done": {"terminal": True},
}
GATE = 7
"""The number of the event that opens the first gate."""


def at_the_gate(**gate: Any) -> ScriptedWorld:
    states = STATES | {"look": {**STATES["look"], **gate}}
    loop = FSMLoop.from_dict({"name": "l", "initial": "build", "states": states})
    world = ScriptedWorld(loop, [0])
    begin(world)
    assert world.saved is not None
    assert open_gate(world.saved) == GATE
    return world


def answer(verdict: Any = "approved", text: str = "", to: str | None = None) -> Answer:
    return Answer(GATE, verdict, "reject" if verdict == "rejected" else "approve", text, to)


@pytest.mark.parametrize(
    ("gate", "resumed", "expected"),
    [
        pytest.param({}, {}, ["look", "ship", "next"], id="a bare resume"),
        pytest.param({}, {"answer": answer()}, ["look", "ship", "next"], id="approved"),
        pytest.param(
            {}, {"answer": answer(to="polish")}, ["look", "polish", "choices"], id="a choice"
        ),
        pytest.param({"next": None}, {}, ["look", "build", "next"], id="without `next`"),
        pytest.param(
            {"on_rejected": "polish"},
            {"answer": answer("rejected", "no")},
            ["look", "polish", "on_rejected"],
            id="rejected",
        ),
        pytest.param({}, {"from_state": "build"}, ["look", "build", "resume"], id="--from"),
        pytest.param(
            {},
            {"from_state": "build", "answer": answer("rejected", "no")},
            ["look", "build", "resume"],
            id="--from overrides where a rejection leads",
        ),
    ],
)
def test_where_an_answer_leads(gate, resumed, expected):
    world = at_the_gate(**gate)
    known = len(world.log)
    go_on(world, [Stop(15)], **resumed)
    events = [record["event"] for record in world.log[known : known + 3]]
    assert events == ["gate_answered", "resume", "transition"]
    taken = world.log[known + 2]
    assert [taken["from"], taken["to"], taken["reason"]] == expected


def test_a_bare_resume_says_that_it_approved():
    world = at_the_gate()
    go_on(world, [0])
    (record,) = [each for each in world.log if each["event"] == "gate_answered"]
    assert (record["gate"], record["verdict"], record["by"]) == (GATE, "approved", "resume")


def test_a_rejection_without_a_state_to_go_to_ends_the_run():
    world = at_the_gate()
    run, ending = go_on(world, [], answer=answer("rejected", "not yet"))
    assert (ending.status, ending.reason, ending.exit_code) == ("failed", "rejected", 1)
    assert (run.error, open_gate(run)) == ("not yet", None)


def test_a_rejection_that_was_cut_still_ends_the_run():
    for left in (1, 2):
        world = at_the_gate()
        known = len(world.log)
        go_on(world, [], answer=answer("rejected", "not yet"))
        cut(world, known + left)
        _, ending = go_on(world, [])
        assert (ending.reason, ending.message) == ("rejected", "not yet")


def test_a_later_resume_from_a_state_that_was_cut_overrides_the_answer():
    world = at_the_gate()
    known = len(world.log)
    go_on(world, [Stop(15)])
    cut(world, known + 2)
    go_on(world, [Stop(15)], from_state="build")
    cut(world, known + 3)
    go_on(world, [Stop(15)])
    taken = next(record for record in world.log[known:] if record["event"] == "transition")
    assert [taken["from"], taken["to"], taken["reason"]] == ["look", "build", "resume"]


def test_an_answer_that_was_cut_leads_where_it_would_have_led():
    world = at_the_gate(on_rejected="polish")
    known = len(world.log)
    go_on(world, [Stop(15)], answer=answer("rejected", "no"))
    cut(world, known + 2)
    go_on(world, [Stop(15)])
    taken = next(record for record in world.log[known:] if record["event"] == "transition")
    assert [taken["from"], taken["to"], taken["reason"]] == ["look", "polish", "on_rejected"]


def test_a_resume_after_a_rejection_opens_the_gate_again():
    world = at_the_gate()
    go_on(world, [], answer=answer("rejected", "not yet"))
    run, ending = go_on(world, [])
    assert ending.reason == "review"
    gate = open_gate(run)
    assert gate == run.seq > GATE
    run, ending = go_on(world, [0], answer=Answer(gate, "approved", "approve", "now"))
    assert (ending.status, run.answer and run.answer.text) == ("completed", "now")


def test_the_answer_to_one_gate_is_none_to_the_next():
    world = at_the_gate()
    run, _ = go_on(world, [0], answer=answer(to="polish", text="shorter"))
    assert run.status == "needs_review"
    assert open_gate(run) == run.seq
    run, ending = go_on(world, [0])
    assert ending.status == "completed"
    assert run.answer is not None
    assert (run.answer.by, run.answer.text) == ("resume", "")


def test_a_gate_of_an_earlier_version_can_be_answered():
    world = at_the_gate()
    assert world.saved is not None
    earlier = LoopState.from_dict(
        {name: item for name, item in world.saved.to_dict().items() if name != "gate"}
    )
    assert open_gate(earlier) == GATE


def test_a_resume_of_an_earlier_version_that_was_cut_goes_where_it_was_headed():
    world = at_the_gate()
    known = len(world.log)
    go_on(world, [0], from_state="polish")
    resumed = {**world.log[known + 1], "seq": known + 1}
    world.log[known:] = [resumed]  # earlier versions recorded no answer
    world.is_of_earlier_version = True
    cut(world, known + 1)
    go_on(world, [Stop(15)])
    taken = next(each for each in world.log[known:] if each["event"] == "transition")
    assert (taken["to"], taken["reason"]) == ("polish", "resume")


@pytest.mark.parametrize(
    ("gate", "to", "expected"),
    [
        pytest.param({}, "polish", None, id="a choice"),
        pytest.param(
            {},
            "done",
            "`done` is not one of the choices of state `look`: `polish`, `ship`",
            id="another state",
        ),
        pytest.param(
            {"choices": []},
            "ship",
            "state `look` has no `choices`, so `--to` has no effect",
            id="no choices",
        ),
        pytest.param(
            {"choices": ["gone"]},
            "gone",
            "`gone` is not one of the choices of state `look`: `gone`",
            id="a choice that is not a state",
        ),
    ],
)
def test_a_target_that_the_gate_does_not_offer(gate, to, expected):
    world = at_the_gate(**gate)
    assert world.saved is not None
    assert refused_target(world.loop, world.saved, to) == expected


def test_an_answer_counts_only_at_its_gate():
    """The action after the gate is interrupted: the next resume goes on there."""
    world = at_the_gate()
    go_on(world, [Stop(15)])
    known = len(world.log)
    go_on(world, [0])
    taken = [each for each in world.log[known:] if each["event"] == "transition"]
    assert [(each["from"], each["to"]) for each in taken] == [("ship", "done")]


def test_a_run_that_goes_on_waits_at_no_gate():
    world = at_the_gate()
    assert world.saved is not None
    assert open_gate(world.saved._replace(status="running", reason=None)) is None
