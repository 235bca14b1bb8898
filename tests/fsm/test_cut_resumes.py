"""A resume that is killed right after its first event: the next one does what the first was asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from little_loops.fsm.endings import not_resumable
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import Answer, Limits
from tests.fsm.scripted import Crash, Says, ScriptedWorld, Stop, begin, go_on, rebuilt
from tests.fsm.test_laws import never_twice, transitions

STATES: dict[str, Any] = {
    "check": {"action": "check", "on_pass": "look", "on_fail": "fix", "on_interrupt": "undo"},
    "fix": {"action": "fix", "next": "check"},
    "undo": {"action": "undo", "next": "done"},
    "late": {"action": "late", "next": "done"},
    "look": {"terminal": True, "outcome": "review", "next": "undo", "on_rejected": "fix"},
    "done": {"terminal": True},
}


def world(*script: Any, **fields: Any) -> ScriptedWorld:
    loop = {"name": "l", "initial": "check", "states": STATES, **fields}
    return ScriptedWorld(FSMLoop.from_dict(loop), script)


def ended(*script: Any, **fields: Any) -> ScriptedWorld:
    made = world(*script, **fields)
    begin(made)
    return made


def killed(*script: Any, **fields: Any) -> ScriptedWorld:
    made = world(*script, Crash, **fields)
    with pytest.raises(Crash):
        begin(made)
    return made


def copy_of(made: ScriptedWorld, events: int) -> ScriptedWorld:
    copy = ScriptedWorld(made.loop, [], ran_ms=made.log[events - 1]["ran_ms"])
    copy.log = json.loads(json.dumps(made.log[:events]))
    copy.saved = rebuilt(copy.log, made.loop)
    return copy


@pytest.mark.parametrize(
    ("before", "asked"),
    [
        pytest.param(lambda: killed(1), {"from_state": "undo"}, id="--from, after a kill"),
        pytest.param(lambda: ended(1, Stop(15)), {"from_state": "undo"}, id="--from, after a stop"),
        pytest.param(lambda: ended(2), {"from_state": "undo"}, id="--from, after a failure"),
        pytest.param(lambda: ended(0), {}, id="a review is passed"),
        pytest.param(lambda: ended(0), {"from_state": "fix"}, id="a review, and --from"),
        pytest.param(
            lambda: ended(0),
            {"answer": Answer(7, "rejected", "reject", "no")},
            id="a review is rejected",
        ),
        pytest.param(lambda: ended(2), {}, id="the state that failed, again"),
        pytest.param(
            lambda: ended(1, 0, 1, max_iterations=1),
            {"limits": Limits(max_iterations=9)},
            id="more iterations",
        ),
        pytest.param(
            lambda: ended(1, Says(takes_ms=9000), 0, timeout=5, on_timeout="late"),
            {"limits": Limits(timeout=99)},
            id="more time, after `on_timeout` has run",
        ),
        pytest.param(
            lambda: ended(1, Says(takes_ms=9000), timeout=5),
            {"limits": Limits(timeout=99)},
            id="more time",
        ),
        pytest.param(lambda: killed(1, backoff=3), {"context": {"x": 1}}, id="another context"),
    ],
)
def test_a_resume_that_is_cut_at_its_first_event(
    before: Callable[[], ScriptedWorld], asked: dict[str, Any]
):
    whole = before()
    known = len(whole.log)
    go_on(whole, [0] * 20, **asked)
    cut = copy_of(whole, known + 1)
    assert cut.log[-1]["event"] in ("resume", "gate_answered")
    go_on(cut, [0] * 20)
    assert _path(cut, known) == _path(whole, known)
    assert never_twice(cut.log)
    assert cut.saved is not None
    assert whole.saved is not None
    assert cut.saved.context == whole.saved.context


def _path(of: ScriptedWorld, known: int) -> list[tuple[str, str]]:
    return [(left, entered) for left, entered, _ in transitions(of.log[known:])]


def test_where_a_cut_resume_was_headed_is_not_in_the_definition_any_more():
    whole = killed(1)
    known = len(whole.log)
    go_on(whole, [0] * 20, from_state="undo")
    run = copy_of(whole, known + 1).saved
    assert run is not None
    states = {name: state for name, state in whole.loop.states.items() if name != "undo"}
    why = not_resumable(whole.loop._replace(states=states), run)
    assert why == "its state `undo` is not in the definition"
