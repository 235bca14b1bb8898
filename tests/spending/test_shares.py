"""Cost limits that runs share with the runs that they start."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from little_loops.spending.shares import (
    FILE,
    Limit,
    NoShare,
    Share,
    begin,
    set_limit,
    settle,
    take,
)


def limited(folder: Path, **fields: Any) -> str:
    given = {"limit_usd": 5.0, "limit_tokens": None, "spent_usd": 0.0, "tokens": 0, "width": 4}
    set_limit(str(folder), Limit(**{**given, **fields}), [])
    return str(folder)


def share(folder: str, path: str = "a") -> list[Share]:
    begin([Share(folder, path)])
    return [Share(folder, path)]


def test_a_turn_gets_its_share_of_what_is_left(tmp_path):
    folder = limited(tmp_path)
    assert take(share(folder), None) == 1.25
    assert take(share(folder, "b"), None) == pytest.approx(0.9375)
    assert take(share(folder, "c"), 0.5) == 0.5


def test_what_a_turn_did_not_use_goes_back(tmp_path):
    folder = limited(tmp_path, width=1)
    mine = share(folder)
    assert take(mine, None) == 5
    settle(mine, 2.0, 10)
    assert take(mine, None) == 3


def test_a_share_that_is_too_small_waits_for_others_and_then_ends(tmp_path):
    folder = limited(tmp_path, width=1)
    mine, other = share(folder), share(folder, "b")
    assert take(mine, None) == 5
    found = take(other, None)
    assert isinstance(found, NoShare)
    assert (found.limit, found.waits) == ("max_cost", True)
    settle(mine, 5.0, 0)
    found = take(other, None)
    assert found == NoShare("max_cost", "agents across all runs have used $5 of $5", waits=False)


def test_tokens_count_when_a_turn_has_ended(tmp_path):
    folder = limited(tmp_path, limit_usd=None, limit_tokens=100)
    mine = share(folder)
    assert take(mine, 0.5) == 0.5
    settle(mine, 0.1, 100)
    found = take(mine, None)
    assert found == NoShare(
        "max_tokens", "agents across all runs have used 100 of 100 tokens", waits=False
    )


def test_without_a_limit_there_is_no_share(tmp_path):
    assert take(share(limited(tmp_path, limit_usd=None)), None) is None


def test_the_smallest_of_several_limits_counts_and_all_know(tmp_path):
    outer, inner = tmp_path / "outer", tmp_path / "inner"
    outer.mkdir()
    inner.mkdir()
    both = [
        Share(limited(outer, width=1), "mid/a"),
        Share(limited(inner, limit_usd=1.0, width=1), "a"),
    ]
    begin(both)
    assert take(both, None) == 1
    found = take([Share(str(outer), "b")], None)
    assert found == 4


def test_a_child_that_has_ended_is_counted_by_its_parent(tmp_path):
    folder = limited(tmp_path, width=1)
    mine = share(folder, "a/inner")
    settle(mine, 2.0, 5)
    limit = Limit(5.0, None, 2.0, 5, 1)
    set_limit(folder, limit, ["b"])
    assert take(share(folder, "b"), None) == 3


def test_a_file_that_a_kill_left_in_pieces_counts_as_empty(tmp_path):
    (tmp_path / FILE).write_text('{"limit_usd": 5, "ru')
    assert take(share(str(tmp_path)), None) is None
    assert os.stat(tmp_path / FILE).st_size > 0


def test_ten_children_at_a_dollar_under_a_cap_of_five(tmp_path):
    """Four at once; each turn costs what it may. Together they never spend more than the cap."""
    folder = limited(tmp_path)
    spent, waiting, running = 0.0, [f"n{at}" for at in range(10)], dict[str, float]()
    at_once = 0
    while waiting or running:
        while waiting and len(running) < 4:
            found = take(share(folder, waiting[0]), 1.0)
            if not isinstance(found, float):
                break
            running[waiting.pop(0)] = found
        at_once = max(at_once, len(running))
        if not running:
            break
        name, usd = next(iter(running.items()))
        del running[name]
        settle([Share(folder, name)], usd, 1)
        spent += usd
    assert at_once == 4
    assert 4.5 < spent <= 5
