"""Laws of replays: a recorded run gives its own log again, and a changed log is found out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from little_loops.engine.following import follow, happenings_of
from little_loops.engine.replaying import RecordedMove, moves_of, replay_with
from little_loops.fsm.events import (
    ActionComplete,
    ActionInterrupted,
    AgentWait,
    CheckResult,
    ChildEnd,
    ChildrenHalted,
    ChildrenJoined,
    ConditionEval,
    Cost,
    Cycle,
    Entry,
    Event,
    FinalEvent,
    GateAnswered,
    HandoffDetected,
    HookRun,
    HostChosen,
    HostWait,
    JudgeComplete,
    KeepBest,
    LoopError,
    LoopInterrupted,
    LoopTimeout,
    OutOfScope,
    Recheck,
    Report,
    Restored,
    Resume,
    RetryWait,
    RunWarning,
    Tampered,
    TrainLanded,
    TransitionTaken,
    Tree,
    WorktreeReady,
)
from little_loops.fsm.happenings import ActionEnded, Resumed, Started
from little_loops.fsm.plain import WrongShape
from little_loops.fsm.schema import FSMLoop
from little_loops.runs.recordings import RecordedRun
from tests.engine.recordings import collection

RUNS = list(collection())
SAMPLES = 12
FREE = (RunWarning, Report, AgentWait, Resume)
"""Nothing need follow from these events, so only their numbers show that one is missing."""


KINDS: dict[str, Callable[[Event], bool]] = {
    "a resume": lambda e: isinstance(e, Resume),
    "a resume with another limit": lambda e: (
        isinstance(e, Resume) and e.limits.max_iterations is not None
    ),
    "a kill in an action": lambda e: isinstance(e, ActionInterrupted),
    "a stop": lambda e: isinstance(e, LoopInterrupted),
    "a retry": lambda e: isinstance(e, TransitionTaken) and e.retry,
    "a handoff": lambda e: isinstance(e, HandoffDetected),
    "a wait before a retry": lambda e: isinstance(e, RetryWait),
    "a wait for an agent": lambda e: isinstance(e, HostWait),
    "another agent": lambda e: isinstance(e, HostChosen),
    "the timeout of an action": lambda e: (
        isinstance(e, ActionComplete) and e.result.cut_by == "action"
    ),
    "the timeout of a loop": lambda e: isinstance(e, LoopTimeout),
    "a limit": lambda e: isinstance(e, LoopError) and e.reason == "max_iterations",
    "a cycle": lambda e: isinstance(e, Cycle),
    "a gate": lambda e: isinstance(e, GateAnswered),
    "a cost": lambda e: isinstance(e, Cost),
    "a condition": lambda e: isinstance(e, ConditionEval),
    "a child": lambda e: isinstance(e, ChildEnd),
    "branches": lambda e: isinstance(e, ChildrenJoined),
    "children that are stopped": lambda e: isinstance(e, ChildrenHalted),
    "a hook": lambda e: isinstance(e, HookRun) and not e.problem,
    "a hook that fails": lambda e: isinstance(e, HookRun) and bool(e.problem),
    "a judge": lambda e: isinstance(e, JudgeComplete),
    "a worktree": lambda e: isinstance(e, WorktreeReady),
    "a merge": lambda e: isinstance(e, TrainLanded),
    "a snapshot": lambda e: isinstance(e, Tree),
    "a check": lambda e: isinstance(e, CheckResult),
    "a check that is repeated": lambda e: isinstance(e, Recheck),
    "tampering": lambda e: isinstance(e, Tampered),
    "files that are restored": lambda e: isinstance(e, Restored),
    "a change out of scope": lambda e: isinstance(e, OutOfScope),
    "the best tree": lambda e: isinstance(e, KeepBest),
}


@pytest.mark.parametrize("is_one", KINDS.values(), ids=KINDS)
def test_there_are_recorded_runs_of_every_kind(is_one):
    runs = collection().values()
    assert any(is_one(entry.event) for run in runs for entry in run.entries)


def test_there_are_enough_recorded_runs():
    assert len(RUNS) >= 200


@pytest.mark.parametrize("name", RUNS)
def test_the_same_definition_gives_the_same_log(name):
    run = collection()[name]
    followed = follow(run)
    assert followed.mismatch is None
    replayed = replay_with(run.definitions[-1].loop, run, followed, {})
    assert (replayed.difference, replayed.notes) == (None, ())


@pytest.mark.parametrize("name", RUNS)
def test_a_log_that_goes_on_is_whole_so_far(name):
    run = collection()[name]
    for count in _sampled(len(run.entries)):
        assert follow(run._replace(entries=run.entries[:count])).mismatch is None, count


@pytest.mark.parametrize("name", RUNS)
def test_a_removed_event_is_found_even_if_the_others_are_numbered_again(name):
    run = collection()[name]
    for index in _sampled(len(run.entries) - 1):
        assert _is_found(run, index), (index, run.entries[index].event)


@pytest.mark.soak
@pytest.mark.parametrize("name", RUNS)
def test_every_removed_event_is_found(name):
    run = collection()[name]
    for index in range(len(run.entries) - 1):
        assert _is_found(run, index), (index, run.entries[index].event)


def _sampled(count: int) -> range:
    return range(1, count, max(1, count // SAMPLES))


def _is_found(run: RecordedRun, index: int) -> bool:
    """Whether a log without this event is refused or differs from what its machine gives."""
    left = [entry for at, entry in enumerate(run.entries) if at != index]
    # The last event before a kill may as well not have been written.
    is_before_kill = isinstance(run.entries[index + 1].event, Resume)
    if isinstance(run.entries[index].event, FREE) or is_before_kill:
        return True
    try:
        mismatch = follow(run._replace(entries=_numbered(left))).mismatch
    except WrongShape:  # the first event is missing
        return True
    return mismatch is not None


@pytest.mark.parametrize("name", RUNS[::4])
def test_an_event_that_cannot_have_happened_is_found(name):
    run = collection()[name]
    for index in _sampled(len(run.entries)):
        for field in ("state", "to", "from_", "step", "attempt", "answer", "result"):
            event: Any = run.entries[index].event
            is_free = field == "result" and isinstance(event, FinalEvent)  # texts of its own
            if getattr(event, field, None) is None or is_free:
                continue
            wrong = "nowhere" if isinstance(getattr(event, field), str) else None
            entries = list(run.entries)
            entries[index] = entries[index]._replace(event=event._replace(**{field: wrong}))
            assert follow(run._replace(entries=entries)).mismatch is not None, (index, event)


def _numbered(entries: list[Entry]) -> list[Entry]:
    return [entry._replace(seq=number) for number, entry in enumerate(entries, 1)]


def test_what_happened_can_be_used_by_others():
    run = collection()["fix-types 1"]
    found = list(happenings_of(run))
    assert isinstance(found[0].happening, Started)
    ended = [each for each in found if isinstance(each.happening, ActionEnded)]
    assert [(each.run.current_state, each.entry) for each in ended[:3]] == [
        ("measure", 1),
        ("apply", 1),
        ("measure", 2),
    ]
    killed = list(happenings_of(collection()["fix-types 1 killed"]))
    assert [type(each.happening) for each in killed if each.command is None] == [Started, Resumed]
    assert any(each.happening is None for each in killed)


# ── a changed loop ─────────────────────────────────────────────────────────────────────────────

ELSEWHERE = {"terminal": True, "outcome": "failure"}


@pytest.mark.parametrize("name", RUNS)
def test_a_changed_transition_makes_the_first_difference_where_it_is_first_taken(name):
    run = collection()[name]
    followed = follow(run)
    moves = list(moves_of(run.entries))
    for number, move in _first_taken(moves):
        loop = _redirected(run.definitions[-1].loop, move)
        if loop is None:
            continue
        found = replay_with(loop, run, followed, {}).difference
        assert found is not None, move
        assert (found.number, found.recorded) == (number, move)
        assert (found.replayed.from_, found.replayed.to) == (move.from_, "elsewhere")


def _first_taken(moves: list[RecordedMove]) -> list[tuple[int, RecordedMove]]:
    """The first time that each transition is taken."""
    found: dict[tuple[object, ...], tuple[int, RecordedMove]] = {}
    for number, move in enumerate(moves):
        if move.is_transition and not move.is_retry:
            found.setdefault((move.from_, move.reason), (number, move))
    return list(found.values())


def _redirected(loop: FSMLoop, move: RecordedMove) -> FSMLoop | None:
    """The loop with this transition changed; None if it is not written in its state."""
    plain = loop.to_dict()
    state = plain["states"][move.from_]
    if state.get(move.reason) != move.to:
        return None
    state[move.reason] = "elsewhere"
    plain["states"]["elsewhere"] = ELSEWHERE
    return FSMLoop.from_dict(plain)


@pytest.mark.parametrize("name", ["fix-types 1", "raise-coverage 1", "converging"])
def test_a_changed_condition_is_judged_again_and_differs_where_the_verdict_does(name):
    """Whatever the first measurement was, it is the target now."""
    run = collection()[name]
    loop = run.definitions[-1].loop
    plain = loop.to_dict()
    [(first, state)] = [
        (each, state) for each, state in plain["states"].items() if "on_target" in state
    ]
    number = next(n for n, m in enumerate(moves_of(run.entries)) if m.from_ == first)
    state["condition"] = {"type": "output_numeric", "operator": "ge", "target": 0}
    state["on_pass"] = state["on_target"]
    state["on_fail"] = state["on_progress"]
    changed = FSMLoop.from_dict(plain)
    found = replay_with(changed, run, follow(run), {}).difference
    assert found is not None
    assert (found.number, found.replayed.reason) == (number, "on_pass")
