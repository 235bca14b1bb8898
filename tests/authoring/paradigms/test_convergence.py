"""Paradigm `convergence`, as the document it becomes."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from little_loops.authoring.paradigms.convergence import expand
from little_loops.authoring.yaml.nodes import Map, node_of, plain


def expanded(source: str) -> Any:
    root = node_of(yaml.safe_load(source))
    assert isinstance(root, Map)
    return plain(expand(root, "the-stem"))


def test_measure_apply_measure() -> None:
    assert expanded("""
        check: count-errors
        toward: 0
        using: fix-one
        max_iterations: 9
    """) == yaml.safe_load("""
        name: the-stem
        max_iterations: 9
        initial: measure
        context: {metric_cmd: count-errors, target: 0, tolerance: 0}
        states:
          measure:
            action: ${context.metric_cmd}
            capture: current_value
            on_target: done
            on_progress: apply
            on_stall: done
            check: true
          apply: {action: fix-one, next: measure}
          done: {terminal: true}
    """)


def test_an_own_context_stands_beside_it() -> None:
    assert expanded("""
        check: wc -l < ${context.file}
        toward: 10
        tolerance: 2
        using: shorten ${context.file}
        context: {file: README.md}
    """)["context"] == {
        "metric_cmd": "wc -l < ${context.file}",
        "target": 10,
        "tolerance": 2,
        "file": "README.md",
    }


@pytest.mark.parametrize(
    ("written", "condition"),
    [
        pytest.param("patience: 3", {"patience": 3}, id="patience"),
        pytest.param("direction: min", {"direction": "min"}, id="direction"),
        pytest.param("direction: max\npatience: 2", {"direction": "max", "patience": 2}, id="both"),
    ],
)
def test_patience_and_direction_are_a_condition(written: str, condition: dict[str, Any]) -> None:
    measure = expanded(f"check: a\ntoward: 0\nusing: b\n{written}")["states"]["measure"]
    assert measure["condition"] == {
        "type": "convergence",
        "target": "${context.target}",
        "tolerance": "${context.tolerance}",
        **condition,
    }


def test_a_check_may_be_a_mapping() -> None:
    found = expanded("""
        check: {action: cat report.json, timeout: 30, capture: errors, env: {A: b}}
        toward: 0
        using: {action: Fix one error, action_type: prompt}
    """)
    assert found["context"]["metric_cmd"] == "cat report.json"
    assert found["states"]["measure"] == yaml.safe_load("""
        action: ${context.metric_cmd}
        timeout: 30
        capture: errors
        env: {A: b}
        on_target: done
        on_progress: apply
        on_stall: done
        check: true
    """)
    assert found["states"]["apply"] == {
        "action": "Fix one error",
        "action_type": "prompt",
        "next": "measure",
    }


def test_a_condition_of_the_check_is_completed() -> None:
    measure = expanded("""
        check: {action: a, condition: {type: convergence, target: 3, source: "${prev.stderr}"}}
        toward: 0
        using: b
        patience: 2
    """)["states"]["measure"]
    assert measure["condition"] == {
        "type": "convergence",
        "target": 3,
        "source": "${prev.stderr}",
        "patience": 2,
    }


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("{}", id="nothing"),
        pytest.param("{check: [a], toward: [b], using: 3, context: 4}", id="wrong shapes"),
        pytest.param("{check: {condition: x}, patience: 2}", id="no command, odd condition"),
        pytest.param("{check: null, using: null, toward: null, direction: min}", id="nulls"),
    ],
)
def test_odd_shapes_give_what_can_be_given(source: str) -> None:
    assert expanded(source)["initial"] == "measure"
