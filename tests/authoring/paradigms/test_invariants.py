"""Paradigm `invariants`, as the document it becomes."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from little_loops.authoring.paradigms.invariants import expand, state_labels
from little_loops.authoring.yaml.nodes import Map, node_of, plain

TWO = """
    constraints:
      - {name: tests-pass, check: pytest, fix: mend}
      - {name: lint clean, check: ruff check, fix: {action: tidy, timeout: 60}}
"""


def expanded(source: str) -> Any:
    root = node_of(yaml.safe_load(source))
    assert isinstance(root, Map)
    return plain(expand(root, "the-stem"))


def test_after_a_fix_the_same_check_runs_again() -> None:
    assert expanded(TWO) == yaml.safe_load("""
        name: the-stem
        initial: check_tests
        states:
          check_tests: {action: pytest, on_pass: check_lint, on_fail: fix_tests, check: true}
          fix_tests: {action: mend, next: check_tests}
          check_lint: {action: ruff check, on_pass: all_valid, on_fail: fix_lint, check: true}
          fix_lint: {action: tidy, timeout: 60, next: check_lint}
          all_valid: {terminal: true, on_maintain: check_tests}
    """)


def test_recheck_all_leads_from_every_fix_to_the_first_check() -> None:
    found = expanded(f"{TWO}\n    recheck: all")
    assert "recheck" not in found
    assert [found["states"][name]["next"] for name in ("fix_tests", "fix_lint")] == [
        "check_tests",
        "check_tests",
    ]


def path(source: str, failing: dict[str, int]) -> list[str]:
    """The states a run is in, when each check fails as often as is said."""
    left, here, been = dict(failing), "check_tests", list[str]()
    states = expanded(source)["states"]
    while not states[here].get("terminal"):
        been.append(here)
        fails = left.get(here, 0) > 0
        left[here] = left.get(here, 0) - 1
        here = states[here].get("next") or states[here]["on_fail" if fails else "on_pass"]
    return [*been, here]


def test_with_recheck_all_a_pass_without_any_fix_comes_last() -> None:
    broken = {"check_lint": 1}
    assert path(TWO, broken) == ["check_tests", "check_lint", "fix_lint", "check_lint", "all_valid"]
    assert path(f"{TWO}\n    recheck: all", broken) == [
        *("check_tests", "check_lint", "fix_lint"),
        *("check_tests", "check_lint", "all_valid"),
    ]


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (["tests-pass", "lint-clean"], ["tests", "lint"]),
        (["tests_pass", "types valid"], ["tests", "types"]),
        (["tests-pass", "tests-fast", "lint"], ["tests_pass", "tests_fast", "lint"]),
        (["tests", "tests-fast"], ["tests", "tests_fast"]),
        (["a.b", "-x"], ["a_b", "_x"]),
        (["Überall grün"], ["_berall"]),
        (["  tests  pass "], ["tests"]),
        ([""], [""]),
    ],
)
def test_states_are_named_by_the_first_word_if_that_is_unique(
    names: list[str], labels: list[str]
) -> None:
    assert state_labels(names) == labels


@pytest.mark.parametrize(
    ("source", "initial"),
    [
        pytest.param("{}", "all_valid", id="nothing"),
        pytest.param("{constraints: 3, recheck: [all]}", "all_valid", id="wrong shapes"),
        pytest.param("{constraints: [a, {name: [b]}]}", "check_", id="odd constraints"),
    ],
)
def test_odd_shapes_give_what_can_be_given(source: str, initial: str) -> None:
    assert expanded(source)["initial"] == initial


def test_a_constraint_without_a_fix_ends_the_run_as_failed() -> None:
    source = "constraints: [{name: licence, check: test -e LICENSE}]"
    assert expanded(source) == yaml.safe_load("""
        name: the-stem
        initial: check_licence
        states:
          check_licence:
            {action: test -e LICENSE, on_pass: all_valid, on_fail: violated, check: true}
          all_valid: {terminal: true, on_maintain: check_licence}
          violated: {terminal: true, outcome: failure}
    """)
