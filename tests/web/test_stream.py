"""Streams: every event once, in order, across restarts of the server."""

from __future__ import annotations

import os
import signal

import pytest

from little_loops.system.watching import watch
from tests.project import DEADLINE_S, Project, until
from tests.web.served import serving

COUNTING = """\
    name: counting
    initial: work
    max_iterations: 100000
    states:
      work: {action: "echo out; n=$(cat n 2>/dev/null || echo 0); echo $((n+1)) > n; [ -e enough ]", on_pass: done, on_fail: again}
      again: {action: "true", next: work}
      done: {terminal: true}
    """


@pytest.fixture
def project(tmp_path):
    made = Project(tmp_path)
    made.loop("counting", COUNTING)
    yield made
    (made.root / "enough").touch()
    made.end_actions()


def test_a_killed_server_misses_and_repeats_nothing(project):
    seen: list[int] = []
    with project.started("run", "counting", "-q") as run_process:
        until(lambda: project.has_event("counting", "iteration", iteration=3), "third iteration")
        with serving(project) as server:
            run = server.get("/api/runs/counting").json["run"]["run"]
            with server.stream(f"/api/runs/counting/stream?after=0&run={run}") as items:
                assert next(items)["type"] == "hello"
                for item in items:
                    if item["type"] == "event":
                        seen.append(item["seq"])
                    if len(seen) > 60:
                        break
            os.killpg(server.process.pid, signal.SIGKILL)
        (project.root / "enough").touch()
        assert run_process.wait(DEADLINE_S) == 0  # it has not noticed
    with serving(project) as server:
        path = f"/api/runs/counting/stream?after={seen[-1]}&run={run}"
        with server.stream(path) as items:
            for item in items:
                if item["type"] == "event":
                    seen.append(item["seq"])
                if item["type"] == "end":
                    break
    assert seen == [each["seq"] for each in project.events("counting")]


def test_the_list_reports_runs_that_come_and_go(project):
    with serving(project) as server, server.stream("/api/stream") as items:
        assert next(items)["type"] == "hello"
        server.get("/api/runs")
        assert server.post("/api/loops/counting.yaml/run").status == 200
        news = (item for item in items if item["type"] in ("run", "gone"))
        found = []
        for item in news:
            found.append((item["type"], item.get("run", item)["key"]))
            (project.root / "enough").touch()  # it ends only after it was reported
            if item["type"] == "run" and item["run"]["status"] == "completed":
                break
    assert found[0] == ("run", "counting")
    assert ("gone", "counting") in found
    assert found[-1][1].startswith("counting~")


def test_another_run_of_the_name_is_reported(project):
    (project.root / "enough").touch()
    project.ll("run", "counting")
    with serving(project) as server, server.stream("/api/runs/counting/stream?run=other") as items:
        kinds = [item["type"] for item in items]
    assert (kinds[0], kinds[-1]) == ("hello", "replaced")


def test_the_server_ends_at_once_though_a_page_is_open(project):
    with serving(project) as server, server.stream("/api/stream") as items:
        assert next(items)["type"] == "hello"
        server.process.send_signal(signal.SIGTERM)
        assert list(items) == []
        assert server.process.wait(20) == 0


@pytest.mark.parametrize("kind", ["inotify", "polling"])
def test_a_watch_reports_what_changes(tmp_path, kind):
    (tmp_path / "old").write_text("a")
    watched = watch([str(tmp_path)], kind)
    try:
        assert (watched.kind, watched.changes()) == (kind, set())
        (tmp_path / "new").write_text("b")
        with open(tmp_path / "old", "a") as file:
            file.write("more")
        assert watched.changes() == {(str(tmp_path), "new"), (str(tmp_path), "old")}
        assert watched.changes() == set()
        (tmp_path / "new").unlink()
        assert watched.changes() == {(str(tmp_path), "new")}
        assert not watched.add(str(tmp_path / "nowhere"))
    finally:
        watched.close()
