"""Notes for agents: which step gets one, and when it is used up."""

from __future__ import annotations

from typing import Any

import pytest

from little_loops.fsm.commands import RunAgent
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import Note, SignalLine
from tests.fsm.scripted import Crash, Says, ScriptedWorld, Stop, begin, cut, go_on

AGENT = Says(agent="success")
BRIEF, KIND = Note("n1", "be brief"), Note("n2", "be kind")
STATES: dict[str, Any] = {
    "check": {"action": "check", "on_pass": "done", "on_fail": "fix"},
    "fix": {"action": "/fix", "next": "check", "on_error": "$current", "retry": {"max": 2}},
    "done": {"terminal": True},
}


class Mailbox(ScriptedWorld):
    """A world in which people tell something before the n-th decision."""

    def __init__(self, script: Any, mail: dict[int, tuple[Note, ...]], **states: Any) -> None:
        loop = {"name": "l", "initial": "check", "states": STATES | states, "backoff": 0}
        super().__init__(FSMLoop.from_dict(loop), script)
        self.mail = mail
        self.decisions = 0

    def notes(self, run):
        self.decisions += 1
        self.told = self.mail.pop(self.decisions, ())
        return super().notes(run)


def turns(world: ScriptedWorld) -> list[tuple[int, tuple[str, ...]]]:
    """The step of each turn of an agent, with the notes it got."""
    return [(each.job.step, each.notes) for each in world.commands if isinstance(each, RunAgent)]


def heard(world: ScriptedWorld) -> list[tuple[str, str]]:
    kinds = ("note_received", "note_delivered")
    return [(each["event"], each["id"]) for each in world.log if each["event"] in kinds]


def test_a_note_goes_to_the_next_agent_and_to_no_other():
    world = Mailbox([1, AGENT, 1, AGENT, 0], {2: (BRIEF,)})
    begin(world)
    assert turns(world) == [(2, ("be brief",)), (4, ())]
    assert heard(world) == [("note_received", "n1"), ("note_delivered", "n1")]


def test_a_note_that_comes_during_a_turn_waits_for_the_next_step():
    world = Mailbox([1, AGENT, 1, AGENT, 0], {2: (BRIEF,), 3: (KIND,)})
    begin(world)
    assert turns(world) == [(2, ("be brief",)), (4, ("be kind",))]


def test_every_attempt_of_the_step_gets_it():
    world = Mailbox([1, Says(2, agent="error"), AGENT, 1, AGENT, 0], {2: (BRIEF,)})
    begin(world)
    assert turns(world) == [(2, ("be brief",)), (2, ("be brief",)), (4, ())]
    assert heard(world)[-1] == ("note_delivered", "n1")


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(Says(agent="wait", reason="usage limit"), id="a usage limit"),
        pytest.param(Says(agent="success", line=SignalLine("handoff", "go on")), id="a handoff"),
    ],
)
def test_a_turn_that_asks_for_another_one_is_not_the_end_of_its_step(first):
    world = Mailbox([1, first, AGENT, 0], {2: (BRIEF,)})
    world.loop = world.loop._replace(on_handoff="continue")
    begin(world)
    assert turns(world) == [(2, ("be brief",)), (2, ("be brief",))]
    assert heard(world) == [("note_received", "n1"), ("note_delivered", "n1")]


def test_after_a_crash_the_same_step_gets_it_again():
    world = Mailbox([1, Crash], {2: (BRIEF,)})
    with pytest.raises(Crash):
        begin(world)
    go_on(world, [AGENT, 0])
    assert turns(world) == [(2, ("be brief",)), (2, ("be brief",))]
    assert heard(world) == [("note_received", "n1"), ("note_delivered", "n1")]


def test_a_turn_that_was_cut_and_is_left_has_not_used_it_up():
    fix = {"action": "/fix", "next": "check", "on_interrupt": "check"}
    world = Mailbox([1, Crash], {2: (BRIEF,)}, fix=fix)
    with pytest.raises(Crash):
        begin(world)
    go_on(world, [1, AGENT, 0])
    assert turns(world) == [(2, ("be brief",)), (4, ("be brief",))]
    assert heard(world) == [("note_received", "n1"), ("note_delivered", "n1")]


def test_a_note_that_comes_before_a_resume():
    world = Mailbox([1, Stop(15)], {})
    begin(world)
    world.mail = {world.decisions + 1: (BRIEF,)}
    go_on(world, [AGENT, 0])
    events = [each["event"] for each in world.log]
    assert events.index("note_received") == events.index("resume") + 1
    assert turns(world)[-1] == (2, ("be brief",))


def test_the_agent_of_a_terminal_state_uses_it_up():
    world = Mailbox([0, AGENT], {2: (BRIEF,)}, done={"terminal": True, "action": "/report"})
    begin(world)
    assert turns(world) == [(2, ("be brief",))]
    assert heard(world)[-1] == ("note_delivered", "n1")


def test_when_the_time_is_up_the_step_has_ended():
    late = {"late": {"action": "late", "next": "done"}}
    world = Mailbox([1, Says(agent="success", takes_ms=9000), 0], {2: (BRIEF,)}, **late)
    world.loop = world.loop._replace(timeout=5, on_timeout="late")
    begin(world)
    assert heard(world)[-1] == ("note_delivered", "n1")


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        pytest.param((BRIEF,), 'no agent received this note: "be brief"', id="one"),
        pytest.param(
            (BRIEF, KIND._replace(text="be\n kind" + "!" * 60)),
            f'no agent received these 2 notes: "be brief", "be kind{"!" * 52}…"',
            id="two",
        ),
    ],
)
def test_a_run_that_ends_names_the_notes_that_are_left(notes, expected):
    world = Mailbox([0], {2: notes})
    begin(world)
    warnings = [each["message"] for each in world.log if each["event"] == "warning"]
    assert warnings == [expected]


def test_a_failed_turn_has_heard_its_note():
    """The run ends in that step: there is nothing left to name, and a resume gives it again."""
    world = Mailbox([1, Says(2, agent="auth", reason="log in")], {2: (BRIEF,)})
    begin(world)
    assert [each for each in world.log if each["event"] == "warning"] == []
    go_on(world, [AGENT, 0])
    assert turns(world) == [(2, ("be brief",)), (2, ("be brief",))]


def test_wherever_the_log_is_cut_one_step_uses_the_note_up():
    script: list[Any] = [1, AGENT, 1, AGENT, 0]
    whole = Mailbox(script, {2: (BRIEF,)})
    begin(whole)
    for left in range(1, len(whole.log)):
        world = Mailbox(script, {2: (BRIEF,)})
        begin(world)
        cut(world, left)
        known = any(each["event"] == "note_received" for each in world.log)
        # Its file is still there, unless its arrival was recorded.
        world.mail = {} if known else {world.decisions + 1: (BRIEF,)}
        world.commands.clear()
        judged = sum(each["event"] == "action_complete" for each in world.log)
        go_on(world, script[judged:])
        assert [each for each in heard(world) if each[0] == "note_received"] == [
            ("note_received", "n1")
        ]
        delivered = [each for each in world.log if each["event"] == "note_delivered"]
        got = {step for step, notes in turns(world) if notes}
        assert len(delivered) == 1
        assert got <= {delivered[0]["step"]}
