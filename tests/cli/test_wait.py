"""`ll-loop wait`: ends with the run, and as the run."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest

from tests.cli.runs import (
    QUICK,
    SLOW,
    LineWriters,
    crashed,
    damaged,
    held,
    ll,
    ran,
    saved,
    state,
    told,
)
from tests.cli.runs import under_way as running


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".loops").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


FAILING = SLOW | {"states": SLOW["states"] | {"done": {"terminal": True, "outcome": "failure"}}}


def timeless(text: str) -> str:
    return re.sub(r"\d+\.\ds", "T", text)


@pytest.mark.parametrize(
    ("loop", "code", "line"),
    [
        pytest.param(SLOW, 0, "Loop completed: done (1 iteration, T)\n", id="completed"),
        pytest.param(
            FAILING, 1, "Loop failed: ended in state 'done' (1 iteration, T)\n", id="failed"
        ),
    ],
)
def test_it_waits_and_ends_as_the_run(loop, code, line, here, capsys):
    found: list[LineWriters] = []
    with running(here, loop):
        waiter = threading.Thread(target=lambda: found.append(ll(capsys, "wait", "slow")))
        waiter.start()
        waiter.join(0.2)
        assert waiter.is_alive()
    waiter.join()
    [said] = found
    assert (said.code, timeless(said.out), said.err) == (code, line, "")
    assert ll(capsys, "wait", "slow", "-qq") == (code, "", "")


def test_it_waits_no_longer_than_told(here, capsys):
    with running(here):
        assert ll(capsys, "wait", "slow", "--timeout", "0.01") == (3, "", "slow is still running\n")
        said = ll(capsys, "wait", "slow", "--timeout", "0.01", "--json")
        assert said.json == {"schema": 1, "name": "slow", "status": "running", "event": None}


@pytest.mark.parametrize(
    ("kind", "fields", "record", "code", "line"),
    [
        pytest.param(
            "loop_error",
            {"status": "failed", "reason": "max_iterations", "error": "5 iterations"},
            {"error": "5 iterations"},
            3,
            "Loop reached its iteration limit in state 'apply' (2 iterations, T)\n",
            id="limit",
        ),
        pytest.param(
            "loop_paused",
            {"status": "needs_review", "reason": "review"},
            {},
            4,
            "Loop needs review: apply (2 iterations, T)\n",
            id="review",
        ),
        pytest.param(
            "loop_interrupted",
            {"status": "interrupted", "reason": "signal"},
            {"signal": 2},
            130,
            "Loop interrupted: Ctrl-C in state 'apply' (2 iterations, T)\n",
            id="ctrl-c",
        ),
    ],
)
def test_a_run_that_has_ended(kind, fields, record, code, line, here, capsys):
    common = {"status": fields["status"], "reason": fields["reason"], "final_state": "apply"}
    end = {**common, "iterations": 2, "duration_ms": 100, **record}
    saved(here, "fix", state(**fields), told(("loop_start", {}), (kind, end)))
    said = ll(capsys, "wait", "fix")
    assert (said.code, timeless(said.out), said.err) == (code, line, "")
    document = ll(capsys, "wait", "fix", "--json").json
    assert (document["status"], document["event"]["reason"]) == (fields["status"], fields["reason"])


def test_a_crash_is_no_mistake_of_whoever_waits(here, capsys):
    crashed(here)
    assert ll(capsys, "wait", "crashed") == (
        1,
        "Loop interrupted: crashed in state 'work'\n",
        "next: ll-loop resume crashed\n",
    )
    assert ll(capsys, "wait", "crashed", "--json").json == {
        "schema": 1,
        "name": "crashed",
        "status": "interrupted",
        "event": None,
    }


def test_a_crash_right_after_a_resume(here, capsys):
    """Its last event has a status too: the one before."""
    resume = {"state": "apply", "iteration": 1, "status": "interrupted"}
    saved(here, "fix", state(), told(("loop_start", {}), ("resume", resume)))
    assert ll(capsys, "wait", "fix")[:2] == (1, "Loop interrupted: crashed in state 'apply'\n")


def test_a_damaged_run(here, capsys):
    path = damaged(here)
    said = ll(capsys, "wait", "damaged")
    assert said.code == 1
    assert said.out.startswith(f"Loop damaged: `{path}` is damaged: not valid JSON at line 1")


def test_nothing_to_wait_for(here, capsys):
    (here / ".loops/young.yaml").write_text("initial: a\nstates: {a: {terminal: true}}\n")
    assert ll(capsys, "wait", "young") == (2, "", "error: `young` has no run to wait for\n")
    ran(here, QUICK)
    with held(here, "other"):
        assert ll(capsys, "wait", "quick").code == 0
