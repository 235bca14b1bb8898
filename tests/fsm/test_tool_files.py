"""Which files of a tool are protected or watched: all of them, as a list that people can check."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from little_loops.fsm.tool_files import PROTECTED_CONFIG, WATCHED_FILES, scripts_of_package

LISTED = Path(__file__).parent / "tool_files.txt"


def test_the_files_of_each_tool():
    """`tool_files.txt` has them all; a change there needs a reason in the manual of the tool."""
    found = [
        f"{name} {tool}: {' '.join(files)}"
        for name, table in (("protected", PROTECTED_CONFIG), ("watched", WATCHED_FILES))
        for tool, files in sorted(table.items())
    ]
    assert found == LISTED.read_text().splitlines()


def test_what_is_protected_is_watched():
    for tool, files in PROTECTED_CONFIG.items():
        assert {*files} <= {*WATCHED_FILES[tool]}


@pytest.mark.parametrize(
    ("text", "scripts"),
    [
        pytest.param(json.dumps({"scripts": {"a": "tsc", "b": 5}}), ("tsc",), id="scripts"),
        pytest.param(json.dumps({"scripts": ["tsc"]}), (), id="a list"),
        pytest.param("{", (), id="damaged"),
        pytest.param("[" * 100_000, (), id="nested too deep"),
    ],
)
def test_the_scripts_of_a_package(text, scripts):
    assert scripts_of_package(text) == scripts
