"""The page for those who come from another tool: each has its section, with the same loop in it."""

from __future__ import annotations

import re

import pytest

from little_loops.authoring.load import load
from little_loops.cli.options import args_of
from little_loops.fsm.schema import FSMLoop
from tools.pages import read_page

PAGE = read_page("docs/coming-from.md")
SECTIONS = {
    part.partition("\n")[0]: part.partition("\n")[2] for part in PAGE.text.split("\n## ")[1:]
}
LOOPS = {block.file: block.text for block in PAGE.blocks if block.language == "yaml"}


def loop(name: str) -> FSMLoop:
    read = load(LOOPS[f".loops/{name}.yaml"], name, name)
    assert (read.loop is not None, read.problems) == (True, ())
    assert read.loop is not None
    return read.loop


def test_each_tool_has_its_section_and_its_column():
    assert list(SECTIONS) == [
        *("From a ralph loop", "From `/goal`", "From GitHub Actions", "From dagu")
    ]
    head = next(line for line in PAGE.text.splitlines() if line.startswith("| here"))
    assert [each.strip() for each in head.strip("|").split("|")] == [
        *("here", "ralph loop", "`/goal` in Claude Code", "GitHub Actions", "dagu")
    ]


@pytest.mark.parametrize("section", SECTIONS)
def test_each_section_has_the_check(section: str):
    assert "pytest -q" in SECTIONS[section]


def test_the_loops_are_the_same():
    one, other = loop("ralph"), loop("fix-tests")
    assert one.states.keys() == other.states.keys()
    assert one.states["evaluate"] == other.states["evaluate"]
    same = ("host", "evidence", "max_iterations", "max_cost_usd")
    assert [getattr(one, field) for field in same] == [getattr(other, field) for field in same]


def test_the_one_liner_has_options_that_exist():
    line = re.search(r"^ll-loop until .*$", SECTIONS["From `/goal`"], re.MULTILINE)
    assert line is not None
    known = {flag for option in args_of("until").table.values() for flag in option.flags}
    assert set(re.findall(r"--[a-z-]+", line[0])) <= known
