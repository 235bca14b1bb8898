"""The list of runs: filtered, searched, sorted, and in pages that neither miss nor repeat a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from little_loops.fsm.timestamps import timestamp, wall_ms_of
from little_loops.web.errors import ApiError
from little_loops.web.questions import Query
from little_loops.web.run_list import PAGE, run_list
from little_loops.web.security import Policy
from little_loops.web.site import Site
from tests.cli.runs import QUICK, ran
from tests.project import Project

NOON_MS = wall_ms_of("2026-11-15T12:00:00.000Z")
MINUTE_MS = 60_000
GATE = """\
    name: gate
    initial: look
    states:
      look: {terminal: true, outcome: review, next: done}
      done: {terminal: true}
    """


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A project with 120 past runs: copies of a real one, each with another time, length and cost."""
    ran(tmp_path, QUICK, "quick")
    [state] = (tmp_path / ".loops/.history/quick").glob("*.state.json")
    [events] = (tmp_path / ".loops/.history/quick").glob("*.events.jsonl")
    kept, log = json.loads(state.read_text()), events.read_text()
    for path in (state, events, tmp_path / ".loops/.history/index.jsonl"):
        path.unlink()
    for number in range(120):
        name = ("quick", "quick@nightly", "lint")[number % 3]
        started = timestamp(NOON_MS + number * MINUTE_MS)
        costs = {"say": {"cost_usd": number % 7, "tokens": 5}}
        ended = ("failed", "max_iterations") if number % 40 == 0 else ("completed", "terminal")
        copy = {
            **kept,
            "run": f"id-{number:03}",
            "loop": name.partition("@")[0],
            "started_at": started,
            "ran_ms": number * 37 % 120,
            "costs": costs,
            "status": ended[0],
            "reason": ended[1],
        }
        folder = tmp_path / ".loops/.history" / name
        folder.mkdir(exist_ok=True)
        stem = started[:19].replace(":", "-")
        (folder / f"{stem}.state.json").write_text(json.dumps(copy))
        (folder / f"{stem}.events.jsonl").write_text(log)
    return Site([str(tmp_path)], Policy("t"), {})


def page(site: Site, **words: str) -> dict[str, Any]:
    return dict(run_list(site, Query({}, words, {})))


def everything(site: Site, **words: str) -> list[dict[str, Any]]:
    """The past runs of all pages."""
    answer = page(site, **words)
    found = list(answer["past"])
    while answer["next"]:
        answer = page(site, before=answer["next"], **words)
        found += answer["past"]
    return found


@pytest.mark.parametrize(
    ("sort", "key"),
    [
        pytest.param("", lambda row: -row["started_ms"], id="newest"),
        pytest.param("oldest", lambda row: row["started_ms"], id="oldest"),
        pytest.param("longest", lambda row: -row["duration_ms"], id="longest"),
        pytest.param("costliest", lambda row: -row["cost_usd"], id="costliest"),
    ],
)
def test_all_pages_have_each_run_once_in_order(site, sort, key):
    rows = everything(site, sort=sort)
    assert len({row["run"] for row in rows}) == len(rows) == 120
    assert rows == sorted(rows, key=key)


@pytest.mark.parametrize("sort", ["", "costliest"])
def test_the_next_page_begins_at_the_same_place_if_the_run_before_it_is_gone(site, sort, tmp_path):
    first = page(site, sort=sort)
    last, wanted = first["past"][-1], everything(site, sort=sort)[PAGE]["run"]
    for path in (tmp_path / ".loops/.history" / last["name"]).glob(f"{last['archived_as']}*"):
        path.unlink()
    assert page(site, sort=sort, before=first["next"])["past"][0]["run"] == wanted


@pytest.mark.parametrize(
    ("words", "count"),
    [
        pytest.param({"text": "id-007"}, 1, id="the id of a run"),
        pytest.param({"text": "QUICK"}, 80, id="a name, in any case"),
        pytest.param({"text": "nightly 2026-11-15T13-"}, 20, id="all words"),
        pytest.param({"text": "iteration limit"}, 3, id="how it ended"),
        pytest.param({"text": "quick", "status": "failed"}, 2, id="with another filter"),
        pytest.param({"loop": "lint"}, 40, id="a loop"),
        pytest.param({"loop": "lint", "day": "2026-11-14"}, 0, id="a day without runs"),
        pytest.param({"text": "nobody"}, 0, id="nothing"),
        pytest.param({"status": "running"}, 0, id="only current runs"),
    ],
)
def test_filters(site, words, count):
    answer = page(site, **words)
    assert answer["total"] == count
    assert len(answer["past"]) == min(count, PAGE)
    assert answer["loops"] == ["lint", "quick"]  # all that can be chosen instead


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"sort": "best"}, "`sort` must be one of `oldest`, `longest`, `costliest`"),
        ({"before": "x:y"}, "`before` must be the `next` of another page"),
    ],
)
def test_what_is_not_an_order_or_a_page(site, words, message):
    with pytest.raises(ApiError, match=message):
        page(site, **words)


def test_current_runs_are_searched_and_sorted_within_their_group(tmp_path):
    project = Project(tmp_path)
    project.loop("gate", GATE)
    project.ll("run", "gate")
    data = json.loads(project.running("gate", ".state.json").read_text())
    for number, ran_ms in enumerate((30_000, 90_000, 60_000)):
        copy = {**data, "ran_ms": ran_ms, "run": f"id-{number}"}
        project.running(f"gate@{number}", ".state.json").write_text(json.dumps(copy))
    site = Site([str(project.root)], Policy("t"), project.environ())

    def named(**words: str) -> list[str]:
        return [row["name"] for row in page(site, **words)["current"]]

    assert named(sort="longest") == ["gate@1", "gate@2", "gate@0", "gate"]
    assert named(text="id-2") == ["gate@2"]
    assert named(text="needs review", status="running") == []
    offered = {each["verb"] for each in page(site)["current"][0]["can"]}
    assert {"approve", "reject"} <= offered
    assert "undo" not in offered  # a row does not offer it
