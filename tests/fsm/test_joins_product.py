"""Every way to write branches × `join` × `fail_fast` × `max_parallel` × how each of them ends.

What is expected is computed here from the manual's words, by counting, and not by the engine's rules.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import pytest

from little_loops.fsm.schema import FSMLoop
from tests.fsm.scripted import ScriptedWorld, begin, told
from tests.fsm.test_branches import BROKEN, FAILED, OTHERS, PASSED

pytestmark = pytest.mark.untraced  # the same lines thousands of times

NAMES = ("a", "b", "c")
ACTION = "review"
FORMS: dict[str, dict[str, Any]] = {
    "for_each": {"for_each": list(NAMES), "action": ACTION},
    "matrix": {
        "matrix": {"key": [*NAMES, "d"]},
        "exclude": [{"key": "d"}],
        "action": ACTION,
    },
    "branches": {
        "branches": {name: {"action": ACTION} for name in NAMES},
    },
}
JOINS = ("all", "any", 1, 2, 3, 4, "34%", "67%", "100%")
ENDS = {"pass": PASSED, "fail": FAILED, "error": BROKEN}


class Expected(NamedTuple):
    verdict: str
    ended: tuple[str, ...]
    """The branches that came to their own ends, in order; the others were stopped or never began."""


def wanted(join: str | int) -> int:
    """How many of three have to pass."""
    match join:
        case "all":
            return len(NAMES)
        case "any":
            return 1
        case int():
            return join
        case _:
            return math.ceil(len(NAMES) * int(join.rstrip("%")) / 100)


def expected(join: str | int, *, fast: bool, outcomes: Sequence[str]) -> Expected:
    """Branches end in the order in which they started, each with its outcome."""
    need, passed, failed = wanted(join), 0, 0
    if need > len(NAMES):
        return Expected("fail", ())
    ended: list[str] = []
    verdict = None
    for name, outcome in zip(NAMES, outcomes, strict=True):
        ended.append(name)
        passed += outcome == "pass"
        failed += outcome == "fail"
        if verdict is None and passed >= need:
            verdict = "pass"
        if verdict is None and passed + len(NAMES) - len(ended) < need:
            verdict = "fail"
        if verdict is not None and (join != "all" or (fast and verdict == "fail")):
            break
    if verdict == "fail" and not passed and not failed:
        verdict = "error"
    assert verdict is not None
    return Expected(verdict, tuple(ended))


def outcomes_of_three() -> Iterator[tuple[str, ...]]:
    return product(ENDS, repeat=len(NAMES))


@pytest.mark.parametrize("join", JOINS)
@pytest.mark.parametrize("form", FORMS)
def test_each_product_ends_as_the_manual_says(form: str, join: str | int):
    for fast, wide, outcomes in product((False, True), (1, 2, 9), outcomes_of_three()):
        state = {
            **FORMS[form],
            "join": join,
            "max_parallel": wide,
            "fail_fast": fast,
            "on_pass": "done",
            "on_fail": "bad",
            "on_error": "broken",
        }
        loop = {"name": "many", "initial": "review", "states": {"review": state, **OTHERS}}
        of = ScriptedWorld(FSMLoop.from_dict(loop), [ENDS[each] for each in outcomes])
        begin(of)
        story = told(of).splitlines()
        hint = (fast, wide, outcomes, story)
        want = expected(join, fast=fast, outcomes=outcomes)
        own_ends = [line.split()[0] for line in story if " ends: " in line and "stop" not in line]
        assert tuple(own_ends) == want.ended, hint
        [joined] = [line for line in story if line.startswith("join: ")]
        assert joined.split()[1] == want.verdict, hint
        went = {"pass": "done", "fail": "bad", "error": "broken"}[want.verdict]
        assert f"review -> {went} (on_{want.verdict})" in story, hint
        assert most_at_once(story) <= wide, hint


def most_at_once(story: Sequence[str]) -> int:
    """Return how many branches were under way at once."""
    most = now = 0
    for line in story:
        now += line.endswith(" starts") - (" ends: " in line)
        most = max(most, now)
    return most
