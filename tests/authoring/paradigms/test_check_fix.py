"""The short form of a goal, as the document it becomes."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from little_loops.authoring.load import load_data
from little_loops.authoring.paradigms.check_fix import expand
from little_loops.authoring.yaml.nodes import Map, node_of, plain


def expanded(source: str) -> Any:
    root = node_of(yaml.safe_load(source))
    assert isinstance(root, Map)
    return plain(expand(root, "the-stem"))


def test_a_check_and_a_fix() -> None:
    assert expanded("{check: make test, fix: /ll:manage_issue bug fix, scope: [src]}") == (
        yaml.safe_load("""
            name: the-stem
            scope: [src]
            paradigm: goal
            initial: evaluate
            states:
              evaluate:
                action: make test
                on_pass: done
                on_fail: fix
                check: true
                condition: {type: exit_code, fail: "1-125"}
              fix: {action: /ll:manage_issue bug fix, next: evaluate}
              done: {terminal: true}
        """)
    )


def test_checks_run_in_order_and_after_the_fixes_from_the_first_again() -> None:
    states = expanded("""
        goal: Everything is green
        check: [pytest, {action: ruff check, condition: {fail: [1]}}, cargo test]
        fix: [ruff check --fix, {action: Fix it., action_type: prompt}]
    """)["states"]
    assert {name: _transitions(state) for name, state in states.items()} == {
        "evaluate": {"on_pass": "evaluate_2", "on_fail": "fix"},
        "evaluate_2": {"on_pass": "evaluate_3", "on_fail": "fix"},
        "evaluate_3": {"on_pass": "done", "on_fail": "fix"},
        "fix": {"next": "fix_2"},
        "fix_2": {"next": "evaluate"},
        "done": {},
    }
    assert states["evaluate_2"]["condition"] == {"fail": [1]}


def _transitions(state: dict[str, Any]) -> dict[str, str]:
    return {key: value for key, value in state.items() if key == "next" or key.startswith("on_")}


@pytest.mark.parametrize(
    "check",
    [
        "{action: Try it., action_type: prompt}",
        "/ll:review",
        "{action: /ll:review, action_type: slash}",
        "{timeout: 5}",
    ],
)
def test_only_a_shell_check_is_judged_by_its_exit_code(check: str) -> None:
    assert "condition" not in expanded(f"{{check: {check}, fix: make}}")["states"]["evaluate"]


@pytest.mark.parametrize(
    ("fields", "name"), [({}, "the-stem"), ({"goal": "No errors in src"}, "goal-no-errors")]
)
def test_it_is_a_goal_whose_text_may_be_left_out(fields: dict[str, str], name: str) -> None:
    loop = load_data({"check": "make", "fix": ["make fix"], **fields}, "the-stem").loop
    assert loop is not None
    assert (loop.name, loop.paradigm, loop.initial) == (name, "goal", "evaluate")


def test_a_judge_alone_comes_after_the_default_condition() -> None:
    judge = "{type: judge, question: Is it fixed}"
    for field in ("condition", "check_condition"):
        states = expanded(f"{{check: {{action: make, {field}: {judge}}}, fix: make fix}}")["states"]
        assert states["evaluate"][field] == {
            "type": "all",
            "of": [{"type": "exit_code", "fail": "1-125"}, yaml.safe_load(judge)],
        }
