"""The design's own examples: what each compiles to, and what is said about it."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

from little_loops.authoring.load import Definition, load

DESIGN = Path(__file__).parent.parent / "design"


def example(name: str) -> str:
    return (DESIGN / f"{name}.yaml").read_text()


def read(text: str, stem: str = "example") -> Definition:
    return load(text, f".loops/{stem}.yaml", stem)


def machine(text: str) -> dict[str, Any]:
    """The machine as data, so that kinds count and not only fields; `paradigm` is a label, and so is
    `check`, which the design does not know."""
    loop = read(text).loop
    assert loop is not None, read(text).problems
    plain = loop.to_dict()
    plain["states"] = {
        name: {key: value for key, value in state.items() if key != "check"}
        for name, state in plain["states"].items()
    }
    return {key: value for key, value in plain.items() if key != "paradigm"}


def said(text: str) -> list[str]:
    return [
        f"{each.code} {each.place.line if each.place else 0}: {each.message}"
        for each in read(text).problems
    ]


@pytest.mark.parametrize("paradigm", ["goal", "convergence", "invariants", "imperative"])
def test_a_paradigm_compiles_to_the_machine_printed_beside_it(paradigm: str) -> None:
    assert machine(example(paradigm)) == machine(example(f"{paradigm}.fsm"))
    assert read(example(paradigm)).loop != read(example(f"{paradigm}.fsm")).loop  # the label


def test_a_goal_names_itself() -> None:
    assert machine(example("goal"))["name"] == "goal-no-type-errors"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("goal", []),
        ("convergence", []),
        ("invariants", []),
        ("imperative", []),
        ("lint-fix-cycle", []),
        ("analyze-and-fix", []),
        (
            "graduated-response",
            ["LL302 6: no state is terminal, so a run can only end at a limit or with an error"],
        ),
        (
            "ci-aware-loop",
            [
                (
                    "LL305 17: `/ll:manage_issue` looks like a slash command, but is part of a shell "
                    "action"
                )
            ],
        ),
        ("fix-types", []),
        ("quality-guard", []),
        ("create-loop", []),
        (
            "safe-deploy",
            [
                (
                    "LL306 16: state `deploy_staging` probably must not run twice, but a resume "
                    "after a crash would run it again"
                ),
                (
                    "LL306 25: state `deploy_prod` probably must not run twice, but a resume after "
                    "a crash would run it again"
                ),
            ],
        ),
    ],
)
def test_each_example_is_valid(name: str, expected: list[str]) -> None:
    assert said(example(name)) == expected
    assert machine(example(name))


def test_without_a_tolerance_it_is_zero() -> None:
    assert machine(example("fix-types")) == machine(f"{example('fix-types')}\ntolerance: 0")


# Fragments, each in a stated shell

AROUND_STATES = """\
  minor_fix: {action: "true", next: measure}
  major_fix: {action: "true", next: measure}
"""
AROUND_A_CONDITION = """\
initial: count
states:
  count:
    action: wc -l < error.log
    capture: error_count
    next: check
  check:
    action: wc -l < error.log
    on_pass: done
    on_fail: count
CONDITION
  done: {terminal: true}
"""


def with_condition(name: str) -> str:
    return AROUND_A_CONDITION.replace("CONDITION", indent(example(name), "    "))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            f"initial: measure\n{example('fragment-decision-state')}{AROUND_STATES}",
            ["LL302 2: no state is terminal, so a run can only end at a limit or with an error"],
            id="decision state",
        ),
        pytest.param(with_condition("fragment-source-default"), [], id="source, default"),
        pytest.param(with_condition("fragment-source-captured"), [], id="source, captured"),
        pytest.param(with_condition("fragment-exit-code"), [], id="exit code"),
        pytest.param(with_condition("fragment-output-contains"), [], id="output contains"),
        pytest.param(with_condition("fragment-output-json"), [], id="output json"),
        pytest.param(with_condition("fragment-output-numeric"), [], id="output numeric"),
        pytest.param(
            f"initial: check\n{example('fragment-context')}    next: done\n"
            "  done: {terminal: true}\n",
            [],
            id="context",
        ),
        pytest.param(
            f"initial: count_errors\n{example('fragment-captured')}",
            ["LL302 2: no state is terminal, so a run can only end at a limit or with an error"],
            id="captured",
        ),
        pytest.param(
            f"initial: build\n{example('fragment-timeouts')}    next: notify\n"
            "  notify: {terminal: true}\n",
            [
                "LL303 6: state `build` has no transition",
                "LL301 11: state `quick_lint` can never be reached",
            ],
            id="timeouts",
        ),
        pytest.param(
            f"initial: check\nstates: {{check: {{terminal: true}}}}\n{example('fragment-scope')}",
            [],
            id="scope",
        ),
    ],
)
def test_each_fragment_is_valid_in_a_machine(text: str, expected: list[str]) -> None:
    assert said(text) == expected
    assert read(text).loop is not None


def test_two_on_error_in_one_state_are_an_error() -> None:
    surrounding = dedent("""\
          deploy: {action: "true", next: check}
          fix: {action: "true", next: check}
          alert: {terminal: true}
    """)
    text = f"initial: check\n{example('fragment-on-error-twice')}{indent(surrounding, '  ')}"
    assert [line for line in said(text) if line.startswith("LL0")] == [
        "LL012 9: the key `on_error` is given twice"
    ]
    assert read(text).loop is None
