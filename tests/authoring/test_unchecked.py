"""Large loops are checked up to fixed limits, and a warning says so where a limit was reached."""

from __future__ import annotations

import pytest

from little_loops.authoring.checks.check import check
from little_loops.authoring.load import load
from little_loops.authoring.yaml.places import Places, Source
from little_loops.fsm.schema import FSMLoop, StateConfig

NOWHERE = Places(Source("", ()), None)
REFERENCES = "not everything was checked: the loop has more than 25,000 references"
FILLED = (
    "not everything was checked: "
    "the loop has more than 2,000,000 characters once its values are filled in"
)
SCRIPTS = (
    "not everything was checked: "
    "the loop has more than 150,000 characters of shell scripts with values in them"
)
EVAL = "`${env.A}` is inside the program text of `eval`, and would be run"
UNKNOWN = "`context` has no `typo`"


def many(count: int) -> str:
    """So many references, the last of them a mistake in a shell."""
    return "echo " + "${context.a} " * (count - 1) + "; eval ${env.A}"


def messages(*actions: str, **context: str) -> list[str]:
    states = {f"s{number}": StateConfig(action=action) for number, action in enumerate(actions)}
    loop = FSMLoop("l", "s0", states, context={"a": "b", **context})
    wanted = ("LL314", "LL403", "LL407")
    return [each.message for each in check(loop, NOWHERE) if each.code in wanted]


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        pytest.param([many(25_000)], [EVAL], id="as many references as are checked"),
        pytest.param(
            ["echo " + "x" * 160_000, "eval ${env.A}"], [EVAL], id="a long script without values"
        ),
        pytest.param([many(25_001)], [REFERENCES], id="one more"),
        pytest.param(
            [many(12_500), many(12_499) + " #", "${context.typo}"],
            [UNKNOWN, EVAL, EVAL],
            id="in several states",
        ),
        pytest.param(
            [many(12_500), many(12_500) + " #", "ls ${context.typo}"],
            [EVAL, EVAL, REFERENCES],
            id="the last state is not looked at",
        ),
        pytest.param(
            ["cat ${context.long} 1", "cat ${context.long} 2", "eval ${env.A}"],
            [EVAL],
            id="as many characters as are filled in",
        ),
        pytest.param(
            ["cat ${context.long} 1", "cat ${context.long} 2", "cat ${context.long}", many(2)],
            [FILLED],
            id="filled in beyond that",
        ),
        pytest.param(
            ["eval ${env.A} " + "x" * 74_986, "eval ${env.A} " + "y" * 74_986],
            [EVAL, EVAL],
            id="as much shell text as is read",
        ),
        pytest.param(
            ["eval ${env.A} " + "x" * 74_986, "eval ${env.A} " + "y" * 74_987],
            [EVAL, SCRIPTS],
            id="one character more",
        ),
    ],
)
def test_what_is_checked_of_a_large_loop(actions: list[str], expected: list[str]) -> None:
    assert messages(*actions, long="x" * 900_000) == expected


def test_the_warning_points_at_the_states() -> None:
    source = f"initial: a\nstates: {{a: {{terminal: true, action: '{'${env.A} ' * 25_001}'}}}}"
    (problem,) = [each for each in load(source, "l.yaml", "l").problems if each.code == "LL314"]
    assert (problem.severity, problem.place and problem.place.line) == ("warning", 2)
    assert problem.help == (
        "the rest is checked at run time; move long text into files that actions read"
    )
