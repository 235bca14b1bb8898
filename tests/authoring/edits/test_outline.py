"""What an editor gets to know about a loop file."""

from __future__ import annotations

import pytest

from little_loops.authoring.edits.outline import OutlinedTransition, outline, state_at
from tests.authoring.edits.files import FOUR, ROUTES

BROKEN = """\
initial: a
states:
  a: 5
  [x]: {}
  b:
    action: x
    next: nowhere
"""


def test_states_and_transitions_in_the_order_of_the_file():
    found = outline(ROUTES)
    assert found is not None
    assert found.states is not None
    assert [(each.name, each.line, each.end_line) for each in found.states] == [
        ("ask", 5, 13),
        ("tidy", 14, 19),
        ("look", 20, 29),
        ("idle", 30, 33),
        ("done", 34, 36),
    ]
    assert found.states[0].transitions == (
        OutlinedTransition("clean", "done", 11),
        OutlinedTransition("messy", "tidy", 12),
        OutlinedTransition("unsure", "look", 13),
    )
    assert found.states[0].fields["condition"]["words"] == ["clean", "messy", "unsure"]
    assert found.fields == {"name": "routes", "initial": "ask", "max_cost_usd": 5}
    assert found.lines == {"name": 1, "initial": 2, "max_cost_usd": 3, "states": 4}


def test_aliases_choices_and_targets_outside_of_states():
    found = outline(FOUR)
    assert found is not None
    labels = {each.name: [t.on for t in each.transitions] for each in found.states or ()}
    assert labels["pruefen"] == ["pass", "fail"]
    assert labels["gate"] == ["next", "choice", "choice"]


def test_a_file_with_errors_has_an_outline():
    found = outline(BROKEN)
    assert found is not None
    assert [(each.name, dict(each.fields)) for each in found.states or ()] == [
        ("a", {}),
        ("b", {"action": "x", "next": "nowhere"}),
    ]


@pytest.mark.parametrize(
    ("text", "line", "state"),
    [
        pytest.param(ROUTES, 1, None, id="before the states"),
        pytest.param(ROUTES, 5, "ask", id="the first line of a state"),
        pytest.param(ROUTES, 19, "tidy", id="the last line of a state"),
        pytest.param("goal: x\n", 1, None, id="no states"),
        pytest.param("[", 1, None, id="not YAML"),
    ],
)
def test_state_of_a_line(text, line, state):
    assert state_at(outline(text), line) == state
