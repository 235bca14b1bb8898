"""Every code of the machine has a file that shows it and one that does not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from little_loops.authoring.codes import ErrorCode, catalogue
from little_loops.authoring.load import load
from little_loops.definitions.agent_checks import agent_problems
from little_loops.definitions.evidence_checks import evidence_problems
from little_loops.definitions.worktree_checks import worktree_problems

CODES = [code for code in catalogue().values() if code.code >= "LL200"]
NEEDS_GIT = ("LL234", "LL235")
SHOWN = [code for code in CODES if code.wrong]


def found(text: str, project: Path) -> list[str]:
    definition = load(text, "a.yaml", "a")
    problems = definition.problems
    if definition.loop is not None:
        problems += agent_problems(definition, str(project))
        problems += evidence_problems(definition, str(project), {"HOME": str(project)})
        problems += worktree_problems(definition, str(project), dict(os.environ))
    return [problem.code for problem in problems]


@pytest.mark.parametrize("code", SHOWN, ids=[code.code for code in SHOWN])
def test_the_wrong_file_has_this_mistake_and_no_other_and_the_right_one_none(
    code: ErrorCode, tmp_path: Path
) -> None:
    if code.code not in NEEDS_GIT:
        (tmp_path / ".git").mkdir()
    assert found(code.wrong, tmp_path) == [code.code]
    assert found(code.right, tmp_path) == []


def test_only_what_needs_another_file_or_a_huge_one_is_not_shown() -> None:
    loops = [code for code in CODES if not code.code.startswith("LL5")]  # those are of test files
    assert [code.code for code in loops if code not in SHOWN] == [
        "LL314",
        "LL420",
        "LL421",
        "LL422",
    ]


def test_codes_are_in_order_and_each_there_once() -> None:
    names = [code.code for code in CODES]
    assert names == sorted(set(names))
