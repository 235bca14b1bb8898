"""Every test that the pages on reliability and security name is there, and every row names one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.engine import test_races
from tests.simulation import (
    test_model,
    test_money_and_liveness,
    test_seeds,
    test_soak,
    test_trees_of_loops,
)

TESTS = Path(__file__).parent.parent
DOCS = TESTS.parent / "docs"
PAGE = DOCS / "reliability.md"
SECURITY = DOCS / "security.md"


def named(page: Path) -> set[tuple[str, ...]]:
    return set(re.findall(r"`([\w/]+)::(test_\w+)`", page.read_text()))


NAMED = sorted(named(PAGE) | named(SECURITY))


def test_the_pages_name_tests():
    assert len(named(PAGE)) > 100
    assert len(named(SECURITY)) > 40


@pytest.mark.parametrize(("file", "name"), NAMED, ids=lambda each: each)
def test_it_is_there(file: str, name: str):
    assert re.search(rf"^ *def {name}\(", (TESTS / f"{file}.py").read_text(), re.MULTILINE)


def test_each_row_has_a_test_or_a_reason():
    told, _, rest = PAGE.read_text().partition("## The figures")
    told += rest.partition("\n## ")[2]
    rows = [line for line in told.splitlines() if line.startswith("| ")]
    heads = ("| promise", "| fault", "| |")
    left = [row for row in rows if "::" not in row and not row.startswith(heads)]
    assert [row for row in left if "| none: " not in row] == []


def test_each_attack_has_a_test():
    told = SECURITY.read_text().partition("## Data never enters a script")[2]
    rows = [line for line in told.splitlines() if line.startswith("| ")]
    assert len(rows) > 30
    assert [row for row in rows if "::" not in row and not row.startswith("| attack")] == []


def row(*numbers: str | int) -> list[str]:
    return [each if isinstance(each, str) else f"{each:,}" for each in numbers]


FIGURES = {
    "random histories": row(test_seeds.SEEDS, test_seeds.MANY_SEEDS),
    "examples in which engine and model agree": row(test_model.EXAMPLES, test_model.MANY_EXAMPLES),
    "simultaneous starts × rounds": row(
        f"{test_races.RACERS} × {test_races.ROUNDS}; 1",
        f"{test_soak.RACERS} × {test_soak.ROUNDS}; 1",
    ),
    "histories with agents": row(test_money_and_liveness.SEEDS, test_money_and_liveness.MANY_SEEDS),
    "of those, continued from every prefix": row(
        test_money_and_liveness.WHOLE_LOGS, test_money_and_liveness.MANY_WHOLE_LOGS
    ),
    "histories of trees of loops": row(test_trees_of_loops.SEEDS, test_trees_of_loops.MANY_SEEDS),
    "iterations of one run": row(test_soak.SOME_TIMES_AROUND, test_soak.TIMES_AROUND),
}


@pytest.mark.parametrize("what", FIGURES)
def test_a_figure_is_the_one_that_is_set_in_the_tests(what: str):
    [found] = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| {what}")]
    assert [cell.strip() for cell in found.split("|")[2:-1]] == FIGURES[what]
