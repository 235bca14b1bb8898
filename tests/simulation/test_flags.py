"""Every flag of every command, and every field of a loop, is used by some test: none is for show."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from little_loops.authoring.fields.table import COMMAND, HOST, LOOP, PARADIGM_TABLES, RETRY, STATE
from little_loops.cli.commands import VERBS
from little_loops.cli.options import args_of

TESTS = Path(__file__).parent.parent


@cache
def words_in_tests() -> frozenset[str]:
    paths = (path for kind in ("*.py", "*.yaml", "*.txt") for path in TESTS.rglob(kind))
    texts = (path.read_text("utf-8", "replace") for path in paths if path != Path(__file__))
    return frozenset(word for text in texts for word in re.findall(r"[\w-]+", text))


def flags() -> list[tuple[str, tuple[str, ...]]]:
    """The names of each option of each command."""
    return [
        (verb, option.flags)
        for verb in VERBS
        for option in args_of(verb).table.values()
        if option.flags
    ]


@pytest.mark.parametrize(("verb", "names"), flags(), ids=str)
def test_a_flag_is_used_by_a_test(verb, names):
    assert words_in_tests() & set(names)


def fields() -> list[str]:
    tables = (LOOP, STATE, COMMAND, HOST, RETRY, *PARADIGM_TABLES.values())
    return sorted({field.name for table in tables for field in table.fields})


@pytest.mark.parametrize("field", fields())
def test_a_field_is_used_by_a_test(field):
    assert field in words_in_tests()
