"""Paradigm `imperative`, as the document it becomes."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from little_loops.authoring.paradigms.imperative import expand
from little_loops.authoring.yaml.nodes import Map, node_of, plain


def expanded(source: str) -> Any:
    root = node_of(yaml.safe_load(source))
    assert isinstance(root, Map)
    return plain(expand(root, "the-stem"))


def judged(source: str) -> list[str]:
    states = expanded(source)["states"]
    return [name for name, state in states.items() if state.get("capture_exit")]


def test_steps_until_a_condition_is_met() -> None:
    assert expanded("""
        steps: [pytest, {action: mend, timeout: 60}]
        condition: {type: exit_code, target: 0}
        backoff: 2
    """) == yaml.safe_load("""
        name: the-stem
        backoff: 2
        initial: step_0
        states:
          step_0: {action: pytest, next: step_1, capture_exit: true, check: true}
          step_1: {action: mend, timeout: 60, next: evaluate}
          evaluate:
            condition: {type: exit_code, target: 0, source: step_0}
            on_pass: done
            on_fail: step_0
          done: {terminal: true}
    """)


@pytest.mark.parametrize(
    ("source", "steps"),
    [
        pytest.param("step_1", ["step_1"], id="a step"),
        pytest.param("score", ["step_1"], id="a capture"),
        pytest.param("${captured.step_0.stderr}", ["step_0"], id="a template that names a step"),
        pytest.param("${captured.score.output}", ["step_1"], id="one that names a capture"),
        pytest.param("${prev.output}", ["step_2"], id="the last step"),
        pytest.param("${env.MOOD}", [], id="none of the steps"),
        pytest.param("[]", [], id="no text"),
    ],
)
def test_the_step_that_is_looked_at_is_judged_later(source: str, steps: list[str]) -> None:
    shown = source if source == "[]" else f'"{source}"'
    assert (
        judged(f"""
            steps: [a, {{action: b, capture: score}}, c]
            condition: {{type: output_numeric, target: 0, source: {shown}}}
        """)
        == steps
    )


def test_what_the_author_said_of_a_step_stays() -> None:
    assert not judged("{steps: [{action: a, capture_exit: false}], condition: {type: exit_code}}")


@pytest.mark.parametrize(
    ("source", "initial"),
    [
        pytest.param("{}", "evaluate", id="nothing"),
        pytest.param("{steps: 3, condition: 4}", "step_0", id="wrong shapes"),
        pytest.param(
            "{steps: [], condition: {source: '${prev.output}'}}", "evaluate", id="no steps"
        ),
        pytest.param("{steps: [[a], null]}", "step_0", id="odd steps, no condition"),
    ],
)
def test_odd_shapes_give_what_can_be_given(source: str, initial: str) -> None:
    assert expanded(source)["initial"] == initial


def test_a_step_can_be_named() -> None:
    source = """
        steps: [make, {name: measure, action: wc -l < log}]
        condition: {type: output_numeric, target: 0, source: measure}
    """
    assert expanded(source) == yaml.safe_load("""
        name: the-stem
        initial: step_0
        states:
          step_0: {action: make, next: measure}
          measure: {action: wc -l < log, next: evaluate, capture_exit: true, check: true}
          evaluate:
            condition: {type: output_numeric, target: 0, source: measure}
            on_pass: done
            on_fail: step_0
          done: {terminal: true}
    """)
