"""The page for agents: short, and with a whole valid loop of each paradigm."""

from __future__ import annotations

from little_loops.authoring.fields import PARADIGMS
from little_loops.authoring.load import load
from tools.pages import read_page

PAGE = read_page("docs/llms.txt")
LOOPS = [load(block.text, "llms.yaml", "x") for block in PAGE.blocks if block.language == "yaml"]


def test_there_is_a_valid_loop_of_each_paradigm() -> None:
    assert [each.problems for each in LOOPS] == [()] * len(LOOPS)
    assert sorted(each.loop.paradigm for each in LOOPS if each.loop) == sorted(PARADIGMS)


def test_it_stays_short() -> None:
    assert len(PAGE.text.splitlines()) < 180
