"""Histories generated from numbers: whatever happens, nothing recorded is run again or lost.

A failing seed is played again with `pytest tests/simulation --seed N`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

import pytest

from tests.simulation.child import in_child
from tests.simulation.histories import Told, tell

SEEDS = 100
MANY_SEEDS = 10_000
AT_ONCE = 25


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    chosen = metafunc.config.getoption("--seed", default=None)
    if "seeds" in metafunc.fixturenames:
        rows = [range(first, first + AT_ONCE) for first in range(0, SEEDS, AT_ONCE)]
        rows = rows if chosen is None else [range(chosen, chosen + 1)]
        metafunc.parametrize("seeds", rows, ids=lambda row: f"{row[0]}-{row[-1]}")


def play(seeds: Sequence[int], memory: str) -> Told:
    total = Told()
    for seed in seeds:
        place = os.path.join(memory, str(seed))
        try:
            total = Told(*map(sum, zip(total, tell(seed, place), strict=True)))
        except BaseException as error:
            error.add_note(f"seed {seed}: pytest tests/simulation --seed {seed}")
            raise
        shutil.rmtree(place)
    return total


def count(record_property, seeds: Sequence[int], told: Told) -> None:
    record_property("figure: seeds", len(seeds))
    for name, value in told._asdict().items():
        record_property(f"figure: {name.replace('_', ' ')} in them", value)


def test_a_history_keeps_every_promise(seeds, memory, record_property):
    count(record_property, seeds, in_child(lambda: play(seeds, memory)))


@pytest.mark.soak
@pytest.mark.parametrize("first", range(SEEDS, SEEDS + MANY_SEEDS, 1000))
def test_many_histories_keep_every_promise(first, memory, record_property):
    seeds = range(first, first + 1000)
    count(record_property, seeds, in_child(lambda: play(seeds, memory)))


def test_a_seed_is_one_history(memory):
    places = [os.path.join(memory, name) for name in ("one", "other")]
    one, other = in_child(lambda: [tell(7, place) for place in places])
    assert one == other
