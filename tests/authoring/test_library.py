"""What a program asks of authoring: compile a definition, check a definition."""

from __future__ import annotations

import pytest

from little_loops.authoring.library import compile_paradigm, validate
from little_loops.errors import DefinitionError

GOAL = {"paradigm": "goal", "name": "g", "goal": "Tests pass", "tools": ["pytest", "fix"]}


def test_a_definition_is_compiled_to_its_machine() -> None:
    assert list(compile_paradigm(GOAL).states) == ["evaluate", "fix", "done"]


def test_a_definition_with_a_problem_is_refused() -> None:
    with pytest.raises(DefinitionError, match="the loop has no `tools`"):
        compile_paradigm({"paradigm": "goal", "goal": "Tests pass"})


def test_a_machine_and_a_text_are_checked_alike() -> None:
    machine = compile_paradigm(GOAL)
    assert validate(machine) == []
    broken = machine._replace(initial="nowhere")
    assert [problem.code for problem in validate(broken)] == ["LL201"]
    assert [problem.code for problem in validate("initial: nowhere\nstates: {a: {terminal: true}}")]
