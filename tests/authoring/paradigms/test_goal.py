"""Paradigm `goal`, as the document it becomes."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from little_loops.authoring.paradigms.goal import derived_name, expand
from little_loops.authoring.yaml.nodes import Map, node_of, plain, text


def expanded(source: str) -> Any:
    root = node_of(yaml.safe_load(source))
    assert isinstance(root, Map)
    return plain(expand(root, "the-stem"))


def test_the_first_tool_judges_and_the_others_fix_in_order() -> None:
    assert expanded("""
        goal: Everything is green
        tools: [pytest, ruff check --fix, /ll:manage_issue bug fix]
    """) == yaml.safe_load("""
        name: goal-everything-is-green
        initial: evaluate
        states:
          evaluate: {action: pytest, on_pass: done, on_fail: fix, check: true}
          fix: {action: ruff check --fix, next: fix_2}
          fix_2: {action: /ll:manage_issue bug fix, next: evaluate}
          done: {terminal: true}
    """)


def test_one_tool_alone_is_run_again_until_it_passes() -> None:
    states = expanded("{goal: Up, tools: [curl -f localhost]}")["states"]
    assert states == {
        "evaluate": {
            "action": "curl -f localhost",
            "on_pass": "done",
            "on_fail": "evaluate",
            "check": True,
        },
        "done": {"terminal": True},
    }


def test_a_tool_may_be_a_mapping_and_loop_fields_stay() -> None:
    assert expanded("""
        paradigm: goal
        name: mine
        goal: Up
        tools:
          - {action: pytest, timeout: 10m, condition: {type: exit_code, fail: [1, 5]}}
          - {action: fix it, action_type: prompt}
        scope: [src]
        max_iterations: 7
        x-note: kept
    """) == yaml.safe_load("""
        paradigm: goal
        name: mine
        scope: [src]
        max_iterations: 7
        x-note: kept
        initial: evaluate
        states:
          evaluate:
            action: pytest
            timeout: 10m
            condition: {type: exit_code, fail: [1, 5]}
            on_pass: done
            on_fail: fix
            check: true
          fix: {action: fix it, action_type: prompt, next: evaluate}
          done: {terminal: true}
    """)


@pytest.mark.parametrize(
    ("goal", "expected"),
    [
        ("No type errors in src/", "goal-no-type-errors"),
        ("All tests pass", "goal-all-tests-pass"),
        ("one two three four five six seven", "goal-one-two-three-four-five-six"),
        ("Sign-in works, always!", "goal-sign-in-works-always"),
        ("Don't break CI", "goal-dont-break-ci"),
        ("Éliminer les erreurs", "goal-eliminer-les-erreurs"),
        ("docs -- up To date", "goal-docs-up"),
        ("x" * 200, "goal-" + "x" * 95),
        (f"{'x' * 94} y", "goal-" + "x" * 94),
        ("in src/ nothing", None),
        ("日本語", None),
        ("", None),
    ],
)
def test_the_name_comes_from_the_goal(goal: str, expected: str | None) -> None:
    assert derived_name(text(goal)) == expected


def test_nothing_left_of_the_goal_is_the_stem() -> None:
    assert expanded("{goal: in src/, tools: [a]}")["name"] == "the-stem"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("{}", id="nothing"),
        pytest.param("{goal: [a], tools: {action: x}}", id="wrong shapes"),
        pytest.param("{goal: a, tools: []}", id="no tools"),
        pytest.param("{goal: a, tools: [[a], null, 3]}", id="odd tools"),
        pytest.param("{goal: a, tools: [b], states: {}, initial: c}", id="a machine beside it"),
    ],
)
def test_odd_shapes_give_what_can_be_given(source: str) -> None:
    assert expanded(source)["initial"] == "evaluate"
