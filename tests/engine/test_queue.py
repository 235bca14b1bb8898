"""Waiting for a claim: in order of arrival, never for oneself; and runs inside runs."""

from __future__ import annotations

import os
import signal

import pytest

from little_loops.errors import ConflictError, UsageError, WaitStopped
from little_loops.runs.claims import (
    Nesting,
    holders,
    nested_in,
    nesting,
    waiting,
)
from tests.engine.claimants import CLAIMED, hold, names, until, workers

# ── the queue ──────────────────────────────────────────────────────────────────────────────────


def queue_up(root, team) -> None:
    """Let them all wait, one after the other."""
    for number, worker in enumerate(team):
        worker.claim(f"w{number}", queue=True)
        until(lambda number=number: len(waiting(str(root))) == number + 1)


@pytest.mark.parametrize("end", ["release", "kill"])
def test_those_who_wait_get_in_in_order_of_arrival(tmp_path, end):
    with workers(tmp_path, 6) as [first, *team]:
        first.claim("first")
        assert first.told() == CLAIMED
        queue_up(tmp_path, team)
        assert [holder.name for holder in waiting(str(tmp_path))] == ["w0", "w1", "w2", "w3", "w4"]
        for worker in team:
            assert worker.told() == {"say": "Waiting for 'first' to complete..."}
        holder = first
        for number, worker in enumerate(team):
            if end == "release":
                holder.order(release=True)
                assert holder.told() == {"released": True}
            else:
                holder.end()
            answers = [worker.told()]
            while answers[-1] != CLAIMED:
                answers.append(worker.told())
            # It may have seen each of those before it in turn, and never anybody else.
            said = [str(answer["say"]).split("'")[1] for answer in answers[:-1]]
            assert said == sorted(set(said))
            assert set(said) <= {f"w{earlier}" for earlier in range(number)}
            assert names(holders(str(tmp_path))) == [f"w{number}"]
            holder = worker
    assert waiting(str(tmp_path)) == []


def test_a_newcomer_does_not_overtake_those_who_wait(tmp_path):
    with workers(tmp_path, 2) as [first, second]:
        first.claim("first", "src")
        assert first.told() == CLAIMED
        second.claim("second", "src", "docs", queue=True)
        until(lambda: waiting(str(tmp_path)))
        with pytest.raises(ConflictError) as caught:
            hold(tmp_path, "third", "docs")
        assert caught.value.message == (
            "Cannot start 'third' - loop 'second' is waiting to run with overlapping scope"
        )
        with hold(tmp_path, "fourth", "tests"):
            pass


def test_a_dead_waiter_blocks_nobody(tmp_path):
    with workers(tmp_path, 3) as [first, dead, third]:
        first.claim("first")
        assert first.told() == CLAIMED
        dead.claim("dead", queue=True)
        until(lambda: len(waiting(str(tmp_path))) == 1)
        third.claim("third", queue=True)
        until(lambda: len(waiting(str(tmp_path))) == 2)
        dead.end()
        assert [holder.name for holder in waiting(str(tmp_path))] == ["third"]
        first.end()
        assert third.told() == {"say": "Waiting for 'first' to complete..."}
        assert third.told() == CLAIMED
        third.order(release=True)
        assert third.told() == {"released": True}
    assert os.listdir(tmp_path / ".loops/.running/.queue") == []


def test_a_stop_ends_the_wait(tmp_path):
    with hold(tmp_path, "first"), workers(tmp_path, 1) as [second]:
        second.claim("second", queue=True)
        assert second.told() == {"say": "Waiting for 'first' to complete..."}
        os.kill(second.pid, signal.SIGTERM)
        assert second.told() == {
            "error": "`second` was stopped while it waited for `first`",
            "code": 1,
        }
        assert waiting(str(tmp_path)) == []
    assert os.listdir(tmp_path / ".loops/.running/.queue") == []


class AtOnce:
    """A stop that is asked for before anything else."""

    def wait(self, seconds: float | None) -> bool:
        return True


def test_a_wait_that_is_stopped_leaves_nothing_behind(tmp_path):
    said: list[str] = []
    with hold(tmp_path, "first"):
        with pytest.raises(WaitStopped):
            hold(tmp_path, "second", queue=True, say=said.append, stop=AtOnce())
        assert os.listdir(tmp_path / ".loops/.running/.queue") == []
    assert said == ["Waiting for 'first' to complete..."]


def test_who_has_nobody_to_wait_for_does_not_wait(tmp_path):
    with hold(tmp_path, "first", "src"), hold(tmp_path, "second", "tests", queue=True):
        assert names(holders(str(tmp_path))) == ["first", "second"]


