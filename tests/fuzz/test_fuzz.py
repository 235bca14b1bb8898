"""No file makes a reader raise, hang or grow: real ones, those that once did harm, and spoiled ones.

A spoiled file is made from a number, so it can be made again:
`python -m tests.fuzz definitions 1234 > found`, and `tests/fuzz/corpus/definitions/` keeps it.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.fuzz.bounds import limit_memory, within
from tests.fuzz.mutator import spoiled
from tests.fuzz.targets import TARGETS, Target, tasted
from tests.simulation.child import in_child
from tests.simulation.command import in_memory

FEW = {
    "definitions": 300,
    "claude": 150,
    "codex": 150,
    "plain": 150,
    "metadata": 500,
    "claims": 15,
}
FEW_ELSEWHERE = 75
MANY = 10_000
# Slower: each is a run that is laid out, looked at and resumed.
FEWER = {"states": 3000, "logs": 3000, "machines": 2000, "sessions": 2000, "claims": 1000}
AT_ONCE = 1000

by_name = pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)


def made(target: Target, number: int, seeds: list[bytes]) -> bytes:
    """The spoiled file of that number."""
    dice = random.Random(f"{target.name}/{number}")
    return spoiled(dice.choice(seeds), seeds, dice)


def try_spoiled(target: Target, numbers: range) -> int:
    """How many were tried; the first that breaks the law ends it, with the words to make it again."""
    be_strict()
    seeds = target.seeds()
    with in_memory() as place:
        for number in numbers:
            data = made(target, number, seeds)
            try:
                with within():
                    tasted(target, data, os.path.join(place, "x"), random.Random(number))
            except BaseException as error:
                error.add_note(f"python -m tests.fuzz {target.name} {number} > found")
                raise
    return len(numbers)


def be_strict() -> None:
    """This process may not grow, and a bug is raised, not told."""
    limit_memory()
    os.environ["LL_TRACEBACK"] = "1"


def try_whole(target: Target, paths: list[Path]) -> int:
    be_strict()
    with in_memory() as place:
        for path in paths:
            for number in range(8):
                try:
                    with within():
                        data, dice = path.read_bytes(), random.Random(number)
                        tasted(target, data, os.path.join(place, "x"), dice)
                except BaseException as error:
                    error.add_note(str(path))
                    raise
    return len(paths)


@by_name
def test_files_that_are_kept(target, record_property):
    paths = [*target.files[:10], *target.corpus()]
    assert paths, "there is nothing to begin with"
    count = in_child(lambda: try_whole(target, paths))
    record_property("figure: files of the corpus", count)


@by_name
def test_files_that_are_spoiled(target, record_property):
    numbers = range(FEW.get(target.name, FEW_ELSEWHERE))
    record_property("figure: spoiled files", in_child(lambda: try_spoiled(target, numbers)))


def ranges() -> list[tuple[Target, int]]:
    return [
        (target, first)
        for target in TARGETS
        for first in range(0, FEWER.get(target.name, MANY), AT_ONCE)
    ]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("target", "first"), ranges(), ids=lambda each: getattr(each, "name", each)
)
def test_many_files_that_are_spoiled(target, first, record_property):
    numbers = range(first, first + AT_ONCE)
    record_property("figure: spoiled files", in_child(lambda: try_spoiled(target, numbers)))


def test_a_number_is_one_file():
    for target in TARGETS:
        seeds = target.seeds()
        assert made(target, 7, seeds) == made(target, 7, seeds)
