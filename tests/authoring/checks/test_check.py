"""Checking as a whole: order, bounds, and that no loop makes it raise."""

from __future__ import annotations

from itertools import groupby
from textwrap import dedent

import pytest
from hypothesis import given

from little_loops.authoring.checks.check import check
from little_loops.authoring.checks.check_conditions import Compiler
from little_loops.authoring.checks.inspection import known
from little_loops.authoring.load import load
from little_loops.authoring.yaml.places import Places, Source
from little_loops.fsm.schema import FSMLoop, StateConfig
from tests.authoring.machines import loops

NOWHERE = Places(Source("", ()), None)


def test_problems_come_in_the_order_of_the_file() -> None:
    definition = load(
        dedent("""\
            initial: a
            states:
              a: {action: "echo ${captured.x.output}", next: b, retry: {}}
              b: {action: ls, capture: a, next: c}
        """),
        "a.yaml",
        "a",
    )
    assert [problem.code for problem in definition.problems] == ["LL404", "LL310", "LL206", "LL202"]


def test_a_loop_that_stands_nowhere_is_checked_too() -> None:
    loop = FSMLoop("a", "b", {"a": StateConfig(action="${context.x}", next="a")})
    assert [(each.code, each.place) for each in check(loop, NOWHERE)] == [
        ("LL201", None),
        ("LL403", None),
    ]


def test_after_many_wrong_names_there_is_less_help_and_then_none() -> None:
    names = [f"n{number:05}" for number in range(1_000)]
    states = {name: StateConfig(action="ls", next=f"{name}x") for name in names}
    helps = [each.help or "silence" for each in check(FSMLoop("a", names[0], states), NOWHERE)]
    kinds = [kind for kind, _ in groupby(helps, key=lambda help: help.split()[0])]
    assert kinds == ["did", "known:", "silence"]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], "there are none"),
        (["b", "a"], "known: `a`, `b`"),
        (list("abcdefgh"), "known: `a`, `b`, `c`, `d`, `e`, `f`, `g`, `h`"),
        (list("jihgfedcba"), "known: `a`, `b`, `c`, `d`, `e`, `f`, `g`, `h` and 2 more"),
    ],
)
def test_the_names_there_are(names: list[str], expected: str) -> None:
    assert known(names) == expected


def test_compiling_has_an_end() -> None:
    compiler = Compiler()
    assert compiler.filter_error('"x" * 1000000000') is None
    assert compiler.filter_error("." * 20_000) is None
    assert compiler.filter_error(".[") == "syntax error, unexpected end of file"
    assert [compiler.filter_error(f".{'a' * number}[") for number in range(1, 200)].count(
        None
    ) == 100
    large = [compiler.pattern_error(rf"(?:\pL{{1,30}}){{1,{most}}}") for most in range(20, 30)]
    assert large[0] == (
        r"`(?:\pL{1,30}){1,20}` is not a valid pattern: pattern too large - compile failed"
    )
    assert None in large


@given(loops)
def test_no_loop_makes_it_raise(loop: FSMLoop) -> None:
    for problem in check(loop, NOWHERE):
        assert problem.message


@given(loops)
def test_checking_twice_says_the_same(loop: FSMLoop) -> None:
    assert check(loop, NOWHERE) == check(loop, NOWHERE)