def test_runs_of_one_name_wait_for_each_other(tmp_path):
    with workers(tmp_path, 1) as [second]:
        with hold(tmp_path, "fix", "src"):
            second.claim("fix", "tests", queue=True)
            assert second.told() == {"say": "Waiting for 'fix' to complete..."}
        assert second.told() == CLAIMED


# ── runs inside runs ───────────────────────────────────────────────────────────────────────────


def test_a_run_is_told_where_it_is():
    outer = nested_in("r1", nesting({}))
    inner = nested_in("r2", nesting(outer))
    assert outer == {"LL_CLAIM": "r1", "LL_DEPTH": "1"}
    assert inner == {"LL_CLAIM": "r1 r2", "LL_DEPTH": "2"}
    assert nesting(inner) == Nesting(("r1", "r2"), 2)


@pytest.mark.parametrize("depth", ["-1", "x", "", "²"])
def test_a_depth_is_a_number(depth):
    with pytest.raises(UsageError) as caught:
        nesting({"LL_DEPTH": depth})
    assert caught.value.message == f"`LL_DEPTH` is {depth!r}, which is not a number"


@pytest.mark.parametrize("depth", ["17", "99999999999"])
def test_runs_are_not_nested_without_end(depth):
    with pytest.raises(UsageError) as caught:
        nesting({"LL_DEPTH": depth})
    assert caught.value.message == f"loops are nested more than 16 deep (`LL_DEPTH` is {depth!r})"
    assert nesting({"LL_DEPTH": "16"}).depth == 16


@pytest.mark.parametrize(
    ("scope", "held"),
    [
        pytest.param(["src/api"], ["src/api"], id="inside"),
        pytest.param(["."], ["src", "tests"], id="all of it"),
        pytest.param([".", "src/api"], ["src", "tests", "src/api"], id="all of it and a part"),
        pytest.param(["docs"], ["docs"], id="beside"),
    ],
)
def test_a_run_inside_another_works_within_its_scope(tmp_path, scope, held):
    with (
        hold(tmp_path, "outer", "src", "tests"),
        hold(tmp_path, "inner", *scope, outer=("run-outer",)) as inner,
    ):
        shown = [os.path.relpath(path, tmp_path) for path in inner.holder.scope]
        assert shown == held
        assert inner.holder.outer == ("run-outer",)


def test_a_run_inside_another_conflicts_with_everybody_else(tmp_path):
    with hold(tmp_path, "outer", "src"), hold(tmp_path, "other", "docs"):
        with pytest.raises(ConflictError, match="loop 'other' is running") as caught:
            hold(tmp_path, "inner", "docs", outer=("run-outer",), queue=True)
        assert (caught.value.help or "").endswith(
            "; a nested run cannot wait for a run outside the one it is nested in"
        )
        inner = hold(tmp_path, "inner", "src", outer=("run-outer",))
        with inner, pytest.raises(ConflictError, match="loop 'inner' is running"):
            hold(tmp_path, "sibling", "src/x", outer=("run-outer",))


def test_a_run_that_starts_itself_is_refused_even_if_it_would_wait(tmp_path):
    with hold(tmp_path, "fix"), pytest.raises(ConflictError, match="it is already running"):
        hold(tmp_path, "fix", outer=("run-fix",), queue=True)


def test_siblings_inside_a_run_wait_for_each_other(tmp_path):
    with workers(tmp_path, 1) as [second], hold(tmp_path, "outer"):
        with hold(tmp_path, "first", outer=("run-outer",)):
            second.claim("second", outer=["run-outer"], queue=True)
            assert second.told() == {"say": "Waiting for 'first' to complete..."}
        assert second.told() == CLAIMED


def test_a_run_inside_does_not_stand_behind_those_who_wait_for_the_run_around_it(tmp_path):
    with hold(tmp_path, "outer"), workers(tmp_path, 1) as [waiter]:
        waiter.claim("waiter", queue=True)
        until(lambda: waiting(str(tmp_path)))
        inner = hold(tmp_path, "inner", outer=("run-outer",))
        with inner, hold(tmp_path, "innermost", outer=("run-outer", "run-inner")):
            assert names(holders(str(tmp_path))) == ["inner", "innermost", "outer"]


def test_a_run_around_it_that_is_dead_gives_no_rights(tmp_path):
    with hold(tmp_path, "other", "src"), pytest.raises(ConflictError):
        hold(tmp_path, "inner", "src", outer=("run-gone",))
