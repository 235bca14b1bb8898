"""Every test that the page on reliability names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
PAGE = TESTS.parent / "docs" / "reliability.md"
NAMED = sorted(set(re.findall(r"`([\w/]+)::(test_\w+)`", PAGE.read_text())))


def test_the_page_names_tests():
    assert len(NAMED) > 100


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
