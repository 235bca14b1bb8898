"""Queued runs on the page: in the list once, with what they wait for and what they did before."""

from __future__ import annotations

import pytest

from tests.project import Project, until
from tests.web.served import serving

LIMITED = """\
    name: limited
    initial: check
    max_iterations: 2
    states:
      check: {action: "[ -e go ]", on_pass: done, on_fail: check}
      done: {terminal: true}
    """
HOLDS = """\
    name: holds
    initial: work
    states:
      work: {action: "while [ ! -e go ]; do sleep 0.01; done", next: done}
      done: {terminal: true}
    """
FRESH = HOLDS.replace("holds", "fresh")
MORE = {"queue": True, "max_iterations": 9}


@pytest.fixture
def project(tmp_path):
    made = Project(tmp_path)
    for name, text in (("limited", LIMITED), ("holds", HOLDS), ("fresh", FRESH)):
        made.loop(name, text)
    made.ll("run", "limited")
    assert made.ll("run", "holds", "--background").returncode == 0
    yield made
    (made.root / "go").touch()
    made.ll("stop", "--all")
    made.end_actions()


def listed(server):
    answer = server.get("/api/runs").json
    rows = [*answer["current"], *answer["past"]]
    return [(row["key"], row["group"]) for row in rows if row["loop"] == "limited"]


def test_a_resume_that_is_queued_is_answered_at_once_and_listed_once(project):
    with serving(project) as server:
        [(past, group)] = listed(server)
        assert (past.startswith("limited~"), group) == (True, "ended")
        with server.stream("/api/stream") as items:
            assert next(items)["type"] == "hello"
            done = server.post(f"/api/runs/{past}/resume", MORE)
            assert (done.status, done.json["key"]) == (200, "limited")
            assert done.json["result"]["queued"] is True
            news = (item["run"] for item in items if item["type"] == "run")
            row = next(row for row in news if row["key"] == "limited")
            assert (row["group"], row["iteration"], row["archived_as"]) == ("queued", 2, None)
            assert row["error"] == "it waits for `holds`, which is running"
            assert listed(server) == [("limited", "queued")]
            assert [each["verb"] for each in row["can"]] == ["stop"]
            detail = server.get("/api/runs/limited").json["run"]["can"]
            can = {each["verb"]: each["allowed"] for each in detail}
            assert (can["stop"], can["resume"], can["tell"]) == (True, False, False)
            refused = server.get(f"/api/runs/{past}").json["run"]["can"]
            assert [each["allowed"] for each in refused if each["verb"] == "resume"] == [False]
            (project.root / "go").touch()
            next(row for row in news if row["key"].startswith("limited~"))
        [(again, group)] = listed(server)
        assert (again, group) == (past, "ended")
        assert server.get(f"/api/runs/{again}").json["run"]["status"] == "completed"


def test_the_page_of_a_queued_resume_shows_what_the_run_did_before(project):
    with serving(project) as server:
        [(past, _)] = listed(server)
        before = server.get(f"/api/runs/{past}").json
        assert server.post(f"/api/runs/{past}/resume", MORE).status == 200
        detail = server.get("/api/runs/limited").json
        assert detail["run"]["run"] == before["run"]["run"]
        assert detail["run"]["started_ms"] == before["run"]["started_ms"]
        assert detail["run"]["queued_ms"] >= before["run"]["updated_ms"]
        assert (detail["steps"], detail["final_line"]) == (before["steps"], None)
        machine = server.get("/api/runs/limited/machine").json["machine"]
        assert [state["name"] for state in machine["states"]] == ["check", "done"]
        steps = server.get("/api/runs/limited/steps").json["steps"]
        assert len(steps) == before["steps"] > 0
        timeline = server.get("/api/runs/limited/timeline").json
        *_, wait = timeline["marks"]
        assert (wait["kind"], wait["text"], wait["step"]) == ("wait", "queued", len(steps))
        assert (wait["at_ms"], wait["until_ms"]) == (detail["run"]["queued_ms"], timeline["to_ms"])


def test_a_new_run_that_is_queued_shows_nothing_of_another(project):
    with serving(project) as server:
        done = server.post("/api/loops/limited.yaml/run", {"queue": True})
        assert (done.status, done.json["key"]) == (200, "limited")
        assert [group for _, group in listed(server)] == ["queued", "ended"]
        detail = server.get("/api/runs/limited").json
        assert (detail["run"]["run"], detail["run"]["started_ms"], detail["steps"]) == (None, 0, 0)
        assert server.get("/api/runs/limited/machine").json["machine"] is None
        # The one behind it waits for the first that is in its way.
        assert server.post("/api/loops/fresh.yaml/run", {"queue": True}).status == 200
        row = server.get("/api/runs/fresh").json["run"]
        assert row["error"] == "it waits for `holds`, which is running"


def test_a_command_that_need_not_wait_is_answered_when_its_run_has_started(project):
    (project.root / "go").touch()
    until(lambda: project.has_event("holds", "loop_complete"), "end of the other run")
    with serving(project) as server:
        done = server.post("/api/loops/fresh.yaml/run", {"queue": True})
        assert (done.status, "queued" in done.json["result"]) == (200, False)
        refused = server.post("/api/runs/fresh/resume", {"queue": True})
        assert (refused.status, refused.code) == (409, "refused")
