"""Where a fork begins: which events it has in common with the other run, and in which state it is."""

from __future__ import annotations

import pytest

from little_loops.fsm.codec import from_record, to_record
from little_loops.fsm.events import Entry, Forked, StateEnter, TransitionTaken
from little_loops.fsm.evolve import evolve
from little_loops.fsm.forking import cannot_fork, events_until, renamed, state_after
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import Fork, LoopState, RunSummary
from tests.entries import WALL_MS, event

LOOP = FSMLoop.from_dict(
    {
        "name": "fix",
        "initial": "check",
        "states": {
            "check": {"action": "true", "on_pass": "done", "on_fail": "fix"},
            "fix": {"action": "fix", "next": "check"},
            "done": {"terminal": True},
        },
    }
)
EVENTS = [
    event("loop_start", evidence="on"),
    event("state_enter", state="check", step=1),
    event("action_start", state="check"),
    event("action_complete", state="check", exit_code=1),
    event("condition_eval", result="fail"),
    TransitionTaken("check", "fix", "on_fail"),
    event("state_enter", state="fix", step=2),
    event("action_start", state="fix", action_type="prompt", session_id="s-1"),
    event("action_interrupted", state="fix"),
    event("loop_interrupted", status="interrupted", reason="signal"),
    event("resume", state="fix", status="interrupted"),
    event("action_start", state="fix", action_type="prompt", session_id="s-2", attempt=2),
    event("action_complete", state="fix"),
    event("tree", project="p2", guard="g2"),
    TransitionTaken("fix", "check", "next"),
    event("state_enter", state="check", step=3, iteration=2),
    event("action_start", state="check"),
    event("action_complete", state="check"),
    event("condition_eval", result="pass"),
    TransitionTaken("check", "done", "on_pass"),
    event("state_enter", state="done", step=4, iteration=2),
    event("loop_complete", status="completed", reason="terminal", final_state="done"),
]
ENTRIES = [Entry(one, WALL_MS + n, n, "old", n) for n, one in enumerate(EVENTS, 1)]
FAILED = [
    *ENTRIES[:19],
    Entry(event("loop_error", final_state="check"), WALL_MS, 20, "old", 20),
]


@pytest.mark.parametrize(
    ("entries", "step", "count", "phase", "why"),
    [
        pytest.param(ENTRIES, 1, 6, "moving", None, id="the first step"),
        pytest.param(ENTRIES, 2, 15, "moving", None, id="one that was interrupted and resumed"),
        pytest.param(ENTRIES, 3, 20, "moving", None, id="the last one that can be continued"),
        pytest.param(
            ENTRIES, 4, 21, "entered", "the run ended in step 4, in state `done`", id="the last"
        ),
        pytest.param(ENTRIES[:13], 2, 13, "judging", "step 2 has not ended", id="not ended"),
        pytest.param(ENTRIES[:8], 2, 8, "running", "step 2 has not ended", id="killed in it"),
        pytest.param(FAILED, 3, 19, "judged", None, id="it failed in this step"),
    ],
)
def test_where_a_fork_begins(entries, step, count, phase, why):
    begun = events_until(entries, step)
    state = state_after(begun, {"who": "me"})
    assert (len(begun), state.phase) == (count, phase)
    assert cannot_fork(LOOP, state, step) == why
    assert state.context == {"who": "me"}


def test_nothing_recorded():
    assert events_until([], 1) == []


def test_another_definition_needs_the_next_state():
    other = LOOP._replace(states={name: LOOP.states[name] for name in ("check", "done")})
    state = state_after(events_until(ENTRIES, 1), {})
    assert cannot_fork(other, state, 1) == "its state `fix` is not in the definition"
    gone = LOOP._replace(states={"fix": LOOP.states["fix"]})
    judged = state_after(events_until(FAILED, 3), {})
    assert cannot_fork(gone, judged, 3) == "its state `check` is not in the definition"


def test_an_ended_run_cannot_be_forked():
    state = state_after(ENTRIES, {})
    assert state.phase == "ended"
    assert cannot_fork(LOOP, state, 4) == "the run ended in step 4, in state `done`"
    failed = state_after(FAILED, {})._replace(phase="ended")
    assert cannot_fork(LOOP, failed, 3) == "the run ended in step 3, in state `check`"


def test_a_gate_that_was_answered_can_be_forked():
    answered = state_after(ENTRIES, {})._replace(phase="moving")
    assert cannot_fork(LOOP, answered, 4) is None


def forked(step: int, **more: bool) -> LoopState:
    begun = renamed(events_until(ENTRIES, step), "new")
    assert {entry.run for entry in begun} == {"new"}
    fork = Forked("old", "fix", step, "p0", {"who": "you"}, **more)
    entry = Entry(fork, WALL_MS + 99_000, 5, "new", len(begun) + 1)
    assert from_record(to_record(entry)) == entry
    return evolve(state_after(begun, {"who": "me", "how": "x"}), entry)


def test_a_fork_has_the_state_of_the_other_run_and_a_session_of_its_own():
    state = forked(2)
    assert (state.run, state.status, state.reason) == ("new", "interrupted", "fork")
    assert state.fork == Fork("old", "fix", 2)
    assert (state.iteration, state.step, sorted(state.captured)) == (1, 2, ["check", "fix"])
    assert state.context == {"who": "you", "how": "x"}
    assert state.session_id is None
    assert state.started_at == "2026-01-15T10:31:39.000Z"
    assert LoopState.from_dict(state.to_dict()) == state
    summary = RunSummary.from_dict(state.to_dict())
    assert summary.fork == Fork("old", "fix", 2)


def test_another_definition_may_protect_other_paths():
    same, other = forked(2).trees, forked(2, redefined=True).trees
    assert same is not None
    assert other is not None
    assert (same.reference, other.reference) == ("g2", None)
    assert other.project == same.project


def test_every_step_but_the_last_can_be_forked():
    steps = [entry.event.step for entry in ENTRIES if isinstance(entry.event, StateEnter)]
    found = [
        step
        for step in steps
        if cannot_fork(LOOP, state_after(events_until(ENTRIES, step), {}), step) is None
    ]
    assert (steps, found) == ([1, 2, 3, 4], [1, 2, 3])
